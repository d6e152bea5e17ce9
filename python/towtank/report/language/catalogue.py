"""Messages and their translations: a finished sentence is recognised by the message it was made from.

A sentence that one message made matches it as a whole, and what stood in its places is translated in turn: a place may
hold a number, a name from the experiment, or another message. What is made of several messages is taken apart at the
ends of sentences, clauses and lists. Of all ways to read a text, the one counts that leaves the fewest English words.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib import resources

import polib

from towtank.errors import TowtankError
from towtank.report.text import listed

ENGLISH = "en"
"""The language of the code: needs no catalogue."""
_PLACE = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"[^\W\d_]{2,}")
_CUTS = tuple(re.compile(cut) for cut in (
    r"(?<=[.!?])(\s+)", r"(;\s+)", r"(\s+\|\s+|\s+[·→]\s+)", r"(:\s+)", r"(,\s+|\s+and\s+|\s+or\s+)",
))  # fmt: skip
"""Where a text is taken apart."""
_AROUND = re.compile(r"^([^\w{“]*)(.*?)([^\w}%”)]*)$", re.DOTALL)
_BRACKET = re.compile(r"^(.+?)(\s*\()(.+)(\).?)$", re.DOTALL)
_SHAPES = {
    "article": "an?", "amount": r"[\d<>~≥≤−+].*?", "n": r"[\d\u202f.,]+", "level": r"[\d.]+ %", "ending": r"(?:: .*?)?",
}  # fmt: skip
"""Places whose texts look alike in all messages; any other place may hold anything."""
_OURS = re.compile(
    r"\b(?:the|of|and|is|are|was|were|with|which|that|from|not|has|have|its|over|than|been|below|above|be|this|it|an?|to"
    r"|in|by|for|on|at|no|or|as)\b"
)
"""Words that English sentences have and names of experiments seldom do."""
QUOTED = "quoted"
"""Place whose text stays as it is: the message of an error as it was printed."""
_PARTS = re.compile(r"(\s+[·÷→]\s+|\s+[↓↑])")
"""Between the parts of a label."""
_NUMBER = re.compile(r"([^\w]*[\d.,\u202f]+\s)([^\W\d_]+)")
"""A number with its unit."""
_RESULT = "a result of this treatment"
"""How advice on what a system did begins; findings say that in words of their own, and then the rest."""
_BETWEEN = (", ", "; ", ": ")
_SURE = 20
"""Characters that a message needs outside of its places for it to be sure."""
_DEEPEST = 12


@dataclass(frozen=True)
class _Message:
    """One message, ready to be recognised.

    Parameters
    ----------
    pattern : re.Pattern
        Matches the sentences that it makes.
    anchor : str
        Its longest piece between places: what does not hold it cannot match.
    translation : str
        With the same places.
    sure : bool
        It has so many words of its own that nothing else reads like it.
    """

    pattern: re.Pattern[str]
    anchor: str
    translation: str
    sure: bool


@dataclass(frozen=True, order=True)
class _Reading:
    """One way to read a text.

    Parameters
    ----------
    left : int
        English words that it leaves.
    opaque : int
        1 when nothing in it was recognised, else 0.
    alien : int
        Words in which nothing was recognised, English or not: names of the experiment have some, and so has a sentence
        that a message of few words of its own was laid over by chance.
    text : str
        The translation.
    unread : tuple of str
        Pieces that hold those words.
    """

    left: int
    opaque: int
    alien: int
    text: str = field(compare=False)
    unread: tuple[str, ...] = field(default=(), compare=False)


class Catalogue:
    """The messages of one language.

    Parameters
    ----------
    language : str
        ``pt``.
    messages : dict
        English message → its translation.
    """

    def __init__(self, language: str, messages: dict[str, str]) -> None:
        self.language = language
        messages = _with_forms(messages)
        self._exact = {message: text for message, text in messages.items() if not _PLACE.search(message)}
        self._words = {one for one, text in self._exact.items() if _WORD.fullmatch(one) and one != text}
        with_places = [(message, text) for message, text in messages.items() if _PLACE.search(message)]
        with_places.sort(key=lambda item: -len(_PLACE.sub("", item[0])))
        self._made = [_compiled(message, text) for message, text in with_places]
        self._known: dict[str, _Reading] = {}
        self._names: frozenset[str] = frozenset()

    def with_names(self, names: Iterable[str]) -> Catalogue:
        """The same catalogue for a report in which these are names, whatever words they hold."""
        found = Catalogue(self.language, {})
        found._exact, found._made, found._words = self._exact, self._made, self._words
        found._names = frozenset(names)
        return found

    def text(self, english: str) -> str:
        """Translate what the report says; names, numbers and what is not ours stay as they are."""
        return self._read(english).text if self._exact else english

    def word(self, english: str) -> str:
        """Translate a text that is exactly one message, as in data that figures show; else leave it."""
        return english if english in self._names else self._exact.get(english, english)

    def label(self, english: str) -> str:
        """Translate the parts of a text in a figure that are exactly one message each, and the unit of a number.

        ``p95 latency ↓ · nfs`` has one such part; names of the experiment stay, whatever words they hold.
        """
        known = self.word(english)
        if known != english or not self._exact:
            return known
        return "".join(self._label_part(part) for part in _PARTS.split(english))

    def _label_part(self, part: str) -> str:
        number = _NUMBER.fullmatch(part)
        return f"{number[1]}{self.word(number[2])}" if number is not None else self.word(part)

    def unread(self, english: str) -> tuple[str, ...]:
        """Pieces of a text with English words in which no message was recognised."""
        return self._read(english).unread

    def _read(self, english: str, depth: int = 0) -> _Reading:
        known = self._known.get(english)
        if known is None:
            known = self._best(english, depth)
            if depth < _DEEPEST:
                self._known[english] = known
        return known

    def _best(self, english: str, depth: int) -> _Reading:
        """The reading that leaves the fewest English words; of equal ones the first."""
        core = english.strip()
        if core != english:
            inner = self._read(core, depth)
            return _Reading(
                inner.left,
                inner.opaque,
                inner.alien,
                english.replace(core, inner.text, 1) if core else english,
                inner.unread,
            )
        ours = len(_OURS.findall(core))
        words = sum(word in self._words for word in _WORD.findall(core))
        best = _Reading(ours + words, 1, len(_WORD.findall(core)), core, (core,) if ours else ())
        if core in self._names or not _WORD.search(core):
            return _Reading(0, 1, 0, core)
        if depth > _DEEPEST:
            return best
        for reading in self._readings(core, depth):
            if reading.left == reading.opaque == reading.alien == 0:
                return reading
            best = min(best, reading)
        return best

    def _readings(self, core: str, depth: int) -> Iterator[_Reading]:
        if core in self._exact:
            yield _Reading(0, 0, 0, self._exact[core])
        lowered = core[0].lower() + core[1:]
        if lowered in self._exact:
            text = self._exact[lowered]
            yield _Reading(0, 0, 0, text[0].upper() + text[1:])
        for message in self._made:
            if message.anchor in core:
                match = message.pattern.fullmatch(core)
                if match is not None:
                    yield self._filled(message.translation, match.groupdict(), depth)
        for cut in _CUTS:
            parts = cut.split(core)
            if len(parts) > 1:
                yield self._joined(parts, depth)
        around = _AROUND.fullmatch(core)
        if around is not None and around[2] != core:
            inner = self._read(around[2], depth + 1)
            text = f"{around[1]}{inner.text}{around[3]}"
            yield _Reading(inner.left, inner.opaque, inner.alien, text, inner.unread)
        bracket = _BRACKET.fullmatch(core)
        if bracket is not None:
            yield self._together((bracket[1], bracket[2], bracket[3], bracket[4]), depth)

    def _filled(self, translation: str, places: dict[str, str], depth: int) -> _Reading:
        read = {
            name: _Reading(0, 1, 0, value) if name == QUOTED else self._read(value, depth + 1)
            for name, value in places.items()
        }
        text = _PLACE.sub(lambda match: read[match[1]].text if match[1] in read else match[0], translation)
        return _Reading(
            sum(one.left for one in read.values()),
            0,
            sum(one.alien for one in read.values()),
            text,
            tuple(u for one in read.values() for u in one.unread),
        )

    def _joined(self, parts: list[str], depth: int) -> _Reading:
        """Read parts with what stands between them: as many together as one message has made."""
        done, at = [], 0
        while at < len(parts):
            spans = [("".join(parts[at:e]), e) for e in range(at + 1, len(parts) + 1, 2)]
            whole = (e for text, e in reversed(spans) if text in self._exact)
            end = next(whole, 0) or next((e for text, e in spans if self._is_sure(text)), at + 1)
            done += ["".join(parts[at:end]), *parts[end : end + 1]]
            at = end + 1
        return self._together(done, depth)

    def _is_sure(self, text: str) -> bool:
        """Whether one message made a text, and has words enough of its own to be sure of it."""
        return any(
            message.sure and message.anchor in text and message.pattern.fullmatch(text) is not None
            for message in self._made
        )

    def _together(self, parts: Iterable[str], depth: int) -> _Reading:
        read = [self._read(part, depth + 1) for part in parts]
        return _Reading(
            sum(one.left for one in read),
            min(one.opaque for one in read),
            sum(one.alien for one in read),
            "".join(one.text for one in read),
            tuple(unread for one in read for unread in one.unread),
        )


def _compiled(message: str, translation: str) -> _Message:
    pieces = _PLACE.split(message)
    pattern, seen = "", set[str]()
    for index, piece in enumerate(pieces):
        if index % 2 == 0:
            pattern += re.escape(piece)
        else:
            pattern += f"(?P={piece})" if piece in seen else f"(?P<{piece}>{_SHAPES.get(piece, '.*?')})"
            seen.add(piece)
    own = sum(map(len, pieces[::2]))
    return _Message(re.compile(pattern, re.DOTALL), max(pieces[::2], key=len), translation, own >= _SURE)


def _with_forms(messages: dict[str, str]) -> dict[str, str]:
    """Messages also without marks of code, without the sign by which they go on with a sentence, and as its rest."""
    plain = {message.replace("`", ""): text.replace("`", "") for message, text in messages.items()}
    alone = {
        message[2:]: text[2:]
        for message, text in plain.items()
        if message[:2] in _BETWEEN and text[:2] == message[:2]
    }
    rests = {
        message.partition(": ")[2]: text.partition(": ")[2]
        for message, text in plain.items()
        if message.startswith(f"{_RESULT}: ") and ": " in text
    }
    return rests | alone | plain | messages


def languages() -> tuple[str, ...]:
    """Languages that reports can be written in."""
    found = (path.name for path in resources.files("towtank.report.language").iterdir())
    return (ENGLISH, *sorted(name.removesuffix(".po") for name in found if name.endswith(".po")))


@functools.cache
def catalogue(language: str) -> Catalogue:
    """Read the catalogue of a language.

    Raises
    ------
    TowtankError
        There is none; the message says which there are.
    """
    if language not in languages():
        raise TowtankError(
            f"there is no report in the language {language!r}; there is {listed(languages())}",
            hint="one more language is one more file beside python/towtank/report/language/pt.po",
        )
    if language == ENGLISH:
        return Catalogue(ENGLISH, {})
    content = resources.files("towtank.report.language").joinpath(f"{language}.po").read_text("utf-8")
    entries = polib.pofile(content)
    return Catalogue(language, {entry.msgid: entry.msgstr for entry in entries if entry.translated()})
