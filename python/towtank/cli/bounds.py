"""Bounds of a command's own process: how much memory it may take, and an orderly end when it is told to stop."""

from __future__ import annotations

import os
import resource
import signal
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType

from towtank.errors import Interrupted

HEADROOM_BYTES = 256 << 20
"""Beside what is asked for: stacks of threads, buffers of libraries, what allocators keep."""
_SIGNALS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def bounded_memory(size: int) -> Iterator[None]:
    """Let this process take so many bytes more, whoever in it asks; beyond it, allocations fail.

    Parameters
    ----------
    size : int
        Beside what is in use now, and `HEADROOM_BYTES`.

    Notes
    -----
    RLIMIT_DATA counts private writable memory (setrlimit(2), since Linux 4.7). RLIMIT_AS would also count addresses
    that allocators reserve and never touch.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_DATA)
    limits = [_data_bytes() + size + HEADROOM_BYTES]
    limits += [limit for limit in (soft, hard) if limit != resource.RLIM_INFINITY]
    resource.setrlimit(resource.RLIMIT_DATA, (min(limits), hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_DATA, (soft, hard))


@contextmanager
def ended_in_order() -> Iterator[Callable[[Callable[[], None]], None]]:
    """Turn SIGTERM and SIGHUP into `Interrupted`, so that what was made is put away.

    Yields
    ------
    callable
        Takes what makes long work in a library return: it is called at once, by a thread, as Python itself looks for
        signals only when the library has returned.
    """
    told: list[int] = []
    hurry: list[Callable[[], None]] = []

    def stop(number: int, _frame: FrameType | None) -> None:
        if not told:  # a second one does not disturb the putting away
            told.append(number)
            raise Interrupted(f"stopped by {signal.Signals(number).name}")

    def listen(heard: int) -> None:
        while number := os.read(heard, 1):
            if number[0] in _SIGNALS:
                for call in tuple(hurry):
                    call()

    heard, said = os.pipe()
    os.set_blocking(said, False)
    before = {number: signal.signal(number, stop) for number in _SIGNALS}
    wakeup = signal.set_wakeup_fd(said, warn_on_full_buffer=False)
    listener = threading.Thread(target=listen, args=(heard,), daemon=True)
    listener.start()
    try:
        yield hurry.append
    except Exception as error:
        if told and not isinstance(error, Interrupted):  # what was cut short says so in its own words
            raise Interrupted(f"stopped by {signal.Signals(told[0]).name}") from error
        raise
    finally:
        signal.set_wakeup_fd(wakeup)
        for number, handler in before.items():
            signal.signal(number, handler)
        os.close(said)
        listener.join()
        os.close(heard)


def _data_bytes() -> int:
    """Private writable memory of this process now."""
    for line in Path("/proc/self/status").read_text("ascii").splitlines():
        if line.startswith("VmData:"):
            return int(line.split()[1]) * 1024
    return 0
