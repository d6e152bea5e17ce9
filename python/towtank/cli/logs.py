"""`towtank logs`: what the instances of a run wrote, by the run's time."""

from __future__ import annotations

import math
import re
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from towtank.store.log_lines import TimedLog


def logs(
    run: Annotated[Path, typer.Argument(metavar="RUN", help="The folder of a run: RESULTS/runs/b01-one-a1.")],
    start: Annotated[
        str | None,
        typer.Option(
            "--from", metavar="TIME", help="Since the start of the load, such as 10s; before it: -2s."
        ),
    ] = None,
    end: Annotated[str | None, typer.Option("--to", metavar="TIME", help="Up to this time.")] = None,
    pattern: Annotated[
        str | None, typer.Option("--grep", metavar="REGEX", help="Only lines in which this is found.")
    ] = None,
    instance: Annotated[
        list[str] | None,
        typer.Option("--instance", metavar="NAME", help="Only of this instance; repeatable."),
    ] = None,
) -> None:
    """Show what the instances of a run wrote, with the time since the load started (± 50 ms).

    Lines of all instances are in one order. Control characters are left out.
    """
    from towtank.cli.bounds import ended_in_order
    from towtank.platforms.output import clean
    from towtank.store.log_lines import in_order

    from_us = -math.inf if start is None else _time_us("--from", start)
    to_us = math.inf if end is None else _time_us("--to", end)
    if from_us >= to_us:
        raise typer.BadParameter(f"--from {start} is not before --to {end}")
    wanted = _pattern(pattern)
    zero_ns, found, without = _open(run, tuple(instance or ()))
    with ended_in_order():
        for line in in_order(found, zero_ns, from_us, to_us):
            text = clean(line.text)
            if wanted is None or wanted.search(text):
                typer.echo(f"{line.t_us / 1e6:+10.3f} s  {line.instance}  {text}")
    if without:
        typer.echo(f"not searched, since their times are not known: {', '.join(without)}", err=True)


def _open(run: Path, instances: tuple[str, ...]) -> tuple[int, list[TimedLog], list[str]]:
    """Zero of the run clock, the logs that can be searched, and names of those that cannot."""
    from towtank.errors import ResultsError
    from towtank.spelling import nearest_name
    from towtank.store.locating import find_run
    from towtank.store.log_lines import timed_logs

    folder = find_run(run)
    clock = folder.record.clock
    if clock is None:
        raise ResultsError(
            f"{folder.run_id} never came to its load, so that its logs have no times of the run",
            hint=f"they are in {folder.layout.logs}",
        )
    found = timed_logs(folder.layout.logs)
    names = [log.instance for log in found]
    for name in instances:
        if name not in names:
            near = nearest_name(name, names)
            raise ResultsError(
                f"{folder.run_id} has no log of {name!r}; it has {', '.join(names) or 'none with times'}",
                hint=f"did you mean {near!r}?" if near else None,
            )
    others = sorted(path.name for path in folder.layout.logs.glob("*.log") if path.stem not in names)
    chosen = [log for log in found if not instances or log.instance in instances]
    return clock.zero_monotonic_ns, chosen, [] if instances else others


def _time_us(option: str, text: str) -> float:
    from towtank.units import parse_duration

    negative = text.strip().startswith("-")
    try:
        seconds = parse_duration(text.strip().removeprefix("-"))
    except ValueError as error:
        raise typer.BadParameter(f"{option} {text}: {error}") from error
    return -seconds * 1e6 if negative else seconds * 1e6


def _pattern(text: str | None) -> re.Pattern[str] | None:
    try:
        return None if text is None else re.compile(text)
    except re.error as error:
        raise typer.BadParameter(f"--grep {text!r} is no regular expression: {error}") from error
