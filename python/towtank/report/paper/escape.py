r"""Text as LaTeX: what is markup there stands for itself, and no character stops a compiler.

Whatever leaves this module is plain ASCII, but for characters that have no command in LaTeX: these go through
``\towtankchar``, which prints them where the engine knows Unicode (LuaLaTeX, XeLaTeX) and their number elsewhere.
"""

from __future__ import annotations

import re
import unicodedata

MACRO = r"\providecommand{\towtankchar}[2]{\ifdefined\Umathchar #2\else\texttt{[U+#1]}\fi}"
r"""Definition of ``\towtankchar{4E2D}{中}``; ``\Umathchar`` is there where the engine knows Unicode."""

_MARKUP = {
    "\\": r"\textbackslash{}", "{": r"\{", "}": r"\}", "$": r"\$", "&": r"\&", "#": r"\#", "%": r"\%", "_": r"\_",
    "^": r"\textasciicircum{}", "~": r"\textasciitilde{}", "<": r"$<$", ">": r"$>$", "|": r"$|$",
    '"': r"\char34{}", "'": r"\char39{}", "`": r"\char96{}", "[": "{[}", "]": "{]}", "*": "{*}",
}  # fmt: skip
"""Brackets and stars at the start of a row would be arguments of the line end before them."""
_SYMBOLS = {
    "\u2013": "--", "\u2014": "---", "\u2212": "$-$", "×": r"$\times$", "÷": r"$\div$", "±": r"$\pm$", "·": r"$\cdot$",
    "≥": r"$\geq$", "≤": r"$\leq$", "≈": r"$\approx$", "≠": r"$\neq$", "→": r"$\rightarrow$", "←": r"$\leftarrow$",
    "↑": r"$\uparrow$", "↓": r"$\downarrow$", "∞": r"$\infty$", "√": r"$\surd$", "∑": r"$\sum$", "Δ": r"$\Delta$",
    "µ": r"$\mu$", "μ": r"$\mu$", "σ": r"$\sigma$", "α": r"$\alpha$", "β": r"$\beta$", "κ": r"$\kappa$",
    "✓": r"$\surd$", "✗": r"$\times$", "…": r"\ldots{}", "°": r"$^\circ$", "²": "$^2$", "³": "$^3$", "¹": "$^1$",
    "½": r"$\frac{1}{2}$", "\u2018": "`{}", "\u2019": "'{}", "\u201c": "``{}", "\u201d": "''{}", "\u201e": '"',
    "\u00a0": "~", "\u202f": r"\,", "\u2009": r"\,", "\u200b": "", "\u2011": "-", "§": r"\S{}", "¶": r"\P{}",
    "©": r"\copyright{}", "£": r"\pounds{}", "€": "EUR", "•": r"$\bullet$",
    "ß": r"\ss{}", "ø": r"\o{}", "Ø": r"\O{}", "æ": r"\ae{}", "Æ": r"\AE{}", "œ": r"\oe{}", "Œ": r"\OE{}",
    "ł": r"\l{}", "Ł": r"\L{}", "ı": r"\i{}",
}  # fmt: skip
"""With commands of plain LaTeX only; the euro sign would need a font that not every installation has."""
_ACCENTS = {
    "\u0300": "`", "\u0301": "'", "\u0302": "^", "\u0303": "~", "\u0304": "=", "\u0306": "u", "\u0307": ".",
    "\u0308": '"', "\u030a": "r", "\u030b": "H", "\u030c": "v", "\u0327": "c",
}  # fmt: skip
"""Combining mark → accent command that every font encoding of LaTeX has."""
_LIGATURE = re.compile(r"([-,])(?=\1)")


def latex(text: str) -> str:
    r"""Escape a text for LaTeX.

    >>> latex("50 % of a_b")
    '50 \\% of a\\_b'
    >>> latex("é − 3 µs, --to")
    "\\'{e} $-$ 3 $\\mu$s, -{}-to"
    """
    # Two of a kind would join to a dash or to a quotation mark.
    return "".join(part if index % 2 else _chars(part) for index, part in enumerate(_split(text)))


def _split(text: str) -> list[str]:
    """Text, and between its parts what is LaTeX already."""
    parts = _LIGATURE.split(text)
    return [f"{part}{{}}" if index % 2 else part for index, part in enumerate(parts)]


def _chars(text: str) -> str:
    return "".join(_one(char) for char in text)


def _one(char: str) -> str:
    known = _MARKUP.get(char, _SYMBOLS.get(char))
    if known is not None:
        return known
    if char.isascii():
        return char if char.isprintable() else " "
    parts = unicodedata.normalize("NFD", char)
    if len(parts) == 2 and parts[0].isascii() and parts[0].isalpha() and parts[1] in _ACCENTS:
        return f"\\{_ACCENTS[parts[1]]}{{{parts[0]}}}"
    return f"\\towtankchar{{{ord(char):04X}}}{{{char}}}"
