"""Which test a contrast on a variable will be decided by, known from the design alone, and the least it needs."""

from __future__ import annotations

import math
from dataclasses import dataclass

from towtank.design.designed import DeployedSpec
from towtank.design.model import Adaptive, ExperimentSpec
from towtank.variables import Variable

PERMUTATION_BLOCKS = 8
"""From so many blocks on the sign-flip permutation is used as a check (DESIGN §8)."""
EXACT_RUNS = 8
"""Up to so many runs a side, complete separation by ranks has the smallest p-value of two samples of 0 and 1."""


def within_blocks(experiment: ExperimentSpec, first: DeployedSpec, second: DeployedSpec) -> bool:
    """Whether two treatments are compared within blocks.

    Not when runs are listed, and not between deployments that live as long as the experiment: all runs of one of
    them lie together in time, so equal block numbers are no pairs.
    """
    return experiment.order != "listed" and not separately_deployed_once(first, second)


def separately_deployed_once(first: DeployedSpec, second: DeployedSpec) -> bool:
    """Whether two treatments have deployments of their own, one of which lives as long as the experiment."""
    outlives = "once" in (first.deploy, second.deploy)
    same = first.deployment_name == second.deployment_name and first.deployment == second.deployment
    return outlives and not same


@dataclass(frozen=True)
class Method:
    """How one claim is decided when its values can be reckoned with.

    Values that lie among failures, or do not vary, go to signs or ranks instead; only the runs can tell.

    Parameters
    ----------
    name : str
    paired : bool
        Within blocks, not between samples.
    binary : bool
        Of outcomes that are 0 or 1, so that few blocks bound the p-value from below.
    check : str
        What it is checked by; empty when by nothing.
    """

    name: str
    paired: bool
    binary: bool
    check: str

    def smallest_p(self, n: int) -> float | None:
        """Smallest two-sided p-value of n blocks (or runs a side); None when the data alone bound it."""
        if not self.binary:
            return None
        if self.paired:
            return 2.0 ** (1 - n)
        return 2 / math.comb(2 * n, n) if n <= EXACT_RUNS else None

    def smallest_check_p(self, n: int) -> float | None:
        """Smallest two-sided p-value of the check; None when there is none with so few blocks."""
        if not self.check or (self.paired and n < PERMUTATION_BLOCKS):
            return None
        return 2.0 ** (1 - n) if self.paired else 2 / math.comb(2 * n, n)

    def least(self, level: float) -> int:
        """Blocks (or runs a side) below which no outcome can confirm a claim.

        Parameters
        ----------
        level : float
            α/m: what the p-value must not exceed, and 1 − it the confidence of the interval.

        Notes
        -----
        An interval needs a variance, a variance two blocks. With 0 and 1 the most that n blocks can say is "always"
        against "never". In pairs that is p = 2/2ⁿ, and the interval excludes 0 when each exact share, at half the
        error, ends short of ½: (level/4)^(1/n) > ½. In samples it is one split of C(2n, n) and its mirror image.
        """
        n = 2
        while not self._can(n, level):
            n += 1
        return n

    def _can(self, n: int, level: float) -> bool:
        smallest = self.smallest_p(n)
        if smallest is None:
            return True
        separated = not self.paired or (level / 4) ** (1 / n) > 0.5
        return smallest <= level and separated


def method(
    experiment: ExperimentSpec, first: DeployedSpec, second: DeployedSpec, described: Variable
) -> Method:
    """Say by which method two treatments will be compared on a variable."""
    paired = within_blocks(experiment, first, second)
    binary = described.name == "collapsed"
    if paired and binary:
        return Method("exact McNemar test of pairs in blocks", paired, binary, "")
    values = "logs (a ratio)" if described.scale == "log" else "plain values (a difference)"
    if not paired:
        return Method(f"Welch's t-test of two samples on {values}", paired, binary, "Mann–Whitney")
    differences = "log ratios" if described.scale == "log" else "plain differences"
    test = "Stein's two-stage t-test" if isinstance(experiment.repetitions, Adaptive) else "t-test"
    return Method(f"{test} on {differences} within blocks", paired, binary, "sign-flip permutation")
