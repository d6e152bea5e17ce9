"""Samples in columns: ten bytes each instead of the hundred of a tuple, so that a run of hours stays in memory."""

from __future__ import annotations

from array import array
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from typing import overload

import numpy as np
import pyarrow as pa

from towtank.telemetry.base import Sample


class SampleColumns(Sequence[Sample]):
    """A growing sequence of samples; reads like a list of `Sample`, but is kept as columns.

    The names of a series (source, instance, metric) are kept once, and so is the time that the samples of one
    reading share. One thread may append while others read.
    """

    def __init__(self) -> None:
        self._series: list[tuple[str, str, str]] = []
        self._ids: dict[tuple[str, str, str], int] = {}
        self._series_of = array("I")
        self._values = array("d")
        self._times = array("q")
        self._first_rows = array("q")
        self._shift_us = 0

    def extend(self, samples: Iterable[Sample]) -> int:
        """Append samples in the order of their reading; the number of them."""
        before = len(self._values)
        for t_us, source, instance, metric, value in samples:
            if not self._times or self._times[-1] != t_us:
                self._times.append(t_us)
                self._first_rows.append(len(self._values))
            key = (source, instance, metric)
            number = self._ids.get(key)
            if number is None:
                number = self._ids[key] = len(self._series)
                self._series.append(key)
            self._series_of.append(number)
            self._values.append(value)
        return len(self._values) - before

    def shifted(self, by_us: int) -> SampleColumns:
        """Move to another zero of the clock; shares the columns with the original."""
        other = SampleColumns()
        other.__dict__.update(self.__dict__)
        other._shift_us = self._shift_us + by_us
        return other

    def to_arrow(self) -> pa.Table:
        """As a table: t_us, source, instance, metric, value."""
        rows = len(self._values)
        lengths = np.diff(np.append(np.asarray(self._first_rows, dtype=np.int64), rows))
        times = np.repeat(np.asarray(self._times, dtype=np.int64) + self._shift_us, lengths)
        indices = pa.array(np.asarray(self._series_of, dtype=np.int32))
        columns = {"t_us": pa.array(times, pa.int64())}
        for position, name in enumerate(("source", "instance", "metric")):
            words = pa.array([key[position] for key in self._series], pa.string())
            columns[name] = words.take(indices)
        columns["value"] = pa.array(np.asarray(self._values, dtype=np.float64))
        return pa.table(columns)

    def __len__(self) -> int:
        return len(self._values)

    def __iter__(self) -> Iterator[Sample]:
        reading = -1
        for row in range(len(self._values)):
            while reading + 1 < len(self._first_rows) and self._first_rows[reading + 1] <= row:
                reading += 1
            yield self._sample(row, reading)

    @overload
    def __getitem__(self, index: int) -> Sample: ...
    @overload
    def __getitem__(self, index: slice) -> list[Sample]: ...
    def __getitem__(self, index: int | slice) -> Sample | list[Sample]:
        if isinstance(index, slice):
            return [self[row] for row in range(*index.indices(len(self)))]
        row = index + len(self) if index < 0 else index
        if not 0 <= row < len(self):
            raise IndexError(index)
        return self._sample(row, bisect_right(self._first_rows, row) - 1)

    def _sample(self, row: int, reading: int) -> Sample:
        series = self._series[self._series_of[row]]
        return Sample(self._times[reading] + self._shift_us, *series, self._values[row])
