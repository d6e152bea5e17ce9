"""All rules over all rows of all tables."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from towtank.audit import rules_of_cost, rules_of_counts, rules_of_load, rules_of_values
from towtank.audit.check import Check
from towtank.audit.problem import Problem
from towtank.audit.repeats import repeats
from towtank.audit.table import Row, Table, nothing_to_check, read_table

RULES: dict[str, Callable[[Row], Iterator[Check]]] = {
    "negative": rules_of_counts.counts_not_negative,
    "within-total": rules_of_counts.failed_within_total,
    "parts": rules_of_counts.parts_make_total,
    "share": rules_of_counts.share_of_total,
    "whole": rules_of_counts.share_of_whole_requests,
    "share-bounds": rules_of_counts.shares_in_bounds,
    "shares": rules_of_counts.shares_make_all,
    "order": rules_of_values.ascending,
    "mean": rules_of_values.mean_within,
    "mean-of-n": rules_of_values.mean_of_so_many,
    "mean-median": rules_of_values.median_near_mean,
    "spread": rules_of_values.spread_possible,
    "closed-loop": rules_of_load.closed_loop,
    "rate": rules_of_load.rate_makes_total,
    "per-1000": rules_of_cost.per_thousand,
    "reserved": rules_of_cost.reserved,
    "by-use": rules_of_cost.by_use,
}
"""By name, as docs/audit.md lists them; besides these `change` and `repeated`, which look at several rows."""


@dataclass(frozen=True)
class Audit:
    """What an audit found.

    Parameters
    ----------
    tables : tuple of Table
    checks : int
        Comparisons that were made.
    problems : tuple of Problem
        By table and line.
    """

    tables: tuple[Table, ...]
    checks: int
    problems: tuple[Problem, ...]

    @property
    def rows(self) -> int:
        """Rows of all tables."""
        return sum(len(table.rows) for table in self.tables)


def audit(paths: Sequence[Path], *, slack: int = 1) -> Audit:
    """Read tables and list the cells that cannot be right.

    Parameters
    ----------
    paths : sequence of Path
        CSV files in the form of docs/audit.md.
    slack : int, default 1
        Half units of the last printed digit that a number may be off; 2 where it may have been cut off.

    Raises
    ------
    ForeignFileError
        A file is no table, or no rule finds what it needs in any.
    """
    once: dict[Path, Path] = {}
    for path in paths:  # a table beside itself would repeat every row
        once.setdefault(path.resolve(), path)
    tables = [read_table(path, slack=slack) for path in once.values()]
    made = 0
    problems: list[Problem] = []
    for table in tables:
        for row in table.rows:
            for rule, check in _checks(table, row):
                made += not check.trivial
                problems += [] if check.holds else [check.problem(rule, row)]
    again = [repeat.problem() for repeat in repeats(tables)]
    if not made and not problems and not again:
        raise nothing_to_check(tables)
    order = {table.name: number for number, table in enumerate(tables)}
    found = sorted((*problems, *again), key=lambda p: (order[p.table], p.line))
    return Audit(tuple(tables), made, tuple(found))


def _checks(table: Table, row: Row) -> Iterator[tuple[str, Check]]:
    for rule, checks in RULES.items():
        for check in checks(row):
            yield rule, check
    for check in rules_of_counts.changes(table.rows[0], row):
        yield "change", check
