"""Figures: one Vega-Lite definition each, drawn as interactive HTML, SVG, PNG and PDF, offline.

A figure never shows a mean without its spread, and shows failures where latency is.
"""

from towtank.report.figures.collect import collect
from towtank.report.figures.save import FORMATS, save, svg

__all__ = ["FORMATS", "collect", "save", "svg"]
