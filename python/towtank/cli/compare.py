"""`towtank compare`: regressions between two results of one experiment."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from towtank.analysis.versions import Regressions
    from towtank.store import Results


def compare(  # noqa: PLR0917 - typer hands over options by position
    old: Annotated[Path, typer.Argument(metavar="OLD", help="The folder of the older results.")],
    new: Annotated[
        Path, typer.Argument(metavar="NEW", help="An experiment file, or the folder of its results.")
    ],
    everything: Annotated[
        bool, typer.Option("--all", help="Also print the exploratory comparisons.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print what is found as JSON.")] = False,
    junit: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the claims as JUnit test cases.")
    ] = None,
    github: Annotated[
        bool, typer.Option("--github", help="Also print annotations of GitHub's workflows.")
    ] = False,
    fail_undecided: Annotated[
        bool,
        typer.Option("--fail-undecided", help="End with 7 when nothing is worse but a claim is undecided."),
    ] = False,
    force: Annotated[bool, typer.Option("--force", help="Replace a file that exists.")] = False,
) -> None:
    """Say what became better or worse between two results of one experiment.

    The designs must be the same but for the deployments. Each treatment's new runs are compared with its old ones as
    independent samples, on the primary variables that the experiment declares, as one family. Ends with 8 when
    something became worse.
    """
    from towtank.analysis.versions import regressions
    from towtank.errors import ExitCode
    from towtank.report.interchange import github as annotations
    from towtank.store import Results, locate

    before, after = Results.open(locate(old)), Results.open(locate(new))
    found = regressions(before, after)
    if as_json:
        typer.echo(_json(found))
    else:
        for line in _lines(found, _environments(before, after), everything=everything):
            typer.echo(line)
    if junit is not None:
        _write_junit(found, junit, force=force)
    if github:
        for line in annotations.render(found, file=new.as_posix() if new.is_file() else None):
            typer.echo(line, err=as_json)
    if found.worse:
        raise typer.Exit(int(ExitCode.REGRESSION))
    if fail_undecided and not found.decided:
        raise typer.Exit(int(ExitCode.UNDECIDED))


def _environments(before: Results, after: Results) -> list[str]:
    """What differs between host, engine and versions, one line each."""
    from towtank.campaign.environment import difference

    if not all(results.layout.environment.is_file() for results in (before, after)):
        return ["that of a side is not known, because its environment.json is missing"]
    return difference(before.environment, after.environment)


def _lines(found: Regressions, environments: list[str], *, everything: bool) -> list[str]:
    said = [f"{found.experiment}: new against old"]
    said += [f"  - {claim.sentence}" for claim in found.claims]
    if everything:
        said += ["exploratory:", *(f"  - {one.sentence}" for one in found.explored)]
    said += [f"note: {note}" for note in found.notes]
    said += [f"note: the environments differ: {line}" for line in environments]
    said.append(f"note: {found.caution}")
    words = [claim.verdict for claim in found.claims]
    counts = [f"{words.count(word)} {word}" for word in dict.fromkeys(words) if word]
    said.append(f"{len(words)} claims: {', '.join(counts)}" if words else "nothing is claimed")
    return said


def _json(found: Regressions) -> str:
    import json
    from dataclasses import asdict

    return json.dumps(
        {**asdict(found), "worse": len(found.worse), "decided": found.decided},
        indent=2, ensure_ascii=False, allow_nan=False,
    )  # fmt: skip


def _write_junit(found: Regressions, file: Path, *, force: bool) -> None:
    from towtank.errors import ResultsError
    from towtank.report.interchange import junit_versions
    from towtank.store.export import make_folder, refuse_existing
    from towtank.store.files import explained, write_bytes

    if not found.claims:  # a file without a case would be a success to whoever reads it
        raise ResultsError(
            "nothing is claimed, so there is nothing to test",
            hint="declare answer: {primary: [p95]} in the experiment file",
        )
    refuse_existing([file], force=force)
    with explained(file, still_good="nothing was written; the results are untouched"):
        make_folder(file.parent)
        write_bytes(file, junit_versions.render(found).encode("utf-8"))
