"""Whether the rows of a vegeta file are of one attack, or of several that were glued together.

vegeta numbers the requests of an attack from 0 in the order of their starts (both are taken under one lock), and
writes each when it has ended. Three things therefore cannot be in one attack: more rows than numbers, a later start
with a lower number, and a request that had ended long before others began which stand above it. What is filtered or
sorted by time still passes.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Whole = npt.NDArray[np.int64]

WRITTEN_LATE_US = 1_000_000
"""How long a request that has ended may wait to be written, beyond the longest request: the machine may be busy."""


@dataclass(frozen=True)
class Contradiction:
    """The first row that cannot be of the same attack as those above it.

    Parameters
    ----------
    row : int
        From 0.
    why : str
    """

    row: int
    why: str


class OneAttack:
    """Looks at rows in the order of the file, some at a time."""

    def __init__(self) -> None:
        self._rows = 0
        self._top_seq = -1
        self._top_start = -(2**62)
        self._latest_start = -(2**62)
        self._longest = 0

    def contradiction(self, start_us: Whole, took_us: Whole, seq: Whole) -> Contradiction | None:
        """Look at the next rows.

        Parameters
        ----------
        start_us, took_us, seq : array of int
            Of each row: when it began, how long it took, its number.
        """
        count = seq.size
        if count == 0:
            return None
        top, top_start = self._highest_before(start_us, seq)
        latest = _highest(self._latest_start, start_us)
        allowed = _highest(self._longest, took_us) + WRITTEN_LATE_US
        ended = start_us + took_us
        twice = self._rows + np.arange(count) > np.maximum(top, seq)
        swapped = ((seq <= top) & (start_us > top_start)) | ((seq > top) & (start_us < top_start))
        backwards = ended + allowed < latest
        wrong = twice | swapped | backwards
        found = None
        if wrong.any():
            row = int(wrong.argmax())
            found = Contradiction(
                self._rows + row,
                f"ended {(latest[row] - ended[row]) / 1e6:.3g} s before a request began that stands above it"
                if backwards[row]
                else f"has the number {seq[row]} (seq), and the attack above had reached {top[row]}",
            )
        self._rows += count
        self._take(start_us, took_us, seq)
        return found

    def _highest_before(self, start_us: Whole, seq: Whole) -> tuple[Whole, Whole]:
        """For each row, the highest number above it, and the start of the request that has it."""
        seqs = np.concatenate(([self._top_seq], seq))
        starts = np.concatenate(([self._top_start], start_us))
        top = np.maximum.accumulate(seqs)
        is_new = np.concatenate(([True], top[1:] > top[:-1]))
        holder = np.maximum.accumulate(np.where(is_new, np.arange(seqs.size), 0))
        return top[:-1], starts[holder][:-1]

    def _take(self, start_us: Whole, took_us: Whole, seq: Whole) -> None:
        """Remember what the rows after these are compared with."""
        highest = int(seq.argmax())
        if seq[highest] > self._top_seq:
            self._top_seq, self._top_start = int(seq[highest]), int(start_us[highest])
        self._latest_start = max(self._latest_start, int(start_us.max()))
        self._longest = max(self._longest, int(took_us.max()))


def _highest(before: int, values: Whole) -> Whole:
    """For each row, the highest value above it."""
    highest: Whole = np.maximum.accumulate(np.concatenate(([before], values)))[:-1]
    return highest
