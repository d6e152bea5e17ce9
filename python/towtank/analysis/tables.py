"""The stored tables of one run as arrays: who counts what, without ever looking at single requests."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import Distribution, IntArray

BoolArray = npt.NDArray[np.bool_]
COMPLETE_OUTCOMES = ("answered", "check:", "capture:", "redirect")
"""An answer that arrived completely, expected or not: what throughput counts."""


def _ints(column: pa.ChunkedArray, dtype: Any = np.int64) -> Any:  # noqa: ANN401 - a dtype, and an array of it
    return np.asarray(column.to_numpy(zero_copy_only=False), dtype=dtype)


def _narrow(column: pa.ChunkedArray) -> npt.NDArray[np.int32] | IntArray:
    """Whole numbers as int32 where they fit: a long run has millions of rows, and they are copied when sorted."""
    bounds = pc.min_max(column).as_py()
    fits = bounds["max"] is None or (bounds["min"] >= -(2**31) and bounds["max"] < 2**31)
    narrow: npt.NDArray[np.int32] | IntArray = (
        _ints(pc.cast(column, pa.int32()), np.int32) if fits else _ints(column)
    )
    return narrow


def _codes(column: pa.ChunkedArray) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """A string column as codes and names; null is −1."""
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    array = column.unify_dictionaries().combine_chunks()
    if isinstance(array, pa.ChunkedArray):  # no rows at all
        array = array.chunk(0) if array.num_chunks else pa.array([], pa.string()).dictionary_encode()
    codes = np.asarray(pc.fill_null(array.indices, -1).to_numpy(zero_copy_only=False), dtype=np.int32)
    return codes, tuple(str(name) for name in array.dictionary.to_pylist())


def _is(codes: npt.NDArray[np.int32], names: tuple[str, ...], name: str) -> BoolArray:
    """Where a column of codes has a name."""
    return np.asarray(codes == (names.index(name) if name in names else len(names)), dtype=bool)


def step_label(workload: str, step: str) -> str:
    """How a step is called where several workloads are driven at the same time."""
    return f"{workload}/{step}"


def _labelled(
    workload: npt.NDArray[np.int32],
    workloads: tuple[str, ...],
    step: npt.NDArray[np.int32],
    steps: tuple[str, ...],
) -> tuple[npt.NDArray[np.int32], tuple[str, ...]]:
    """Steps of several workloads apart: codes and names."""
    both = workload.astype(np.int64) * len(steps) + step
    found, codes = np.unique(both, return_inverse=True)
    names = tuple(step_label(workloads[one // len(steps)], steps[one % len(steps)]) for one in found)
    return codes.astype(np.int32), names


@dataclass(frozen=True, eq=False)
class LatencyCounts:
    """Rows of `counts.parquet` for the variable `latency`: one array per column.

    Parameters
    ----------
    step : int32 array
        Index into `steps`; where several workloads are driven, a step is named ``workload/step``.
    workload : int32 array, optional
        Index into `workloads`.
    ok, in_window : bool arrays
    bin : int32 array
        Time bin.
    value, count : int32 or int64 arrays
        Latency from the intended start, µs, and number of requests.
    """

    steps: tuple[str, ...]
    step: npt.NDArray[np.int32]
    ok: BoolArray
    in_window: BoolArray
    bin: npt.NDArray[np.int32]
    value: npt.NDArray[np.int32] | IntArray
    count: npt.NDArray[np.int32] | IntArray
    workloads: tuple[str, ...] = ()
    workload: npt.NDArray[np.int32] | None = None

    @classmethod
    def read(cls, counts: pa.Table) -> LatencyCounts:
        """Take the rows of `latency` out of a count table."""
        wanted, names = _codes(counts["variable"])
        rows = counts
        if names != ("latency",):
            rows = counts.filter(pa.array(_is(wanted, names, "latency")))
        step, steps = _codes(rows["step"])
        workload, workloads = _codes(rows["workload"])
        if len(workloads) > 1:
            step, steps = _labelled(workload, workloads, step, steps)
        return cls(
            steps=steps,
            step=step,
            workloads=workloads,
            workload=workload,
            ok=_is(*_codes(rows["outcome_class"]), "ok"),
            in_window=np.asarray(rows["in_window"], dtype=bool),
            bin=_ints(rows["bin"], np.int32),
            value=_narrow(rows["value"]),
            count=_narrow(rows["count"]),
        )

    def of_workload(self, name: str) -> BoolArray:
        """Which rows are of a workload."""
        if self.workload is None:
            return np.zeros(self.ok.size, dtype=bool)
        return _is(self.workload, self.workloads, name)

    def distribution(self, mask: BoolArray) -> Distribution:
        """Distribution over the rows that `mask` selects."""
        good = mask & self.ok
        failures = int(self.count[mask & ~self.ok].sum())
        return Distribution.of(self.value[good], self.count[good], failures=failures)

    def of_step(self, index: int) -> Distribution:
        """Distribution of one step over the measured window."""
        return self.distribution(self.in_window & (self.step == index))

    def by_bin(self, width: int) -> Iterator[tuple[int, Distribution]]:
        """Distribution of each time bin, `width` stored bins wide, ascending; empty bins are left out."""
        wide = self.bin // width if width > 1 else self.bin
        order = np.argsort(wide, kind="stable")
        bins, first = np.unique(wide[order], return_index=True)
        for index, start, end in zip(bins, first, [*first[1:], order.size], strict=True):
            rows = order[start:end]
            good = rows[self.ok[rows]]
            failures = int(self.count[rows].sum() - self.count[good].sum())
            yield int(index), Distribution.of(self.value[good], self.count[good], failures=failures)


@dataclass(frozen=True, eq=False)
class Totals:
    """`totals.parquet`: exact sums by outcome, status, instance and second.

    Parameters
    ----------
    end_second : float array
        Second in which the request completed; nan when it never did.
    """

    workloads: tuple[str, ...]
    workload: npt.NDArray[np.int32]
    outcomes: tuple[str, ...]
    outcome: npt.NDArray[np.int32]
    instances: tuple[str, ...]
    instance: npt.NDArray[np.int32]
    steps: tuple[str, ...]
    step: npt.NDArray[np.int32]
    status: IntArray
    in_window: BoolArray
    end_second: npt.NDArray[np.float64]
    count: IntArray
    bytes_out: IntArray
    bytes_in: IntArray

    @classmethod
    def read(cls, totals: pa.Table) -> Totals:
        """Read a totals table; a request without an answer has status 0."""
        workload, workloads = _codes(totals["workload"])
        outcome, outcomes = _codes(totals["outcome"])
        instance, instances = _codes(totals["instance"])
        step, steps = _codes(totals["step"])
        ended = pc.cast(totals["end_second"], pa.float64()).to_numpy(zero_copy_only=False)
        return cls(
            workloads=workloads,
            workload=workload,
            outcomes=outcomes,
            outcome=outcome,
            instances=instances,
            instance=instance,
            steps=steps,
            step=step,
            status=_ints(pc.fill_null(totals["status"], 0)),
            in_window=np.asarray(totals["in_window"], dtype=bool),
            end_second=np.asarray(ended, dtype=np.float64),
            count=_ints(totals["count"]),
            bytes_out=_ints(
                pc.fill_null(totals["bytes_out"], 0)
            ),  # unknown of imported runs: `RunRecord.unknown`
            bytes_in=_ints(pc.fill_null(totals["bytes_in"], 0)),
        )

    def of_workload(self, name: str) -> Totals:
        """Only the sums of one workload; none when it was not driven."""
        chosen = _is(self.workload, self.workloads, name)
        arrays = {
            part.name: getattr(self, part.name)[chosen]
            for part in fields(self)
            if isinstance(getattr(self, part.name), np.ndarray)
        }
        return replace(self, **arrays)

    def completions(self) -> tuple[IntArray, IntArray]:
        """Seconds (ascending) and complete answers that ended in each; warm-up and drain included."""
        complete = np.array([name.startswith(COMPLETE_OUTCOMES) for name in self.outcomes], dtype=bool)
        done = (self.outcome >= 0) & ~np.isnan(self.end_second)
        done &= complete[self.outcome] if complete.size else False
        seconds, inverse = np.unique(self.end_second[done].astype(np.int64), return_inverse=True)
        sums = np.zeros(seconds.size, dtype=np.int64)
        np.add.at(sums, inverse, self.count[done])
        return seconds, sums

    def by_outcome(self) -> dict[str, int]:
        """Requests of the window by outcome, most frequent first."""
        return self._by(self.outcome, self.outcomes)

    def by_instance(self) -> dict[str, int]:
        """Requests of the window by the instance that answered; by name."""
        return dict(sorted(self._by(self.instance, self.instances).items()))

    def by_status(self) -> dict[str, int]:
        """Requests of the window by status code; "none" where there was no answer."""
        found: dict[str, int] = {}
        for status in np.unique(self.status[self.in_window]):
            number = int(self.count[self.in_window & (self.status == status)].sum())
            found[str(status) if status else "none"] = number
        return found

    def all_by_status(self) -> dict[str, int]:
        """Requests of the whole load that were answered, by status code, whether in the window or not."""
        return {
            str(status): int(self.count[self.status == status].sum())
            for status in np.unique(self.status)
            if status
        }

    def by_answer(self) -> dict[str, int]:
        """Requests of the window by status code; where there was none, "timeout" or the name of the outcome."""
        found: dict[str, int] = {}
        for code in np.unique(self.outcome[self.in_window]):
            outcome = self.outcomes[code] if code >= 0 else "unknown"
            kind = "timeout" if outcome.startswith("timeout") else outcome
            rows = self.in_window & (self.outcome == code)
            for status in np.unique(self.status[rows]):
                name = str(status) if status else kind
                number = int(self.count[rows & (self.status == status)].sum())
                found[name] = found.get(name, 0) + number
        return found

    def _by(self, codes: npt.NDArray[np.int32], names: tuple[str, ...]) -> dict[str, int]:
        used = self.in_window & (codes >= 0)
        sums = np.bincount(codes[used], weights=self.count[used], minlength=len(names))
        order = np.argsort(-sums, kind="stable")
        return {names[i]: round(float(sums[i])) for i in order if sums[i] > 0}
