"""`towtank audit`: published tables held against themselves."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from towtank.audit import Audit


def audit(
    tables: Annotated[
        list[Path], typer.Argument(metavar="TABLE.csv...", help="Tables in the form of docs/audit.md.")
    ],
    as_json: Annotated[bool, typer.Option("--json", help="Print what is found as JSON.")] = False,
    cut_off: Annotated[
        bool, typer.Option("--cut-off", help="Numbers may have been cut off instead of rounded.")
    ] = False,
) -> None:
    """List the cells of published tables that cannot be right, with the arithmetic.

    What can be recomputed is recomputed from the other cells. A printed number stands for every number that prints like
    it, so that no table that is right is called wrong. Ends with 9 where cells cannot be right.
    """
    from towtank.audit import audit as look
    from towtank.errors import ExitCode

    found = look(tables, slack=2 if cut_off else 1)
    if as_json:
        typer.echo(_json(found))
    else:
        for line in _lines(found):
            typer.echo(line)
    if found.problems:
        raise typer.Exit(int(ExitCode.AUDIT_FAILED))


def _lines(found: Audit) -> list[str]:
    said = [f"{problem} [{problem.rule}]" for problem in found.problems]
    said += [
        f"note: {table.name}: {name} looks like numbers, but the audit knows no such column (docs/audit.md)"
        for table in found.tables
        for name in table.unread
    ]
    wrong = len(found.problems)
    verdict = "nothing contradicts itself" if not wrong else f"{_count(wrong, 'contradiction')}"
    said.append(
        f"{_count(len(found.tables), 'table')}, {_count(found.rows, 'row')}, {_count(found.checks, 'check')}: {verdict}"
    )
    return said


def _count(number: int, what: str) -> str:
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def _json(found: Audit) -> str:
    import json
    from dataclasses import asdict

    return json.dumps(
        {
            "tables": [
                {"table": table.name, "rows": len(table.rows), "not_understood": list(table.unread)}
                for table in found.tables
            ],
            "checks": found.checks,
            "problems": [asdict(problem) for problem in found.problems],
        },
        indent=2,
        ensure_ascii=False,
    )
