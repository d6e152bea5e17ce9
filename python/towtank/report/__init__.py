"""Reports: one set of tables and figures as HTML, terminal output, Markdown, SVG, PNG and PDF.

Reads an `ExperimentAnalysis` and nothing else; measures nothing, executes nothing, opens no connection.

::

    from towtank import report
    model = report.build(analysis)
    path.write_text(report.html.render(model), encoding="utf-8")

Importing this package is cheap; altair and vl-convert are loaded when something is built.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from towtank.report import figures, html, markdown, terminal
    from towtank.report.assemble import build
    from towtank.report.model import ReportModel
    from towtank.report.output import write

_WHERE = {"build": "assemble", "write": "output", "ReportModel": "model"}
_MODULES = ("figures", "html", "markdown", "terminal")

__all__ = ["ReportModel", "build", "figures", "html", "markdown", "terminal", "write"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name in _WHERE:
        found = getattr(importlib.import_module(f"towtank.report.{_WHERE[name]}"), name)
        globals()[name] = found
        return found
    if name in _MODULES:
        return importlib.import_module(f"towtank.report.{name}")
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
