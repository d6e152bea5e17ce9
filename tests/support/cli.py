"""Calls of the command line in processes of their own that are ready at once.

Importing all of Towtank takes longer than most of what tests ask of it. So one process imports it for the whole session
and waits (support/cli_fork.py); each call is a fork of it, with an environment, a folder and an output of its own. What
a fork cannot show (how fast help is, what is imported, warnings while importing) is for an interpreter of its own. A
warning of a call is an error.
"""

from __future__ import annotations

import atexit
import contextlib
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

SUPPORT = Path(__file__).resolve().parent
PYTHON = SUPPORT.parents[1] / "python"
WITHOUT_THREADS = {"OPENBLAS_NUM_THREADS": "1", "JE_ARROW_MALLOC_CONF": "background_thread:false"}
"""Libraries that start threads when they are imported; a fork would not have them."""
_ready: list[subprocess.Popen[str]] = []


def towtank(
    *words: object, cwd: Path | None = None, timeout: float = 120, **environment: str
) -> subprocess.CompletedProcess[str]:
    """Run towtank to its end.

    Parameters
    ----------
    words : object
        What stands behind `towtank`.
    cwd : Path, optional
    timeout : float
        Seconds after which it is killed.
    environment : str
        Variables beside those of the tests.

    Raises
    ------
    subprocess.TimeoutExpired
    """
    command = ["towtank", *map(str, words)]
    with tempfile.TemporaryDirectory(prefix="towtank-call-") as folder:
        out, err = Path(folder) / "out", Path(folder) / "err"
        call = {
            "command": command,
            "environment": {**os.environ, "PYTHONPATH": str(PYTHON), **environment},
            "cwd": str(cwd or Path.cwd()),
            "out": str(out),
            "err": str(err),
            "timeout_s": timeout,
        }
        code = _carry_out(call)
        if code is None:
            raise subprocess.TimeoutExpired(command, timeout)
        return subprocess.CompletedProcess(command, code, _text(out), _text(err))


def _carry_out(call: dict[str, object]) -> int | None:
    """Exit code of a call, negative for the signal that ended it; None when its time was up."""
    if not _ready:
        _start()
    (process,) = _ready
    try:
        print(json.dumps(call), file=process.stdin, flush=True)
        line = process.stdout.readline() if process.stdout is not None else ""
        assert line, f"what calls of towtank are forks of has died with {process.wait()}"
    except (
        BaseException
    ):  # such as the end of a test's time; this answer must not become that of the next call
        _end()
        raise
    code: int | None = json.loads(line)
    return code


def _start() -> None:
    environment = {**os.environ, "PYTHONPATH": str(PYTHON), **WITHOUT_THREADS}
    _ready.append(
        subprocess.Popen(
            [sys.executable, str(SUPPORT / "cli_fork.py")], stdin=subprocess.PIPE, stdout=subprocess.PIPE,
            text=True, env=environment,
        )
    )  # fmt: skip
    atexit.register(_end)


def _end() -> None:
    while _ready:
        process = _ready.pop()
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()


def _text(path: Path) -> str:
    with path.open(encoding="utf-8", errors="replace") as file:  # as subprocess does with text=True
        return file.read()
