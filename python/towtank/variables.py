"""Response variables: their names, units, which way is better, and how two values are compared.

The one place where design (which names exist), campaign (SLO), analysis and report agree on them.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

Unit = Literal["s", "ratio", "per_s", "count", "bytes", "cores", "bytes_per_s"]
_PERCENTILE = re.compile(r"^p(\d{1,2}(?:\.\d+)?)(_ok)?$")


@dataclass(frozen=True)
class Variable:
    """A response variable of a run.

    Parameters
    ----------
    name : str
    unit : str
        Base unit of its values: s, ratio (0–1), per_s, count, bytes, cores.
    lower_is_better : bool
    scale : {"log", "difference"}
        How treatments are compared: as a ratio through logs, or as a plain difference (shares).
    title : str
        How figures and tables call it.
    explanation : str
        What exactly it is; shown beside tables.
    percentile : float, optional
        0–100, for latency percentiles.
    """

    name: str
    unit: Unit
    lower_is_better: bool
    scale: Literal["log", "difference"]
    title: str
    explanation: str
    percentile: float | None = None
    successes_only: bool = False


_FIXED = {
    v.name: v
    for v in (
        Variable("throughput", "per_s", False, "log", "throughput", "completions in the measured window ÷ its length"),
        Variable("throughput_median", "per_s", False, "log", "throughput (median second)",
                 "median of the completions of each whole second of the measured window"),
        Variable("goodput", "ratio", False, "difference", "goodput",
                 "expected answers within the timeout ÷ requests due in the measured window"),
        Variable("error_ratio", "ratio", True, "difference", "error share", "1 − goodput"),
        Variable("requests", "count", False, "log", "requests", "requests due in the measured window"),
        Variable("mean", "s", True, "log", "mean latency", "mean latency from the intended start, successes only",
                 successes_only=True),
        Variable("min", "s", True, "log", "fastest", "fastest success, from the intended start",
                 successes_only=True),
        Variable("max", "s", True, "log", "slowest", "slowest request; failures rank above every success",
                 100.0),
        Variable("max_ok", "s", True, "log", "slowest success", "slowest success, from the intended start", 100.0, True),
        Variable("median", "s", True, "log", "median latency", "from the intended start; failures rank above every success", 50.0),
        Variable("median_ok", "s", True, "log", "median latency (successes)",
                 "from the intended start; successes only", 50.0, True),
        Variable("cpu_cores", "cores", True, "log", "CPU", "mean CPU of the deployment in the measured window"),
        Variable("memory_bytes", "bytes", True, "log", "memory", "highest memory of the deployment in the measured window"),
        Variable("bytes_in_per_s", "bytes_per_s", False, "log", "received", "answer bytes in the measured window ÷ its length"),
        Variable("bytes_out_per_s", "bytes_per_s", False, "log", "sent",
                 "request bytes in the measured window ÷ its length"),
        Variable("collapsed", "ratio", True, "difference", "collapse share", "1 when the system collapsed in the run, else 0"),
    )
}  # fmt: skip


def variable(name: str) -> Variable:
    """Look a response variable up by name; any ``p<percentile>`` exists, with ``_ok`` for successes only.

    Raises
    ------
    KeyError
        Unknown name; `known_names` lists the fixed ones.
    """
    if name in _FIXED:
        return _FIXED[name]
    match = _PERCENTILE.match(name)
    if not match:
        raise KeyError(name)
    percentile = float(match.group(1))
    successes = match.group(2) is not None
    which = "successes only" if successes else "failures rank above every success"
    return Variable(
        name, "s", True, "log", f"p{match.group(1)} latency" + (" (successes)" if successes else ""),
        f"{match.group(1)}th percentile of latency from the intended start; {which}", percentile, successes,
    )  # fmt: skip


def known_names() -> tuple[str, ...]:
    """Names to suggest for a misspelling."""
    return (*_FIXED, "p50", "p90", "p95", "p99", "p99.9", "p95_ok", "p99_ok")
