"""A plan: which treatments there are and in which order their runs happen. Pure data, JSON both ways."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from pydantic import ValidationError

from towtank.design.foreign import ImportedDeployment
from towtank.design.model import ExperimentSpec, Fixture, Scalar, TreatmentSpec
from towtank.errors import NewerVersionError, ResultsError, TowtankError
from towtank.fields import Model
from towtank.sensitive import mask_values, mask_yaml

PLAN_VERSION = 1
"""Of plan.json; one with a higher number is refused."""


@dataclass(frozen=True)
class Treatment:
    """One combination of levels.

    Parameters
    ----------
    id : str
        Slug of the levels, unique in the experiment, used in folder names.
    index : int
        Position in the order of the file, from 0.
    levels : dict
        Factor → level.
    spec : TreatmentSpec
        Everything a run of it needs.
    """

    id: str
    index: int
    levels: dict[str, Scalar]
    spec: TreatmentSpec

    @property
    def label(self) -> str:
        """How figures and tables name it: ``two-processes · cache=on``.

        The level of `deployment` or `workload` is a name already; one of another factor says nothing without it.
        """
        names = (
            str(level) if factor in ("deployment", "workload") else f"{factor}={level}"
            for factor, level in self.levels.items()
        )
        return " · ".join(names) or self.id


@dataclass(frozen=True)
class PlannedRun:
    """One execution of one treatment; `id` is the run id without the attempt.

    Parameters
    ----------
    block : int
        Number of the repetition, from 1.
    position : int
        Place within its block, from 1, in order of execution.
    seed : int
        Of everything random in this run; 63 bits.
    """

    id: str
    block: int
    position: int
    treatment_id: str
    seed: int


@dataclass(frozen=True)
class Plan:
    """What will be done, before anything is touched.

    Parameters
    ----------
    experiment : ExperimentSpec
    treatments : tuple of Treatment
    runs : tuple of PlannedRun
        In order of execution. With adaptive repetitions: the runs of the pilot; `extend` adds blocks.
    digest : str
        SHA-256 of everything that, when changed, makes stored results incomparable.
    files : dict
        Name → text of the experiment file and what it included, kept with the results.
    notes : tuple of str
        What the author should know and need not change: defaults that were taken, things that are never used.
    """

    experiment: ExperimentSpec
    treatments: tuple[Treatment, ...]
    runs: tuple[PlannedRun, ...]
    digest: str
    files: dict[str, str]
    notes: tuple[str, ...] = field(default=())

    def treatment(self, treatment_id: str) -> Treatment:
        """Look a treatment up by its id.

        Raises
        ------
        KeyError
        """
        for treatment in self.treatments:
            if treatment.id == treatment_id:
                return treatment
        raise KeyError(treatment_id)

    @property
    def blocks(self) -> int:
        """Repetitions planned so far."""
        return max((run.block for run in self.runs), default=0)

    def to_json(self) -> str:
        """Write the plan as JSON, indented for people.

        Values of headers such as Authorization are masked: what is stored can be read by others. So a plan that was
        read back says what was done, and is not what the next run is made from.
        """
        data = {
            "version": PLAN_VERSION,
            "digest": self.digest,
            "experiment": self.experiment.model_dump(mode="json", by_alias=True),
            "treatments": [
                {"id": t.id, "index": t.index, "levels": t.levels, "spec": spec_to_data(t.spec)}
                for t in self.treatments
            ],
            "runs": [asdict(run) for run in self.runs],
            "notes": list(self.notes),
            "files": {name: mask_yaml(text) for name, text in self.files.items()},
        }
        return json.dumps(mask_values(data), indent=1, ensure_ascii=False, allow_nan=False) + "\n"

    @classmethod
    def from_json(cls, text: str | bytes) -> Plan:
        """Read a stored plan.

        Raises
        ------
        NewerVersionError
            Written by a newer Towtank.
        ResultsError
            Damaged, or not a plan.
        """
        try:
            data = json.loads(text)
            version = data["version"]
        except (ValueError, KeyError, TypeError) as error:
            raise ResultsError(
                f"the stored plan cannot be read: {error}", hint="is this the plan.json of a result folder?"
            ) from error
        if not isinstance(version, int) or version > PLAN_VERSION:
            raise NewerVersionError(
                f"the stored plan has version {version}; this Towtank reads up to {PLAN_VERSION}",
                hint="use the Towtank that wrote it, or a newer one",
            )
        try:
            return cls._from_data(data)
        except (KeyError, TypeError, ValueError, AttributeError, TowtankError) as error:
            what = (
                _first_error(error)
                if isinstance(error, ValidationError)
                else f"{type(error).__name__}: {error}"
            )
            raise ResultsError(f"the stored plan cannot be read: {what}") from error

    @classmethod
    def _from_data(cls, data: Mapping[str, Any]) -> Plan:
        return cls(
            experiment=ExperimentSpec.model_validate(data["experiment"]),
            treatments=tuple(
                Treatment(t["id"], t["index"], t["levels"], spec_from_data(t["spec"]))
                for t in data["treatments"]
            ),
            runs=tuple(PlannedRun(**run) for run in data["runs"]),
            digest=data["digest"],
            files=dict(data["files"]),
            notes=tuple(data.get("notes", ())),
        )


def spec_to_data(spec: TreatmentSpec) -> dict[str, Any]:
    """Turn a treatment's specification into what JSON can hold.

    Of a platform's own model only the keys that were given are written: its validators may tell a given key from a
    default.
    """
    data = spec.model_dump(mode="json", by_alias=True, exclude={"deployment", "fixtures"})
    data["deployment"] = _platform_data(spec.deployment)
    data["fixtures"] = {
        name: {
            **fixture.model_dump(mode="json", exclude={"deployment"}),
            "deployment": None if fixture.deployment is None else _platform_data(fixture.deployment),
        }
        for name, fixture in spec.fixtures.items()
    }
    return data


def spec_from_data(data: Mapping[str, Any]) -> TreatmentSpec:
    """Turn stored data into a treatment's specification again.

    Raises
    ------
    pydantic.ValidationError, KeyError, PlatformError
    """
    fixtures = {}
    for name, stored in data["fixtures"].items():
        deployment = stored["deployment"]
        model = None if deployment is None else _platform_model(deployment)
        fixtures[name] = Fixture.model_validate({**stored, "deployment": model})
    workload = dict(data["workload"])
    if workload.get("config") is not None:
        workload["config"] = _driver_model(workload)
    return TreatmentSpec.model_validate(
        {
            **data,
            "workload": workload,
            "deployment": _platform_model(data["deployment"]),
            "fixtures": fixtures,
        }
    )


def _platform_data(model: Model) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_unset=True)


def _platform_model(data: Mapping[str, Any]) -> Model:
    from towtank.platforms.registry import config_model  # noqa: PLC0415 - platforms lie beside design, not below it

    if data["platform"] == "imported":  # no platform: nothing can be deployed there
        return ImportedDeployment.model_validate(data)
    return config_model(data["platform"]).model_validate(data)


def _driver_model(data: Mapping[str, Any]) -> Model:
    from towtank.drivers.registry import config_model  # noqa: PLC0415 - drivers lie beside design, not below it

    return config_model(data["driver"]).model_validate(data["config"])


def _first_error(error: ValidationError) -> str:
    first = error.errors(include_url=False)[0]
    where = (str(part) for part in first["loc"] if not str(part).startswith("@"))  # tags of alternatives
    return f"{'.'.join(where)}: {first['msg']}"
