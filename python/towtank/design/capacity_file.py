"""`capacity.json`: what a search for capacities found, small enough for other experiments to take loads from."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any, Literal

from pydantic import ConfigDict, Field, ValidationError, model_validator

from towtank.errors import NewerVersionError, ResultsError
from towtank.fields import Model, Scalar

CAPACITY_VERSION = 2
"""Of capacity.json; one with a higher number is refused. Since 2 it says how many requests an arrival makes."""
FILE_NAME = "capacity.json"
UNITS = {"open": "arrivals/s", "closed": "users"}
"""Model of the load → what its rungs count; an arrival is an iteration of the journey, of one request or of many."""


class Capacity(Model):
    """Capacity of one deployment."""

    model_config = ConfigDict(allow_inf_nan=False)

    treatment: str = Field(description="id of the treatment whose load was varied")
    label: str = Field(description="how figures and tables name it")
    deployment: str
    workload: str
    levels: dict[str, Scalar] = Field(description="factor → level, without the load")
    model: Literal["open", "closed"] = Field(description="what a load counts: arrivals per second, or users")
    end: Literal["found", "top", "bottom", "generator", "budget"] = Field(description="why the search ended")
    holds: float | None = Field(gt=0, description="highest load that was confirmed")
    fails: float | None = Field(gt=0, description="lowest load above it that was refuted")
    requests: float | None = Field(
        None,
        gt=0,
        description="expected requests of an arrival; none of users, and where an older Towtank wrote it",
    )
    undecided: tuple[float, ...] = Field((), description="loads between them whose confirmations disagreed")
    why: dict[str, int] = Field({}, description="what failed at `fails` → number of runs")
    against: tuple[tuple[float, int, int], ...] = Field(
        (),
        description="load, runs that held, runs: below `holds` where one failed, above `fails` where one held",
    )
    lowest: float = Field(description="lowest load of the ladder")
    highest: float = Field(description="highest load of the ladder")
    step: float = Field(description="relative distance of two loads of the ladder")
    confirmations: int = Field(description="runs that had to agree")
    runs: int = Field(description="runs of the search")
    slo: dict[str, float] = Field(description="response variable → bound in its base unit")

    @model_validator(mode="after")
    def _fails_above(self) -> Capacity:
        if self.holds is not None and self.fails is not None and self.fails <= self.holds:
            raise ValueError(
                f"it holds at {self.holds:g} and fails at {self.fails:g}, which is not above that"
            )
        return self


class CapacityFile(Model):
    """All capacities of one search."""

    version: int = CAPACITY_VERSION
    experiment: str
    digest: str = Field(description="of the plan: the same search of the same experiment has the same")
    capacities: tuple[Capacity, ...]

    def to_json(self) -> str:
        """As JSON, indented for people."""
        return json.dumps(self.model_dump(mode="json"), indent=1, ensure_ascii=False, allow_nan=False) + "\n"


class DemandLevel(Model):
    """Capacity with a fixed number of replicas."""

    replicas: int = Field(ge=1)
    holds: float = Field(gt=0, description="highest load that was confirmed")
    fails: float | None = Field(None, description="lowest load that was refuted")


class Demand(Model):
    """How many replicas a load demands: a calibration, as a treatment carries it."""

    calibration: str = Field(description="file that it came from, inside the experiment's folder")
    deployment: str = Field(description="deployment that was calibrated")
    model: Literal["open", "closed"] = Field(description="what a load counts")
    least: int = Field(1, ge=0, description="replicas without load")
    scaled: str | None = Field(
        None, description="workload or component whose instances count; all without it"
    )
    slo: dict[str, float] = Field(description="objectives of the calibration")
    levels: tuple[DemandLevel, ...] = Field(min_length=1)


def read_capacities(path: Path) -> CapacityFile:
    """Read what a search found.

    Parameters
    ----------
    path : Path
        The file, or the result folder that it lies in.

    Raises
    ------
    ResultsError
        It is not there, or is not such a file.
    NewerVersionError
    """
    place = path / FILE_NAME if path.is_dir() else path
    try:
        data: Any = json.loads(place.read_bytes())
        version = data["version"]
    except FileNotFoundError as error:
        raise ResultsError(
            f"there is no {place}", hint="`towtank capacity FILE` makes it, when its search is over"
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ResultsError(
            f"{place} cannot be read: {error}", hint="is it the capacity.json of a search?"
        ) from error
    if not isinstance(version, int) or version > CAPACITY_VERSION:
        raise NewerVersionError(
            f"{place} has version {version}; this Towtank reads up to {CAPACITY_VERSION}",
            hint="use the Towtank that wrote it, or a newer one",
        )
    try:
        return CapacityFile.model_validate(data)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        where = ".".join(map(str, first["loc"]))
        message = first["msg"].removeprefix("Value error, ")
        raise ResultsError(f"{place} cannot be used: {where}: {message}") from error
