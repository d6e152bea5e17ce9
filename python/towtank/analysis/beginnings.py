"""How a run begins as it was measured: since when p95 is steady, and what was due and failed in each time bin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from towtank.analysis.shifts import Steadiness, advised_warmup
from towtank.analysis.tables import LatencyCounts
from towtank.analysis.timeseries import latency_series
from towtank.store.derived import DerivedRuns
from towtank.store.run_folder import RunFolder

BIN_COLUMNS = ("t_us", "due", "failed")


@dataclass(frozen=True, eq=False)
class Beginning:
    """What `answer.steady_state` goes by: small, so that it is kept and no table read again for it.

    Parameters
    ----------
    steadiness : Steadiness
        Without shifts.
    bins : DataFrame
        `BIN_COLUMNS`: start of the time bin (µs of the run clock), requests due in it and in the declared window, and
        how many of these failed.
    """

    steadiness: Steadiness
    bins: pd.DataFrame

    def split_at(self, start_us: int) -> tuple[tuple[int, int], tuple[int, int]]:
        """Requests of the declared window, and how many of them failed: before an instant, and behind it."""
        early = self.bins["t_us"] < start_us
        before, behind = self.bins[early], self.bins[~early]
        return _sums(before), _sums(behind)


def beginning_of(
    folder: RunFolder, stretches: Sequence[tuple[float, float]], derived: DerivedRuns | None = None
) -> Beginning:
    """Look at how a run begins; its tables are read where that is not kept.

    Parameters
    ----------
    folder : RunFolder
        As it was measured.
    stretches : sequence of (float, float)
        In which the load is constant, s.
    derived : DerivedRuns, optional
    """
    if derived is None:
        return _read(folder, stretches)
    asked = tuple(stretches)
    known = derived.get(folder, asked, Beginning)
    if known is None:
        known = _read(folder, stretches)
        derived.put(folder, asked, known)
    return known


def _read(folder: RunFolder, stretches: Sequence[tuple[float, float]]) -> Beginning:
    record = folder.record
    table = folder.counts(["latency"])
    if record.window is None or not table.num_rows:
        nothing = Steadiness(record.run_id, record.treatment_id, 0.0, None, ())
        return Beginning(nothing, pd.DataFrame(columns=list(BIN_COLUMNS), dtype=np.int64))
    counts = LatencyCounts.read(table)
    warmup_s = record.window.start_us / 1e6
    advice = advised_warmup(latency_series(counts, record), warmup_s, stretches)
    inside = counts.in_window
    width = int(counts.bin.max()) + 1
    due = np.bincount(counts.bin[inside], weights=counts.count[inside], minlength=width)
    failing = inside & ~counts.ok
    failed = np.bincount(counts.bin[failing], weights=counts.count[failing], minlength=width)
    bins = pd.DataFrame(
        {
            "t_us": np.arange(width, dtype=np.int64) * record.bin_us,
            "due": np.rint(due).astype(np.int64),
            "failed": np.rint(failed).astype(np.int64),
        }
    )
    steadiness = Steadiness(
        record.run_id, record.treatment_id, warmup_s, advice.from_s, (), unjudged=advice.unjudged, bins=advice.bins
    )  # fmt: skip
    return Beginning(steadiness, bins)


def _sums(bins: pd.DataFrame) -> tuple[int, int]:
    return int(bins["due"].sum()), int(bins["failed"].sum())
