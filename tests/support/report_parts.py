"""Finding a table or figure in a report's model."""

from __future__ import annotations

from typing import Any

from towtank.report.model import ReportModel


def part(model: ReportModel, name: str) -> Any:
    """The table or figure with this id."""
    return next(b for s in model.sections for b in s.blocks if getattr(b, "id", "") == name)
