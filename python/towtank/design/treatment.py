"""Making the specification of each treatment: sections of the file with their levels filled in, validated once.

A section is expanded and validated once for each set of values that its own expressions use, however many treatments
there are; the same problem is therefore found, and said, once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, TypeVar

from towtank.design.document import Entry, Mapping, Node, Scalar, Sequence, plain, scalars
from towtank.design.expansion import Expansion
from towtank.design.experiment_file import DeployFile, FixtureFile, ObserveFile
from towtank.design.factors import Levels
from towtank.design.include import Library
from towtank.design.journey import requests_of
from towtank.design.load_checks import check_workload
from towtank.design.model import (
    Fixture,
    Generator,
    Hook,
    Observe,
    Reset,
    Settle,
    TreatmentSpec,
    Workload,
)
from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.design.slo import read_slo
from towtank.design.validation import Path, joined, validated
from towtank.errors import TowtankError
from towtank.fields import Model
from towtank.platforms import placeholders
from towtank.platforms import registry as platforms
from towtank.telemetry import registry as telemetry

T = TypeVar("T")
Checked = tuple[Node, Any]


@dataclass(frozen=True)
class Parts:
    """Which deployment and workload a treatment uses, by name."""

    deployment: str
    workload: str


class Sections:
    """Turns sections of one file into models, treatment by treatment.

    Parameters
    ----------
    root : Mapping
        The file, with profile and overrides in it.
    library : Library
        Reads included files.
    problems : Problems
    """

    def __init__(self, root: Mapping, library: Library, problems: Problems) -> None:
        self._root = root
        self._library = library
        self._problems = problems
        self._expansion = Expansion(problems)
        self._done: dict[tuple[Any, ...], Any] = {}

    def specification(self, parts: Parts, levels: Levels) -> TreatmentSpec | None:
        """Everything that one treatment needs; None when something is wrong with it."""
        environment = {"deployment": parts.deployment, "workload": parts.workload, **levels}
        problems_before = len(self._problems)
        deployment = self._named("deployments", parts.deployment, environment, self._deployment)
        workload = self._named("workloads", parts.workload, environment, self._workload)
        fixtures = self._fixtures(environment)
        options: dict[str, Any] = {}
        for key, build in self._PLAIN.items():
            node = self._root.get(key)
            if node is not None:
                built = self._once((key,), node, (key,), environment, lambda n, p, b=build: b(self, n, p))
                if built is not None:
                    options[key] = built
        if deployment is not None and workload is not None:
            self._check_targets(parts, deployment[0], workload)
            self._check_fixture_names(parts, deployment[0])
        if deployment is None or workload is None or fixtures is None or len(self._problems) > problems_before:
            return None
        model, deploy = deployment
        reset = options.pop("reset", None)
        return TreatmentSpec(
            deployment_name=parts.deployment,
            workload_name=parts.workload,
            deployment=model,
            deploy=deploy,
            workload=workload[1],
            fixtures=fixtures,
            reset=reset if isinstance(reset, Reset) else None,
            reset_stated=reset is not None,
            **options,
        )

    def _once(
        self,
        key: tuple[Any, ...],
        node: Node,
        path: Path,
        environment: Levels,
        build: Callable[[Node, Path], T | None],
    ) -> T | None:
        """Expand and build a section, once for each set of values that it uses."""
        names = sorted(self._expansion.names(node))
        used = tuple((name, type(environment.get(name)), environment.get(name)) for name in names)
        whole = (*key, used)
        if whole not in self._done:
            expanded = self._expansion.expand(node, environment, path)
            self._done[whole] = None if expanded is None else build(expanded, path)
        built: T | None = self._done[whole]
        return built

    def _named(
        self, section: str, name: str, environment: Levels, build: Callable[[Node, Path], T | None]
    ) -> T | None:
        holder = self._root.get(section)
        node = holder.get(name) if isinstance(holder, Mapping) else None
        if node is None:
            return None
        if section == "workloads":
            node = self._with_journey(node, name, environment)
        return None if node is None else self._once((section, name, id(node)), node, (section, name), environment, build)

    def _holder(self, path: Path) -> Place:
        """Place of the key that a section belongs to."""
        node: Node | None = self._root
        place = self._root.place
        for part in path:
            if isinstance(node, Mapping) and isinstance(part, str):
                place = node.key_place(part)
                node = node.get(part)
            elif isinstance(node, Sequence) and isinstance(part, int):
                node = node.items[part]
                place = node.place
        return place

    # --- deployments and fixtures ---

    def _deployment(self, node: Node, path: Path) -> tuple[Model, str] | None:
        if not isinstance(node, Mapping):
            self._problems.add(node.place, joined(path), "allowed is a mapping that begins with `platform:`")
            return None
        beside = validated(DeployFile, node.only({"deploy"}), path, self._holder(path), self._problems)
        model = self._platform(node.without("deploy"), path, tuple(DeployFile.model_fields))
        return None if beside is None or model is None else (model, beside.deploy)

    def _platform(self, node: Mapping, path: Path, also_known: tuple[str, ...]) -> Model | None:
        """Validate a mapping with the model of the platform that it names."""
        name = node.get("platform")
        known = platforms.names()
        here = joined((*path, "platform"))
        if name is None:
            self._problems.add(
                self._holder(path), here, f"the key 'platform' is missing here; allowed are {listing(known)}"
            )
            return None
        if not isinstance(name, Scalar) or name.value not in known:
            found = shown(plain(name))
            hint = nearest(name.text, known) if isinstance(name, Scalar) else ""
            self._problems.add(name.place, here, f"there is no platform {found}; allowed are {listing(known)}", hint)
            return None
        try:
            model = platforms.config_model(name.text)
        except TowtankError as error:
            self._problems.add(name.place, here, error.message, error.hint or "")
            return None
        return validated(model, node, path, self._holder(path), self._problems, also_known)

    def _fixtures(self, environment: Levels) -> dict[str, Fixture] | None:
        holder = self._root.get("fixtures")
        if holder is None:
            return {}
        if not isinstance(holder, Mapping):
            self._problems.add(holder.place, "fixtures", "allowed is a mapping: fixture → what it is")
            return None
        built: dict[str, Fixture | None] = {
            name: self._once(("fixtures", name), e.node, ("fixtures", name), environment, self._fixture)
            for name, e in holder.entries.items()
        }
        found = {name: fixture for name, fixture in built.items() if fixture is not None}
        return found if len(found) == len(built) else None

    def _fixture(self, node: Node, path: Path) -> Fixture | None:
        own = frozenset(FixtureFile.model_fields)
        if not isinstance(node, Mapping) or "platform" not in node.entries:
            checked = validated(FixtureFile, node, path, self._holder(path), self._problems, ("platform",))
            if checked and checked.prepare is None:
                self._problems.add(
                    self._holder(path), joined(path), "the fixture does nothing: it needs `prepare`, or a `platform`"
                )
                return None
            self._check_hook(node, path)
            return None if checked is None else Fixture(lifetime=checked.lifetime, prepare=checked.prepare)
        checked = validated(FixtureFile, node.only(own), path, self._holder(path), self._problems)
        self._check_hook(node.only(own), path)
        model = self._platform(node.without(*own), path, tuple(own))
        if checked is None or model is None:
            return None
        return Fixture(lifetime=checked.lifetime, prepare=checked.prepare, deployment=model)

    # --- workloads ---

    def _with_journey(self, node: Node, name: str, environment: Levels) -> Node | None:
        """Put the content of a journey's own file in its place."""
        journey = node.get("journey") if isinstance(node, Mapping) else None
        if not isinstance(node, Mapping) or not isinstance(journey, Scalar) or not isinstance(journey.value, str):
            return node
        path: Path = ("workloads", name, "journey")
        key = ("journey", name)
        included = self._once(key, journey, path, environment, self._included)
        if included is None:
            return None
        merged_key = ("merged", name, id(included))
        if merged_key not in self._done:
            # Kept, so that one journey file gives one tree whose validation is remembered.
            entries = {**node.entries, "journey": Entry(node.key_place("journey"), included)}
            self._done[merged_key] = Mapping(node.place, entries)
        merged: Node = self._done[merged_key]
        return merged

    def _included(self, node: Node, path: Path) -> Node | None:
        assert isinstance(node, Scalar)  # noqa: S101 - a text expands to a scalar
        return self._library.include(node.text, node.place, joined(path))

    def _workload(self, node: Node, path: Path) -> tuple[Node, Workload] | None:
        model = validated(Workload, node, path, self._holder(path), self._problems)
        if model is None:
            return None
        assert isinstance(node, Mapping)  # noqa: S101 - the model has accepted it
        check_workload(node, model, path, self._problems)
        return node, model

    def _check_targets(self, parts: Parts, deployment: Model, workload: tuple[Node, Workload]) -> None:
        """Every step must go to a target that the deployment has."""
        key = ("targets", id(deployment), id(workload))
        if key in self._done:
            return
        self._done[key] = (deployment, workload)
        known: tuple[str, ...] = deployment.target_names()  # type: ignore[attr-defined]  # the platform's contract
        journey = workload[0].get("journey") if isinstance(workload[0], Mapping) else None
        if not isinstance(journey, Mapping):
            return
        for request, path in requests_of(journey, ("workloads", parts.workload, "journey")):
            target = request.get("target")
            if isinstance(target, Scalar) and target.value is not None and target.text not in known:
                self._problems.add(
                    target.place,
                    joined((*path, "target")),
                    f"deployment {parts.deployment!r} has no target {target.text!r}; it has {listing(known)}",
                    nearest(target.text, known),
                )
            elif (target is None or (isinstance(target, Scalar) and target.value is None)) and len(known) != 1:
                self._problems.add(
                    request.place,
                    joined((*path, "target")),
                    f"deployment {parts.deployment!r} has several targets; the step must name one of {listing(known)}",
                )

    # --- sections without a name ---

    def _check_fixture_names(self, parts: Parts, deployment: Model) -> None:
        """``{fixture.NAME}`` in a deployment must name a fixture of the experiment."""
        names: Callable[[], tuple[str, ...]] | None = getattr(deployment, "fixture_names", None)
        holder = self._root.get("fixtures")
        known = tuple(holder.entries) if isinstance(holder, Mapping) else ()
        for name in names() if names else ():
            if name in known:
                continue
            place = self._place_of(("deployments", parts.deployment), f"{{fixture.{name}}}")
            self._problems.add(
                place,
                f"deployments.{parts.deployment}",
                f"there is no fixture {name!r}; fixtures are {listing(known)}",
                nearest(name, known),
            )

    def _place_of(self, path: Path, text: str) -> Place:
        """Place of the first scalar under a path that holds a text."""
        node: Node | None = self._root
        for part in path:
            node = node.get(str(part)) if isinstance(node, Mapping) else None
        if node is not None:
            for scalar in scalars(node):
                if text in scalar.text.replace(" ", ""):
                    return scalar.place
        return self._holder(path)

    def _check_hook(self, node: Node, path: Path) -> None:
        """Placeholders in commands and copies must be known, and name fixtures that exist."""
        holder = self._root.get("fixtures")
        known = tuple(holder.entries) if isinstance(holder, Mapping) else ()
        for scalar, keys in _texts(node, path):
            if not {"run", "env", "copy"} & set(keys):
                continue
            try:
                placeholders.validate(scalar.text, placeholders.RUN_NAMES)
                named = placeholders.dotted([scalar.text], "fixture")
            except placeholders.PlaceholderError as error:
                self._problems.add(scalar.place, joined(keys), str(error))
                continue
            for name in named:
                if name not in known:
                    self._problems.add(
                        scalar.place,
                        joined(keys),
                        f"there is no fixture {name!r}; fixtures are {listing(known)}",
                        nearest(name, known),
                    )

    def _prepare(self, node: Node, path: Path) -> Hook | None:
        self._check_hook(node, path)
        return validated(Hook, node, path, self._holder(path), self._problems)

    def _reset(self, node: Node, path: Path) -> Reset | str | None:
        if isinstance(node, Scalar):
            if node.value == "none":
                return "none"
            self._problems.add(
                node.place, "reset", f"found {shown(node.value)}; allowed is `none`, or a mapping with copy, run, verify"
            )
            return None
        self._check_hook(node, path)
        reset = validated(Reset, node, path, self._holder(path), self._problems)
        if reset and reset.run is None and (not reset.copy_files or reset.verify):
            message = "`verify` needs `run`" if reset.verify else "does nothing: it needs `copy` or `run`"
            self._problems.add(self._holder(path), "reset", message, "write `reset: none` when data stays as it is")
            return None
        return reset

    def _settle(self, node: Node, path: Path) -> Settle | None:
        settle = validated(Settle, node, path, self._holder(path), self._problems)
        if settle and settle.hold >= settle.timeout and isinstance(node, Mapping):
            place = node.key_place("hold" if "hold" in node.entries else "timeout")
            self._problems.add(
                place, "settle.hold", f"{settle.hold:g} s must be shorter than the timeout of {settle.timeout:g} s"
            )
        return settle

    def _generator(self, node: Node, path: Path) -> Generator | None:
        return validated(Generator, node, path, self._holder(path), self._problems)

    def _slo(self, node: Node, path: Path) -> dict[str, float] | None:
        return read_slo(node, path, self._problems)

    def _observe(self, node: Node, path: Path) -> tuple[Observe, ...] | None:
        if not isinstance(node, Sequence):
            self._problems.add(node.place, "observe", "allowed is a list of telemetry sources, such as [host, process]")
            return None
        found = [self._source(item, (*path, i)) for i, item in enumerate(node.items)]
        sources = [source for source in found if source is not None]
        for index, source in enumerate(sources):
            if source.source in [s.source for s in sources[:index]]:
                self._problems.add(
                    node.items[index].place, joined((*path, index)), f"the source {source.source!r} is listed twice"
                )
        return tuple(sources) if len(sources) == len(found) else None

    def _source(self, item: Node, path: Path) -> Observe | None:
        known = telemetry.names()
        if isinstance(item, Mapping) and len(item.entries) == 1:
            (name, entry), = item.entries.items()
            place, options = entry.place, entry.node
        elif isinstance(item, Scalar) and isinstance(item.value, str):
            name, place, options = item.value, item.place, Mapping(item.place, {})
        else:
            self._problems.add(
                item.place, joined(path), f"allowed is a name ({listing(known)}), or a map of one name to its options"
            )
            return None
        if name not in known:
            self._problems.add(
                place, joined(path), f"there is no telemetry source {name!r}; allowed are {listing(known)}", nearest(name, known)
            )
            return None
        if isinstance(options, Scalar) and options.value is None:
            options = Mapping(place, {})
        try:
            own = telemetry.options_model(name)
        except TowtankError as error:
            self._problems.add(place, joined(path), error.message, error.hint or "")
            return None
        here = (*path, name)
        if not isinstance(options, Mapping):
            self._problems.add(options.place, joined(here), "allowed is a mapping of options")
            return None
        common = tuple(ObserveFile.model_fields)
        beside = validated(ObserveFile, options.only(set(common)), here, place, self._problems)
        model = validated(own, options.without(*common), here, place, self._problems, common)
        if beside is None or model is None:
            return None
        return Observe(source=name, interval=f"{beside.interval!r}s", options=model.model_dump(mode="json", exclude_unset=True))  # type: ignore[arg-type]  # read like in a file

    _PLAIN: dict[str, Callable[..., Any]] = {
        "prepare": _prepare,
        "reset": _reset,
        "settle": _settle,
        "observe": _observe,
        "generator": _generator,
        "slo": _slo,
    }


def _texts(node: Node, path: Path) -> Iterator[tuple[Scalar, Path]]:
    """Every text in a tree with its key path."""
    if isinstance(node, Scalar):
        if isinstance(node.value, str):
            yield node, path
    elif isinstance(node, Sequence):
        for index, item in enumerate(node.items):
            yield from _texts(item, (*path, index))
    else:
        for key, entry in node.entries.items():
            yield from _texts(entry.node, (*path, key))
