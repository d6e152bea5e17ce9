"""A container's log as the API tells it: lines with the node's time stamps, in pieces of any size.

A stream that broke is asked for once more from a second earlier on (`sinceTime` is cut off to whole seconds); what had
been seen is left out by its stamps, so that no line is lost or doubled.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import NamedTuple

NS_PER_S = 1_000_000_000
MOST_LINE_BYTES = 2 << 20
"""Of one line in memory; what is longer is counted and cut. A runtime hands lines over in pieces of 16 KiB."""
_LONGEST_STAMP = 40
_SECOND = len("2026-01-01T00:00:00")


class LogLine(NamedTuple):
    """A line with its end, if it has one; how much of it was cut; the node's time of day, ns.

    Where only bytes are counted, `text` is empty and `size` is of many lines, of which the stamp is the last one's.
    """

    t_ns: int
    text: bytes
    size: int


class Stamps:
    """Reads time stamps such as 2026-01-01T00:00:00.123456789Z; the last second is remembered."""

    def __init__(self) -> None:
        self._known: tuple[bytes, bytes, int] = (b"", b"", 0)

    def read(self, line: bytes) -> tuple[int, int] | None:
        """Time of a line in ns since 1970, and how long its stamp is with the space behind it; None without one."""
        space = line.find(b" ", _SECOND, _LONGEST_STAMP)
        if space < 0:
            return None
        second, rest = line[:_SECOND], line[_SECOND:space]
        at = next((i for i in range(1, len(rest)) if not 48 <= rest[i] <= 57), len(rest))
        fraction, zone = (rest[1:at], rest[at:]) if rest[:1] == b"." else (b"", rest)
        if (second, zone) != self._known[:2]:
            try:
                found = datetime.fromisoformat((second + zone).decode("ascii"))
            except ValueError:
                return None
            if found.tzinfo is None:
                return None
            self._known = (second, zone, round(found.timestamp()))
        return self._known[2] * NS_PER_S + int(fraction[:9].ljust(9, b"0") or 0), space + 1


class Resume:
    """What was seen of a log lately, to go on in it exactly where a stream broke off."""

    def __init__(self) -> None:
        self.last_ns = 0
        """Newest stamp that was seen; 0 before the first."""
        self._second = 0
        self._now: Counter[int] = Counter()
        self._before: Counter[int] = Counter()
        self._exact_from_ns = 0
        self._repeated: Counter[int] | None = None
        self._until_ns = 0

    @property
    def since(self) -> str:
        """`sinceTime` of the next request; empty for all there is."""
        if not self.last_ns:
            return ""
        moment = datetime.fromtimestamp(self.last_ns // NS_PER_S - 1, UTC)
        return moment.strftime("%Y-%m-%dT%H:%M:%SZ")

    @classmethod
    def after(cls, other: Resume) -> Resume:
        """For another pod of the same name: begins with its first line, and knows what was taken for the old one's."""
        found = cls()
        found._now, found._before, found._second = other._now, other._before, other._second
        return found

    def begin(self) -> None:
        """A new stream begins: it repeats the last second or two."""
        recent = self._now + self._before
        self._repeated = recent if self.last_ns or recent else None
        self._until_ns = max(self.last_ns, *recent, 0) if recent else self.last_ns

    @property
    def repeating(self) -> bool:
        """Whether lines have to be looked at one by one, since they may have been seen."""
        return self._repeated is not None

    def is_new(self, t_ns: int) -> bool:
        """Whether a line was not seen yet; it counts as seen from now on."""
        if self._repeated is not None:
            if t_ns > self._until_ns:
                self._repeated = None
            elif t_ns < self._exact_from_ns:
                return False
            elif self._repeated[t_ns] > 0:
                self._repeated[t_ns] -= 1
                return False
        second = t_ns // NS_PER_S
        if second > self._second:
            self._before = self._now if second == self._second + 1 else Counter()
            self._now, self._second = Counter(), second
        (self._now if second == self._second else self._before)[t_ns] += 1
        self.last_ns = max(self.last_ns, t_ns)
        return True

    def passed(self, t_ns: int) -> None:
        """Lines up to this stamp were counted without being looked at."""
        self.last_ns = max(self.last_ns, t_ns)
        self._exact_from_ns = self.last_ns + 1
        self._now.clear()
        self._before.clear()


class LineReader:
    """Takes one stream apart.

    Parameters
    ----------
    resume : Resume
        Of this log, over all its streams.
    """

    def __init__(self, resume: Resume) -> None:
        self._resume = resume
        self._stamps = Stamps()
        self._held = bytearray()
        self._cut = 0
        self._begun = time.monotonic()
        self.unstamped = b""
        """The last line without a stamp: what the kubelet itself had to say."""
        resume.begin()

    @property
    def age_s(self) -> float:
        """How long this stream has been going on."""
        return time.monotonic() - self._begun

    def lines(self, piece: bytes) -> Iterator[LogLine]:
        """Whole lines, one by one, that were not seen yet."""
        begin = 0
        while (end := piece.find(b"\n", begin)) >= 0:
            yield from self._line(piece[begin : end + 1])
            begin = end + 1
        self._hold(piece[begin:])

    def counted(self, piece: bytes) -> Iterator[LogLine]:
        """Whole lines together, as a number of bytes: many times cheaper."""
        if self._resume.repeating or self._cut:
            yield from self.lines(piece)
            return
        end = piece.rfind(b"\n") + 1
        if not end:
            self._hold(piece)
            return
        whole = bytes(self._held) + piece[:end]
        self._held.clear()
        last = whole.rfind(b"\n", 0, len(whole) - 1) + 1
        first, newest = (
            self._stamps.read(whole[:_LONGEST_STAMP]),
            self._stamps.read(whole[last : last + _LONGEST_STAMP]),
        )
        if first is None or newest is None or first[1] != newest[1]:
            yield from self.lines(whole)
        else:
            self._resume.passed(newest[0])
            yield LogLine(newest[0], b"", len(whole) - whole.count(b"\n") * newest[1])
        self._hold(piece[end:])

    def rest(self) -> Iterator[LogLine]:
        """A last line without an end, when the stream is over for good."""
        if self._held or self._cut:
            yield from self._line(b"")

    def _hold(self, part: bytes) -> None:
        room = MOST_LINE_BYTES - len(self._held)
        self._held += part[:room]
        self._cut += max(0, len(part) - room)

    def _line(self, end: bytes) -> Iterator[LogLine]:
        if self._held:
            self._hold(end)
            whole, cut = bytes(self._held), self._cut
            self._held.clear()
        else:
            whole, cut = end, 0
        self._cut = 0
        read = self._stamps.read(whole[:_LONGEST_STAMP])
        if read is None:
            self.unstamped = whole[:500]
            return
        t_ns, begin = read
        if self._resume.is_new(t_ns):
            yield LogLine(t_ns, whole[begin:], len(whole) - begin + cut)
