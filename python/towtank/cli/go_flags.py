"""hey's flags as Go reads them (``-n=200``, ``--n 200``, ``-h2=true``), turned into the way we read them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

VALUES = frozenset(
    {"n", "c", "q", "z", "o", "m", "H", "t", "A", "d", "D", "T", "a", "x", "U", "host", "cpus"}
)
"""hey's flags that take a value."""
SWITCHES = frozenset({"h2", "disable-compression", "disable-keepalive", "disable-redirects"})
_TRUE = frozenset({"1", "t", "T", "true", "TRUE", "True"})
_FALSE = frozenset({"0", "f", "F", "false", "FALSE", "False"})


def spelled_out(words: Sequence[str]) -> list[str]:
    """Write hey's flags of a `towtank load` as ``-n 200``; everything else stays as it is.

    >>> spelled_out(["load", "-n=2", "--c", "1", "-disable-keepalive=false", "-h2=true", "http://h/?n=2"])
    ['load', '-n', '2', '-c', '1', '-h2', 'http://h/?n=2']
    """
    return [*words[:1], *_load(iter(words[1:]))] if words[:1] == ["load"] else list(words)


def _load(words: Iterator[str]) -> Iterator[str]:
    for word in words:
        if word == "--":  # nothing after it is a flag
            yield word
            yield from words
            return
        name, equals, value = word.removeprefix("-").removeprefix("-").partition("=")
        if not word.startswith("-") or name not in VALUES | SWITCHES:
            yield word
        elif name in VALUES:
            yield f"-{name}"
            yield from [value] if equals else _next(words)
        elif not equals or value in _TRUE:
            yield f"-{name}"
        elif value not in _FALSE:
            yield word  # refused where it is read


def _next(words: Iterator[str]) -> Iterator[str]:
    """Give the value that follows, whatever it looks like; nothing at the end of the line."""
    for word in words:
        yield word
        return
