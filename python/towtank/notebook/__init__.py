"""Results in a notebook: `towtank.open(path)` gives tables as dataframes and figures that draw themselves."""

from __future__ import annotations

from towtank.notebook.drawing import Drawing
from towtank.notebook.opened import Opened, open_results

__all__ = ["Drawing", "Opened", "open_results"]
