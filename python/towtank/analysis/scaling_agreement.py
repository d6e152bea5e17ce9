"""How far the decisions that were made agree with predicted ones: samples as lines, compared where it decides."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import MICROSECOND_S
from towtank.analysis.intervals import FloatArray

LOAD, AVERAGES, METRICS = "load of each second", "its own averages", "what it measured"
"""What a prediction is made from."""
LINE_COLUMNS = ("t_s", "metric", "value")
PREDICTED, DESIRED, READY = "predicted", "desired", "ready"
_SOURCES = ("scaling", "knative", "kubernetes")
_METRICS = (
    "autoscaler_desired", "autoscaler_stable", "autoscaler_panic", "autoscaler_panic_mode", "autoscaler_actual",
    "autoscaler_seen_cpu", "autoscaler_seen_concurrency", "autoscaler_seen_requests_per_second",
    "ingress_concurrency", "ingress_requests_per_s", "replicas_ready", "replicas_current", "replicas_desired",
    "seen_ratio",
)  # fmt: skip


@dataclass(frozen=True, eq=False)
class Prediction:
    """One autoscaler in one run.

    Parameters
    ----------
    autoscaler : str
        Component, revision or HPA.
    algorithm : {"KPA", "HPA"}
    by : str
        `LOAD`, `AVERAGES` or `METRICS`.
    ticks : int
        Decisions that were compared, from the start of the load on.
    equal : float or None
        Share of them that came to the same number.
    largest : int
        Largest difference, in instances.
    series : DataFrame
        t_s, metric (`PREDICTED`, `DESIRED`, `READY`), value: where each changes.
    reason : str
        Why there is no prediction.
    """

    autoscaler: str
    algorithm: str
    by: str = ""
    ticks: int = 0
    equal: float | None = None
    largest: int = 0
    series: pd.DataFrame = field(default_factory=lambda: pd.DataFrame(columns=list(LINE_COLUMNS)))
    reason: str = ""


@dataclass(frozen=True, eq=False)
class Seen:
    """Samples that matter here: source and instance → metric → instants (s) and values, in order."""

    of_one: Mapping[tuple[str, str], Mapping[str, tuple[FloatArray, FloatArray]]]

    @classmethod
    def of(cls, samples: pa.Table) -> Seen:
        """Pick them out; of several at one instant the last counts."""
        source, metric = (samples[name].cast(pa.string()) for name in ("source", "metric"))
        wanted = pc.and_(
            pc.is_in(source, value_set=pa.array(_SOURCES)), pc.is_in(metric, value_set=pa.array(_METRICS))
        )
        mine = samples.filter(wanted).to_pandas().sort_values("t_us", kind="stable")
        found: dict[tuple[str, str], dict[str, tuple[FloatArray, FloatArray]]] = {}
        keys = [mine[name].astype(str) for name in ("source", "instance", "metric")]
        for (source_, instance, metric_), rows in mine.groupby(keys, sort=False):
            last = rows.drop_duplicates("t_us", keep="last")
            times = last["t_us"].to_numpy(dtype=float) * MICROSECOND_S
            found.setdefault((source_, instance), {})[metric_] = times, last["value"].to_numpy(dtype=float)
        return cls(found)

    def line(self, source: str, instance: str, metric: str) -> tuple[FloatArray, FloatArray]:
        """Instants and values; empty where nothing was seen."""
        nothing = np.empty(0), np.empty(0)
        return self.of_one.get((source, instance), {}).get(metric, nothing)

    def at(self, source: str, instance: str, metric: str, times: FloatArray) -> FloatArray:
        """Value that held at each instant; nan before the first."""
        known, values = self.line(source, instance, metric)
        if not known.size:
            return np.full(len(times), np.nan)
        place = np.searchsorted(known, times, side="right") - 1
        return np.where(place < 0, np.nan, values[np.maximum(place, 0)])


def compared(
    of: Prediction,
    times: FloatArray,
    predicted: FloatArray,
    desired: FloatArray,
    ready: tuple[FloatArray, FloatArray],
) -> Prediction:
    """Fill in how both agree, from the start of the load on.

    Parameters
    ----------
    of : Prediction
        What is known already.
    times, predicted, desired : array
        Of each decision; nan where one of them is not known.
    ready : (times, values)
        Instances that took requests.
    """
    known = ~np.isnan(predicted) & ~np.isnan(desired) & (times >= 0)
    if not known.any():
        return Prediction(
            of.autoscaler, of.algorithm, reason="no decision was seen under load that could be compared"
        )
    apart = np.abs(predicted[known] - desired[known])
    lines = {PREDICTED: (times[known], predicted[known]), DESIRED: (times[known], desired[known])}
    lines[READY] = ready
    return Prediction(
        of.autoscaler,
        of.algorithm,
        of.by,
        int(known.sum()),
        float((apart == 0).mean()),
        int(apart.max()),
        _changes(lines, float(times[known].min()), float(times[known].max())),
    )


def _changes(
    lines: Mapping[str, tuple[FloatArray, FloatArray]], begin_s: float, end_s: float
) -> pd.DataFrame:
    """Where each line changes between two instants, and what it is at both."""
    parts = []
    for metric, (times, values) in lines.items():
        place = int(np.searchsorted(times, begin_s, side="right")) - 1
        inside = (times > begin_s) & (times <= end_s)
        t_s, shown = times[inside], values[inside]
        if place >= 0:
            t_s, shown = np.append(begin_s, t_s), np.append(values[place], shown)
        if not t_s.size:
            continue
        kept = np.append(True, np.diff(shown) != 0)
        frame = pd.DataFrame({"t_s": t_s[kept], "metric": metric, "value": shown[kept]})
        parts += [frame, pd.DataFrame({"t_s": [end_s], "metric": metric, "value": [shown[-1]]})]
    found = pd.concat(parts, ignore_index=True)
    return found.drop_duplicates(["metric", "t_s"], keep="last", ignore_index=True)


def phase(changed: npt.NDArray[np.intp], period: int) -> int:
    """Which of every `period` seconds ends with a decision: that after which the wanted number mostly changed."""
    return int(np.bincount(changed % period, minlength=period).argmax()) if changed.size else 0


def anew(*lines: FloatArray) -> npt.NDArray[np.bool_]:
    """Where any of some lines says something else than just before."""
    changed = (np.diff(np.column_stack(lines), axis=0) != 0).any(axis=1)
    return np.append(True, changed)
