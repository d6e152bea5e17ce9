"""SQL expressions as response variables: one number of one run, from nothing but that run's tables.

An expression is checked when the plan is made, against the same views without a row in them, and evaluated when results
are analysed, against the views of one run. Both go through `store.database` with all of its locks.
"""

from __future__ import annotations

import math
import tempfile
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Self

from towtank.errors import QueryError, ResultsError
from towtank.store.database import Database
from towtank.store.kept_tables import first_line
from towtank.store.layout import ResultsLayout
from towtank.store.results import Results
from towtank.store.run_folder import RunFolder
from towtank.store.views import VIEWS

MEMORY_BYTES = 512 << 20
"""Bound of what an expression takes; it is evaluated beside the analysis, which needs memory of its own."""
_NUMBERS = frozenset({
    "TINYINT", "SMALLINT", "INTEGER", "BIGINT", "HUGEINT", "UTINYINT", "USMALLINT", "UINTEGER", "UBIGINT", "UHUGEINT",
    "FLOAT", "DOUBLE", "DECIMAL", "BOOLEAN",
})  # fmt: skip
_ALLOWED = f"allowed is a SELECT of one number over the views of one run: {', '.join(VIEWS)}"


@dataclass(frozen=True)
class Measured:
    """What an expression says of a run.

    Parameters
    ----------
    value : float or None
        Finite and not negative; None where it says nothing of this run.
    reason : str
        Why there is no value.
    """

    value: float | None
    reason: str = ""


class EmptyRun:
    """The views as a run has them, without a row: what expressions are checked against; a context manager."""

    def __init__(self) -> None:
        self._folder = tempfile.TemporaryDirectory(prefix="towtank-empty-")

    def __enter__(self) -> Self:
        """Open it."""
        self._database = Database(Results(ResultsLayout(Path(self._folder.name))), memory_bytes=MEMORY_BYTES)
        return self

    def __exit__(self, *_: object) -> None:
        """Let go of it."""
        self._database.close()
        self._folder.cleanup()

    def problem(self, sql: str) -> str:
        """What is wrong with an expression; empty when nothing is.

        Parameters
        ----------
        sql : str
            It is parsed and bound, not run: no data can make a check last.
        """
        try:
            columns = self._database.describe(sql)
        except QueryError as error:
            return f"{first_line(error)}; {_ALLOWED}"
        if len(columns) != 1:
            names = ", ".join(name for name, _ in columns[:5])
            return f"it selects {len(columns)} columns ({names}); {_ALLOWED}"
        kind = columns[0][1].partition("(")[0]
        if kind not in _NUMBERS:
            return f"its value is of type {kind}, which is no number; {_ALLOWED}"
        return ""


def measure(results: Results, run: RunFolder, expressions: Mapping[str, str]) -> dict[str, Measured]:
    """Evaluate expressions over one run.

    Parameters
    ----------
    results : Results
    run : RunFolder
        The views hold this attempt and no other.
    expressions : mapping
        Name → SQL.

    Returns
    -------
    dict
        Name → what it says. Whatever is wrong with an expression or its answer is a reason, never an error: the
        other variables of the run are not touched by it.
    """
    if not expressions:
        return {}
    window = run.record.window
    if window is None:
        return dict.fromkeys(expressions, Measured(None, "the run ended before its load was recorded"))
    if window.start_us == window.end_us:
        reason = "the load was over before the measured window begins"
        return dict.fromkeys(expressions, Measured(None, reason))
    with Database(results.only(run), memory_bytes=MEMORY_BYTES) as database:
        return {
            name: _value(database, sql, ratio=name.endswith("_ratio")) for name, sql in expressions.items()
        }


def _value(database: Database, sql: str, *, ratio: bool) -> Measured:
    try:
        rows = database.query(sql)
        if len(rows.columns) != 1:
            return Measured(None, f"the expression gave {len(rows.columns)} columns instead of one")
        found: list[object] = []
        for batch in rows.batches():
            found += batch.column(0).slice(0, 2).to_pylist()
            if len(found) > 1:
                return Measured(None, "the expression gave several rows instead of one")
    except (QueryError, ResultsError) as error:
        return Measured(None, f"the expression failed: {first_line(error)}")
    if not found:
        return Measured(None, "the expression gave no row")
    return _number(found[0], ratio=ratio)


def _number(found: object, *, ratio: bool) -> Measured:
    if found is None:
        return Measured(None, "the expression found nothing to reckon with (null)")
    if not isinstance(found, bool | int | float | Decimal):
        return Measured(None, f"the expression gave {str(found)[:60]!r}, which is no number")
    value = float(found)
    if not math.isfinite(value):
        what = "not-a-number (0 ÷ 0?)" if math.isnan(value) else "something infinite (1 ÷ 0?)"
        return Measured(None, f"the expression gave {what}, which is no finite number")
    if value < 0:
        return Measured(None, f"the expression gave {value:g}; a response variable is never negative")
    if ratio and value > 1:
        return Measured(None, f"the expression gave {value:g}; a share is from 0 to 1")
    return Measured(value)
