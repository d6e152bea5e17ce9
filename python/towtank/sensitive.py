"""Headers whose values nobody else may read, and the means to leave them out of what is kept.

The one table of their names: the engine's job, `plan.json`, kept files and reports all go by it. A value that is only a
placeholder, such as ``Bearer {env.TOKEN}``, tells nothing and stays.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeVar, cast

if TYPE_CHECKING:
    from ruamel.yaml.events import Event, ScalarEvent

Data = TypeVar("Data")
MASK = "***"
SENSITIVE_HEADERS = frozenset({"authorization", "proxy-authorization", "cookie", "x-api-key"})
"""In lower case."""

_ONLY_PLACEHOLDER = re.compile(
    r"(?:(?:Basic|Bearer|Digest|Token) )?\{(?:env\.\w+|file\.[\w./-]+)\}", re.ASCII | re.IGNORECASE
)
_PROPERTIES = re.compile(r"(?:[&!]\S*\s+)*")


def is_sensitive(name: str) -> bool:
    """Whether the value of a header must not be shown; a key path is taken by its last part."""
    return name.lower().rpartition(".")[2] in SENSITIVE_HEADERS


def mask_values(data: Data) -> Data:
    """Copy JSON-like data with the texts below sensitive names masked; harmless to repeat."""
    return cast("Data", _masked(data, hides=False))


def _masked(data: object, *, hides: bool) -> object:
    if isinstance(data, str):
        return MASK if hides and not _ONLY_PLACEHOLDER.fullmatch(data) else data
    if isinstance(data, dict):
        return {key: _masked(value, hides=hides or is_sensitive(str(key))) for key, value in data.items()}
    if isinstance(data, list | tuple):
        return [_masked(one, hides=hides) for one in data]
    return data


def mask_yaml(text: str) -> str:
    """Mask the values of sensitive headers in the text of a YAML file, which is else left to the letter.

    Parameters
    ----------
    text : str
        What is no YAML is returned as it is; no plan can have come from it.
    """
    from ruamel.yaml import YAML  # noqa: PLC0415 - only for the few files that need it
    from ruamel.yaml.error import YAMLError  # noqa: PLC0415

    if not any(name in text.lower() for name in SENSITIVE_HEADERS):
        return text
    try:
        found = sorted(set(_values(YAML(typ="safe", pure=True).parse(text))), reverse=True)
    except (YAMLError, ValueError, LookupError, AttributeError, TypeError, AssertionError):
        return text
    for start, end in found:
        shown = text[start:end]
        properties = _PROPERTIES.match(shown)
        before = properties[0] if properties else ""
        after = shown[len(shown.rstrip()) :]
        text = f'{text[:start]}{before}"{MASK}"{after}{text[end:]}'
    return text


@dataclass
class _Level:
    """A collection that is being read; `hides` says whether all texts in it are masked."""

    is_mapping: bool
    hides: bool
    key: str | None = None

    def hides_next(self) -> bool:
        """Whether the next value is to be masked."""
        return self.hides or (self.key is not None and is_sensitive(self.key))


def _values(events: Iterator[Event]) -> Iterator[tuple[int, int]]:
    """Start and end of each text that is to be masked, also of one that is only referred to by an alias."""
    from ruamel.yaml import events as kinds  # noqa: PLC0415

    levels: list[_Level] = []
    anchors: dict[str, tuple[int, int]] = {}
    for event in events:
        above = levels[-1] if levels else None
        is_key = above is not None and above.is_mapping and above.key is None
        hidden = above is not None and not is_key and above.hides_next()
        if isinstance(event, kinds.MappingEndEvent | kinds.SequenceEndEvent):
            levels.pop()
            continue
        if isinstance(event, kinds.ScalarEvent):
            place = _place(event)
            if event.anchor:
                anchors[event.anchor] = place
            if hidden and event.value and not _ONLY_PLACEHOLDER.fullmatch(event.value):
                yield place
        elif isinstance(event, kinds.AliasEvent) and hidden and event.anchor in anchors:
            yield anchors[event.anchor]
        if above is not None and above.is_mapping:
            if is_key:
                above.key = event.value if isinstance(event, kinds.ScalarEvent) else ""
            else:
                above.key = None
        if isinstance(event, kinds.MappingStartEvent | kinds.SequenceStartEvent):
            levels.append(_Level(isinstance(event, kinds.MappingStartEvent), hidden))


def _place(event: ScalarEvent) -> tuple[int, int]:
    return event.start_mark.index, event.end_mark.index
