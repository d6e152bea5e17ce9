"""The scenarios, one module each, in the order in which they are run and shown.

A scenario is a module with `TITLE`, `run(setting) -> dict` (what is kept in results.json) and `show(result) -> str`
(Markdown for docs/benchmarks.md, without the heading).
"""

from __future__ import annotations

from typing import Any, Protocol

from benchmarks.measure import Setting
from benchmarks.scenarios import (
    ingress,
    io_uring,
    keepalive,
    kubernetes,
    large_report,
    memory,
    open_load,
    records,
    report,
    secure,
    shop,
    start,
)


class Scenario(Protocol):
    """What a module here offers."""

    TITLE: str

    def run(self, setting: Setting) -> dict[str, Any]:
        """Measure."""

    def show(self, result: dict[str, Any]) -> str:
        """Write what was measured as Markdown."""


SCENARIOS: dict[str, Scenario] = {
    "keepalive": keepalive,
    "shop": shop,
    "open": open_load,
    "secure": secure,
    "memory": memory,
    "records": records,
    "start": start,
    "io_uring": io_uring,
    "report": report,
    "large-report": large_report,
    "kubernetes": kubernetes,
    "ingress": ingress,
}
