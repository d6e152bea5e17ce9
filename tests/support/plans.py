"""Small plans for tests of the statistics: treatments, blocks and an answer, without any file."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from towtank.design.model import (
    Adaptive,
    Answer,
    ClosedLoad,
    ExperimentSpec,
    Journey,
    OpenLoad,
    Request,
    TreatmentSpec,
    Workload,
)
from towtank.design.plan import Plan, PlannedRun, Treatment
from towtank.platforms.external_config import ExternalConfig


def make_plan(
    treatments: Sequence[str] | Mapping[str, Mapping[str, Any]] = ("one", "two"),
    *,
    blocks: int = 8,
    primary: Sequence[str] = ("p95",),
    baseline: str | None = None,
    contrasts: str = "baseline",
    matters: float = 0.05,
    confidence: float = 0.95,
    claim: str = "difference",
    order: str = "randomized-blocks",
    deploy: str = "per-run",
    adaptive: Adaptive | None = None,
    slo: Mapping[str, float] | None = None,
    answered: bool = True,
    closed: bool = False,
    warmup: str | float = "1s",
) -> Plan:
    """Make a plan; levels default to ``{"deployment": <id>}``, the baseline to the first treatment."""
    levels = (
        {name: dict(of) for name, of in treatments.items()}
        if isinstance(treatments, Mapping)
        else {name: {"deployment": name} for name in treatments}
    )
    answer = Answer(
        primary=tuple(primary), baseline=baseline or next(iter(levels)), contrasts=contrasts, matters=matters,
        confidence=confidence, claim=claim,
    )  # fmt: skip
    factors: dict[str, list[Any]] = {}
    for of in levels.values():
        for factor, level in of.items():
            if level not in factors.setdefault(factor, []):
                factors[factor].append(level)
    experiment = ExperimentSpec(
        experiment="small", question="Which one?", answer=answer if answered else None,
        repetitions=adaptive or blocks, order=order, seed=7, factors={f: tuple(v) for f, v in factors.items()},
    )  # fmt: skip
    load: OpenLoad | ClosedLoad = (
        ClosedLoad(model="closed", users=2, duration="4s", warmup=warmup)
        if closed
        else OpenLoad(model="open", rate=10, duration="4s", warmup=warmup)
    )
    listed = tuple(
        Treatment(
            name, index, of,
            TreatmentSpec(
                deployment_name=str(of.get("deployment", name)), workload_name="shop", deploy=deploy,
                deployment=ExternalConfig(platform="external", url=f"http://127.0.0.1:{8000 + index}"),
                workload=Workload(load=load, journey=Journey(steps=(Request(name="get"),)), timeout="5s"),
                slo=dict(slo or {}), reset_stated=True,
            ),
        )
        for index, (name, of) in enumerate(levels.items())
    )  # fmt: skip
    runs = tuple(
        PlannedRun(f"b{block:02d}-{name}", block, position, name, block * 100 + position)
        for block in range(1, blocks + 1)
        for position, name in enumerate(levels, start=1)
    )
    return Plan(experiment, listed, runs, "0" * 64, {"experiment.yaml": "experiment: small\n"})
