"""A campaign that needs nothing real: fake platform, fake engine, short times."""

from __future__ import annotations

import json
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.campaign_platform import JournalConfig, JournalPlatform
from towtank.campaign import Outcome, Quiet, StopRequest, run_campaign
from towtank.design.model import (
    Answer,
    ExperimentSpec,
    Fixture,
    Hook,
    Journey,
    OpenLoad,
    Request,
    Settle,
    TreatmentSpec,
    Workload,
)
from towtank.design.order import ordered_runs
from towtank.design.plan import Plan, Treatment

FAKE_ENGINE = Path(__file__).with_name("fake_engine.py")


def install_fake_engine(folder: Path) -> Path:
    """A program that runs the fake engine with this interpreter."""
    path = folder / "towtank-engine"
    path.write_text(f'#!/bin/sh\nexec "{sys.executable}" -S "{FAKE_ENGINE}" "$@"\n')
    path.chmod(0o755)
    return path


class Told(Quiet):
    """A display that remembers."""

    def __init__(self) -> None:
        self.notes: list[str] = []
        self.runs: list[str] = []
        self.outlines: list[Any] = []
        self.phases: list[str] = []
        self.during_load = lambda: None

    def run(self, outline: Any) -> None:
        self.runs.append(outline.run_id)
        self.outlines.append(outline)

    def phase(self, name: str) -> None:
        self.phases.append(name)

    def load(self, progress: Any) -> None:
        self.during_load()

    def note(self, text: str) -> None:
        self.notes.append(text)


@dataclass
class Bench:
    """Everything around a campaign in a test."""

    root: Path
    behaviour_file: Path
    platform: JournalPlatform = field(default_factory=JournalPlatform)
    told: Told = field(default_factory=Told)
    stop: StopRequest = field(default_factory=StopRequest)

    @property
    def folder(self) -> Path:
        return self.root / "results" / "trial"

    def engine(self, **runs: dict[str, Any]) -> None:
        """What the engine does in which run; `everywhere` is for all."""
        table = {name.replace("_", "-"): value for name, value in runs.items() if name != "everywhere"}
        table["*"] = {"duration_s": 0.0, **runs.get("everywhere", {})}
        self.behaviour_file.write_text(json.dumps(table))

    def run(self, plan: Plan, **options: Any) -> Outcome:
        return run_campaign(
            plan, root=self.root, folder=self.folder, display=self.told, stop=self.stop,
            create_platform=lambda name: self.platform, **options,
        )  # fmt: skip

    def verdicts(self) -> dict[str, str]:
        """Run id → instrument/system, of complete runs; "running" of others."""
        found = {}
        for path in sorted((self.folder / "runs").glob("*/run.json")):
            record = json.loads(path.read_text())
            verdicts = record["verdicts"]
            found[path.parent.name] = (
                f"{verdicts['instrument']}/{verdicts['system']}"
                if record["state"] == "complete"
                else "running"
            )
        return found

    def left_behind(self) -> list[str]:
        intents = [path.name for path in (self.folder / "intents").glob("*")]
        scratch = [path.name for path in (self.folder / "scratch").glob("*")]
        return [*intents, *scratch, *self.platform.alive]


def make_plan(
    names: tuple[str, ...] = ("one", "two"), blocks: int = 2, *, digest: str = "d1", deploy: Any = "per-run",
    repetitions: Any = None, max_invalid_repeats: int = 2, fixtures: dict[str, Fixture] | None = None,
    prepare: Hook | None = None, reset: Any = None, settle: Settle | None = None, answer: Answer | None = None,
    order: Any = "listed", rate: float = 50.0, observe: Any = (), slo: dict[str, float] | None = None,
) -> Plan:  # fmt: skip
    """A plan of small runs."""
    experiment = ExperimentSpec(
        experiment="trial", question="Which?", repetitions=blocks if repetitions is None else repetitions,
        order=order, max_invalid_repeats=max_invalid_repeats, factors={"deployment": names}, answer=answer,
    )  # fmt: skip
    workload = Workload(
        load=OpenLoad(model="open", rate=rate, duration="200ms"),
        journey=Journey(steps=(Request(name="read", path="/"),)),
        timeout="1s",
    )
    treatments = tuple(
        Treatment(
            name, index, {"deployment": name},
            TreatmentSpec(
                deployment_name=name, workload_name="load", deployment=JournalConfig(platform="journal"), deploy=deploy,
                workload=workload, fixtures=fixtures or {}, prepare=prepare, reset=reset, reset_stated=True,
                settle=settle or Settle(), observe=observe, slo=slo or {},
            ),
        )
        for index, name in enumerate(names)
    )  # fmt: skip
    runs = ordered_runs(treatments, order=order, seed=1, blocks=range(1, blocks + 1))
    return Plan(experiment, treatments, runs, digest, {"experiment.yaml": "experiment: trial\n"})
