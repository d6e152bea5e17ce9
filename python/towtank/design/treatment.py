"""Making the specification of each treatment: parts of the file with their levels filled in, validated once.

A part is expanded and validated once for each set of values that its own expressions use, however many treatments there
are; the same problem is therefore found, and said, once.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar, cast

from towtank.design.context import FileContext
from towtank.design.expansion import Expansion
from towtank.design.factors import Levels
from towtank.design.include import Library
from towtank.design.journey import requests_of
from towtank.design.load_checks import check_workload
from towtank.design.model import Fixture, Reset, TreatmentSpec, Workload
from towtank.design.platform_section import Deployed, read_deployment, read_fixture
from towtank.design.problems import Problems, listing, nearest
from towtank.design.run_sections import SECTIONS
from towtank.design.tree import UNKNOWN, Entry, Mapping, Node, Scalar
from towtank.design.validation import Path, joined, validated

T = TypeVar("T")
Reader = Callable[[Node, Path, FileContext], T | None]


@dataclass(frozen=True)
class Parts:
    """Which deployment and workload a treatment uses, by name."""

    deployment: str
    workload: str


@dataclass(frozen=True)
class Driven:
    """A workload of the file: the model, and the tree that it was made from."""

    model: Workload
    node: Mapping


class Sections:
    """Turns parts of one file into models, treatment by treatment.

    Parameters
    ----------
    root : Mapping
        The file, with profile and overrides in it.
    library : Library
        Reads included files.
    problems : Problems
    unusable : frozenset of str
        Factors without a valid level.
    """

    def __init__(
        self, root: Mapping, library: Library, problems: Problems, unusable: frozenset[str] = frozenset()
    ) -> None:
        self._context = FileContext(root, problems, library.root)
        self._library = library
        self._expansion = Expansion(problems, unusable)
        self._done: dict[tuple[object, ...], object] = {}

    def specification(self, parts: Parts, levels: Levels) -> TreatmentSpec | None:
        """Everything that one treatment needs; None when something is wrong with it."""
        values: Levels = {"deployment": parts.deployment, "workload": parts.workload, **levels}
        deployment = self._named("deployments", parts.deployment, values, read_deployment)
        workload = self.workload(parts.workload, values)
        fixtures = self.fixtures(values)
        options = self.options(values)
        if deployment is None or workload is None or fixtures is None or options is None:
            return None
        self._check_together(parts, deployment, workload)
        reset = options.pop("reset", None)
        return TreatmentSpec(
            deployment_name=parts.deployment,
            workload_name=parts.workload,
            deployment=deployment.model,
            deploy=deployment.deploy,
            workload=workload.model,
            fixtures=fixtures,
            reset=reset if isinstance(reset, Reset) else None,
            reset_stated=reset is not None,
            **options,
        )

    def survey(self, some: Levels) -> None:
        """Check every part once, also those that no treatment uses.

        Parameters
        ----------
        some : dict
            One level of each factor that has any.
        """
        names = self._context.names
        first: Levels = {
            "deployment": next(iter(names("deployments")), ""),
            "workload": next(iter(names("workloads")), ""),
            **some,
        }
        for name in names("deployments"):
            self._named("deployments", name, {**first, "deployment": name}, read_deployment)
        for name in names("workloads"):
            self.workload(name, {**first, "workload": name})
        self.fixtures(first)
        self.options(first)

    # --- one part at a time ---

    def _once(
        self, key: tuple[object, ...], node: Node, path: Path, values: Levels, read: Reader[T]
    ) -> T | None:
        """Expand and read a part, once for each set of values that it uses."""
        names = sorted(self._expansion.names(node))
        used = tuple((name, type(values.get(name)), values.get(name)) for name in names)
        whole = (*key, used)
        if whole not in self._done:
            expanded = self._expansion.expand(node, values, path)
            self._done[whole] = read(expanded, path, self._context)
        return cast("T | None", self._done[whole])

    def _named(self, section: str, name: str, values: Levels, read: Reader[T]) -> T | None:
        holder = self._context.root.get(section)
        node = holder.get(name) if isinstance(holder, Mapping) else None
        return None if node is None else self._once((section, name), node, (section, name), values, read)

    def fixtures(self, values: Levels) -> dict[str, Fixture] | None:
        """All fixtures; None when one has problems."""
        holder = self._context.root.get("fixtures")
        if holder is None:
            return {}
        if not isinstance(holder, Mapping):
            self._context.problems.add(holder.place, "fixtures", "allowed is a mapping: fixture → what it is")
            return None
        built = {name: self._named("fixtures", name, values, read_fixture) for name in holder.entries}
        found = {name: fixture for name, fixture in built.items() if fixture is not None}
        return found if len(found) == len(built) else None

    def options(self, values: Levels) -> dict[str, object] | None:
        """All parts without a name of their own that the file has; None when one has problems."""
        built: dict[str, object] = {}
        for key, read in SECTIONS.items():
            node = self._context.root.get(key)
            if node is not None:
                built[key] = self._once((key,), node, (key,), values, read)
        return None if any(value is None for value in built.values()) else built

    def workload(self, name: str, values: Levels) -> Driven | None:
        """One workload, with its journey from a file of its own where it names one."""
        holder = self._context.root.get("workloads")
        node = holder.get(name) if isinstance(holder, Mapping) else None
        if node is None:
            return None
        if isinstance(node, Mapping):
            node = self._with_journey(node, name, values)
        # A journey's path may depend on factors: trees with different journeys are different parts.
        return self._once(("workloads", name, id(node)), node, ("workloads", name), values, _read_workload)

    def _with_journey(self, node: Mapping, name: str, values: Levels) -> Mapping:
        journey = node.get("journey")
        if not isinstance(journey, Scalar) or not isinstance(journey.value, str):
            return node
        path: Path = ("workloads", name, "journey")
        included = self._once(("journey", name), journey, path, values, self._include)
        key = ("workload with journey", name, id(included))
        if key not in self._done:
            if included is None:  # that has been said; the rest of the workload can still be checked
                self._context.problems.mute(journey.place)
                included = Scalar(journey.place, cast("str", UNKNOWN), "", plain=False)
            entry = Entry(node.key_place("journey"), cast("Node", included))
            self._done[key] = Mapping(node.place, {**node.entries, "journey": entry})
        return cast("Mapping", self._done[key])

    def _include(self, node: Node, path: Path, _: FileContext) -> Node | None:
        if not isinstance(node, Scalar) or not isinstance(node.value, str):
            return None
        return self._library.include(node.text, node.place, joined(path))

    # --- what must fit together ---

    def _check_together(self, parts: Parts, deployment: Deployed, workload: Driven) -> None:
        """Steps go to targets that the deployment has; it uses fixtures that exist."""
        key = ("together", id(deployment), id(workload))
        if key in self._done:
            return
        self._done[key] = True
        path: Path = ("deployments", parts.deployment)
        for name in deployment.fixture_names():
            if name not in self._context.names("fixtures"):
                place = self._context.place_of(path, f"{{fixture.{name}}}")
                self._context.unknown_fixture(name, place, joined(path))
        journey = workload.node.get("journey")
        if not isinstance(journey, Mapping):
            return
        known = deployment.target_names()
        for request, here in requests_of(journey, ("workloads", parts.workload, "journey")):
            self._check_target(request, here, parts.deployment, known)

    def _check_target(self, request: Mapping, path: Path, deployment: str, known: tuple[str, ...]) -> None:
        target = request.get("target")
        if not isinstance(target, Scalar) or target.value is None:
            if len(known) != 1:
                self._context.problems.add(
                    request.place,
                    joined((*path, "target")),
                    f"deployment {deployment!r} has several targets; the step must name one of {listing(known)}",
                )
        elif target.text not in known:
            self._context.problems.add(
                target.place,
                joined((*path, "target")),
                f"deployment {deployment!r} has no target {target.text!r}; it has {listing(known)}",
                nearest(target.text, known),
            )


def _read_workload(node: Node, path: Path, context: FileContext) -> Driven | None:
    model = validated(Workload, node, path, context.holder(path), context.problems)
    if model is None or not isinstance(node, Mapping):
        return None
    before = len(context.problems)
    check_workload(node, model, path, context.problems)
    return Driven(model, node) if len(context.problems) == before else None
