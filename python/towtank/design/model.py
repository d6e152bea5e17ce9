"""The experiment file as frozen pydantic models, in the words of the design.

Everything here is *after* expansion: `${{ … }}` is gone, units are read, defaults are in place. A run needs
one `TreatmentSpec`; the frame around all runs is `ExperimentSpec`. Nothing in this module executes anything.
"""

# ruff: noqa: PLC0414 - the field types belong to towtank.fields; they are part of this module's vocabulary
from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Discriminator, Field, Tag, field_validator

from towtank.fields import Command as Command
from towtank.fields import Cores as Cores
from towtank.fields import Duration as Duration
from towtank.fields import Model as Model
from towtank.fields import Number as Number
from towtank.fields import Rate as Rate
from towtank.fields import Ratio as Ratio
from towtank.fields import Scalar as Scalar
from towtank.fields import Size as Size
from towtank.fields import Slug as Slug
from towtank.fields import Whole as Whole

# --- what is claimed -------------------------------------------------------------------------------------


class Answer(Model):
    """What is claimed: everything else in the report is exploratory."""

    primary: tuple[str, ...] = Field(
        min_length=1, description="response variables that the claims are about, such as p95 or goodput"
    )
    baseline: str | None = Field(
        None, description="the treatment, or the level of one factor, that the others are compared with"
    )
    contrasts: Literal["baseline", "all-pairs"] = Field(
        "baseline", description="compare every treatment with the baseline, or every pair of treatments"
    )
    matters: Ratio = Field(
        0.05,
        description="the smallest relative difference worth acting on; for shares such as goodput at most one point",
    )
    confidence: Ratio = Field(
        0.95, description="simultaneous confidence of all claims together; from 0.5, below 1"
    )


def _line(text: str) -> str:
    """Accept text that can be shown in one line anywhere."""
    if not text.isprintable():
        raise ValueError(
            f"{text[:60]!r} holds line breaks or control characters; allowed is one line of text"
        )
    return text


Line = Annotated[str, Field(max_length=500), AfterValidator(_line)]
"""Text that figures, tables and terminals show in one line."""


class Adaptive(Model):
    """Two-stage repetitions: a pilot fixes the final number once (Stein)."""

    at_least: Whole = Field(8, ge=8, description="blocks of the pilot")
    at_most: Whole = Field(ge=8, description="blocks that are never exceeded")
    until: dict[str, Ratio] = Field(
        min_length=1, description="relative half-width of the interval wanted, per response variable"
    )


def _repetitions_kind(value: object) -> str:
    return "@Adaptive" if isinstance(value, dict | Adaptive) else "@Fixed"


Repetitions = Annotated[
    Annotated[Annotated[Whole, Field(ge=1)], Tag("@Fixed")] | Annotated[Adaptive, Tag("@Adaptive")],
    Discriminator(_repetitions_kind),
]
"""A number of repetitions, or the rule that finds it."""


Deploy = Literal["per-run", "per-block", "once"]
"""How long a deployment lives."""


# --- load ------------------------------------------------------------------------------------------------


class UniformThink(Model):
    """A wait drawn evenly from [shortest, longest]."""

    uniform: tuple[Duration, Duration] = Field(description="shortest and longest wait")

    @field_validator("uniform")
    @classmethod
    def _in_order(cls, uniform: tuple[float, float]) -> tuple[float, float]:
        if uniform[0] > uniform[1]:
            raise ValueError("the shortest wait comes first, then the longest")
        return uniform


class ExponentialThink(Model):
    """A wait drawn from an exponential distribution with this mean."""

    exponential: Duration = Field(description="mean wait")


def _think_kind(value: object) -> str | None:
    if isinstance(value, UniformThink) or (isinstance(value, dict) and "uniform" in value):
        return "@UniformThink"
    if isinstance(value, ExponentialThink) or (isinstance(value, dict) and "exponential" in value):
        return "@ExponentialThink"
    return None if isinstance(value, dict) else "@Duration"


Think = Annotated[
    Annotated[Duration, Tag("@Duration")]
    | Annotated[UniformThink, Tag("@UniformThink")]
    | Annotated[ExponentialThink, Tag("@ExponentialThink")],
    Discriminator(
        _think_kind,
        custom_error_type="think_kind",
        custom_error_message="allowed is a duration, {uniform: [shortest, longest]}, or {exponential: mean}",
    ),
]
"""A constant wait (``500ms``) or a random one (``{uniform: [1s, 3s]}``, ``{exponential: 2s}``)."""


class OpenStage(Model):
    """Go to `rate` within `ramp`, then hold it for `hold`."""

    name: Line | None = Field(None, description="how figures and tables name the stage")
    rate: Rate = Field(description="arrivals per second at the end of the stage")
    ramp: Duration = Field(0.0, description="time to get there from the rate before, along a straight line")
    hold: Duration = Field(0.0, description="time to stay there")


class ClosedStage(Model):
    """Go to `users` within `ramp`, then hold them for `hold`."""

    name: Line | None = Field(None, description="how figures and tables name the stage")
    users: Whole = Field(ge=0, description="virtual users at the end of the stage")
    ramp: Duration = Field(0.0, description="time to get there from the users before, along a straight line")
    hold: Duration = Field(0.0, description="time to stay there")


class OpenLoad(Model):
    """An arrival rate over time; give `rate` and `duration`, or `stages`."""

    model: Literal["open"] = Field(description="arrivals come when they are due, whatever the answers take")
    rate: Rate | None = Field(None, description="constant arrivals per second; needs `duration`")
    duration: Duration | None = Field(None, description="length of the load, warm-up included")
    stages: tuple[OpenStage, ...] | None = Field(None, description="the load as stretches, one after another")
    arrivals: Literal["uniform", "poisson"] = Field(
        "uniform", description="even gaps between arrivals, or exponential ones"
    )
    max_in_flight: Whole | None = Field(
        None,
        ge=1,
        le=1_000_000,
        description="arrivals in progress at once, at most; reaching it is a finding",
    )
    when_full: Literal["queue", "drop"] = Field(
        "queue", description="what happens to an arrival above `max_in_flight`"
    )
    max_arrivals: Whole | None = Field(None, ge=1, description="stop after so many arrivals")
    warmup: Duration = Field(0.0, description="beginning of the load that is kept and flagged, not evaluated")


class ClosedLoad(Model):
    """A population of virtual users over time; give `users` and `duration`, or `stages`."""

    model: Literal["closed"] = Field(description="a user's next iteration waits for the one before")
    users: Whole | None = Field(None, ge=1, le=1_000_000, description="virtual users; needs `duration`")
    duration: Duration | None = Field(None, description="length of the load, warm-up included")
    spawn_per_s: Rate | None = Field(None, description="ramp from 0 to `users` at this rate")
    stages: tuple[ClosedStage, ...] | None = Field(
        None, description="the load as stretches, one after another"
    )
    graceful: Duration = Field(30.0, description="time that a retiring user has to finish its iteration")
    session: Literal["user", "iteration"] = Field(
        "user", description="what keeps cookies and connections: the user, or each iteration anew"
    )
    max_rate_per_user: Rate | None = Field(
        None, description="iterations per second that one user never exceeds; lost time is not caught up"
    )
    pacing: Think | None = Field(None, description="time from the start of an iteration to the next start")
    iterations: Whole | None = Field(None, ge=1, description="stop after so many iterations of all users")
    iterations_per_user: Whole | None = Field(
        None, ge=1, description="each user stops after so many iterations"
    )
    warmup: Duration = Field(0.0, description="beginning of the load that is kept and flagged, not evaluated")


def _load_kind(value: object) -> str | None:
    kind = value.get("model") if isinstance(value, dict) else getattr(value, "model", None)
    return {"open": "@OpenLoad", "closed": "@ClosedLoad"}.get(kind) if isinstance(kind, str) else None


Load = Annotated[
    Annotated[OpenLoad, Tag("@OpenLoad")] | Annotated[ClosedLoad, Tag("@ClosedLoad")],
    Discriminator(
        _load_kind,
        custom_error_type="load_model",
        custom_error_message="a load needs `model`; allowed are open, closed",
    ),
]


class Expect(Model):
    """What counts as the expected answer."""

    status: tuple[Annotated[str, Field(pattern=r"^[1-5](\d\d|xx)$")], ...] = Field(
        ("2xx", "3xx"), min_length=1, description="codes such as 204 or classes such as 2xx"
    )
    contains: str | None = Field(None, description="text that the body must contain")


class Request(Model):
    """One request of a journey. `{{ … }}` in path, headers and body is the engine's language."""

    name: Slug = Field(description="how tables name the step; unique in the journey")
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = Field(
        "GET", description="HTTP method"
    )
    target: str | None = Field(None, description="where it goes; without it, to the deployment's only target")
    path: str = Field("/", description="path and query")
    headers: dict[str, str] = Field({}, description="HTTP headers")
    body: str | None = Field(None, description="what is sent")
    timeout: Duration | None = Field(None, description="instead of the workload's timeout")
    expect: Expect = Field(Expect(), description="what counts as the expected answer")
    think: Think | None = Field(None, description="wait after this step, instead of the journey's")


class Option(Model):
    """One alternative of a `choose`."""

    weight: Number = Field(1.0, gt=0, description="how often, in relation to the other weights")
    steps: tuple[Step, ...] = Field(min_length=1, description="what happens when it is chosen")


class Choose(Model):
    """One of several alternatives, drawn by weight in each iteration."""

    choose: tuple[Option, ...] = Field(min_length=1, description="the alternatives")


def _step_kind(value: object) -> str:
    chosen = "choose" in value if isinstance(value, dict) else isinstance(value, Choose)
    return "@Choose" if chosen else "@Request"


Step = Annotated[
    Annotated[Request, Tag("@Request")] | Annotated[Choose, Tag("@Choose")],
    Discriminator(_step_kind),
]


class Journey(Model):
    """What one virtual user does in one iteration."""

    steps: tuple[Step, ...] = Field(min_length=1, description="requests and choices, one after another")
    think: Think | None = Field(None, description="wait after each step")


class Workload(Model):
    """What is driven against a deployment."""

    load: Load = Field(description="how much, over time")
    journey: Journey = Field(description="what one user does in one iteration")
    timeout: Duration = Field(30.0, description="a request that takes longer has failed")


# --- around the drive ------------------------------------------------------------------------------------


class Hook(Model):
    """A command of the experimenter; the only place where an experiment file executes one."""

    run: Command = Field(description="program and arguments as a list, or one line for the shell")
    timeout: Duration = Field(300.0, description="longest time that it may take")
    env: dict[str, str] = Field({}, description="environment variables besides those of Towtank")


class Copy(Model):
    """Copy a prepared file or folder to where the deployment expects it (`{data}` is the run's own folder)."""

    source: str = Field(min_length=1, description="what is copied, such as {fixture.database}/shop.db")
    to: str = Field(min_length=1, description="where it goes, such as {data}/shop.db")


class Reset(Model):
    """Bring the data to a named state before each run."""

    copy_files: tuple[Copy, ...] = Field((), alias="copy", description="files and folders to copy, in order")
    run: Command | None = Field(None, description="command that restores the data, after the copies")
    timeout: Duration = Field(300.0, description="longest time that it may take")
    env: dict[str, str] = Field({}, description="environment variables of the command")
    verify: dict[str, Scalar] = Field(
        {}, description="must equal these keys of the JSON object that `run` prints last"
    )


class SettleUntil(Model):
    """When a deployment counts as settled; every condition must hold at once."""

    cpu_below: Ratio | None = Field(None, description="share of the machine's CPU, without Towtank's own")
    replicas: Literal["baseline"] | None = Field(None, description="as many instances as at the start")


class Settle(Model):
    """Wait until the deployment is back at its baseline."""

    timeout: Duration = Field(60.0, description="a deployment that has not settled by then spoils the run")
    until: SettleUntil = Field(SettleUntil(), description="conditions that must hold at once")
    hold: Duration = Field(0.0, description="how long they must hold without a break")


class Generator(Model):
    """Where and how the engine runs."""

    where: Literal["local"] = Field("local", description="on this machine")
    threads: Whole = Field(1, ge=1, le=64, description="threads of the engine")
    nice: Whole = Field(
        0, ge=-20, le=19, description="its priority; below 0 goes before the system under test"
    )
    cpus: tuple[Annotated[Whole, Field(ge=0, le=4095)], ...] | None = Field(
        None, min_length=1, description="CPUs that it is pinned to"
    )
    spread: Literal["per-connection-random", "per-request-round-robin", "least-outstanding"] = Field(
        "per-connection-random", description="how requests are spread over the instances of a target"
    )
    instance_header: str | None = Field(
        None, description="answer header that names the instance that answered"
    )


class Observe(Model):
    """One telemetry source with its interval and its own options."""

    source: str = Field(description="name of the telemetry source")
    interval: Duration = Field(1.0, gt=0, description="time between two samples")
    options: dict[str, Any] = Field({}, description="what only this source has")


class Fixture(Model):
    """What several runs share: prepared once (`prepare`), or a deployment of its own that outlives runs."""

    lifetime: Literal["experiment", "block"] = Field("experiment", description="how long it lives")
    prepare: Hook | None = Field(None, description="command that prepares it, once in its life")
    deployment: Any = Field(None, description="a validated config model of the platform named in `platform`")


# --- the whole -------------------------------------------------------------------------------------------


class TreatmentSpec(Model):
    """Everything that one run of one treatment needs; levels are filled in."""

    deployment_name: str = Field(description="name of the deployment in the file")
    workload_name: str = Field(description="name of the workload in the file")
    deployment: Any = Field(
        description="the platform's own frozen config model; `deployment.platform` names it"
    )
    deploy: Deploy = Field(
        "per-run", description="how long a deployment lives: one run, one block, or the whole experiment"
    )
    workload: Workload = Field(description="load model and journey")
    fixtures: dict[str, Fixture] = Field({}, description="what runs share")
    prepare: Hook | None = Field(None, description="command before a deployment's first run")
    reset: Reset | None = Field(
        None, description="None only when the file says `reset: none`, or need not say"
    )
    reset_stated: bool = Field(
        default=False, description="the file says what happens to the data, be it `none`"
    )
    settle: Settle = Field(Settle(), description="when a run may begin")
    observe: tuple[Observe, ...] = Field((), description="telemetry sources")
    generator: Generator = Field(Generator(), description="where and how the engine runs")
    slo: dict[str, float] = Field({}, description="variable → bound in its base unit (s, ratio, per s …)")


class ExperimentSpec(Model):
    """The frame around all runs."""

    experiment: Slug = Field(description="name of the experiment, and of its results folder")
    question: Line = Field(description="what it shall answer, in a sentence", min_length=1)
    answer: Answer | None = Field(None, description="what is claimed; the rest of the report is exploratory")
    repetitions: Repetitions = Field(8, description="runs of each treatment")
    order: Literal["randomized-blocks", "listed"] = Field(
        "randomized-blocks", description="the order of the runs"
    )
    seed: Whole = Field(0, ge=0, lt=2**63, description="everything random follows from it")
    factors: dict[str, tuple[Scalar, ...]] = Field({}, description="factor → its levels")
    max_invalid_repeats: Whole = Field(
        2, ge=0, le=20, description="how often an invalid run is repeated, at the end of its block"
    )
    profile: str | None = Field(None, description="the profile that was chosen")
    overrides: dict[str, str] = Field({}, description="values given on the command line: key path → YAML")


Option.model_rebuild()
Choose.model_rebuild()
Journey.model_rebuild()
