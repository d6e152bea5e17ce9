"""Text from outside made harmless: names, log lines and files may hold anything.

Three layers, each where it belongs. `clean` runs once, when the report model is built: it makes control and
invisible characters visible, so that no terminal, browser or editor acts on them. HTML is escaped by jinja2's
autoescape. `markdown` escapes what Markdown (and the HTML that Markdown lets through) would read as markup.
"""

from __future__ import annotations

import re
import unicodedata

MAX_NAME = 200
"""Characters of a name or sentence; a longer one is cut with an ellipsis."""
MAX_DOCUMENT = 200_000
"""Characters of a file that the report carries."""

_MARKDOWN = re.compile(r"([\\`*_\[\]<|~&$])")
_LINE_START = re.compile(r"^(\s*)([-+=>#]|\d+(?=[.)]))")
_AUTOLINK = re.compile(r"(?i)\b(https?|ftp|javascript|data|mailto|www)(?=[:.])")
_INVISIBLE = frozenset({"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"})
"""Unicode categories of characters that draw nothing, or change how others are drawn."""
_FENCE = re.compile(r"`{3,}")


def clean(value: object, *, limit: int = MAX_NAME, lines: bool = False) -> str:
    r"""Make a text from outside safe to show anywhere.

    Control characters, bidirectional overrides, separators and everything else that is invisible become the escapes
    that a programmer would write (``\x1b``, ``\u202e``); nothing is dropped silently but carriage returns of files.

    Parameters
    ----------
    value : object
    limit : int
        Longest result in characters.
    lines : bool
        Keep line ends and tabs (files); otherwise they become spaces.
    """
    text = str(value)
    if len(text) > limit:
        text = text[: limit - 1] + "…"
    return "".join(_visible(c, lines=lines) for c in text)


def _visible(char: str, *, lines: bool) -> str:
    if char.isascii() and char.isprintable():
        return char
    if char in "\n\t":
        return char if lines else " "
    if char == "\r" and lines:
        return ""
    code = ord(char)
    if unicodedata.category(char) in _INVISIBLE:
        return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
    return char


def shorten(text: str, limit: int) -> str:
    """Cut in the middle, where names of one family differ least."""
    if len(text) <= limit:
        return text
    head = (limit - 1) * 2 // 3
    return f"{text[:head]}…{text[len(text) - (limit - 1 - head) :]}"


def markdown(text: str, *, starts_line: bool = True) -> str:
    """Escape every character that Markdown could read as markup, and break links it would make by itself.

    Parameters
    ----------
    text : str
    starts_line : bool
        The text may stand at the start of a line, where lists, quotes and headings begin; not so in a table's cell.
    """
    escaped = _MARKDOWN.sub(r"\\\1", text).replace("\n", " ")
    if starts_line:
        escaped = _LINE_START.sub(_escape_start, escaped)
    return _AUTOLINK.sub(lambda m: m.group(0) + "\u200b", escaped)


def _escape_start(match: re.Match[str]) -> str:
    blank, mark = match.groups()
    return f"{blank}{mark}\u200b" if mark[0].isdigit() else f"{blank}\\{mark}"


def fenced(text: str, language: str = "") -> str:
    """Return a Markdown code block that its content cannot close."""
    longest = max((len(m) for m in _FENCE.findall(text)), default=2)
    fence = "`" * (longest + 1)
    return f"{fence}{language}\n{text.rstrip(chr(10))}\n{fence}"


def identifier(text: str) -> str:
    """Turn a name into one that is fit for an HTML id and a file name."""
    return re.sub(r"[^a-z0-9]+", "-", text.lower()).strip("-")[:60] or "x"


def listed(items: list[str] | tuple[str, ...], *, most: int = 6) -> str:
    """Join names as a person would, and count what is left out."""
    shown = list(items[:most])
    if len(items) > most:
        shown.append(f"{len(items) - most} more")
    if len(shown) <= 1:
        return "".join(shown)
    return f"{', '.join(shown[:-1])} and {shown[-1]}"
