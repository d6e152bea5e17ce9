"""A real bill as CSV: what each line is, what it came to, and what it is shared out by."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import get_args

from towtank.cost.bill import BillLine, By
from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.units import parse_number

HEADER = ("name", "amount", "by")
MOST_LINES = 1000


def read_bill(path: Path, shown_as: str, problems: Problems) -> tuple[BillLine, ...]:
    """Read a bill; empty when something in it is wrong, which is said with its line.

    Parameters
    ----------
    path : Path
    shown_as : str
        The file as the user named it.
    problems : Problems
    """
    try:
        text = path.read_text("utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        problems.add(Place(shown_as), "", f"the bill cannot be read: {error}", "save it as CSV in UTF-8")
        return ()
    before = len(problems)
    lines: list[BillLine] = []
    reader = csv.reader(text.splitlines())
    header = tuple(cell.strip() for cell in next(reader, []))
    if header != HEADER:
        problems.add(
            Place(shown_as), "", f"the first line is {','.join(header)!r}; allowed is {','.join(HEADER)!r}"
        )
        return ()
    for row in reader:
        place = Place(shown_as, reader.line_num)
        if not row:
            continue
        if len(row) != len(HEADER):
            problems.add(place, "", f"{len(row)} cells; allowed are {len(HEADER)}: {', '.join(HEADER)}")
            continue
        line = _line([cell.strip() for cell in row], place, problems)
        if line is not None:
            lines.append(line)
        if len(lines) > MOST_LINES:
            problems.add(place, "", f"more than {MOST_LINES} lines", "add lines of the same kind up")
            return ()
    if not lines and len(problems) == before:
        problems.add(Place(shown_as), "", "the bill has no lines")
    return tuple(lines) if len(problems) == before else ()


def _line(cells: list[str], place: Place, problems: Problems) -> BillLine | None:
    name, amount, by = cells
    allowed = get_args(By)
    if by not in allowed:
        problems.add(place, "by", f"found {shown(by)}; allowed are {listing(allowed)}", nearest(by, allowed))
        return None
    try:
        money = parse_number(amount)
    except ValueError as error:
        problems.add(place, "amount", str(error))
        return None
    if not 0 <= money < float("inf"):
        problems.add(place, "amount", f"found {amount}; allowed is an amount ≥ 0")
        return None
    return BillLine(name, money, "invocations" if by == "invocations" else "request-seconds")
