"""What a peer is."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.measure import Sample, Unmeasurable

GO = {"GOMAXPROCS": "1", "GOGC": "400"}
"""For peers written in Go: one core is all there is, and collecting garbage a quarter as often costs them less CPU."""
SCRIPTS = Path(__file__).resolve().parents[1] / "scripts"


def folder() -> Path:
    """Where tools/peers.sh puts what it installs."""
    return Path(os.environ.get("TOWTANK_PEERS") or Path(__file__).resolve().parents[2] / ".peers")


def find(program: str) -> str:
    """The program of a peer, ours before the machine's."""
    found = shutil.which(program, path=f"{folder() / 'bin'}{os.pathsep}{os.environ.get('PATH', '')}")
    if found is None:
        raise Unmeasurable(f"{program} is missing (tools/peers.sh installs it)")
    return found


@dataclass(frozen=True)
class ClosedLoad:
    """Ask for one URL again and again, from `connections` keep-alive connections."""

    url: str
    connections: int
    seconds: int
    core: int
    http2: bool = False
    streams: int = 1
    """Requests at once on each connection (HTTP/2)."""


@dataclass(frozen=True)
class Peer:
    """A load generator that the engine is measured beside."""

    name: str
    settings: str
    version_argv: Sequence[str]
    closed: Callable[[ClosedLoad], Sample]

    def version(self) -> str:
        """As tools/peers.sh installed it, as it says itself, or as its package does."""
        try:
            program = find(self.version_argv[0])
        except Unmeasurable:
            return "missing"
        mark = folder() / f"{self.name}.version"
        if Path(program).parent == mark.parent / "bin" and mark.exists():
            return mark.read_text("utf-8").strip().removeprefix("v")
        done = subprocess.run(
            [program, *self.version_argv[1:]], capture_output=True, text=True, check=False, timeout=60
        )
        found = re.search(r"\d+\.\d+(\.\d+)?", done.stdout + done.stderr)
        return found.group(0) if found else _packaged(self.name) or "unknown"


def _packaged(name: str) -> str | None:
    """Version of a Debian package."""
    if shutil.which("dpkg-query") is None:
        return None
    done = subprocess.run(
        ["dpkg-query", "-W", "-f", "${Version}", name], capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or None


def found(pattern: str, text: str, whose: str) -> str:
    """The first group of `pattern` in what a peer printed."""
    match = re.search(pattern, text)
    if match is None:
        raise Unmeasurable(f"cannot read the output of {whose}: no {pattern!r} in {text[-300:]!r}")
    return match.group(1)
