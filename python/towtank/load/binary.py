"""Where the engine is, and what it is."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

from towtank.errors import MachineError

NAME = "towtank-engine"
VARIABLE = "TOWTANK_ENGINE"
_VERSION_TIMEOUT_S = 10.0
_VERSION_LINE = re.compile(r"^\S+ (?P<version>\S+) \((?P<details>.*)\)\s*$")


@dataclass(frozen=True)
class EngineBuild:
    """What ``towtank-engine --version`` says.

    Parameters
    ----------
    path : Path
    version : str
    profile : str
        ``release`` or ``debug``.
    line : str
        The whole line, kept with the results.
    """

    path: Path
    version: str
    profile: str
    line: str


@dataclass(frozen=True)
class Program:
    """One of Towtank's own programs in Rust, and how it is got.

    Parameters
    ----------
    name : str
    what : str
        In words, for messages.
    variable : str
        The environment variable that names it.
    folder : str
        Of its source, in a checkout.
    build : str
        What builds it there.
    install : str
        What installs it elsewhere.
    """

    name: str
    what: str
    variable: str
    folder: str
    build: str
    install: str

    def find(self) -> Path:
        """Find it.

        Looked at, in this order: its environment variable, the folder of the Python interpreter (where the
        wheel puts it), ``target/release`` of the source checkout this package lies in.

        Raises
        ------
        MachineError
            Nowhere; the hint says how to build or install it.
        """
        named = os.environ.get(self.variable)
        if named:
            path = Path(named).absolute()
            if not _executable(path):
                raise MachineError(
                    f"{self.variable} names {named}, which is not a program that can be executed",
                    hint=f"unset {self.variable}, or let it name the {self.name} binary",
                )
            return path
        candidates = self._candidates()
        for path in candidates:
            if _executable(path):
                return path
        looked = ", ".join(str(path) for path in candidates)
        raise MachineError(
            f"{self.what} {self.name} was not found; looked at {looked}",
            hint=f"in a source checkout build it with {self.build}; "
            f"else `{self.install}`, or let {self.variable} name it",
        )

    def _candidates(self) -> list[Path]:
        checkout = Path(__file__).resolve().parents[3]
        found = [Path(sys.executable).absolute().parent / self.name]
        if (checkout / self.folder / "Cargo.toml").is_file():
            target = Path(os.environ.get("CARGO_TARGET_DIR") or checkout / "target")
            found.append(target / "release" / self.name)
        return found


ENGINE = Program(
    NAME, "the load engine", VARIABLE, "engine",
    build="`cargo build --release -p towtank-engine` (or `make quickstart`)", install="pip install towtank-engine",
)  # fmt: skip


def find_engine() -> Path:
    """Find the engine's binary; see `Program.find`.

    Raises
    ------
    MachineError
        Nowhere; the hint says how to build or install it.
    """
    return ENGINE.find()


def engine_build(path: Path) -> EngineBuild:
    """Ask an engine what it is.

    Raises
    ------
    MachineError
        It does not run, or is not a Towtank engine.
    """
    try:
        answer = subprocess.run(
            [str(path), "--version"], capture_output=True, text=True, timeout=_VERSION_TIMEOUT_S, check=False
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise MachineError(
            f"{path} cannot be executed: {error}", hint="build it again: `cargo build --release`"
        ) from error
    line = answer.stdout.strip()
    match = _VERSION_LINE.match(line)
    if answer.returncode != 0 or match is None:
        raise MachineError(
            f"{path} does not answer --version as {NAME} does; it said {line[:200]!r} "
            f"(exit code {answer.returncode})",
            hint=f"let {VARIABLE} name the {NAME} binary",
        )
    profile = match.group("details").split(",")[0].strip()
    return EngineBuild(path, match.group("version"), profile, line)


def require_release(build: EngineBuild) -> None:
    """Refuse to measure with a debug build: it is several times slower, and its numbers look real.

    Raises
    ------
    MachineError
    """
    if build.profile != "release":
        raise MachineError(
            f"{build.path} is a {build.profile} build; only release builds measure",
            hint="build it with `cargo build --release`",
        )


def _executable(path: Path) -> bool:
    return path.is_file() and os.access(path, os.X_OK)
