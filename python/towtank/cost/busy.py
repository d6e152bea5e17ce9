"""For how long instances worked on requests, as pay-per-use platforms count it."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

import numpy as np
import numpy.typing as npt
import pandas as pd

US = 1_000_000
Times = npt.NDArray[np.int64]
_NONE: tuple[Times, Times] = (np.empty(0, np.int64), np.empty(0, np.int64))


class UnnamedInstanceError(ValueError):
    """Requests do not say which instance answered: whose time it was cannot be said."""


def busy_seconds(
    batches: Iterable[pd.DataFrame], *, granularity_s: float, rounded: Literal["interval", "instance"]
) -> float:
    """Sum over instances of the union of their busy intervals, rounded up as billed.

    Requests that an instance serves at the same time share it: they are billed once. Of what was read, only stretches
    of work that may still grow are kept: memory follows the requests in flight, not those of the run.

    Parameters
    ----------
    batches : iterable of DataFrame
        instance (text or categories), due_us, started_us, total_us (whole numbers): when each request was due and
        began, and how long it took. In order of `due_us` from batch to batch; none begins before it is due.
    granularity_s : float
        > 0; time is rounded up to multiples of it.
    rounded : {"interval", "instance"}
        What is rounded: every stretch in which an instance works without a break, or an instance's whole work.

    Returns
    -------
    float
        Billed seconds.

    Raises
    ------
    UnnamedInstanceError
        An instance is not named.
    ValueError
        Requests are not in the order in which they were due.

    Notes
    -----
    docs/cost.md, 3. The client's times stand for those of the platform: they contain the network, so that the sum is
    an upper bound of what is billed.
    """
    work = _Work(round(granularity_s * US), by_stretch=rounded == "interval")
    for rows in batches:
        if not rows.empty:
            work.add(rows)
    return work.billed_us() / US


class _Work:
    """Stretches of work of each instance: those that are over as a sum, the others as they are."""

    def __init__(self, step_us: int, *, by_stretch: bool) -> None:
        self._step_us = step_us
        self._by_stretch = by_stretch
        self._over: dict[object, int] = {}
        self._open: dict[object, tuple[Times, Times]] = {}
        self._due_us: int | None = None

    def add(self, rows: pd.DataFrame) -> None:
        due = rows["due_us"].to_numpy(dtype=np.int64)
        if self._due_us is not None and due.min() < self._due_us:
            raise ValueError("requests are not in the order in which they were due")
        self._due_us = int(due.max())
        names = rows["instance"]
        unnamed = int((names.isna() | (names == "")).sum())
        if unnamed:
            raise UnnamedInstanceError(
                f"{unnamed} of {len(rows)} requests do not say which instance answered; let answers name it, or take "
                "requests × time as an approximation"
            )
        begin = rows["started_us"].to_numpy(dtype=np.int64)
        end = begin + rows["total_us"].to_numpy(dtype=np.int64)
        for name, mine in rows.groupby("instance", sort=False, observed=True).indices.items():
            self._unite(name, begin[mine], end[mine])

    def _unite(self, name: object, begin: Times, end: Times) -> None:
        """Whatever comes later begins at `_due_us` or after: stretches that ended before are over."""
        was_begin, was_end = self._open.get(name, _NONE)
        begin, end = _union(np.concatenate([was_begin, begin]), np.concatenate([was_end, end]))
        stays = end >= (self._due_us or 0)
        self._open[name] = begin[stays], end[stays]
        self._over[name] = self._over.get(name, 0) + self._sum(begin[~stays], end[~stays])

    def _sum(self, begin: Times, end: Times) -> int:
        lengths = end - begin
        return int((_up(lengths, self._step_us) if self._by_stretch else lengths).sum())

    def billed_us(self) -> int:
        whole = [self._over[name] + self._sum(*self._open[name]) for name in self._over]
        return int(_up(np.array(whole, dtype=np.int64), self._step_us).sum())


def request_seconds(total_us: Times, count: Times, *, granularity_s: float) -> float:
    """Time of requests that share nothing, each rounded up by itself.

    Parameters
    ----------
    total_us, count : array
        How long requests took, and how many took so long: rows of a count table.
    granularity_s : float
        > 0

    Returns
    -------
    float
        Billed seconds.
    """
    return float(np.dot(_up(total_us, round(granularity_s * US)), count)) / US


def _union(begin: Times, end: Times) -> tuple[Times, Times]:
    """Stretches that intervals cover together, ascending; intervals that touch are one."""
    order = np.argsort(begin, kind="stable")
    begin, end = begin[order], np.maximum.accumulate(end[order])
    first = np.ones(len(begin), dtype=bool)
    first[1:] = begin[1:] > end[:-1]
    last = np.append(first[1:], True)[: len(begin)]
    return begin[first], end[last]


def _up(value: Times, step: int) -> Times:
    up: Times = np.asarray(-(-value // step) * step)
    return up
