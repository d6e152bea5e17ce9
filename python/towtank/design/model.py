"""The experiment file as frozen pydantic models, in the words of the design.

Everything here is *after* expansion: `${{ … }}` is gone, units are read, defaults are in place. A run needs
one `TreatmentSpec`; the frame around all runs is `ExperimentSpec`. Nothing in this module executes anything.
"""

# ruff: noqa: PLC0414 - the field types belong to towtank.fields; they are part of this module's vocabulary
from __future__ import annotations

from typing import Annotated, Any, Literal

from pydantic import Field

from towtank.fields import Cores as Cores
from towtank.fields import Duration as Duration
from towtank.fields import Model as Model
from towtank.fields import Rate as Rate
from towtank.fields import Ratio as Ratio
from towtank.fields import Scalar as Scalar
from towtank.fields import Size as Size
from towtank.fields import Slug as Slug

# --- what is claimed -------------------------------------------------------------------------------------


class Answer(Model):
    """What is claimed: everything else in the report is exploratory."""

    primary: tuple[str, ...] = Field(min_length=1, description="response variables that the claims are about")
    baseline: str | None = Field(None, description="the treatment (or level) that the others are compared with")
    contrasts: Literal["baseline", "all-pairs"] = "baseline"
    matters: Ratio = Field(0.05, description="the smallest relative difference worth acting on")
    confidence: Ratio = 0.95


class Adaptive(Model):
    """Two-stage repetitions: a pilot fixes the final number once (Stein)."""

    at_least: int = Field(8, ge=8)
    at_most: int = Field(ge=8)
    until: dict[str, Ratio] = Field(min_length=1, description="relative half-width of the interval wanted, per variable")


# --- load ------------------------------------------------------------------------------------------------


class OpenStage(Model):
    """Go to `rate` within `ramp`, then hold it for `hold`."""

    name: str | None = None
    rate: Rate
    ramp: Duration = 0.0
    hold: Duration = 0.0


class ClosedStage(Model):
    """Go to `users` within `ramp`, then hold them for `hold`."""

    name: str | None = None
    users: int = Field(ge=0)
    ramp: Duration = 0.0
    hold: Duration = 0.0


class OpenLoad(Model):
    """An arrival rate over time; give `rate` and `duration`, or `stages`."""

    model: Literal["open"]
    rate: Rate | None = None
    duration: Duration | None = None
    stages: tuple[OpenStage, ...] | None = None
    arrivals: Literal["uniform", "poisson"] = "uniform"
    max_in_flight: int | None = Field(None, ge=1)
    when_full: Literal["queue", "drop"] = "queue"
    max_arrivals: int | None = Field(None, ge=1)
    warmup: Duration = 0.0


class ClosedLoad(Model):
    """A population of virtual users over time; give `users` and `duration`, or `stages`."""

    model: Literal["closed"]
    users: int | None = Field(None, ge=1)
    duration: Duration | None = None
    spawn_per_s: Rate | None = Field(None, description="ramp from 0 to `users` at this rate")
    stages: tuple[ClosedStage, ...] | None = None
    graceful: Duration = 30.0
    session: Literal["user", "iteration"] = "user"
    max_rate_per_user: Rate | None = None
    pacing: Think | None = None
    iterations: int | None = Field(None, ge=1)
    iterations_per_user: int | None = Field(None, ge=1)
    warmup: Duration = 0.0


class UniformThink(Model):
    """A wait drawn evenly from [shortest, longest]."""

    uniform: tuple[Duration, Duration]


class ExponentialThink(Model):
    """A wait drawn from an exponential distribution with this mean."""

    exponential: Duration


Think = Duration | UniformThink | ExponentialThink

Load = Annotated[OpenLoad | ClosedLoad, Field(discriminator="model")]


class Expect(Model):
    """What counts as the expected answer."""

    status: tuple[str, ...] = ("2xx", "3xx")
    contains: str | None = None


class Request(Model):
    """One request of a journey. `{{ … }}` in path, headers and body is the engine's language."""

    name: Slug
    method: Literal["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS"] = "GET"
    target: str | None = None
    path: str = "/"
    headers: dict[str, str] = {}
    body: str | None = None
    timeout: Duration | None = None
    expect: Expect = Expect()
    think: Think | None = None


class Option(Model):
    """One alternative of a `choose`."""

    weight: float = Field(1.0, gt=0)
    steps: tuple[Step, ...] = Field(min_length=1)


class Choose(Model):
    """One of several alternatives, drawn by weight in each iteration."""

    choose: tuple[Option, ...] = Field(min_length=1)


Step = Request | Choose


class Journey(Model):
    """What one virtual user does in one iteration."""

    steps: tuple[Step, ...] = Field(min_length=1)
    think: Think | None = None


class Workload(Model):
    """What is driven against a deployment."""

    load: Load
    journey: Journey
    timeout: Duration = 30.0


# --- around the drive ------------------------------------------------------------------------------------


class Hook(Model):
    """A command of the experimenter; the only place where an experiment file executes one."""

    run: str | tuple[str, ...]
    timeout: Duration = 300.0
    env: dict[str, str] = {}


class Copy(Model):
    """Copy a prepared file or folder to where the deployment expects it (`{data}` is the run's own folder)."""

    source: str
    to: str


class Reset(Model):
    """Bring the data to a named state before each run."""

    copy_files: tuple[Copy, ...] = Field((), alias="copy")
    run: str | tuple[str, ...] | None = None
    timeout: Duration = 300.0
    env: dict[str, str] = {}
    verify: dict[str, Scalar] = Field({}, description="must equal these keys of the JSON object that `run` prints last")


class SettleUntil(Model):
    """When a deployment counts as settled; every condition must hold at once."""

    cpu_below: Ratio | None = Field(None, description="share of the machine, without Towtank's own")
    replicas: Literal["baseline"] | None = None


class Settle(Model):
    """Wait until the deployment is back at its baseline."""

    timeout: Duration = 60.0
    until: SettleUntil = SettleUntil()
    hold: Duration = 0.0


class Generator(Model):
    """Where and how the engine runs."""

    where: Literal["local"] = "local"
    threads: int = Field(1, ge=1, le=64)
    nice: int = Field(0, ge=-20, le=19)
    cpus: tuple[int, ...] | None = None
    spread: Literal["per-connection-random", "per-request-round-robin", "least-outstanding"] = "per-connection-random"
    instance_header: str | None = None


class Observe(Model):
    """One telemetry source with its interval and its own options."""

    source: str
    interval: Duration = 1.0
    options: dict[str, Any] = {}


class Fixture(Model):
    """What several runs share: prepared once (`prepare`), or a deployment of its own that outlives runs."""

    lifetime: Literal["experiment", "block"] = "experiment"
    prepare: Hook | None = None
    deployment: Any = Field(None, description="a validated config model of the platform named in `platform`")


# --- the whole -------------------------------------------------------------------------------------------


class TreatmentSpec(Model):
    """Everything that one run of one treatment needs; levels are filled in."""

    deployment_name: str
    workload_name: str
    deployment: Any = Field(description="the platform's own frozen config model; `deployment.platform` names it")
    deploy: Literal["per-run", "per-block", "once"] = "per-run"
    workload: Workload
    fixtures: dict[str, Fixture] = {}
    prepare: Hook | None = None
    reset: Reset | None = Field(None, description="None only when the file says `reset: none`")
    reset_stated: bool = Field(False, description="the file says what happens to the data, be it `none`")
    settle: Settle = Settle()
    observe: tuple[Observe, ...] = ()
    generator: Generator = Generator()
    slo: dict[str, float] = Field({}, description="variable → bound in its base unit (s, ratio, per s …)")


class ExperimentSpec(Model):
    """The frame around all runs."""

    experiment: Slug
    question: str
    answer: Answer | None = None
    repetitions: int | Adaptive = Field(8)
    order: Literal["randomized-blocks", "listed"] = "randomized-blocks"
    seed: int = Field(0, ge=0, lt=2**63)
    factors: dict[str, tuple[Scalar, ...]] = {}
    max_invalid_repeats: int = Field(2, ge=0, description="how often an invalid run is repeated, at the end of its block")
    profile: str | None = None


ClosedLoad.model_rebuild()
Option.model_rebuild()
