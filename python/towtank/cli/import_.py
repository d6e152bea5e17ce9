"""`towtank import`: results of other load generators as runs."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from collections.abc import Sequence

    from towtank.campaign.importing import ImportedRun
    from towtank.design.model import Answer


def import_(  # noqa: PLR0917 - typer hands over options by position
    tool: Annotated[str, typer.Argument(metavar="TOOL", help="k6, locust, hey, vegeta or oha.")],
    files: Annotated[
        list[Path] | None, typer.Argument(metavar="FILE…", help="What it wrote; .gz may be given as it is.")
    ] = None,
    treatment: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=FILE", help="A file and the treatment it is a run of; may be repeated."),
    ] = None,
    name: Annotated[str, typer.Option(help="Name of the experiment [default: imported-TOOL].")] = "",
    output: Annotated[
        Path | None,
        typer.Option("--output", "-o", metavar="DIR", help="Folder of the results [default: results/NAME]."),
    ] = None,
    question: Annotated[str, typer.Option(help="What the runs shall answer.")] = "",
    baseline: Annotated[
        str, typer.Option(metavar="NAME", help="The treatment that the others are compared with.")
    ] = "",
    primary: Annotated[
        str,
        typer.Option(metavar="NAMES", help="Claim these variables, such as p95,throughput [default: none]."),
    ] = "",
    matters: Annotated[str, typer.Option(help="Smallest relative difference worth acting on.")] = "5%",
    slo: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME=BOUND", help="A bound, such as p95=300ms; may be repeated."),
    ] = None,
    warmup: Annotated[str, typer.Option(help="Beginning of each run that is not evaluated.")] = "0s",
    duration: Annotated[str, typer.Option(help="Length of the load [default: until the last answer].")] = "",
    timeout: Annotated[str, typer.Option(help="The tool's timeout [default: the tool's own].")] = "",
    paired: Annotated[
        bool,
        typer.Option("--paired", help="The n-th runs of all treatments were made together, in random order."),
    ] = False,
) -> None:
    """Turn results of other load generators into a result folder.

    Each file is a run. before-1.csv, before-2.csv, after-1.csv, after-2.csv are two treatments with two repetitions
    each; --treatment NAME=FILE says it where names do not. A file that is cut off or something else is refused with its
    line, and then nothing is imported. docs/doors.md says what each format knows, and what it cannot know.
    """
    from towtank.campaign.importing import ImportRequest, import_files
    from towtank.load.importers import FORMATS, label_files
    from towtank.units import parse_duration

    if tool not in FORMATS:
        raise typer.BadParameter(
            f"{tool!r} is not known; allowed are {', '.join(FORMATS)}", param_hint="TOOL"
        )
    if not files and not treatment:
        raise typer.BadParameter(f"give {FORMATS[tool].wants}", param_hint="FILE")
    try:
        lengths = [parse_duration(text) if text else None for text in (warmup, duration, timeout)]
    except ValueError as error:
        raise typer.BadParameter(str(error)) from error
    labelled = label_files(files or [], treatment or [])
    names = list(dict.fromkeys(one.treatment for one in labelled))
    if paired and len({sum(one.treatment == each for one in labelled) for each in names}) != 1:
        raise typer.BadParameter("every treatment needs as many runs as the others", param_hint="--paired")
    experiment = name or (output.name if output else f"imported-{tool}")
    target = output or Path("results") / experiment
    done = import_files(
        ImportRequest(
            tool=tool, files=labelled, experiment=_experiment(experiment), warmup_s=lengths[0] or 0.0,
            question=_line(question) or _question(tool, names), duration_s=lengths[1], timeout_s=lengths[2],
            paired=paired, answer=_answer(primary, baseline, matters, names), slo=_bounds(slo or []),
        ),
        target,
    )  # fmt: skip
    _say(done, target, claims=bool(primary), several=len(names) > 1)


def _experiment(name: str) -> str:
    import re

    if not re.fullmatch(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,62}", name):
        raise typer.BadParameter(
            f"{name!r} cannot be the name of an experiment: letters, digits, _ . - are allowed, at most 63",
            param_hint="--name",
        )
    return name


def _line(text: str) -> str:
    if not text.isprintable() or len(text) > 500:
        raise typer.BadParameter(
            "allowed is one line of text, at most 500 characters", param_hint="--question"
        )
    return text


def _question(tool: str, names: Sequence[str]) -> str:
    if len(names) == 1:
        return f"What did {tool} measure of {names[0]}?"[:500]
    return f"How do {' and '.join(names)} differ under {tool}?"[:500]


def _answer(primary: str, baseline: str, matters: str, names: Sequence[str]) -> Answer | None:
    """Read what is claimed; the comparison is with the first treatment unless said otherwise."""
    from towtank.design.model import Answer
    from towtank.variables import known_names, variable

    if baseline and baseline not in names:
        raise typer.BadParameter(
            f"{baseline!r} is no treatment; there are {', '.join(names)}", param_hint="--baseline"
        )
    chosen = tuple(dict.fromkeys(part.strip() for part in primary.split(",") if part.strip()))
    if not chosen:
        if baseline:
            raise typer.BadParameter("says nothing without --primary", param_hint="--baseline")
        return None
    for each in chosen:
        try:
            variable(each)
        except KeyError as error:
            raise typer.BadParameter(
                f"there is no response variable {each!r}; there are {', '.join(known_names())}",
                param_hint="--primary",
            ) from error
    if len(names) < 2:
        raise typer.BadParameter("a claim compares treatments, and there is only one", param_hint="--primary")
    try:
        return Answer(primary=chosen, baseline=baseline or names[0], matters=matters)
    except ValueError as error:
        raise typer.BadParameter(f"{matters!r} is no share, such as 5%", param_hint="--matters") from error


def _bounds(texts: Sequence[str]) -> dict[str, float]:
    from towtank.design.slo import read_bound

    found = {}
    for text in texts:
        name, _, bound = text.partition("=")
        try:
            found[name.strip()] = read_bound(name.strip(), bound.strip())
        except KeyError as error:
            raise typer.BadParameter(f"there is no response variable {name!r}", param_hint="--slo") from error
        except ValueError as error:
            raise typer.BadParameter(f"{text!r}: {error}", param_hint="--slo") from error
    return found


def _say(done: Sequence[ImportedRun], target: Path, *, claims: bool, several: bool) -> None:
    """Say which file became which run, what must be known of them, and what comes next."""
    for run in done:
        typer.echo(f"{run.path} → {run.treatment}: {run.run_id}, {run.requests:,} requests")
    for note in dict.fromkeys(note for run in done for note in run.notes):
        word = "warning" if note.spoils else "note"
        typer.echo(f"{word}: {note.message}" + (f" ({note.advice})" if note.advice else ""), err=True)
    if several and not claims:
        typer.echo(
            "note: nothing is claimed, so comparisons are exploratory; --primary p95 claims it", err=True
        )
    typer.echo(f"towtank report {target}")
