"""The experiment file as it is written: its keys, before factors are filled in.

`model` says what a run needs after expansion; this module says what a person writes. The JSON Schema for editors
and the reference in docs/ are made from it.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from towtank.design.model import (
    Answer,
    Deploy,
    Duration,
    Generator,
    Hook,
    Journey,
    Line,
    Model,
    Repetitions,
    Reset,
    Scalar,
    Settle,
    Slug,
    Whole,
    WorkloadOptions,
)


class DeployFile(Model):
    """What stands beside a platform's own keys in a deployment."""

    deploy: Deploy = Field(
        "per-run",
        description="how long a deployment lives: one run (`per-run`), one block (`per-block`), or the whole "
        "experiment (`once`)",
    )


class WorkloadFile(WorkloadOptions):
    """What is driven against a deployment."""

    journey: Journey | str = Field(
        description="what one user does in one iteration; or the path of a YAML file with it, inside the "
        "experiment's folder"
    )


class FixtureFile(Model):
    """What several runs share: prepared by a command, or deployed; with a `platform`, its keys stand beside these."""

    lifetime: Literal["experiment", "block"] = Field("experiment", description="how long it lives")
    prepare: Hook | None = Field(None, description="command that prepares it, once in its life")


class ObserveFile(Model):
    """Options of a telemetry source, besides its own."""

    interval: Duration = Field(1.0, gt=0, description="time between two samples")


class DemandFile(Model):
    """Where it is known from how many replicas a load demands."""

    calibration: str = Field(
        description="a capacity.json that `towtank capacity` wrote with the factor `replicas`, inside the experiment's "
        "folder"
    )
    deployment: Slug | None = Field(
        None,
        description="deployment that was calibrated; without it, one of the treatment's own deployment's name",
    )
    least: Whole = Field(1, ge=0, description="replicas without load: 0 for what scales to nothing")
    scaled: str | None = Field(
        None,
        min_length=1,
        description="whose instances count as supply: a workload such as `Deployment/shop`, or a component of local "
        "processes; needed where a deployment has several",
    )


class ProfileFile(Model):
    """Changes of sizes and places, never of the question; mappings are merged, everything else is replaced."""

    repetitions: Any = Field(None, description="as in the experiment")
    factors: dict[str, tuple[Scalar, ...]] = Field({}, description="other levels of existing factors")
    exclude: Any = Field(None, description="as in the experiment, for the other levels")
    include: Any = Field(None, description="as in the experiment, for the other levels")
    deployments: dict[str, Any] = Field({}, description="changes of existing deployments")
    workloads: dict[str, Any] = Field(
        {}, description="changes of existing workloads: load, timeout and feeds"
    )
    fixtures: dict[str, Any] = Field({}, description="changes of existing fixtures")
    prepare: Any = Field(None, description="as in the experiment")
    reset: Any = Field(None, description="as in the experiment")
    settle: Any = Field(None, description="as in the experiment")
    observe: Any = Field(None, description="as in the experiment")
    faults: Any = Field(None, description="as in the experiment: other times for a shorter load")
    generator: Any = Field(None, description="as in the experiment")
    max_invalid_repeats: Any = Field(None, description="as in the experiment")


class ExperimentFile(Model):
    """One experiment: a question, what is varied, what is driven, and what is measured."""

    experiment: Slug = Field(description="name of the experiment, and of its results folder")
    question: Line = Field(description="what it shall answer, in a sentence", min_length=1)
    answer: Answer | None = Field(
        None, description="what is claimed; everything else in the report is exploratory"
    )
    repetitions: Repetitions = Field(8, description="runs of each treatment: a number, or a two-stage rule")
    order: Literal["randomized-blocks", "listed"] = Field(
        "randomized-blocks", description="the order of the runs; each block is one run of every treatment"
    )
    seed: Whole = Field(0, ge=0, lt=2**63, description="everything random follows from it")
    factors: dict[str, tuple[Scalar, ...]] = Field(
        {},
        description="what is varied: factor → its levels; the factors `deployment` and `workload` choose among "
        "those defined below, others are used in `${{ … }}`",
    )
    exclude: tuple[dict[str, Scalar], ...] = Field(
        (), description="combinations left out: every treatment that agrees with one of these maps"
    )
    include: tuple[dict[str, Scalar], ...] = Field(
        (),
        description="combinations added, also with levels that the factor does not list; factors that are not "
        "named take all their levels",
    )
    capacity: str | None = Field(
        None,
        description="a capacity.json that `towtank capacity` wrote, inside the experiment's folder: the highest load "
        "that a treatment's deployment held is then `capacity` in expressions, such as `${{ 1.5 * capacity }}`",
    )
    fixtures: dict[Slug, FixtureFile] = Field(
        {}, description="what several runs share and what outlives a run, such as a prepared database"
    )
    deployments: dict[Slug, Any] = Field(min_length=1, description="how the application is deployed, by name")
    workloads: dict[Slug, WorkloadFile] = Field(
        min_length=1, description="what is driven against it, by name"
    )
    prepare: Hook | None = Field(None, description="command before a deployment's first run")
    reset: Reset | Literal["none"] | None = Field(
        None,
        description="brings the data to a named state before each run; `none` must be written where a "
        "deployment outlives a run or a fixture exists",
    )
    settle: Settle = Field(Settle(), description="when a run may begin")
    observe: tuple[Any, ...] = Field((), description="telemetry sources: a name, or a name with options")
    faults: tuple[Any, ...] = Field((), description="disturbances of a run; a factor may be their `kind`")
    generator: Generator = Field(Generator(), description="where and how the load engine runs")
    slo: dict[str, Scalar] = Field(
        {}, description="bounds that a treatment must keep: response variable → value with its unit"
    )
    demand: DemandFile | None = Field(
        None,
        description="what supply is compared with: the fewest replicas that hold the objectives at a load; without "
        "it, elasticity is a figure and no number",
    )
    cost: Any = Field(
        None,
        description="what deployments cost: a price list, or price lists and bills by deployment (docs/cost.md)",
    )
    max_invalid_repeats: Whole = Field(
        2, ge=0, le=20, description="how often an invalid run is repeated, at the end of its block"
    )
    profiles: dict[Slug, ProfileFile] = Field(
        {}, description="named changes of sizes and places, chosen with --profile; never of the question"
    )


FRAME_KEYS = (
    "experiment",
    "question",
    "answer",
    "repetitions",
    "order",
    "seed",
    "max_invalid_repeats",
)
"""Keys of the frame that `ExperimentSpec` takes as they are."""
