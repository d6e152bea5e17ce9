"""The experiment file as frozen pydantic models, in the words of the design.

Requests, journeys, waits and parts of workloads have modules of their own; their names are here too.

Everything here is *after* expansion: `${{ … }}` is gone, units are read, defaults are in place. A run needs
one `TreatmentSpec`; the frame around all runs is `ExperimentSpec`. Nothing in this module executes anything.
"""

# ruff: noqa: PLC0414 - the field types belong to towtank.fields; they are part of this module's vocabulary
from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Field, Tag

from towtank.cost.spec import CostSpec as CostSpec
from towtank.design.capacity_file import Demand
from towtank.design.foreign import ForeignWorkload
from towtank.design.generator_model import Dns as Dns
from towtank.design.generator_model import Generator as Generator
from towtank.design.journey_model import Choose as Choose
from towtank.design.journey_model import If as If
from towtank.design.journey_model import Journey as Journey
from towtank.design.journey_model import Once as Once
from towtank.design.journey_model import Option as Option
from towtank.design.journey_model import Pause as Pause
from towtank.design.journey_model import Repeat as Repeat
from towtank.design.journey_model import Step as Step
from towtank.design.load_model import ClosedLoad as ClosedLoad
from towtank.design.load_model import ClosedStage as ClosedStage
from towtank.design.load_model import Line as Line
from towtank.design.load_model import Load as Load
from towtank.design.load_model import OpenLoad as OpenLoad
from towtank.design.load_model import OpenStage as OpenStage
from towtank.design.load_model import Sine as Sine
from towtank.design.load_model import Trace as Trace
from towtank.design.request_model import Expect as Expect
from towtank.design.request_model import Identifier as Identifier
from towtank.design.request_model import Request as Request
from towtank.design.think import ExponentialThink as ExponentialThink
from towtank.design.think import LognormalThink as LognormalThink
from towtank.design.think import Think as Think
from towtank.design.think import UniformThink as UniformThink
from towtank.design.workload_parts import AnyConnections as AnyConnections
from towtank.design.workload_parts import AnyFeed as AnyFeed
from towtank.design.workload_parts import Cold as Cold
from towtank.design.workload_parts import Connections as Connections
from towtank.design.workload_parts import Feed as Feed
from towtank.faults.model import Fault as Fault
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
from towtank.variables import Variable, own_variable, variable

OWN_NAME = r"^[a-z][a-z0-9_]{0,62}$"
OwnName = Annotated[str, Field(pattern=OWN_NAME)]
"""Name of a response variable that an experiment declares."""

# --- what is claimed -------------------------------------------------------------------------------------


class OwnVariable(Model):
    """A response variable of the experiment's own: one number of each run, by an SQL expression over its tables."""

    sql: str = Field(
        min_length=1,
        max_length=10_000,
        description="a SELECT of one number over the views of one run, in the unit that the name ends in: `_s`, "
        "`_ratio` (0 to 1), `_per_s`, `_bytes`, `_bytes_per_s`, `_cores`; without one, a plain number",
    )
    better: Literal["lower", "higher"] = Field(description="which way is better")


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
    claim: Literal["difference", "not-worse"] = Field(
        "difference",
        description="what a treatment shall be shown: that it differs, or that it is not worse than the baseline by "
        "more than `matters` (non-inferiority)",
    )
    matters: Ratio = Field(
        0.05,
        description="the smallest relative difference worth acting on; for shares such as goodput at most one point",
    )
    confidence: Ratio = Field(
        0.95, description="simultaneous confidence of all claims together; from 0.5, below 1"
    )
    variables: dict[OwnName, OwnVariable] = Field(
        {},
        description="response variables of the experiment's own, by name; usable in `primary`, `until` and `slo`",
    )
    steady_state: bool = Field(
        default=False,
        description="leave out what MSER-5 finds unsteady behind the warm-up, the same length of every run",
    )
    timeout_as: Whole | None = Field(
        None,
        ge=100,
        le=599,
        description="status code under which the report's table of status codes counts timeouts, such as 408",
    )
    phases: tuple[Literal["ttfb", "dns", "connect", "tls"], ...] = Field(
        (),
        description="parts of a request whose times get a table and a curve of their own, over warm answers: `ttfb` "
        "(started → first byte), and of new connections `dns`, `connect`, `tls`",
    )


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


# --- what is driven -------------------------------------------------------------------------------------


class WorkloadOptions(Model):
    """What is driven against a deployment, but for the journey."""

    load: Load = Field(description="how much, over time")
    timeout: Duration = Field(30.0, description="a request that takes longer has failed")
    connections: AnyConnections = Field(
        Connections(),
        description="when connections are opened, shared and closed; a policy alone is short for `policy`",
    )
    feeds: dict[Identifier, AnyFeed] = Field(
        {}, description="rows for templates, by name; a text alone is the file"
    )
    rotate: tuple[str, ...] | None = Field(
        None,
        min_length=1,
        description="targets: the requests of iteration k go to the k-th of them, instead of their own target",
    )
    cold: Cold | None = Field(None, description="how an answer tells a cold start")


class Workload(WorkloadOptions):
    """What is driven against a deployment."""

    journey: Journey = Field(description="what one user does in one iteration")


def _workload_kind(value: object) -> str:
    foreign = "driver" in value if isinstance(value, dict) else isinstance(value, ForeignWorkload)
    return "@ForeignWorkload" if foreign else "@Workload"


AnyWorkload = Annotated[
    Annotated[Workload, Tag("@Workload")] | Annotated[ForeignWorkload, Tag("@ForeignWorkload")],
    Discriminator(_workload_kind),
]
"""A load and a journey for the engine, or what another tool drives."""


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
    replicas: Literal["baseline", "zero"] | None = Field(
        None, description="as many instances as at the start; or none, for what scales to zero"
    )


class Settle(Model):
    """Wait until the deployment is back at its baseline."""

    timeout: Duration = Field(60.0, description="a deployment that has not settled by then spoils the run")
    until: SettleUntil = Field(SettleUntil(), description="conditions that must hold at once")
    hold: Duration = Field(0.0, description="how long they must hold without a break")


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
    workload: AnyWorkload = Field(description="load model and journey, or what another tool drives")
    beside: dict[str, Workload] = Field(
        {}, description="workloads that are driven at the same time as the first, by name"
    )
    files: dict[str, str] = Field(
        {}, description="files that workloads and targets name: path in the experiment's folder → SHA-256"
    )
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
    faults: tuple[Fault, ...] = Field(
        (), description="disturbances, at times on the run's clock; those of kind `none` only mark the time"
    )
    generator: Generator = Field(Generator(), description="where and how the engine runs")
    slo: dict[str, float] = Field({}, description="variable → bound in its base unit (s, ratio, per s …)")
    demand: Demand | None = Field(None, description="how many replicas a load demands, from a calibration")

    @property
    def workloads(self) -> dict[str, Workload | ForeignWorkload]:
        """All that is driven at the same time, by name."""
        return {self.workload_name: self.workload, **self.beside}

    @property
    def driven(self) -> dict[str, Workload]:
        """What the engine drives; nothing when it is another tool that does."""
        return {name: w for name, w in self.workloads.items() if isinstance(w, Workload)}

    @property
    def kept_files(self) -> dict[str, str]:
        """Files that are copied into the results: all that are named, but for secret feeds."""
        secret = {feed.file for w in self.driven.values() for feed in w.feeds.values() if feed.secret}
        return {name: digest for name, digest in self.files.items() if name not in secret}

    @property
    def drive(self) -> str:
        """What is driven, as a factor's level says it: ``shop``, or ``shop+wiki`` for two side by side."""
        return "+".join(self.workloads)

    @property
    def load_model(self) -> str:
        """Model of the load: ``open``, ``closed``, ``foreign``, or ``mixed`` where workloads side by side differ."""
        models = {w.load.model for w in self.workloads.values()}
        return models.pop() if len(models) == 1 else "mixed"


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
    cost: CostSpec | None = Field(None, description="prices of deployments, read when the plan was made")
    profile: str | None = Field(None, description="the profile that was chosen")
    overrides: dict[str, str] = Field({}, description="values given on the command line: key path → YAML")

    @property
    def own(self) -> Mapping[str, Variable]:
        """Response variables that the file itself declares."""
        declared = self.answer.variables if self.answer else {}
        return {name: own_variable(name, one.better) for name, one in declared.items()}

    def variable(self, name: str) -> Variable:
        """Look a response variable up, its own ones included.

        Raises
        ------
        KeyError
            Unknown name.
        """
        return variable(name, self.own)
