"""The report as one self-contained HTML file under a strict content-security policy."""

from towtank.report.html.page import render

__all__ = ["render"]
