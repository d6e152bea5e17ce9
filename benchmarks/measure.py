"""Run a program on a core of its own and take what the kernel counted of it; samples and their rounds."""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

NOISY = 1.3
"""A round in which the reference costs this much more than its own median says more of the machine than of the tools."""
LONGEST_REASON = 200
GRACE_S = 60.0
"""What a program may take beyond the time it was asked to run for."""


class Unmeasurable(Exception):  # noqa: N818 - it is what happened, not whose fault it is
    """A tool cannot be measured here; the message says why. It is left out, and that is said."""


@dataclass(frozen=True)
class Setting:
    """How to measure: where the load and the server run, how long, how often."""

    load_core: int
    server_core: int
    rounds: int
    seconds: int
    fast: bool
    """Only to see that it works: every scenario makes itself as short as it can."""


@dataclass(frozen=True)
class Finished:
    """A program that has ended well."""

    output: str
    cpu_s: float
    """User and system, its children included."""
    max_rss_bytes: int
    wall_s: float


@dataclass(frozen=True)
class Sample:
    """What one tool did in one turn."""

    requests: int
    """Completed."""
    cpu_s: float
    failed: int = 0
    wall_s: float = 0.0
    max_rss_bytes: int = 0
    more: Mapping[str, Any] = field(default_factory=dict)

    @property
    def us_per_request(self) -> float:
        """CPU µs, user and system, per completed request."""
        if self.requests == 0:
            raise Unmeasurable("completed no request at all")
        return self.cpu_s / self.requests * 1e6


def run(
    argv: Sequence[str | Path],
    *,
    core: int,
    seconds: float,
    env: Mapping[str, str] | None = None,
    codes: Sequence[int] = (0,),
) -> Finished:
    """Run a program pinned to `core`; it has `seconds` and a grace, and must end with one of `codes`."""
    words = ["taskset", "-c", str(core), *map(str, argv)]
    with tempfile.TemporaryFile("w+") as out, tempfile.TemporaryFile("w+") as err:
        began = time.monotonic()
        process = subprocess.Popen(
            words, stdin=subprocess.DEVNULL, stdout=out, stderr=err, env={**os.environ, **(env or {})}
        )
        status, usage = _wait(process, began + seconds + GRACE_S)
        wall_s = time.monotonic() - began
        process.returncode = os.waitstatus_to_exitcode(status)
        out.seek(0)
        err.seek(0)
        if process.returncode not in codes:
            last = (err.read().strip() or out.read().strip())[-400:]
            raise Unmeasurable(f"{words[3]} ended with code {process.returncode}: {last}")
        return Finished(out.read(), usage.ru_utime + usage.ru_stime, usage.ru_maxrss * 1024, wall_s)


def _wait(process: subprocess.Popen[bytes], deadline: float) -> tuple[int, Any]:
    while True:
        pid, status, usage = os.wait4(process.pid, os.WNOHANG)
        if pid:
            return status, usage
        if time.monotonic() > deadline:
            process.kill()
            os.wait4(process.pid, 0)
            process.returncode = -9
            raise Unmeasurable(f"{process.args!r} did not end in time and was killed")
        time.sleep(0.02)


@contextmanager
def folder() -> Iterator[Path]:
    """Room for one turn; gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="towtank-bench-") as name:
        yield Path(name)


@dataclass(frozen=True)
class Rounds:
    """Interleaved rounds: in each, every contender had one turn."""

    kept: list[dict[str, Sample]]
    run: int
    left_out: dict[str, str]

    def costs(self) -> dict[str, list[float]]:
        """CPU µs per request of every kept round."""
        names = self.kept[0] if self.kept else {}
        return {name: [round(one[name].us_per_request, 3) for one in self.kept] for name in names}

    def facts(self, seconds: float, *, without: str | None = None) -> dict[str, Any]:
        """What every scenario keeps of its rounds, of `seconds` each; a contender that only watches is left out."""
        costs = {name: us for name, us in self.costs().items() if name != without}
        return {
            "rounds_kept": len(self.kept),
            "rounds_run": self.run,
            "left_out": self.left_out,
            "us_per_request": costs,
            "requests_per_s": {
                name: round(self.median(lambda sample: sample.requests / seconds, name)) for name in costs
            },
            "failed": {name: sum(one[name].failed for one in self.kept) for name in costs},
        }

    def ratios(self, mine: str, peers: Sequence[str]) -> dict[str, dict[str, float]]:
        """Cost of `mine` ÷ cost of each peer, taken within each round."""
        return {
            f"{mine} ÷ {peer}": spread(
                [one[mine].us_per_request / one[peer].us_per_request for one in self.kept]
            )
            for peer in peers
            if self.kept and mine in self.kept[0] and peer in self.kept[0]
        }

    def median(self, value: Callable[[Sample], float], name: str) -> float:
        """Median over kept rounds of something of a contender's samples."""
        return statistics.median(value(one[name]) for one in self.kept)


def spread(values: Sequence[float]) -> dict[str, float]:
    """Median and range."""
    return {
        "median": round(statistics.median(values), 3),
        "min": round(min(values), 3),
        "max": round(max(values), 3),
    }


def interleaved(
    contenders: Mapping[str, Callable[[], Sample]], rounds: int, *, reference: str | None
) -> Rounds:
    """Give every contender a turn, `rounds` times; noisy rounds are repeated, as often again at most.

    Parameters
    ----------
    contenders : mapping of str to callable
    rounds : int
        To be kept.
    reference : str, optional
        Its cost says which rounds are noisy: those over 1.3 × its own median.
    """
    able = dict(contenders)
    left_out: dict[str, str] = {}
    everything: list[dict[str, Sample]] = []
    kept: list[dict[str, Sample]] = []
    while len(everything) < rounds * 2 and len(kept) < rounds:
        one: dict[str, Sample] = {}
        for name, turn in list(able.items()):
            try:
                one[name] = _again(turn) if everything else turn()
                cost = one[name].us_per_request
            except Unmeasurable as error:
                left_out[name] = str(error)[:LONGEST_REASON]
                del able[name]
                say(f"  {name} is left out: {error}")
                continue
            say(f"  {name}: {cost:.2f} µs CPU a request, {one[name].requests:,} requests")
        everything.append(one)
        everything = [{name: turn[name] for name in turn if name in able} for turn in everything]
        kept = _quiet(everything, reference)[:rounds]
    return Rounds(kept, len(everything), left_out)


def _again(turn: Callable[[], Sample]) -> Sample:
    """Take a turn; one that fails after others went well is tried once more before its tool is left out."""
    try:
        sample = turn()
        _ = sample.us_per_request
    except Unmeasurable as error:
        say(f"  once more, because {error}")
        return turn()
    return sample


def _quiet(everything: list[dict[str, Sample]], reference: str | None) -> list[dict[str, Sample]]:
    if reference is None or any(reference not in one for one in everything):
        return everything
    limit = NOISY * statistics.median(one[reference].us_per_request for one in everything)
    return [one for one in everything if one[reference].us_per_request <= limit]


def say(words: str) -> None:
    """Tell whoever watches."""
    print(words, flush=True)


def read_json(text: str, whose: str) -> dict[str, Any]:
    """Read a tool's own summary."""
    try:
        found: dict[str, Any] = json.loads(text)
    except ValueError as error:
        raise Unmeasurable(f"the summary of {whose} cannot be read: {text[:200]!r}") from error
    return found
