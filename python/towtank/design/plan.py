"""A plan: which treatments there are and in which order their runs happen. Pure data, JSON both ways."""

from __future__ import annotations

from dataclasses import dataclass

from towtank.design.model import ExperimentSpec, Scalar, TreatmentSpec


@dataclass(frozen=True)
class Treatment:
    """One combination of levels.

    Parameters
    ----------
    id : str
        Slug of the levels, unique in the experiment, used in folder names.
    index : int
        Position in the order of the file.
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
        """How figures and tables name it."""
        return " · ".join(str(level) for level in self.levels.values()) or self.id


@dataclass(frozen=True)
class PlannedRun:
    """One execution of one treatment; `run_id` without the attempt."""

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
        In order of execution. With adaptive repetitions: the runs of the pilot; `extend` (design.order) adds blocks.
    digest : str
        SHA-256 of everything that, when changed, makes stored results incomparable.
    files : dict
        Name → text of the experiment file and what it included, kept with the results.
    """

    experiment: ExperimentSpec
    treatments: tuple[Treatment, ...]
    runs: tuple[PlannedRun, ...]
    digest: str
    files: dict[str, str]

    def treatment(self, treatment_id: str) -> Treatment:
        """Look a treatment up by its id."""
        return next(t for t in self.treatments if t.id == treatment_id)
