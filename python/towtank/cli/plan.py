"""`towtank plan`: what an experiment would do, take and decide; nothing is touched."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from towtank.cli.overrides import OVERRIDES, read_overrides
from towtank.cli.run import EXPERIMENT, PROFILE

if TYPE_CHECKING:
    from rich.table import Table

    from towtank.design import Forecast, Plan, Power
    from towtank.design.answer import Claim
    from towtank.design.load_shape import AnyLoad, Expected

MOST_BLOCKS = 12
"""Blocks whose order is shown; --json has all."""


def plan(
    file: Path = EXPERIMENT,
    *,
    profile: str | None = PROFILE,
    values: list[str] = OVERRIDES,
    power_for: str | None = typer.Option(
        None,
        "--power",
        metavar="X%",
        help="Say how many repetitions a difference of X % needs, by runs made before.",
    ),
    pilot: Path | None = typer.Option(
        None,
        "--pilot",
        metavar="DIR",
        help="With --power: results to judge by [default: the experiment's own].",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print the whole plan as JSON."),
) -> None:
    """Show what an experiment would do: runs, order, requests, time, and what it can decide.

    Everything about the file is checked, the journeys by the engine; clusters that load is to come from are asked
    whether they have room for it. Nothing is deployed and nothing is sent.
    """
    from towtank.cli.journey_check import checked_plan
    from towtank.cli.plan_power import effect_of, lines, read_needs
    from towtank.cli.programs import missing_drivers, missing_for_faults, missing_programs, workers_ahead
    from towtank.design import forecast, power

    if pilot is not None and power_for is None:
        raise typer.BadParameter("it says what --power judges by; give --power X% too", param_hint="--pilot")
    effect = effect_of(power_for) if power_for is not None else None
    made, unchecked = checked_plan(file, profile=profile, overrides=read_overrides(values))
    missing = dict.fromkeys(
        (*missing_drivers(file, made), *missing_programs(file, made), *missing_for_faults(made))
    )
    said = (f"`run` would fail on this machine: {one}" for one in missing)
    remarks = (*made.notes, *([unchecked] if unchecked else []), *said, *workers_ahead(file, made))
    asked = read_needs(file, made, effect=effect, pilot=pilot) if effect is not None else None
    if as_json:
        typer.echo(
            json.dumps(
                {
                    **_data(made, forecast(made), power(made), remarks),
                    **({"needs": asdict(asked)} if asked else {}),
                },
                indent=2,
                ensure_ascii=False,
            )
        )
        return
    _show(made, forecast(made), power(made), remarks, lines(asked) if asked else [])


def _data(made: Plan, takes: Forecast, decides: Power | None, remarks: tuple[str, ...]) -> dict[str, object]:
    whole = json.loads(made.to_json())
    whole.pop("files")
    decision = None if decides is None else asdict(decides)
    from towtank.design.expected_cost import expected_costs

    costs = [asdict(one) for one in expected_costs(made, takes)]
    return {
        **whole,
        "notes": list(remarks),
        "forecast": asdict(takes),
        "decides": decision,
        "costs": costs,
        "would_create": _would_create(made),
    }


def _show(
    made: Plan, takes: Forecast, decides: Power | None, remarks: tuple[str, ...], asked: list[str]
) -> None:
    from rich.console import Console

    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        console.width = max(console.width, 10_000)  # a pipe has no margin to fold at
    spec = made.experiment
    console.print(f"{spec.experiment}: {spec.question}")
    if spec.profile:
        console.print(f"profile: {spec.profile}")
    console.print()
    console.print(_treatments(made, takes))
    console.print()
    console.print(_orders(made))
    console.print()
    console.print(_totals(made, takes))
    for line in _cost(made, takes):
        console.print(line)
    for line in _would_create(made):
        console.print(f"would create: {line}")
    console.print()
    for line in _decision(made, decides):
        console.print(line)
    for line in asked:
        console.print(line)
    for remark in remarks:
        console.print(f"note: {remark}")


def _table(*columns: tuple[str, str], header: bool = True) -> Table:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="bold", show_header=header)
    for title, side in columns:
        table.add_column(title, justify="right" if side == "right" else "left", overflow="fold")
    return table


def _treatments(made: Plan, takes: Forecast) -> Table:
    from towtank.units import format_duration

    table = _table(
        ("treatment", ""), ("deployment", ""), ("lives", ""), ("workload", ""), ("load", ""),
        ("length", "right"), ("requests a run", "right"),
    )  # fmt: skip
    for treatment, one in zip(made.treatments, takes.treatments, strict=True):
        spec = treatment.spec
        table.add_row(
            treatment.id,
            f"{spec.deployment_name} ({spec.deployment.platform})",
            spec.deploy,
            spec.drive,
            "; ".join(_load(workload.load) for workload in spec.workloads.values()),
            format_duration(one.load_s),
            requests_text(one.requests),
        )
    return table


def _load(load: AnyLoad) -> str:
    """Name a load model in a few words: ``open, 20–200/s, uniform``."""
    from towtank.design.foreign import ForeignLoad
    from towtank.design.load_shape import pieces
    from towtank.design.model import OpenLoad
    from towtank.units import format_number

    if isinstance(load, ForeignLoad):
        return f"as {load.tool} makes it"
    levels = [level for piece in pieces(load) for level in (piece.bottom, piece.top)]
    low, high = format_number(min(levels)), format_number(max(levels))
    height = low if low == high else f"{low}–{high}"
    if isinstance(load, OpenLoad):
        return f"open, {height}/s, {load.falls}"
    return f"closed, {height} users"


def requests_text(requests: Expected) -> str:
    """Write an expected number of requests: exact, a mean, or bounds."""
    low = f"{round(requests.low):,}"
    if requests.high is None:
        return f"≥ {low}, as fast as answers come"
    high = f"{round(requests.high):,}"
    if requests.exact:
        return low
    return f"≈ {low}" if low == high else f"{low} to {high}"


def _orders(made: Plan) -> Table:
    table = _table(("block", "right"), ("runs, in this order", ""))
    blocks: dict[int, list[str]] = {}
    for run in made.runs:
        blocks.setdefault(run.block, []).append(run.treatment_id)
    plots = any(t.spec.deploy == "once" for t in made.treatments)
    for block, names in list(blocks.items())[:MOST_BLOCKS]:
        shown = names if len(names) <= 12 else [*names[:12], f"… and {len(names) - 12} more"]
        table.add_row(str(block), " → ".join(shown))
    if len(blocks) > MOST_BLOCKS:
        table.add_row("…", f"and {len(blocks) - MOST_BLOCKS} blocks more; --json lists all runs")
    if plots:
        table.add_row(
            "", "runs of one deployment that lives once are carried out together, block after block"
        )
    return table


def _totals(made: Plan, takes: Forecast) -> Table:
    from towtank.design.answer import least_blocks, most_blocks
    from towtank.units import format_duration

    spec = made.experiment
    table = _table(("", ""), ("", ""), header=False)
    least, most = least_blocks(spec), most_blocks(spec)
    blocks = (
        f"{least} blocks" if least == most else f"{least} blocks, then up to {most}, fixed once after these"
    )
    order = spec.order if spec.order == "listed" else f"{spec.order}, seed {spec.seed}"
    table.add_row("runs", f"{takes.runs} = {len(made.treatments)} treatments × {blocks} ({order})")
    table.add_row("requests", requests_text(takes.requests))
    table.add_row(
        "time",
        f"about {format_duration(takes.estimate_s)}: load {format_duration(takes.load_s)}, the rest an estimate for "
        f"{takes.deployments} deployments, settling and storing",
    )
    table.add_row(
        "", f"at most {format_duration(takes.most_s)} when every run settles and drains as long as it may"
    )
    if least != most:
        table.add_row("", f"up to {most / least:.3g} times that with all {most} blocks")
    return table


def _cost(made: Plan, takes: Forecast) -> list[str]:
    """Lines about what the runs will cost, as far as that is known before them."""
    from towtank.design.expected_cost import expected_costs, in_words

    spec = made.experiment.cost
    return [] if spec is None else in_words(expected_costs(made, takes), spec.currency)


def _would_create(made: Plan) -> list[str]:
    """What deployments would create where that costs money by itself; each line once."""
    from towtank.platforms import registry
    from towtank.platforms.base import TellsWhatItCreates

    found: dict[str, None] = {}
    for treatment in made.treatments:
        platform = registry.create(treatment.spec.deployment.platform)
        if isinstance(platform, TellsWhatItCreates):
            found |= dict.fromkeys(platform.would_create(treatment.spec.deployment))
    return list(found)


def _decision(made: Plan, decides: Power | None) -> list[str]:
    if decides is None:
        return ["decides: nothing; it explores"]
    answer = made.experiment.answer
    primary = ", ".join(answer.primary) if answer else ""
    together = f"at {1 - decides.alpha:.3g} confidence"
    several = len(decides.claims) > 1
    many = f"{len(decides.claims)} claims ({primary}), together {together}, by Holm"
    lines = [f"decides: {many if several else f'1 claim ({primary}), {together}'}"]
    if answer is not None and answer.claim == "not-worse":
        lines.append(
            f"  also shown: not worse by {100 * answer.matters:g} % or more, where the difference is open"
        )
    alike: dict[tuple[object, ...], list[Claim]] = {}
    for claim in decides.claims:
        key = (claim.method, claim.check, claim.smallest_p, claim.smallest_check_p)
        alike.setdefault(key, []).append(claim)
    for claims in alike.values():
        lines += _method(decides, claims, everything=len(alike) == 1)
    return lines


def _method(decides: Power, claims: list[Claim], *, everything: bool) -> list[str]:
    """Lines about claims that are decided alike."""
    from towtank.design.problems import listing

    one = claims[0]
    about = ""
    if not everything:
        pairs = dict.fromkeys(f"{c.treatment} against {c.baseline}" for c in claims)
        some = len(pairs) < len({(c.treatment, c.baseline) for c in decides.claims})
        which = f" ({listing(pairs, most=6)})" if some else ""
        about = f"{', '.join(dict.fromkeys(c.variable for c in claims))}{which}: "
    if one.smallest_p is None:
        lines = [f"  {about}{one.method}: no smallest p-value, it depends on the variance only"]
    else:
        lines = [f"  {about}{one.method}: smallest adjusted p-value {one.smallest_p:.2g}"]
    if one.smallest_check_p is not None:
        can = "can confirm" if one.check_can_confirm else "cannot confirm"
        lines.append(
            f"  {one.check} as a check: smallest adjusted p-value {one.smallest_check_p:.2g}, "
            f"so it {can} a claim at {decides.alpha:.3g}"
        )
    elif one.check:
        lines.append(f"  {one.check} as a check: from 8 blocks on, here are {decides.blocks}")
    return lines
