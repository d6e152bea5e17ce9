"""Colours, dash patterns and markers: one look per deployment, in both themes and in black and white.

The hues are Okabe and Ito's colour-blind-safe set (Color Universal Design, 2008), darkened or lightened until each
has a contrast of at least 3 : 1 against its background (WCAG 2.2, 1.4.11); `tests/unit/report/test_style.py` measures
that, and the distances under simulated colour blindness. Figures are drawn in the light colours; in HTML every
colour becomes a CSS variable, so that one picture serves both themes.
"""

from __future__ import annotations

import re

SERIES_LIGHT = ("#0072b2", "#d55e00", "#0a9d7a", "#a63a80", "#30343a", "#6f5b00")
SERIES_DARK = ("#56a9f0", "#ff8a3d", "#35d0a2", "#d978b4", "#f4f5f7", "#e8d25a")

HOPS_LIGHT = ("#3f72af", "#e39a3b", "#4c9f70", "#a8557c", "#7d6fc4", "#b5a52e", "#3aa0b3", "#8c6d4f")
HOPS_DARK = ("#74a5dc", "#f0b86a", "#7cc99b", "#d68fb0", "#a99df0", "#d9ca62", "#6fc7d8", "#b99a7c")
"""What takes part in a request: not the colours of deployments, which stand beside them."""

DASHES: tuple[tuple[int, ...], ...] = ((1, 0), (7, 3), (2, 2), (9, 3, 2, 3), (4, 2), (12, 4))
MARKERS = ("circle", "square", "triangle-up", "diamond", "cross", "triangle-down")

LIGHT = {
    "paper": "#ffffff",
    "ink": "#1a1e23",
    "muted": "#59626e",
    "rule": "#d9dee4",
    "grid": "#e8ebef",
    "shade": "#eff3f7",
    "band": "#e3ead9",
    "fail": "#b3261e",
    "o0": "#b3261f",
    "o1": "#e08e2b",
    "o2": "#8d99a8",
    "o3": "#5c4b8a",
    "o4": "#c77d9b",
    "rest": "#aab3bd",
    "outside": "#c9d0d8",
    "before": "#7a8490",
    **{f"h{i}": color for i, color in enumerate(HOPS_LIGHT)},
    **{f"s{i}": color for i, color in enumerate(SERIES_LIGHT)},
}
"""Role → colour on white. Every value differs from every other, so that a colour can be traced back to its role."""

DARK = {
    "paper": "#14171b",
    "ink": "#e7eaee",
    "muted": "#a3adb9",
    "rule": "#353c45",
    "grid": "#2a3038",
    "shade": "#1e242b",
    "band": "#2b3a2e",
    "fail": "#ff8a80",
    "o0": "#ff7a70",
    "o1": "#f0b35e",
    "o2": "#8f9bab",
    "o3": "#a894e0",
    "o4": "#e3a3bd",
    "rest": "#77818d",
    "outside": "#4d5661",
    "before": "#99a3ae",
    **{f"h{i}": color for i, color in enumerate(HOPS_DARK)},
    **{f"s{i}": color for i, color in enumerate(SERIES_DARK)},
}

_HEX = re.compile("|".join(re.escape(color) for color in LIGHT.values()), re.IGNORECASE)
_ROLE = {color: role for role, color in LIGHT.items()}


def themed(text: str) -> str:
    """Replace every colour of a drawing (SVG or JSON) by the CSS variable of its role."""
    return _HEX.sub(lambda m: f"var(--{_ROLE[m.group(0).lower()]})", text)


def css_variables(colors: dict[str, str]) -> str:
    """Return the declarations of a theme."""
    return "".join(f"--{role}:{color};" for role, color in colors.items())
