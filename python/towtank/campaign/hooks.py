"""Commands and copies of the experimenter: prepare and reset. The only place that executes them."""

from __future__ import annotations

import contextlib
import json
import os
import shlex
import shutil
import signal
import subprocess
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from towtank.campaign import processes
from towtank.campaign.intents import Intents
from towtank.campaign.placeholders import Places
from towtank.design.model import Copy, Reset, Scalar
from towtank.errors import PlatformError
from towtank.platforms.base import Cancelled
from towtank.units import format_duration

OUTPUT_LIMIT_BYTES = 64 * 2**20
"""A hook that writes more is ended: its output must not fill the disk."""
_TAIL_LINES = 20
_TAIL_BYTES = 256 * 1024
_POLL_S = 0.02


class HookFailed(PlatformError):  # noqa: N818 - the field's word
    """A command or copy of the experimenter failed; the message ends with the command's last lines."""


@dataclass(frozen=True)
class HookResult:
    """What a hook did: the JSON object that it printed last, if it did, and how long it took."""

    printed: dict[str, Any] | None
    duration_s: float


@dataclass(frozen=True)
class Command:
    """A command with everything around it.

    Parameters
    ----------
    name : str
        For messages: ``reset``, ``prepare of fixture database``.
    run : str or tuple of str
        A text goes through ``/bin/sh -c`` with placeholders quoted; a list is executed as it is.
    timeout_s : float
    env : mapping
        Added to the environment of Towtank.
    log : Path
        Its stdout and stderr, appended.
    """

    name: str
    run: str | tuple[str, ...]
    timeout_s: float
    env: Mapping[str, str]
    log: Path


def run_command(command: Command, places: Places, intents: Intents, *, cancelled: Cancelled) -> HookResult:
    """Run a command to its end, with its whole process tree ended afterwards.

    Raises
    ------
    HookFailed
        Not startable, exit code ≠ 0, timeout, or too much output.
    Interrupted
        The user asked to stop; the command was ended.
    """
    if isinstance(command.run, str):
        argv = ["/bin/sh", "-c", places.fill(command.run, quote=shlex.quote)]
    else:
        argv = [places.fill(word) for word in command.run]
    environment = {**os.environ, **{key: places.fill(text) for key, text in command.env.items()}}
    command.log.parent.mkdir(parents=True, exist_ok=True)
    begun = time.monotonic()
    with intents.during("hook", command.name) as intent, command.log.open("ab") as log:
        environment[processes.TOKEN_VARIABLE] = intent.token
        offset = log.tell()
        try:
            child = subprocess.Popen(
                argv,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=places.root,
                start_new_session=True,
            )
        except OSError as error:
            raise HookFailed(
                f"{command.name}: {argv[0]!r} cannot be executed: {error.strerror}",
                hint="commands run in the folder of the experiment file; is the program installed?",
            ) from error
        try:
            _supervise(child, command, begun, offset, cancelled)
        finally:
            _end(child)
    printed = _last_object(command.log, offset)
    if child.returncode != 0:
        raise HookFailed(
            f"{command.name}: {shlex.join(argv)} ended with {_how(child.returncode)}{_tail(command.log, offset)}",
            hint=f"run it by hand in {places.root}; its whole output is in {command.log}",
        )
    return HookResult(printed, time.monotonic() - begun)


def run_reset(
    reset: Reset, places: Places, intents: Intents, *, log: Path, cancelled: Cancelled
) -> dict[str, Any]:
    """Bring the data to the state that the experiment promises.

    Returns
    -------
    dict
        Facts for run.json: what was copied and what was verified.

    Raises
    ------
    HookFailed
        A copy or the command failed, or the result is not what `verify` says.
    """
    copied = [_copy(item, places) for item in reset.copy_files]
    printed: dict[str, Any] | None = None
    if reset.run is not None:
        command = Command("reset", reset.run, reset.timeout, reset.env, log)
        printed = run_command(command, places, intents, cancelled=cancelled).printed
    if reset.verify:
        _verify(reset.verify, printed)
    return {"copied": copied, "verified": dict(reset.verify)}


def _supervise(
    child: subprocess.Popen[bytes], command: Command, begun: float, offset: int, cancelled: Cancelled
) -> None:
    """Wait for the end of a command, within its bounds."""
    while not _ended(child):
        cancelled()
        if time.monotonic() - begun > command.timeout_s:
            raise HookFailed(
                f"{command.name}: not done after {format_duration(command.timeout_s)}{_tail(command.log, offset)}",
                hint=f"raise its `timeout`, or look into {command.log}",
            )
        if command.log.stat().st_size - offset > OUTPUT_LIMIT_BYTES:
            raise HookFailed(f"{command.name}: wrote more than 64 MiB of output and was ended")
        time.sleep(_POLL_S)


def _ended(child: subprocess.Popen[bytes]) -> bool:
    """Whether the command has ended; it is not reaped yet, so that its pid still names its group."""
    return os.waitid(os.P_PID, child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None


def _end(child: subprocess.Popen[bytes]) -> None:
    """End the command's process group; what left the group is found by its token afterwards."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def _copy(item: Copy, places: Places) -> str:
    """Copy one file or folder, within the folders that an experiment may touch."""
    source = (places.root / places.fill(item.source)).resolve()
    target = (places.root / places.fill(item.to)).resolve()
    data = [places.data] if places.data is not None else []
    writable = [path.resolve() for path in (*data, *places.fixtures.values())]
    readable = [places.root.resolve(), *writable]
    if not _inside(source, readable):
        raise HookFailed(
            f"reset: cannot copy from {source}: it lies outside of the experiment's folder, its data and its "
            "fixtures",
            hint="move the file beside the experiment file, or fetch it in a `run:` command",
        )
    if not _inside(target, writable):
        raise HookFailed(
            f"reset: cannot copy to {target}: only {{data}} and fixtures may be written",
            hint='write `to: "{data}/…"`',
        )
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(source, target)
        else:
            shutil.copy2(source, target)
    except FileNotFoundError as error:
        raise HookFailed(
            f"reset: cannot copy {source}: there is no such file",
            hint="is it made by a fixture's `prepare`?",
        ) from error
    return f"{item.source} → {item.to}"


def _inside(path: Path, folders: list[Path]) -> bool:
    return any(path == folder or path.is_relative_to(folder) for folder in folders)


def _verify(wanted: Mapping[str, Scalar], printed: dict[str, Any] | None) -> None:
    if printed is None:
        raise HookFailed(
            f"reset: verify wants {dict(wanted)}, but the command printed no JSON object as its last line",
            hint='let it print one, such as {"pages": 1000}',
        )
    wrong = {key: printed.get(key) for key, value in wanted.items() if not _same(printed.get(key), value)}
    if wrong:
        found = ", ".join(f"{key} is {value!r}, not {wanted[key]!r}" for key, value in wrong.items())
        raise HookFailed(f"reset: the data are not in the promised state: {found}")


def _same(found: object, wanted: Scalar) -> bool:
    """Equality without Python's 1 == True."""
    return isinstance(found, bool) == isinstance(wanted, bool) and found == wanted


def _last_object(log: Path, offset: int) -> dict[str, Any] | None:
    """The JSON object that was printed last, on a line of its own."""
    for line in reversed(_end_of(log, offset).splitlines()):
        if not line.strip():
            continue
        try:
            value = json.loads(line)
        except ValueError:
            continue
        if isinstance(value, dict):
            return value
    return None


def _tail(log: Path, offset: int) -> str:
    lines = _end_of(log, offset).splitlines()[-_TAIL_LINES:]
    return "; it said:\n" + "\n".join(f"  {line}" for line in lines) if lines else "; it said nothing"


def _end_of(log: Path, offset: int) -> str:
    with log.open("rb") as stream:
        size = stream.seek(0, os.SEEK_END)
        stream.seek(max(offset, size - _TAIL_BYTES))
        return stream.read().decode("utf-8", "replace")


def _how(code: int) -> str:
    return f"exit code {code}" if code >= 0 else f"signal {signal.Signals(-code).name}"
