"""Response variables: their names, units, which way is better, and how two values are compared.

The one place where design (which names exist), campaign (SLO), analysis and report agree on them.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Literal

Unit = Literal["s", "ratio", "per_s", "count", "bytes", "cores", "bytes_per_s", "money"]
_OF_WORKLOAD = re.compile(r"^([a-z0-9_.]+)\[([A-Za-z0-9][A-Za-z0-9_.-]{0,62})\]$")
_OF_REQUESTS = frozenset({
    "goodput", "error_ratio", "requests", "mean", "min", "throughput", "throughput_median", "bytes_in_per_s",
    "bytes_out_per_s",
})  # fmt: skip
"""Besides percentiles: what follows from the requests alone."""
_PERCENTILE = re.compile(r"^p(\d{1,2}(?:\.\d+)?)(_ok)?$")


_SUCCESSES = "from the intended start; successes only"
_RANKED = "from the intended start; failures rank above every success"


@dataclass(frozen=True)
class Variable:
    """A response variable of a run.

    Parameters
    ----------
    name : str
    unit : str
        Base unit of its values: s, ratio (0–1), per_s, count, bytes, cores, bytes_per_s, money
        (in the currency of the report).
    better : {"lower", "higher"}
    title : str
        How figures and tables call it.
    explanation : str
        What exactly it is; shown beside tables.
    percentile : float, optional
        0–100, for latency percentiles.
    successes_only : bool
        Failures are left out, so that treatments must not be ranked by it where goodput differs.
    workload : str, optional
        Only its requests count; else those of all workloads that a run drives at the same time.
    """

    name: str
    unit: Unit
    better: Literal["lower", "higher"]
    title: str
    explanation: str
    percentile: float | None = None
    successes_only: bool = False
    workload: str | None = None

    @property
    def base(self) -> str:
        """Its name without a workload."""
        return self.name if self.workload is None else self.name.removesuffix(f"[{self.workload}]")

    @property
    def lower_is_better(self) -> bool:
        """Which way is better."""
        return self.better == "lower"

    @property
    def scale(self) -> Literal["log", "difference"]:
        """How treatments are compared: as a ratio through logs, or, for shares, as a plain difference."""
        return "difference" if self.unit == "ratio" else "log"


_IN_WINDOW = "in the measured window"
_FIXED = {
    v.name: v
    for v in (
        Variable("throughput", "per_s", "higher", "throughput", f"completions {_IN_WINDOW} ÷ its length"),
        Variable("throughput_median", "per_s", "higher", "throughput (median second)",
                 f"median of the completions of each whole second {_IN_WINDOW}"),
        Variable("goodput", "ratio", "higher", "goodput",
                 f"expected answers within the timeout ÷ requests due {_IN_WINDOW}"),
        Variable("error_ratio", "ratio", "lower", "error share", "1 − goodput"),
        Variable("requests", "count", "higher", "requests", f"requests due {_IN_WINDOW}"),
        Variable("mean", "s", "lower", "mean latency", f"mean latency {_SUCCESSES}", successes_only=True),
        Variable("min", "s", "lower", "fastest", f"fastest, {_SUCCESSES}", successes_only=True),
        Variable("max", "s", "lower", "slowest", f"slowest, {_RANKED}", 100.0),
        Variable("max_ok", "s", "lower", "slowest success", f"slowest, {_SUCCESSES}", 100.0, successes_only=True),
        Variable("median", "s", "lower", "median latency", _RANKED, 50.0),
        Variable("median_ok", "s", "lower", "median latency (successes)", _SUCCESSES, 50.0, successes_only=True),
        Variable("cpu_cores", "cores", "lower", "CPU", f"mean CPU of the deployment {_IN_WINDOW}"),
        Variable("memory_bytes", "bytes", "lower", "memory", f"highest memory of the deployment {_IN_WINDOW}"),
        Variable("bytes_in_per_s", "bytes_per_s", "higher", "received", f"answer bytes {_IN_WINDOW} ÷ its length"),
        Variable("bytes_out_per_s", "bytes_per_s", "higher", "sent", f"request bytes {_IN_WINDOW} ÷ its length"),
        Variable("bytes_logged", "bytes", "lower", "logged",
                 f"bytes that the deployment's instances logged {_IN_WINDOW}, kept or not"),
        Variable("bytes_logged_per_s", "bytes_per_s", "lower", "logged per second", "bytes_logged ÷ its length"),
        Variable("bytes_logged_per_request", "bytes", "lower", "logged per request",
                 f"bytes_logged ÷ requests due {_IN_WINDOW}"),
        Variable("storage_read_bytes_per_s", "bytes_per_s", "lower", "read from storage",
                 f"bytes that the deployment read from disks and network storage {_IN_WINDOW} ÷ its length"),
        Variable("storage_write_bytes_per_s", "bytes_per_s", "lower", "written to storage",
                 f"bytes that the deployment wrote to disks and network storage {_IN_WINDOW} ÷ its length"),
        Variable("availability", "ratio", "higher", "availability",
                 "expected answers ÷ requests due, from the start of the first fault to the end of the window"),
        Variable("fault_failures", "count", "lower", "failed through faults",
                 "requests that failed from the start of the first fault on, beyond the share that failed before it"),
        Variable("time_to_recover", "s", "lower", "time to recover",
                 "from a fault's start until failures and latency stay in their band from before it; longest of "
                 "the run's faults (docs/faults.md)"),
        Variable("pods_ready", "count", "lower", "pods ready", f"mean number of pods that take requests {_IN_WINDOW}"),
        Variable("pods_most", "count", "lower", "most pods", f"highest number of pods that take requests {_IN_WINDOW}"),
        Variable("pods_pending", "count", "lower", "pods pending",
                 f"mean number of pods that are there and take no requests, yet or any more, {_IN_WINDOW}"),
        Variable("nodes_ready", "count", "lower", "nodes ready", f"mean number of nodes that are Ready {_IN_WINDOW}"),
        Variable("node_seconds", "count", "lower", "node-seconds",
                 f"nodes of the cluster × seconds, Ready or not, {_IN_WINDOW}"),
        Variable("pod_start", "s", "lower", "start of a pod",
                 "from created to ready, median of the pods that were created after the load began"),
        Variable("scale_up", "s", "lower", "scale-up",
                 "from a rise of the intended load to the first new pod that is ready, "
                 "mean over the rises that brought one"),
        Variable("cost", "money", "lower", "cost",
                 "of the billing window: from the start of the load until what is paid for is back at its baseline"),
        Variable("cost_drive", "money", "lower", "cost of the drive phase",
                 "from the start of the load to the end of the measured window"),
        Variable("cost_per_1000", "money", "lower", "cost per 1,000 requests",
                 "cost ÷ requests of the run × 1,000: expected answers, or all that were due (`cost.per_1000`)"),
        Variable("accuracy_under", "count", "lower", "instances missing",
                 f"mean number of ready instances below what the load demanded {_IN_WINDOW} (docs/elasticity.md)"),
        Variable("accuracy_over", "count", "lower", "instances too many",
                 f"mean number of ready instances beyond what the load demanded {_IN_WINDOW}"),
        Variable("timeshare_under", "ratio", "lower", "time short",
                 f"share of the time with fewer ready instances than the load demanded {_IN_WINDOW}"),
        Variable("timeshare_over", "ratio", "lower", "time beyond",
                 f"share of the time with more ready instances than the load demanded {_IN_WINDOW}"),
        Variable("instability", "ratio", "lower", "unsteady",
                 f"share of the seconds in which supply and demand did not move in the same direction {_IN_WINDOW}"),
        Variable("follow_up", "s", "lower", "up within",
                 "median time from a rise of demand until as many instances were ready"),
        Variable("follow_down", "s", "lower", "down within",
                 "median time from a fall of demand until no more instances were ready"),
        Variable("collapsed", "ratio", "lower", "collapse share", "1 when the system collapsed in the run, else 0"),
    )
}  # fmt: skip


NO_OWN: Mapping[str, Variable] = MappingProxyType({})
"""An experiment without response variables of its own."""


def variable(name: str, own: Mapping[str, Variable] = NO_OWN) -> Variable:
    """Look a response variable up by name; any ``p<percentile>`` exists, with ``_ok`` for successes only.

    What follows from single requests can be asked of one workload of several: ``p95[shop]``, ``throughput[shop]``.

    Parameters
    ----------
    name : str
    own : mapping, optional
        What the experiment file itself declares (`own_variable`).

    Raises
    ------
    KeyError
        Unknown name; `known_names` lists the fixed ones.
    """
    if name in own:
        return own[name]
    of_one = _OF_WORKLOAD.match(name)
    if of_one is not None:
        return _of_workload(variable(of_one[1]), of_one[2])
    if name in _FIXED:
        return _FIXED[name]
    match = _PERCENTILE.match(name)
    if not match:
        raise KeyError(name)
    digits, successes = match.group(1), match.group(2) is not None
    return Variable(
        name=name,
        unit="s",
        better="lower",
        title=f"p{digits} latency" + (" (successes)" if successes else ""),
        explanation=f"{digits}th percentile of latency {_SUCCESSES if successes else _RANKED}",
        percentile=float(digits),
        successes_only=successes,
    )


def is_known(name: str) -> bool:
    """Whether a response variable is one of every experiment."""
    try:
        variable(name)
    except KeyError:
        return False
    return True


def _of_workload(whole: Variable, workload: str) -> Variable:
    if whole.percentile is None and whole.name not in _OF_REQUESTS:
        raise KeyError(f"{whole.name}[{workload}]")
    return replace(
        whole,
        name=f"{whole.name}[{workload}]",
        title=f"{whole.title} ({workload})",
        explanation=f"{whole.explanation}; requests of {workload} only",
        workload=workload,
    )


_UNITS: tuple[tuple[str, Unit], ...] = (
    ("_bytes_per_s", "bytes_per_s"), ("_per_s", "per_s"), ("_bytes", "bytes"), ("_cores", "cores"), ("_ratio", "ratio"),
    ("_s", "s"),
)  # fmt: skip
"""Endings of names, the longest first; a name without one is a plain number."""
OTHER_UNITS = ("_ns", "_us", "_ms", "_percent")
"""Endings that say a unit which is none of ours: values are kept in base units and shown in readable ones."""


def own_variable(name: str, better: Literal["lower", "higher"]) -> Variable:
    """Describe a response variable that an experiment file declares; its unit is the ending of its name.

    >>> own_variable("slow_ratio", "lower").unit, own_variable("queue", "lower").unit
    ('ratio', 'count')
    """
    ending, unit = next(((e, u) for e, u in _UNITS if name.endswith(e)), ("", "count"))
    title = name.removesuffix(ending if unit in ("s", "ratio", "bytes", "cores") else "").replace("_", " ")
    return Variable(name, unit, better, title, "by the expression of the experiment file, run by run")


FAULT_VARIABLES = ("availability", "fault_failures", "time_to_recover")
"""Known of runs in which faults were planned, be it of kind `none`."""


DEMAND_VARIABLES = (
    "accuracy_under", "accuracy_over", "timeshare_under", "timeshare_over", "instability", "follow_up", "follow_down",
)  # fmt: skip
"""Known of runs whose treatment has a calibrated demand."""
COST_VARIABLES = ("cost", "cost_drive", "cost_per_1000")
"""Known of experiments with prices."""


def known_names() -> tuple[str, ...]:
    """Names to suggest for a misspelling."""
    return (*_FIXED, "p50", "p90", "p95", "p99", "p99.9", "p95_ok", "p99_ok")
