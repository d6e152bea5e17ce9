"""From an experiment file to a plan, or to all of its problems at once."""

from __future__ import annotations

import os
from collections.abc import Mapping as MappingType
from dataclasses import replace
from pathlib import Path

from towtank.design.answer import least_blocks
from towtank.design.design_checks import check_design, notes
from towtank.design.digest import digest
from towtank.design.document import read_document
from towtank.design.factors import Factor, combinations, read_factors, treatment_ids
from towtank.design.frame import check_keys, choose_parts, parts_of, read_frame
from towtank.design.include import Library
from towtank.design.order import ordered_runs
from towtank.design.plan import Plan, Treatment
from towtank.design.problems import Place, Problems
from towtank.design.profile import check_profiles, with_overrides, with_profile
from towtank.design.treatment import Sections
from towtank.design.tree import Mapping
from towtank.errors import DesignError

FILE_NAME = "experiment.yaml"


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
    path = Path(path)
    if os.path.isdir(path):  # noqa: PTH112 - unlike Path's own, it answers for any name
        path = path / FILE_NAME
    problems = Problems()
    plan = _plan(path, profile, dict(overrides or {}), problems)
    if problems or plan is None:
        hint = f"{problems.not_kept} more problems are not shown" if problems.not_kept else None
        raise DesignError(problems.sorted(), hint=hint)
    return plan


def _plan(path: Path, profile: str | None, overrides: dict[str, str], problems: Problems) -> Plan | None:
    shown_as = os.fspath(path)
    root, text = read_document(path, shown_as, problems)
    if root is None:
        return None
    if not isinstance(root, Mapping):
        problems.add(Place(shown_as), "", "allowed is a mapping that begins with `experiment:`")
        return None
    library = Library(path.parent, os.fspath(path.parent), problems)
    root = check_keys(root, problems)
    check_profiles(root, problems)
    if profile is not None:
        root = with_profile(root, profile, problems)
    if overrides:
        root = check_keys(with_overrides(root, overrides, problems), problems)
    factors = read_factors(root, problems)
    spec = read_frame(root, factors, problems)
    treatments = _treatments(root, library, factors, problems)
    if spec is None or not treatments or problems:
        return None
    check_design(root, spec, treatments, problems)
    if problems:
        return None
    spec = spec.model_copy(update={"profile": profile, "overrides": overrides})
    blocks = range(1, least_blocks(spec) + 1)
    runs = ordered_runs(treatments, order=spec.order, seed=spec.seed, blocks=blocks)
    files = {FILE_NAME: text, **library.files}
    return Plan(spec, treatments, runs, digest(spec, treatments), files, notes(root, spec, treatments))


def _treatments(
    root: Mapping, library: Library, factors: dict[str, Factor], problems: Problems
) -> tuple[Treatment, ...]:
    """Make all treatments; none of them when there is a problem with one."""
    deployment, workload = choose_parts(root, factors, problems)
    found = combinations(root, factors, problems)
    declared = root.get("factors")
    names = frozenset(declared.entries) if isinstance(declared, Mapping) else frozenset()
    some = {factor.name: factor.levels[0] for factor in factors.values() if factor.levels}
    sections = Sections(root, library, problems, names - frozenset(some))
    ids = treatment_ids([one.levels for one in found], deployment or workload or "only")
    treatments: list[Treatment] = []
    for index, (one, name) in enumerate(zip(found, ids, strict=True)):
        parts = parts_of(root, one, (deployment, workload), problems)
        specification = sections.specification(parts, one.levels) if parts else None
        if specification is not None:
            treatments.append(Treatment(name, index, one.levels, specification))
    sections.survey(some)
    return tuple(treatments) if len(treatments) == len(found) else ()


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
