"""Imports all of Towtank, then forks itself for each call of the command line that it is told of; see `support.cli`."""

from __future__ import annotations

import atexit
import gc
import importlib
import json
import os
import pkgutil
import select
import signal
import sys
import tempfile
import threading
import traceback
import warnings
from pathlib import Path
from typing import Any, NoReturn

FOREIGN = "towtank.drivers.locust_log"
"""For Locust's own process, which has a module that we have not."""
LATE = ("altair", "vl_convert", "duckdb", "pyarrow.dataset", "pyarrow.parquet", "scipy.stats", "jinja2")


def import_all() -> None:
    """Import every module of Towtank and what commands import late."""
    import towtank

    modules = [one.name for one in pkgutil.walk_packages(towtank.__path__, "towtank.") if one.name != FOREIGN]
    for name in (*modules, *LATE):
        importlib.import_module(name)
    threads = len(list(Path("/proc/self/task").iterdir()))
    assert threads == 1, f"a fork would lose {threads - 1} threads that an import has started"


def become(call: dict[str, Any]) -> None:
    """Be the process of a call."""
    devnull = os.open(os.devnull, os.O_RDWR)
    os.dup2(devnull, 0)
    for number, path in ((1, call["out"]), (2, call["err"])):
        os.dup2(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), number)
    os.chdir(call["cwd"])
    os.environ.clear()
    os.environ.update(call["environment"])
    sys.argv = call["command"]
    tempfile.tempdir = None  # what an import may have asked for is of another environment
    warnings.simplefilter("error")  # as for the tests themselves


def outcome(pid: int, timeout_s: float) -> int | None:
    """Exit code of a child, negative for the signal that ended it; None when it had to be killed."""
    handle = os.pidfd_open(pid)
    try:
        in_time = bool(select.select([handle], [], [], timeout_s)[0])
    finally:
        os.close(handle)
    if not in_time:
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status) if in_time else None


def carry_out(call: dict[str, Any]) -> NoReturn:
    """Be the process of a call up to its end: as an interpreter ends, but what is in memory is not taken down.

    That would take longer than most calls, all of Towtank being imported.
    """
    from towtank.cli.main import main

    code: object = 1
    try:
        become(call)
        main()
    except SystemExit as end:
        code = end.code
    except BaseException:  # noqa: BLE001 - all that a program ends with
        traceback.print_exc()
    finally:
        threading._shutdown()  # waits for threads that are no daemons, as the end of any program does
        atexit._run_exitfuncs()
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os._exit(code if isinstance(code, int) else 1)


def serve() -> None:
    """Answer each line with the exit code of its call; a child leaves by `main`, as its own program would."""
    import_all()
    gc.collect()
    gc.freeze()  # else the first collection of each child would copy all of it
    for line in sys.stdin:
        call = json.loads(line)
        pid = os.fork()
        if pid == 0:
            carry_out(call)
        print(json.dumps(outcome(pid, call["timeout_s"])), flush=True)  # noqa: T201 - this is what it is for


if __name__ == "__main__":
    serve()
