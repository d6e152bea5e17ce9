"""Making the specification of each treatment: parts of the file with their levels filled in, validated once.

A part is expanded and validated once for each set of values that its own expressions use, however many treatments there
are; the same problem is therefore found, and said, once.
"""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast

from towtank.design.capacity_file import Demand
from towtank.design.context import FileContext
from towtank.design.demand_section import read_demand
from towtank.design.designed import OutlineSpec
from towtank.design.expansion import Expansion
from towtank.design.factors import Levels
from towtank.design.fault_section import check_faults
from towtank.design.foreign import ForeignWorkload
from towtank.design.include import Library
from towtank.design.known_capacity import read_known
from towtank.design.load_shape import duration_s
from towtank.design.model import Fault, Fixture, Generator, Reset, Settle, TreatmentSpec, Workload
from towtank.design.named_files import NamedFiles
from towtank.design.platform_section import Deployed, read_deployment, read_fixture
from towtank.design.problems import Problems
from towtank.design.run_sections import SECTIONS
from towtank.design.together import check_settles, check_side_by_side, check_together
from towtank.design.tree import UNKNOWN, Entry, Mapping, Node, Scalar
from towtank.design.validation import Path, joined
from towtank.design.workload_section import Driven, read_workload
from towtank.platforms.base import KnowsItIsNeverEmpty

SIDE_BY_SIDE = "+"
"""Between the names of workloads that are driven at the same time."""
T = TypeVar("T")
Reader = Callable[[Node, Path, FileContext], T | None]


@dataclass(frozen=True)
class Parts:
    """Which deployment a treatment uses, and which workloads are driven against it at the same time, by name."""

    deployment: str
    workloads: tuple[str, ...]

    @property
    def drive(self) -> str:
        """The workloads as a factor's level names them."""
        return SIDE_BY_SIDE.join(self.workloads)


@dataclass(frozen=True)
class Drivable:
    """Workloads that are right and run at the same time: the engine can be asked about them, whatever else is wrong.

    Parameters
    ----------
    workloads : dict
    deployment : model or None
        What they are driven against; None when it is wrong, or does not go together with them.
    generator : Generator
    """

    workloads: dict[str, Workload]
    deployment: Any
    generator: Generator


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
    factors : frozenset of str
        All that are declared.
    """

    def __init__(
        self,
        root: Mapping,
        library: Library,
        problems: Problems,
        unusable: frozenset[str] = frozenset(),
        *,
        factors: frozenset[str] = frozenset(),
    ) -> None:
        self._context = FileContext(root, problems, library.root)
        self._library = library
        self._files = NamedFiles(library, self._context)
        self._expansion = Expansion(problems, unusable)
        self._capacity = read_known(root, library, factors, problems)
        self._done: dict[tuple[object, ...], object] = {}
        self._drivable: dict[tuple[object, ...], Drivable] = {}

    @property
    def drivable(self) -> tuple[Drivable, ...]:
        """What the engine can be asked about, of the treatments so far."""
        return tuple(self._drivable.values())

    def specification(self, parts: Parts, levels: Levels) -> TreatmentSpec | None:
        """Everything that one treatment needs; None when something is wrong with it."""
        values = self._values(parts, levels)
        deployment = self._deployment(parts.deployment, values)
        driven = {name: self.workload(name, {**values, "workload": name}) for name in parts.workloads}
        found = {name: one for name, one in driven.items() if one is not None}
        fits = [self._fits(parts.deployment, name, deployment, one) for name, one in found.items()]
        workloads = {name: one.model for name, one in found.items() if one.model is not None}
        beside = check_side_by_side(self._context, {name: found[name] for name in workloads})
        fixtures = self.fixtures(values)
        options = self.options(values)
        if len(workloads) < len(driven) or not beside:
            return None
        self._note_drivable(workloads, deployment if all(fits) else None, options)
        if deployment is None or not deployment.is_exact or options is None:
            return None
        faults = cast("tuple[Fault, ...]", options.get("faults", ()))
        if not (
            self._check_faults(faults, deployment, parts, workloads)
            and self._settles(options.get("settle"), parts.deployment, deployment)
        ):
            return None
        if deployment.files is None or deployment.deploy is None or not all(fits):
            return None
        first_load = next(iter(workloads.values())).load.model
        demand = self._demand(parts.deployment, first_load, values)
        if fixtures is None or (demand is None and self._context.root.get("demand") is not None):
            return None
        reset = options.pop("reset", None)
        first, *others = workloads
        files = [deployment.files, *(one.files for one in found.values())]
        return TreatmentSpec(
            deployment_name=parts.deployment,
            workload_name=first,
            deployment=deployment.model,
            deploy=deployment.deploy,
            workload=workloads[first],
            beside={name: workloads[name] for name in others},
            files={name: digest for some in files for name, digest in some.items()},
            fixtures=fixtures,
            reset=reset if isinstance(reset, Reset) else None,
            reset_stated=reset is not None,
            demand=demand,
            **options,
        )

    def outline(self, parts: Parts, levels: Levels) -> OutlineSpec | None:
        """How a treatment is deployed, whatever else is wrong with it; None when that is wrong too."""
        found = self._deployment(parts.deployment, self._values(parts, levels))
        if found is None or not found.is_exact or found.deploy is None:
            return None
        return OutlineSpec(parts.deployment, found.model, found.deploy)

    def _values(self, parts: Parts, levels: Levels, *, is_survey: bool = False) -> Levels:
        """Names that expressions of a treatment may use."""
        known = self._capacity.names(parts.deployment, levels, is_survey=is_survey)
        return {"deployment": parts.deployment, "workload": parts.drive, **known, **levels}

    def _note_drivable(
        self,
        workloads: MappingType[str, Workload | ForeignWorkload],
        deployment: Deployed | None,
        options: MappingType[str, object] | None,
    ) -> None:
        ours = {name: one for name, one in workloads.items() if isinstance(one, Workload)}
        if len(ours) < len(workloads):  # the journey is a script's
            return
        generator = options.get("generator") if options is not None else None
        exact = deployment.model if deployment is not None and deployment.is_exact else None
        key = (*(id(one) for one in ours.values()), id(exact), id(generator))
        asked = generator if isinstance(generator, Generator) else Generator()
        self._drivable.setdefault(key, Drivable(ours, exact, asked))

    def survey(self, some: Levels) -> None:
        """Check every part once, also those that no treatment uses.

        Parameters
        ----------
        some : dict
            One level of each factor that has any.
        """
        names = self._context.names
        parts = Parts(next(iter(names("deployments")), ""), (next(iter(names("workloads")), ""),))
        first = self._values(parts, some, is_survey=True)
        for name in names("deployments"):
            self._deployment(name, {**first, "deployment": name})
        self.fixtures(first)
        options = self.options(first)
        noted = {id(one) for drivable in self.drivable for one in drivable.workloads.values()}
        for name in names("workloads"):
            found = self.workload(name, {**first, "workload": name})
            model = None if found is None or id(found.model) in noted else found.model
            if model is not None and self._context.problems:  # which keep treatments from using it, perhaps
                self._note_drivable({name: model}, None, options)

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

    def _deployment(self, name: str, values: Levels) -> Deployed | None:
        """One deployment, with the files that it names."""
        return self._named("deployments", name, values, self._deployed)

    def fixtures(self, values: Levels) -> dict[str, Fixture] | None:
        """All fixtures; None when one has problems."""
        holder = self._context.root.get("fixtures")
        if holder is None:
            return {}
        if not isinstance(holder, Mapping):
            self._context.problems.add(holder.place, "fixtures", "allowed is a mapping: fixture → what it is")
            return None
        built = {name: self._named("fixtures", name, values, self._fixture) for name in holder.entries}
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

    def _demand(self, deployment: str, load_model: str, values: Levels) -> Demand | None:
        """How many replicas a load demands; None when the file does not say, or says it wrong."""
        node = self._context.root.get("demand")
        if node is None:
            return None

        def read(expanded: Node, path: Path, context: FileContext) -> Demand | None:
            return read_demand(expanded, path, context, self._library, (deployment, load_model))

        return self._once(("demand", deployment, load_model), node, ("demand",), values, read)

    def workload(self, name: str, values: Levels) -> Driven | None:
        """One workload, with its journey from a file of its own where it names one."""
        holder = self._context.root.get("workloads")
        node = holder.get(name) if isinstance(holder, Mapping) else None
        if node is None:
            return None
        if isinstance(node, Mapping):
            node = self._with_journey(node, name, values)
        # A journey's path may depend on factors: trees with different journeys are different parts.
        return self._once(("workloads", name, id(node)), node, ("workloads", name), values, self._driven)

    def _deployed(self, node: Node, path: Path, context: FileContext) -> Deployed | None:
        """A deployment with the files that it names."""
        deployed = read_deployment(node, path, context)
        if deployed is None:
            return None
        before = len(context.problems)
        files = self._files.of_deployment(deployed.model, node, path, is_exact=deployed.is_exact)
        for fixture in deployed.fixture_names():
            if fixture not in context.names("fixtures"):
                place = context.place_of(path, f"{{fixture.{fixture}}}")
                context.unknown_fixture(fixture, place, joined(path))
        return replace(deployed, files=files if len(context.problems) == before else None)

    def _fixture(self, node: Node, path: Path, context: FileContext) -> Fixture | None:
        """A fixture, with what its deployment starts."""
        fixture = read_fixture(node, path, context)
        before = len(context.problems)
        if fixture is not None and fixture.deployment is not None:
            self._files.check_programs(fixture.deployment, node, path)
        return fixture if len(context.problems) == before else None

    def _driven(self, node: Node, path: Path, context: FileContext) -> Driven | None:
        """A workload with the files that it names."""
        return read_workload(node, path, context, self._library, self._files)

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

    def _check_faults(
        self,
        faults: tuple[Fault, ...],
        deployment: Deployed,
        parts: Parts,
        workloads: MappingType[str, Workload | ForeignWorkload],
    ) -> bool:
        """Each fault can be made on the deployment while the load lasts; the same is checked once."""
        key = ("faults", id(faults), id(deployment), *map(id, workloads.values()))
        if key not in self._done:
            models = workloads.values()
            self._done[key] = check_faults(
                faults,
                deployment,
                parts.deployment,
                max(duration_s(model.load) for model in models),
                foreign=any(isinstance(model, ForeignWorkload) for model in models),
                context=self._context,
            )
        return bool(self._done[key])

    def _settles(self, settle: object, name: str, deployment: Deployed) -> bool:
        """Whether what runs wait for can come true; said where not."""
        model = deployment.model
        if (
            not isinstance(settle, Settle)
            or settle.until.replicas != "zero"
            or not isinstance(model, KnowsItIsNeverEmpty)
        ):
            return True
        key = ("settles", id(settle), id(deployment))
        if key not in self._done:
            self._done[key] = check_settles(self._context, name, model)
        return bool(self._done[key])

    def _fits(self, name: str, driven: str, deployment: Deployed | None, workload: Driven) -> bool:
        """Whether steps go to targets that the deployment has; said where not."""
        key = ("together", id(deployment), id(workload))
        if key not in self._done:
            before = len(self._context.problems)
            if deployment is not None and deployment.is_exact:
                check_together(self._context, name, driven, deployment, workload)
            self._done[key] = len(self._context.problems) == before
        return bool(self._done[key])
