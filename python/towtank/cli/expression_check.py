"""Ask the database whether it understands the SQL of response variables, and say what it does not at its place."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterable

    from towtank.design.own_variables import Expression
    from towtank.design.problems import Problems


def check_expressions(expressions: Iterable[Expression], problems: Problems) -> None:
    """Bind every expression to the tables of a run that has no rows.

    Loading the database takes time, so it is loaded only where there is an expression.
    """
    wanted = tuple(expressions)
    if not wanted:
        return
    from towtank.store.expressions import EmptyRun

    with EmptyRun() as empty:
        for one in wanted:
            problem = empty.problem(one.sql)
            if problem:
                problems.add(one.place, one.path, problem)
