"""From an experiment file to a plan, or to all of its problems at once."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingType
from dataclasses import dataclass, replace
from pathlib import Path

from towtank.design.answer import least_blocks
from towtank.design.cost_section import read_cost
from towtank.design.design_checks import check_design, check_sources, check_steady_state, notes
from towtank.design.designed import Outline, OutlineSpec
from towtank.design.digest import digest
from towtank.design.document import read_document
from towtank.design.dropped import not_run
from towtank.design.factors import Factor, combinations, read_factors, treatment_ids
from towtank.design.frame import check_keys, choose_parts, parts_of, read_frame
from towtank.design.include import Library
from towtank.design.order import ordered_runs
from towtank.design.own_variables import Expression, own_expressions
from towtank.design.plan import Plan, Treatment
from towtank.design.problems import Place, Problems
from towtank.design.profile import check_profiles, with_overrides, with_profile
from towtank.design.treatment import Drivable, Sections
from towtank.design.tree import Mapping
from towtank.errors import DesignError

FILE_NAME = "experiment.yaml"


@dataclass(frozen=True)
class Draft:
    """What can be said of an experiment file, right or not.

    Parameters
    ----------
    plan : Plan or None
        None when something is wrong.
    problems : Problems
        All that were found.
    drivable : tuple of Drivable
        Workloads that are right: what only the engine knows of them can be asked, whatever else is wrong.
    expressions : tuple of Expression
        SQL of response variables: what only a database knows of it can be asked.
    """

    plan: Plan | None
    problems: Problems
    drivable: tuple[Drivable, ...] = ()
    expressions: tuple[Expression, ...] = ()

    def error(self) -> DesignError:
        """Every problem, sorted by place, as one error."""
        not_kept = self.problems.not_kept
        hint = f"{not_kept} more problems are not shown" if not_kept else None
        return DesignError(self.problems.sorted(), hint=hint)


def load_plan(
    path: Path, *, profile: str | None = None, overrides: MappingType[str, str] | None = None
) -> Plan:
    """Read an experiment file, check everything about it that can be known, and order its runs.

    Nothing is executed and nothing outside of the experiment's folder is read.

    Parameters
    ----------
    path : Path
        The file, or a folder with an ``experiment.yaml``.
    profile : str, optional
        Name of one of its `profiles`.
    overrides : mapping, optional
        Key path → YAML text, such as ``{"repetitions": "2"}``.

    Raises
    ------
    DesignError
        With every problem found, sorted by place.
    """
    draft = read_draft(path, profile=profile, overrides=overrides)
    if draft.plan is None:
        raise draft.error()
    return draft.plan


def read_draft(
    path: Path, *, profile: str | None = None, overrides: MappingType[str, str] | None = None
) -> Draft:
    """Read an experiment file as `load_plan` does, and keep what is right in one that is not."""
    path = Path(path)
    if os.path.isdir(path):  # noqa: PTH112 - unlike Path's own, it answers for any name
        path = path / FILE_NAME
    return _draft(path, profile, dict(overrides or {}), Problems())


def _draft(path: Path, profile: str | None, overrides: dict[str, str], problems: Problems) -> Draft:
    shown_as = os.fspath(path)
    root, text = read_document(path, shown_as, problems)
    if root is None:
        return Draft(None, problems)
    if not isinstance(root, Mapping):
        problems.add(Place(shown_as), "", "allowed is a mapping that begins with `experiment:`")
        return Draft(None, problems)
    library = Library(path.parent, os.fspath(path.parent), problems)
    root = check_keys(root, problems)
    check_profiles(root, problems)
    whole = root
    if profile is not None:
        root = with_profile(root, profile, problems)
    if overrides:
        root = check_keys(with_overrides(root, overrides, problems), problems)
    factors = read_factors(root, problems)
    frame = read_frame(root, factors, problems)
    made = _treatments(root, library, factors, problems)
    if frame.sure is not None and made.outlines:
        check_design(root, frame.sure, made.outlines, problems, are_deployed=made.are_deployed)
    check_sources(root, made.treatments, problems)
    if frame.sure is not None:
        check_steady_state(root, frame.sure, made.treatments, problems)
    cost = read_cost(root, library, problems, made.treatments)
    expressions = own_expressions(root.get("answer"))
    if frame.spec is None or not made.treatments or problems:
        return Draft(None, problems, made.drivable, expressions)
    spec = frame.spec.model_copy(update={"profile": profile, "overrides": overrides, "cost": cost})
    blocks = range(1, least_blocks(spec) + 1)
    runs = ordered_runs(made.treatments, order=spec.order, seed=spec.seed, blocks=blocks)
    files = {FILE_NAME: text, **library.files}
    left_out = not_run(whole, [one.levels for one in made.treatments]) if profile is not None else ""
    remarks = (*([left_out] if left_out else []), *notes(root, spec, made.treatments))
    plan = Plan(spec, made.treatments, runs, digest(spec, made.treatments), files, remarks)
    return Draft(plan, problems, made.drivable, expressions)


@dataclass(frozen=True)
class _Made:
    """Treatments: all of them or none, with what holds of all of them although something is wrong.

    `outlines` are empty when it is not certain which treatments there are; `are_deployed` says whether they also know
    how each is deployed.
    """

    treatments: tuple[Treatment, ...]
    outlines: tuple[Outline, ...]
    are_deployed: bool
    drivable: tuple[Drivable, ...]


def _treatments(root: Mapping, library: Library, factors: dict[str, Factor], problems: Problems) -> _Made:
    """Make all treatments; none of them when there is a problem with one."""
    before = len(problems)
    deployment, workload = choose_parts(root, factors, problems)
    found = combinations(root, factors, problems)
    certain = len(problems) == before and all(factor.is_whole for factor in factors.values())
    declared = root.get("factors")
    names = frozenset(declared.entries) if isinstance(declared, Mapping) else frozenset()
    some = {factor.name: factor.levels[0] for factor in factors.values() if factor.levels}
    sections = Sections(root, library, problems, names - frozenset(some), factors=names)
    ids = treatment_ids([one.levels for one in found], deployment or workload or "only")
    treatments: list[Treatment] = []
    outlines: list[Outline] = []
    are_deployed = True
    for index, (one, name) in enumerate(zip(found, ids, strict=True)):
        parts = parts_of(root, one, (deployment, workload), problems)
        if parts is None:
            certain = False
            continue
        specification = sections.specification(parts, one.levels)
        if specification is not None:
            treatments.append(Treatment(name, index, one.levels, specification))
        outline = sections.outline(parts, one.levels)
        are_deployed = are_deployed and outline is not None
        outlines.append(Outline(name, one.levels, outline or OutlineSpec(parts.deployment, None, "per-run")))
    sections.survey(some)
    return _Made(
        tuple(treatments) if len(treatments) == len(found) else (),
        tuple(outlines) if certain and names == frozenset(some) else (),
        are_deployed,
        sections.drivable,
    )


def extend(plan: Plan, blocks: int) -> Plan:
    """Add blocks to a plan, for adaptive repetitions: the earlier ones stay as they are.

    Parameters
    ----------
    plan : Plan
    blocks : int
        How many to add, ≥ 0.
    """
    if blocks < 0:
        raise ValueError(f"{blocks} blocks cannot be added; it must be ≥ 0")
    first = plan.blocks + 1
    more = ordered_runs(
        plan.treatments,
        order=plan.experiment.order,
        seed=plan.experiment.seed,
        blocks=range(first, first + blocks),
    )
    return replace(plan, runs=(*plan.runs, *more))
