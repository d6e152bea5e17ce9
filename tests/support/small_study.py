"""A small real study: the test application in two deployments, short runs, the real engine."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

from support.cli import towtank

__all__ = ["towtank"]  # what most tests of a study begin with

ROOT = Path(__file__).resolve().parents[2]
HTTP_APP = Path(__file__).with_name("http_app.py")

TEMPLATE = """\
experiment: small
question: Which of two is faster?
answer: {{primary: [p95], baseline: one}}
repetitions: {blocks}
seed: 3
max_invalid_repeats: {repeats}
factors: {{deployment: [one, two]}}
deployments:
  one: &app
    platform: local
    command: ["{{python}}", -S, {app}, --port, "{{port}}"{flags}]
    ready: {{http: /health, timeout: {ready}}}
    {extra}
  two: {{<<: *app, replicas: 2}}
workloads:
  reads:
    timeout: 2s
    load: {{model: open, rate: {rate}/s, duration: {duration}}}
    journey: {{steps: [{{name: read, path: "{path}"}}]}}
reset: none
settle: {{timeout: 30s, hold: 100ms}}
observe: [{{host: {{interval: 100ms}}}}, {{process: {{interval: 100ms}}}}]
generator: {{nice: 0}}
"""


def write_study(folder: Path, **options: Any) -> Path:
    """Write the experiment file."""
    known: dict[str, Any] = {
        "blocks": 2, "rate": 40, "duration": "500ms", "path": "/", "ready": "20s", "flags": "", "extra": "nice: 0",
        "repeats": 0, "app": HTTP_APP, **options,
    }  # fmt: skip
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / "experiment.yaml"
    path.write_text(TEMPLATE.format(**known), encoding="utf-8")
    return path


def command(*words: object) -> list[str]:
    """A command line of towtank."""
    return [sys.executable, "-c", "from towtank.cli.main import main; main()", *map(str, words)]


def environment(**more: str) -> dict[str, str]:
    """The environment that it needs from a source checkout."""
    return {**os.environ, "PYTHONPATH": str(ROOT / "python"), **more}


def start(*words: object, **more: str) -> subprocess.Popen[str]:
    """Start towtank in a session of its own."""
    return subprocess.Popen(
        command(*words), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=environment(**more),
        start_new_session=True,
    )  # fmt: skip


def records(results: Path) -> dict[str, dict[str, Any]]:
    """Run id → run.json."""
    return {p.parent.name: json.loads(p.read_text("utf-8")) for p in sorted(results.glob("runs/*/run.json"))}


def kept_run(folder: Path) -> Path:
    """Folder of the run that `towtank load --keep` left."""
    (run,) = (folder / "runs").iterdir()
    return run


def marked() -> dict[int, str]:
    """Pids of all living processes that carry any token of ours → the token."""
    found = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                variables = (entry / "environ").read_bytes().split(b"\0")
            except OSError:
                continue
            for variable in variables:
                if variable.startswith(b"TOWTANK_TOKEN="):
                    found[int(entry.name)] = variable.partition(b"=")[2].decode()
    return found


def command_line(pid: int) -> bytes:
    """Words of a process, each with a zero byte behind it; none when it has ended."""
    try:
        return (Path("/proc") / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


def alive_below(folder: Path) -> list[int]:
    """Pids of marked processes that work in a folder, or were given a file of it."""
    found = []
    for pid in marked():
        try:
            seen = f"{(Path('/proc') / str(pid) / 'cwd').readlink()} " + (
                Path("/proc") / str(pid) / "cmdline"
            ).read_text(errors="replace")
        except OSError:
            continue
        if str(folder) in seen:
            found.append(pid)
    return found


def tokens_of(results: Path) -> set[str]:
    """Tokens that a result folder's intents name at this moment."""
    return {path.stem for path in results.glob("intents/*.json")}


def left_over(tokens: set[str]) -> dict[int, str]:
    """What is alive of these tokens."""
    return {pid: token for pid, token in marked().items() if token in tokens}


def wait_until(condition: Any, *, longest_s: float = 20.0, what: str = "") -> None:
    """Poll a condition."""
    deadline = time.monotonic() + longest_s
    while not condition():
        assert time.monotonic() < deadline, f"not within {longest_s} s: {what}"
        time.sleep(0.02)


def interrupt(process: subprocess.Popen[str]) -> None:
    """What Ctrl-C on a terminal does: SIGINT to the whole foreground group."""
    os.killpg(process.pid, signal.SIGINT)
