"""Programs that a plan needs and that are not on this machine; it may be carried out on another."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from towtank.design import Plan


def missing_drivers(file: Path, plan: Plan) -> Iterator[str]:
    """Load generators that workloads are driven by."""
    from towtank.design.foreign import ForeignWorkload
    from towtank.drivers import registry

    root = _root(file)
    for treatment in plan.treatments:
        for workload in treatment.spec.workloads.values():
            if isinstance(workload, ForeignWorkload):
                yield from registry.create(workload.driver).check(workload.config, root)


def missing_programs(file: Path, plan: Plan) -> Iterator[str]:
    """What deployments and fixtures start, each with its place in the file."""
    from towtank.design.locate import locate

    root = _root(file)
    seen: set[str] = set()
    for treatment in plan.treatments:
        spec = treatment.spec
        models = [(("deployments", spec.deployment_name), spec.deployment)]
        models += [(("fixtures", name), fixture.deployment) for name, fixture in spec.fixtures.items()]
        for path, model in models:
            if not hasattr(model, "missing_programs") or repr((path, model)) in seen:
                continue
            seen.add(repr((path, model)))
            for one in model.missing_programs(root):
                place = locate(file, (*path, *one.keys))
                made = ", unless a command of the experiment makes it before" if one.is_inside(root) else ""
                yield f"{place.file}:{place.line}:{place.column}: {one.words}{made}"


def missing_for_faults(plan: Plan) -> Iterator[str]:
    """What faults need of this machine."""
    from towtank.faults.checks import problems_here
    from towtank.platforms import registry

    for treatment in plan.treatments:
        spec = treatment.spec
        if any(fault.is_active for fault in spec.faults):
            yield from problems_here(registry.create(spec.deployment.platform), spec.faults)


def workers_ahead(file: Path, plan: Plan) -> Iterator[str]:
    """What clusters say of workers that are to run in them."""
    from towtank.campaign.workers import outlooks

    for outlook in outlooks((treatment.spec.generator for treatment in plan.treatments), _root(file)):
        yield from (f"`run` would fail: {one}" for one in outlook.problems)
        yield from outlook.remarks


def _root(file: Path) -> Path:
    return (file if file.is_dir() else file.parent).absolute()
