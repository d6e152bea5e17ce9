"""What faults did to a run: availability, requests that failed through them, and the time until it had recovered.

The definitions are closed and the same for every run (docs/faults.md has the formulas). A run whose treatment has no
fault is measured over the same stretch of time, from when the fault would have come.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.model import Quantity
from towtank.analysis.tables import LatencyCounts
from towtank.store.count_tables import FAULT_BIN_US
from towtank.store.run_record import FaultWindow, Window
from towtank.variables import FAULT_VARIABLES

SLOWER = 1.25
"""A request is slow when it took this much longer than the 99th percentile before the fault,"""
SLOWER_LEAST_US = 1000
"""and at least this much: below a millisecond a machine's own noise is larger than that."""
MOST_SLOW = 0.05
"""Share of slow requests that a recovered service may have; the 99th percentile before leaves 1 % of them."""
MOST_FAILED = 0.01
"""Points of failed requests beyond their share before the fault that a recovered service may have."""
LEAST_REQUESTS = 40
"""A look is as long as this many requests take at the rate before the fault: fewer say nothing of 5 %."""
LOOK_S = 1.0
"""And at least this long."""
SILENT = 10
"""Users of closed load wait for answers: a stretch in which nothing was due, though this many requests were to be
expected at the rate before the fault, is not well. (Of Poisson counts with this mean, 5 in 100,000 are 0.)"""
HOLD_S = 3.0
"""It has recovered when every look is within the band for this long, and for three looks."""
_CELL_S = FAULT_BIN_US * MICROSECOND_S
Ints = npt.NDArray[np.int64]


class HasFaultCounts(Protocol):
    """What is read of a run folder."""

    def fault_counts(self) -> pa.Table:
        """`fault_counts.parquet`."""


def fault_values(
    faults: Sequence[FaultWindow], window: Window, folder: HasFaultCounts, *, users_wait: bool
) -> dict[str, Quantity]:
    """Values of `FAULT_VARIABLES` of one run.

    Parameters
    ----------
    faults : sequence of FaultWindow
        Of the run; those of kind `none` mark when to look.
    window : Window
        What was measured.
    folder : HasFaultCounts
        Read only when there are faults.
    users_wait : bool
        The load is closed, at least in part: that nothing is due may mean that nothing is answered.
    """
    if not faults:
        nothing = Quantity(None, reason="no fault was planned in this run")
        return dict.fromkeys(FAULT_VARIABLES, nothing)
    cells = _Cells.read(folder.fault_counts(), window)
    starts = [_cell(one.planned_us if one.began_us is None else one.began_us) for one in faults]
    first = min(starts)
    if cells is None or first >= cells.end:
        return dict.fromkeys(
            FAULT_VARIABLES, Quantity(None, reason="nothing was measured after the fault began")
        )
    due, failed = cells.due[first:].sum(), cells.failed[first:].sum()
    return {
        "availability": Quantity(float(1 - failed / due))
        if due
        else Quantity(None, reason="no request was due after the fault began"),
        "fault_failures": cells.failed_through(first),
        "time_to_recover": cells.recovery(
            [start for start in starts if start < cells.end], first, users_wait=users_wait
        ),
    }


def _cell(t_us: int) -> int:
    return t_us // FAULT_BIN_US


@dataclass(frozen=True, eq=False)
class _Cells:
    """Requests of the measured window by when they were due, in cells of 100 ms from the start of the run.

    Parameters
    ----------
    counts : LatencyCounts
        Those inside of the window.
    due, failed : int64 arrays
        By cell.
    begin, end : int
        First cell, and the one after the last.
    """

    counts: LatencyCounts
    due: Ints
    failed: Ints
    begin: int
    end: int

    @classmethod
    def read(cls, table: pa.Table, window: Window) -> _Cells | None:
        if not table.num_rows:
            return None
        counts = LatencyCounts.read(table)
        end = -(-window.end_us // FAULT_BIN_US)
        inside = counts.in_window
        due = _summed(counts, inside, end)
        return cls(counts, due, _summed(counts, inside & ~counts.ok, end), _cell(window.start_us), end)

    def failed_through(self, first: int) -> Quantity:
        """Failures from a cell on, beyond the share that failed before it."""
        before = int(self.due[:first].sum())
        if not before:
            return Quantity(None, reason="no request was due in the measured window before the fault")
        usual = float(self.failed[:first].sum()) / before
        return Quantity(max(0.0, float(self.failed[first:].sum()) - usual * float(self.due[first:].sum())))

    def recovery(self, starts: Sequence[int], first: int, *, users_wait: bool) -> Quantity:
        """Longest time to recover from faults that began in these cells; the band is of the time before `first`."""
        before = int(self.due[:first].sum())
        if before < LEAST_REQUESTS or first - self.begin < LOOK_S / _CELL_S:
            least = f"{LEAST_REQUESTS} requests and {LOOK_S:g} s"
            return Quantity(None, reason=f"fewer than {least} of the measured window lie before the fault")
        earlier = self.counts.distribution(self.counts.in_window & (self.counts.bin < first))
        usual_s = earlier.percentile(99)
        if usual_s is None or math.isinf(usual_s):
            return Quantity(
                None, reason="the 99th percentile before the fault lies among failures: there is no band"
            )
        usual_us = usual_s / MICROSECOND_S
        limit_us = max(SLOWER * usual_us, usual_us + SLOWER_LEAST_US)
        slow_or_failed = self.counts.in_window & (~self.counts.ok | (self.counts.value > limit_us))
        slow = _summed(self.counts, slow_or_failed, self.end)
        look = math.ceil(max(LOOK_S / _CELL_S, LEAST_REQUESTS * (first - self.begin) / before))
        most_failed = float(self.failed[:first].sum()) / before + MOST_FAILED
        good = _looks(self.due, self.failed, look) <= most_failed
        good &= _looks(self.due, slow, look) <= MOST_SLOW
        if users_wait:
            good &= ~_silent(self.due, SILENT * (first - self.begin) / before)[: good.size]
        held = _stays(good, max(round(HOLD_S / _CELL_S), 3 * look) - look + 1)
        times = []
        for start in starts:
            following = min((later for later in starts if later > start), default=None)
            between = good[:0] if following is None else good[start : max(start, following - look + 1)]
            times.append(self._since(start, held, between))
        return max(times, key=lambda q: (q.above, q.value or 0.0))

    def _since(self, start: int, held: npt.NDArray[np.bool_], between: npt.NDArray[np.bool_]) -> Quantity:
        """Time from a cell to the first from which all is well: for the held time, or until the next fault begins.

        Parameters
        ----------
        start : int
        held : bool array
            From which cells on it is well for the held time.
        between : bool array
            Looks from `start` on that are over when the next fault begins; empty when there is none.
        """
        well = [int(cell) for cell in np.flatnonzero(held[start:])[:1]]
        last_bad = np.flatnonzero(~np.concatenate(([False], between)))[-1]
        if last_bad < between.size:
            well.append(int(last_bad))
        if well:
            return Quantity(min(well) * _CELL_S)
        left_s = (self.end - start) * _CELL_S
        return Quantity(left_s, above=True, reason="it had not recovered when the load was over")


def _summed(counts: LatencyCounts, mask: npt.NDArray[np.bool_], cells: int) -> Ints:
    """Requests by cell."""
    sums = np.bincount(counts.bin[mask], weights=counts.count[mask], minlength=cells)
    return np.asarray(np.rint(sums[:cells]), dtype=np.int64)


def _looks(due: Ints, some: Ints, width: int) -> npt.NDArray[np.float64]:
    """Share of some among those due, in the look that begins in each cell; 0 where nothing was due."""
    if due.size < width:
        return np.empty(0)
    all_, part = (np.convolve(cells, np.ones(width), mode="valid") for cells in (due, some))
    return np.asarray(np.divide(part, all_, out=np.zeros(all_.size), where=all_ > 0), dtype=np.float64)


def _silent(due: Ints, least: float) -> npt.NDArray[np.bool_]:
    """Which cells lie in a stretch of at least so many cells in which nothing was due."""
    edges = np.flatnonzero(np.diff(np.concatenate(([0], due == 0, [0]))))
    silent = np.zeros(due.size, dtype=bool)
    for begin, end in edges.reshape(-1, 2):
        silent[begin:end] = end - begin >= least
    return silent


def _stays(good: npt.NDArray[np.bool_], length: int) -> npt.NDArray[np.bool_]:
    """From which cells on all of so many looks are good."""
    if good.size < length:
        return np.zeros(0, dtype=bool)
    return np.asarray(np.convolve(good, np.ones(length), mode="valid") > length - 0.5, dtype=bool)
