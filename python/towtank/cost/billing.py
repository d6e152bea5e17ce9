"""The billing window of a run: from its start until what came with it is gone."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt


@dataclass(frozen=True)
class Billing:
    """Nodes (or pods, or what they request) of a run, as a bill has them.

    Parameters
    ----------
    end_us : int
        When nothing was left of what came with the run, µs of the run clock.
    node_seconds : float
        All of them in the drive phase, and those beyond the baseline until they are gone.
    drive_node_seconds : float
        From the start to the end of the drive phase.
    is_back : bool
        They were seen back at their baseline. Else `node_seconds` is less than what is billed.
    """

    end_us: int
    node_seconds: float
    drive_node_seconds: float
    is_back: bool


def billing(
    t_us: Sequence[int], nodes: Sequence[float], *, drive_end_us: int, holds_us: int = 0
) -> Billing | None:
    """Count node-seconds of a run's drive phase and of its billing window.

    What is there without the run is paid as long as the run lasts; a node that came with it, until it is gone. So two
    nodes over 1,800 s and a third over 2,288 s are 5,888 node-seconds, however long after the run the third one went.

    Parameters
    ----------
    t_us, nodes : sequence
        Counts of nodes, ascending in time; each holds until the next. The first that is known at the start of the run
        is the baseline.
    drive_end_us : int
        End of the measured window.
    holds_us : int
        How long the last count holds when the drive phase goes on: it was about to be counted again.

    Returns
    -------
    Billing or None
        None where nodes were not counted over the drive phase.
    """
    at, count = np.asarray(t_us, dtype=np.int64), np.asarray(nodes, dtype=float)
    before = int(np.searchsorted(at, 0, side="right")) - 1
    if before < 0 or at[-1] + holds_us < drive_end_us:
        return None
    baseline = count[before]
    drive = _integral(at, count, 0, drive_end_us)
    back = np.flatnonzero((at >= drive_end_us) & (count <= baseline))
    # the count before the end holds beyond it: with no more nodes than at the start the run is over there and then
    held = int(np.searchsorted(at, drive_end_us, side="right")) - 1
    if count[held] <= baseline:
        end, is_back = drive_end_us, True
    elif len(back):
        end, is_back = int(at[back[0]]), True
    else:
        end, is_back = max(int(at[-1]), drive_end_us), False
    more = _integral(at, np.maximum(count - baseline, 0), drive_end_us, end)
    return Billing(end, drive + more, drive, is_back)


def _integral(at: npt.NDArray[np.int64], count: npt.NDArray[np.float64], begin_us: int, end_us: int) -> float:
    """Nodes × seconds between two times; every count holds until the next."""
    until = np.clip(np.append(at[1:], max(int(at[-1]), end_us)), begin_us, end_us)
    return float(np.dot(count, until - np.clip(at, begin_us, end_us))) / 1e6
