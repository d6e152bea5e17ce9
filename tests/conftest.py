"""What all tests share: the plain statement of what a call of pytest left out, and why."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import settings

# How long one example takes says more of the machine than of the code.
settings.register_profile("towtank", deadline=None)
settings.load_profile("towtank")

WHERE_IT_RUNS = {
    "kill": "make test-kill",
    "slow": "make test-slow",
    "statistical": "make test-stat",
    "cluster": "make test-cluster",
    "storage": "make test-storage",
    "alone": "make test, one after another",
}
_left_out: Counter[str] = Counter()


def pytest_deselected(items: list[pytest.Item]) -> None:
    """Count what `-m` left out, by the tier that runs it."""
    for item in items:
        marks = [name for name in WHERE_IT_RUNS if item.get_closest_marker(name)]
        _left_out[marks[0] if marks else "other"] += 1


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Tell the controller of pytest-xdist what was left out; each of its workers leaves out the same."""
    output = getattr(session.config, "workeroutput", None)
    if output is not None:
        output["left_out"] = dict(_left_out)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node: Any) -> None:
    """Hear of it."""
    for name, count in getattr(node, "workeroutput", {}).get("left_out", {}).items():
        _left_out[name] = count


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Name what was left out, so that a green line is not read for more than it is."""
    for name, count in sorted(_left_out.items()):
        where = WHERE_IT_RUNS.get(name, "another tier of the Makefile")
        terminalreporter.write_line(f"left out: {count} tests of the tier '{name}'; they run with {where}")
