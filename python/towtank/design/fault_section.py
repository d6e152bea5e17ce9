"""Faults: parts of the file that the model of their kind validates, and what must fit to deployment and load."""

from __future__ import annotations

from collections.abc import Callable
from collections.abc import Mapping as MappingType
from collections.abc import Sequence as SequenceType
from pathlib import Path as FolderPath
from typing import Protocol

from towtank.design.context import FileContext
from towtank.design.plugin_section import named_model
from towtank.design.problems import Problems, listing, nearest
from towtank.design.slo import asked_variables
from towtank.design.tree import Mapping, Node, Scalar, Sequence
from towtank.design.validation import Path, joined, validated
from towtank.faults import registry
from towtank.faults.edges import edge_of
from towtank.faults.model import ALL, NONE, ONE, RANDOM, Fault, FaultFile
from towtank.fields import Model
from towtank.platforms import registry as platforms
from towtank.platforms.base import LOAD, Edge
from towtank.spelling import nearest_name
from towtank.units import format_duration
from towtank.variables import FAULT_VARIABLES

_COMMON = tuple(info.alias or name for name, info in FaultFile.model_fields.items())


class AnyDeployment(Protocol):
    """A deployment of the file, as far as faults care."""

    @property
    def model(self) -> Model:
        """The platform's own model."""

    def target_names(self) -> tuple[str, ...]:
        """Targets that it has."""


def read_faults(node: Node, path: Path, context: FileContext) -> tuple[Fault, ...] | None:
    """Validate `faults`: a list of mappings, each with the keys of its kind; None when it has problems."""
    if not isinstance(node, Sequence):
        context.problems.add(
            node.place,
            joined(path),
            "allowed is a list of faults, such as [{kind: kill, at: 20s, for: 5s}]",
        )
        return None
    found = [_read(item, (*path, index), context) for index, item in enumerate(node.items)]
    faults = tuple(fault for fault in found if fault is not None)
    return faults if len(faults) == len(found) else None


class _Kinds:
    """The table of faults with the one that does nothing."""

    @staticmethod
    def names() -> tuple[str, ...]:
        """All kinds."""
        return (*registry.names(), NONE)

    config_model = staticmethod(registry.config_model)


def _read(node: Node, path: Path, context: FileContext) -> Fault | None:
    if not isinstance(node, Mapping):
        context.problems.add(
            node.place,
            joined(path),
            f"allowed is a mapping with {listing(_COMMON)}, and the keys of its kind",
        )
        return None
    kind = node.get("kind")
    place = node.key_place("kind") if kind is not None else context.holder(path)
    if kind is None:
        misspelled = nearest_name("kind", node.entries)
        context.problems.add(
            place, joined((*path, "kind")), f"the key 'kind' is missing here; allowed are {listing(_Kinds.names())}",
            f"{misspelled!r} was probably meant to be it" if misspelled else "",
        )  # fmt: skip
        return None
    common = validated(FaultFile, node.only(set(_COMMON)), path, context.holder(path), context.problems)
    if isinstance(kind, Scalar) and kind.value == NONE:
        # A level to compare with: what other kinds need may stand there.
        return None if common is None else _fault(common, NONE, {})
    model = named_model(
        _Kinds, "fault", kind, place=kind.place, where=joined((*path, "kind")), context=context
    )
    if model is None:
        return None
    options = validated(model, node.without(*_COMMON), path, context.holder(path), context.problems, _COMMON)
    if common is None or options is None or not _in_order(common, node, path, context):
        return None
    given = options.model_dump(mode="json", by_alias=True, exclude_unset=True)
    return _fault(common, common.kind if common.when else NONE, given)


def _fault(common: FaultFile, kind: str, options: MappingType[str, object]) -> Fault:
    told = common.model_dump(by_alias=True, exclude_unset=True) | {"kind": kind, "options": options}
    told |= {key: f"{told[key]!r}s" for key in ("at", "for", "every") if told.get(key) is not None}
    return Fault.model_validate(told)


def _in_order(fault: FaultFile, node: Mapping, path: Path, context: FileContext) -> bool:
    """Repetitions must not overlap."""
    if fault.times > 1 and fault.every is None:
        context.problems.add(
            node.key_place("times"),
            joined((*path, "times")),
            f"a fault that comes {fault.times} times needs `every`",
        )
        return False
    if fault.every is not None and fault.lasts is not None and fault.every <= fault.lasts:
        context.problems.add(
            node.key_place("every"),
            joined((*path, "every")),
            f"it lasts {format_duration(fault.lasts)} and would come again after {format_duration(fault.every)}",
            "let it last shorter, or come again later",
        )
        return False
    return True


def check_fault_variables(root: Mapping, problems: Problems) -> None:
    """Response variables of faults are known only where faults are planned, be it of kind `none`."""
    if root.get("faults") is not None:
        return
    for name, place, where in asked_variables(root):
        if name in FAULT_VARIABLES:
            problems.add(
                place, where, f"{name!r} is known only of an experiment with `faults`, and there are none"
            )


def check_faults(
    faults: SequenceType[Fault],
    deployment: AnyDeployment,
    name: str,
    length_s: float,
    *,
    foreign: bool,
    context: FileContext,
) -> bool:
    """Say which faults cannot be made on a deployment, or not while its load lasts; whether all can.

    Parameters
    ----------
    faults : sequence of Fault
    deployment : AnyDeployment
    name : str
        Of the deployment in the file.
    length_s : float
        How long the longest load lasts, seconds.
    foreign : bool
        Another tool makes the load.
    """
    before = len(context.problems)
    for index, fault in enumerate(faults):
        if fault.is_active:
            fitting = _Fitting(fault, ("faults", index), deployment, name, context)
            fitting.check(length_s, foreign=foreign)
            fitting.check_beside(faults[:index])
    return len(context.problems) == before


class _Fitting:
    """One fault against one deployment."""

    def __init__(
        self, fault: Fault, path: Path, deployment: AnyDeployment, name: str, context: FileContext
    ) -> None:
        self._fault = fault
        self._path = path
        self._deployment = deployment
        self._name = name
        self._context = context
        self._platform = str(getattr(deployment.model, "platform", ""))

    def check(self, length_s: float, *, foreign: bool) -> None:
        """Say everything that does not fit."""
        if foreign:
            self._say(
                "kind",
                "another tool drives the load, and its clock is known only when it is over; faults come at times on it",
                "let the engine drive the load",
            )
        if self._fault.at >= length_s:
            self._say("at", f"the load is over after {format_duration(length_s)}")
        able = platforms.kind(self._platform).faults
        if self._fault.kind not in able:
            can = f"it can {listing(tuple(able))}" if able else "it can make no fault"
            why = platforms.kind(self._platform).no_faults
            self._say(
                "kind",
                f"platform {self._platform!r} (deployment {self._name!r}) cannot make the fault {self._fault.kind!r}: "
                f"{why}; {can}",
            )
            return
        lasts = able[self._fault.kind].lasts
        if lasts == "must" and self._fault.lasts is None:
            self._say("for", f"the fault {self._fault.kind!r} needs `for`: how long it lasts")
        if lasts == "never" and self._fault.lasts is not None:
            self._say(
                "for", f"on platform {self._platform!r} the fault {self._fault.kind!r} has no length: "
                f"{able[self._fault.kind].how}"
            )  # fmt: skip
        self._check_way(able[self._fault.kind])
        self._check_target()

    def _check_way(self, ability: platforms.FaultAbility) -> None:
        """What the platform needs for it, and what of it the platform can do."""
        fault = self._fault
        needs = ability.needs if edge_of(fault, "") is None else ability.edge_needs
        if needs and getattr(self._deployment.model, needs, None) is None:
            self._say(
                "kind",
                f"on platform {self._platform!r} the fault {fault.kind!r} needs the deployment's key "
                f"{needs!r}, and {self._name!r} has none: {ability.how}",
                "docs/faults.md says what it is",
            )
        options = registry.config_model(fault.kind).model_validate(fault.options)
        for key, possible in ability.options.items():
            if getattr(options, key) not in possible:
                self._say(
                    key,
                    f"on platform {self._platform!r} `{key}: {getattr(options, key)}` is not possible; allowed are "
                    f"{listing(possible)}",
                )

    def check_beside(self, earlier: SequenceType[Fault]) -> None:
        """Two of a kind on one instance at one time cannot be told apart, nor undone one by one."""
        for other in earlier:
            if _may_meet(self._fault, other) and _overlap(self._fault, other):
                self._say(
                    "at",
                    f"another {other.kind!r} that begins at {format_duration(other.at)} may hit the same instance "
                    "at the same time",
                    "let one end before the other begins, or name different instances",
                )

    def _check_target(self) -> None:
        fault, known = self._fault, self._deployment.target_names()
        if fault.target is None and len(known) != 1:
            self._say(
                "target",
                f"deployment {self._name!r} has several targets; the fault must name one of {listing(known)}",
            )
            return
        target = fault.target or known[0]
        edge = edge_of(fault, target)
        edge_problem = getattr(self._deployment.model, "edge_problem", None)
        if edge is not None and edge_problem is not None:
            self._check_whole_edge(edge, edge_problem)
            return
        if target not in known:
            self._say(
                "target",
                f"deployment {self._name!r} has no target {target!r}; it has {listing(known)}",
                nearest(target, known),
            )
            return
        if edge is not None:
            self._check_edge(edge.source, target, known)
        names = getattr(self._deployment.model, "instance_names", None)
        chosen: tuple[str, ...] = (ONE, ALL, RANDOM, *(names(target) if names is not None else ()))
        if fault.instance not in chosen:
            self._say(
                "instance",
                f"{target} has no instance {fault.instance!r}; allowed are {listing(chosen)}",
                nearest(fault.instance, chosen),
            )

    def _check_whole_edge(
        self, edge: Edge, edge_problem: Callable[[Edge, FolderPath], tuple[str, str, str] | None]
    ) -> None:
        """What is called and who calls must be there; nobody can say which instance a call goes to."""
        problem = edge_problem(edge, self._context.folder)
        if problem is not None:
            self._say(*problem)
        if self._fault.instance not in (ONE, ALL):
            self._say(
                "instance",
                f"on platform {self._platform!r} a fault on an edge meets the calls to all instances: which of them a "
                "call goes to is not known before",
                "leave `instance` out; `share` makes it meet some of the connections",
            )

    def _check_edge(self, source: str, target: str, known: tuple[str, ...]) -> None:
        """Calls must really go from there to the target, at an address that Towtank gave."""
        if source == LOAD:
            return
        if source not in known:
            allowed = (LOAD, *known)
            self._say(
                "from",
                f"deployment {self._name!r} has no component {source!r}; allowed are {listing(allowed)}",
                nearest(source, allowed),
            )
            return
        called_by = getattr(self._deployment.model, "called_by", None)
        called = () if called_by is None else called_by(source)
        if target not in called:
            self._say(
                "from",
                f"{source} is not given the address of {target}, so its calls cannot be met; it is given those of "
                f"{listing(called)}",
                f"pass {{url.{target}}} to it",
            )

    def _say(self, key: str, message: str, hint: str = "") -> None:
        path = (*self._path, key)
        self._context.problems.add(self._context.holder(path), joined(path), message, hint)


def _may_meet(one: Fault, other: Fault) -> bool:
    """Whether both are of one kind and may hit one instance."""
    if (
        one.kind != other.kind
        or one.target != other.target
        or one.options.get("from") != other.options.get("from")
    ):
        return False
    chosen = {ONE, ALL, RANDOM}
    return one.instance == other.instance or bool(chosen & {one.instance, other.instance})


def _overlap(one: Fault, other: Fault) -> bool:
    """Whether both are on at some moment; what is not undone takes none of it."""
    return any(
        a_from < (b_to or b_from) and b_from < (a_to or a_from)
        for a_from, a_to in one.strokes()
        for b_from, b_to in other.strokes()
    )
