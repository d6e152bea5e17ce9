"""How long deployments and fixtures live: made when a run first needs them, removed in reverse order.

A deployment lives for a run, a block or the whole campaign (`deploy: per-run | per-block | once`); a fixture for a
block or the campaign. At most one deployment exists at a time, fixtures apart: an idle one would be
another load on the machine. A deployment that lost an instance is never used for a second run.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, Self

from towtank.campaign import processes
from towtank.campaign.hooks import Command, run_command
from towtank.campaign.intents import Intent, Intents
from towtank.campaign.placeholders import Places
from towtank.campaign.stopping import StopRequest
from towtank.design.model import Fixture, Hook, TreatmentSpec
from towtank.errors import PlatformError, RemovalTimeout, TowtankError
from towtank.platforms.base import (
    DeployContext,
    Deployment,
    Edge,
    LogFile,
    Platform,
    SystemEvent,
    Target,
    TellsOfRemoval,
    WritesLogs,
    sweep,
)

Lifetime = Literal["run", "block", "experiment"]
_LIFETIME_OF_DEPLOY: dict[str, Lifetime] = {"per-run": "run", "per-block": "block", "once": "experiment"}
_URLS = "urls.json"


@dataclass
class Slot:
    """A place for a deployment: its folders exist, and, once `deploy` was called, the deployment.

    Parameters
    ----------
    key : str
        Equal for runs that may share the deployment.
    name : str
    lifetime : {"run", "block", "experiment"}
    intent : Intent
    data, logs : Path
    config : object
        The platform's own model.
    runs : list of str
        Runs that it served, oldest first.
    """

    key: str
    name: str
    lifetime: Lifetime
    intent: Intent
    data: Path
    logs: Path
    config: Any
    deployment: Deployment | None = None
    prepared: bool = False
    runs: list[str] = field(default_factory=list)
    removed_logs: tuple[LogFile, ...] = ()

    @property
    def targets(self) -> Mapping[str, Target]:
        """Where requests can go; empty before it is deployed."""
        return self.deployment.targets if self.deployment is not None else {}


@dataclass
class LiveFixture:
    """A fixture that exists: its folder, and its deployment if it has one."""

    key: str
    name: str
    lifetime: Lifetime
    folder: Path
    intent: Intent
    slot: Slot | None = None


class Lifetimes:
    """Everything that exists on behalf of a campaign.

    Use as a context manager: leaving it removes everything, last made first, whatever happened.

    Parameters
    ----------
    results, root : Path
        Result folder; folder of the experiment file.
    intents : Intents
    stop : StopRequest
    create_platform : callable
        Platform name → platform (`platforms.registry.create`).
    experiment : str
        Its name, for marks on what is created.
    edges : mapping, optional
        Deployment → edges that faults of some treatment are about.
    """

    def __init__(
        self,
        results: Path,
        root: Path,
        intents: Intents,
        stop: StopRequest,
        create_platform: Callable[[str], Platform],
        *,
        experiment: str = "",
        edges: Mapping[str, tuple[Edge, ...]] | None = None,
    ) -> None:
        self._results = results
        self._root = root
        self._intents = intents
        self._stop = stop
        self._create_platform = create_platform
        self._experiment = experiment
        self._edges = edges or {}
        self._fixtures: list[LiveFixture] = []
        self._slot: Slot | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, trace: object) -> None:
        try:
            self.remove_all()
        except TowtankError as failure:
            if error is None:
                raise
            error.add_note(f"while removing: {failure}")  # the first error is the one that matters

    # --- fixtures ----------------------------------------------------------------------------------------

    def ensure_fixtures(self, spec: TreatmentSpec, logs: Path) -> None:
        """Make the fixtures that a run needs and that do not exist yet.

        Raises
        ------
        PlatformError
            A fixture's command or deployment failed.
        """
        for name, fixture in spec.fixtures.items():
            key = _key(name, fixture.model_dump(mode="json"))
            same_name = next((live for live in self._fixtures if live.name == name), None)
            if same_name is not None and same_name.key == key and _alive(same_name.slot):
                continue
            if same_name is not None:  # made for other levels: it and all that may stand on it go
                self._remove_from(same_name)
            self._make_fixture(name, key, fixture, logs)

    def _make_fixture(self, name: str, key: str, fixture: Fixture, logs: Path) -> None:
        intent = self._intents.declare(
            "deployment" if fixture.deployment is not None else "scratch",
            f"fixture {name}",
            platform=fixture.deployment.platform if fixture.deployment is not None else "",
            scratch=True,
        )
        folder = self._results / intent.scratch
        folder.mkdir(parents=True, exist_ok=True)
        live = LiveFixture(key, name, fixture.lifetime, folder, intent)
        self._fixtures.append(live)
        if fixture.deployment is not None:
            live.slot = Slot(
                key, f"fixture-{name}", fixture.lifetime, intent, folder, folder / "logs", fixture.deployment
            )
            self.deploy(live.slot)
            urls = {target.name: [i.url for i in target.instances] for target in live.slot.targets.values()}
            (folder / _URLS).write_text(json.dumps(urls), encoding="utf-8")
        if fixture.prepare is not None:
            self._hook(f"prepare of fixture {name}", fixture.prepare, logs / f"fixture-{name}.log", live.slot)

    # --- deployments -------------------------------------------------------------------------------------

    def slot_for(self, spec: TreatmentSpec, run_id: str, run_logs: Path) -> Slot:
        """The deployment that a run uses: one that exists and is whole, or a new, still empty place."""
        lifetime = _LIFETIME_OF_DEPLOY[spec.deploy]
        key = _key(spec.deployment_name, spec.deployment.model_dump(mode="json"))
        slot = self._slot
        if slot is not None and (slot.key != key or lifetime == "run" or not _alive(slot)):
            self.remove_deployment()
            slot = None
        if slot is None:
            slot = self._new_slot(spec, key, lifetime, run_logs)
            self._slot = slot
        slot.runs.append(run_id)
        return slot

    def _new_slot(self, spec: TreatmentSpec, key: str, lifetime: Lifetime, run_logs: Path) -> Slot:
        name = spec.deployment_name
        intent = self._intents.declare("deployment", name, platform=spec.deployment.platform, scratch=True)
        base = self._results / intent.scratch
        logs = run_logs if lifetime == "run" else base / "logs"
        for folder in (base / "data", logs):
            folder.mkdir(parents=True, exist_ok=True)
        return Slot(key, name, lifetime, intent, base / "data", logs, spec.deployment)

    def deploy(self, slot: Slot) -> None:
        """Deploy and wait until it is ready.

        Raises
        ------
        PlatformError, ReadinessTimeout
            Whatever was created was removed again.
        """
        slot.logs.mkdir(parents=True, exist_ok=True)
        context = DeployContext(
            name=slot.name,
            token=slot.intent.token,
            data_dir=slot.data,
            log_dir=slot.logs,
            root=self._root,
            fixtures=self.fixture_folders(),
            experiment=self._experiment,
            edges=self._edges.get(slot.name, ()),
        )
        slot.deployment = self._create_platform(slot.config.platform).deploy(slot.config, context)
        slot.deployment.wait_ready(cancelled=self._stop)

    def prepare(self, slot: Slot, hook: Hook | None, log: Path) -> bool:
        """Run a deployment's `prepare` before its first run; whether it was run now."""
        if hook is None or slot.prepared:
            return False
        self._hook(f"prepare of {slot.name}", hook, log, slot)
        slot.prepared = True
        return True

    def places(self, slot: Slot | None) -> Places:
        """What placeholders stand for."""
        urls = {
            name: target.instances[0].url
            for live in (*(fixture.slot for fixture in self._fixtures), slot)
            if live is not None
            for name, target in live.targets.items()
            if target.instances
        }
        data = slot.data if slot is not None else None
        return Places(self._root, data, self.fixture_folders(), urls)

    def fixture_folders(self) -> dict[str, Path]:
        """Fixture name → its folder."""
        return {fixture.name: fixture.folder for fixture in self._fixtures}

    def _hook(self, name: str, hook: Hook, log: Path, slot: Slot | None) -> None:
        command = Command(name, hook.run, hook.timeout, hook.env, log)
        run_command(command, self.places(slot), self._intents, cancelled=self._stop)

    # --- endings -----------------------------------------------------------------------------------------

    def end_run(self) -> tuple[LogFile, ...]:
        """A run has ended: remove its deployment if that lives no longer than a run."""
        if self._slot is not None and self._slot.lifetime == "run":
            return self.remove_deployment()
        return ()

    def end_block(self) -> None:
        """A block has ended: remove what lives no longer than a block."""
        if self._slot is not None and self._slot.lifetime in ("run", "block"):
            self.remove_deployment()
        for fixture in reversed(self._fixtures.copy()):
            if fixture.lifetime == "block":
                self._remove_from(fixture)

    def remove_deployment(self) -> tuple[LogFile, ...]:
        """Remove the current deployment, if there is one."""
        slot, self._slot = self._slot, None
        return self._remove(slot) if slot is not None else ()

    def remove_all(self) -> None:
        """Remove everything, last made first; goes on after a failure and raises the first one at the end."""
        failures: list[TowtankError] = []
        with _collected(failures):
            self.remove_deployment()
        while self._fixtures:
            with _collected(failures):
                self._remove_fixture(self._fixtures[-1])
        if failures:
            raise failures[0]

    def _remove_from(self, fixture: LiveFixture) -> None:
        """Remove a fixture, and first everything that was made after it and may depend on it."""
        self.remove_deployment()
        while fixture in self._fixtures:
            self._remove_fixture(self._fixtures[-1])

    def _remove_fixture(self, fixture: LiveFixture) -> None:
        self._fixtures.remove(fixture)
        if fixture.slot is not None:
            self._remove(fixture.slot)
        else:
            self._intents.fulfilled(fixture.intent)

    def _remove(self, slot: Slot) -> tuple[LogFile, ...]:
        """Remove a deployment and its folders; its intent stays if something could not be removed."""
        if slot.deployment is not None:
            try:
                slot.removed_logs = tuple(slot.deployment.remove())
            except RemovalTimeout:
                slot.removed_logs = logs_of(slot.deployment)  # they were read all the same
                raise
            except PlatformError:
                # the orderly way is gone (a killed guard, say); the token still finds what is left
                sweep(self._create_platform(slot.config.platform), slot.intent.token, slot.data)
        elif slot.config is not None:  # deploying failed, and so may have putting away what there was of it
            try:
                sweep(self._create_platform(slot.config.platform), slot.intent.token, slot.data)
            except PlatformError:
                return ()  # why deploying failed is the error to tell; the intent stays, for the next time
        processes.end_marked(slot.intent.token)
        self._intents.fulfilled(slot.intent)
        slot.deployment = None
        return slot.removed_logs


def _alive(slot: Slot | None) -> bool:
    """Whether every local instance still runs; what is elsewhere is asked by its platform, not here."""
    if slot is None or slot.deployment is None:
        return True
    try:
        events = slot.deployment.events()
    except PlatformError:
        return False
    gone = any(event.kind in ("crashed", "exited", "oom_killed") for event in events)
    return not gone and all(
        instance.pid is None or processes.start_ticks(instance.pid) == instance.start_ticks
        for target in slot.targets.values()
        for instance in target.instances
    )


def logs_of(deployment: Deployment | None) -> tuple[LogFile, ...]:
    """What a deployment says of its logs; nothing where it writes none, or what writes them is gone."""
    try:
        return tuple(deployment.logs()) if isinstance(deployment, WritesLogs) else ()
    except PlatformError:
        return ()


def removal_events_of(deployment: Deployment | None) -> Sequence[SystemEvent]:
    """What a deployment says of its removal; nothing where it has nothing to say."""
    return deployment.removal_events() if isinstance(deployment, TellsOfRemoval) else ()


def _key(name: str, config: Any) -> str:  # noqa: ANN401 - JSON
    return f"{name} {json.dumps(config, sort_keys=True)}"


@contextlib.contextmanager
def _collected(failures: list[TowtankError]) -> Iterator[None]:
    try:
        yield
    except TowtankError as error:
        failures.append(error)
