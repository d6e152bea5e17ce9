"""Lines of a log are read whole, once each, however the stream is cut or broken."""

from __future__ import annotations

import random

import pytest

from towtank.platforms.kubernetes.log_file import ContainerLog
from towtank.platforms.kubernetes.log_stream import MOST_LINE_BYTES, LineReader, LogLine, Resume, Stamps
from towtank.platforms.masking import Secrets
from towtank.store.log_lines import TimedLog

S = 1_000_000_000
NOON = 1_767_268_800 * S  # 2026-01-01T12:00:00Z


def stamped(t_ns: int, text: bytes) -> bytes:
    return f"2026-01-01T12:00:{t_ns // S:02d}.{t_ns % S:09d}Z ".encode() + text


@pytest.mark.parametrize(
    ("line", "t_ns", "length"),
    [
        (b"2026-01-01T12:00:00.123456789Z hello\n", NOON + 123_456_789, 31),
        (b"2026-01-01T14:00:01.5+02:00 hello\n", NOON + 1_500_000_000, 28),
        (b"2026-01-01T12:00:00Z \n", NOON, 21),
    ],
)
def test_stamps_are_read_to_the_nanosecond(line: bytes, t_ns: int, length: int) -> None:
    assert Stamps().read(line) == (t_ns, length)


@pytest.mark.parametrize(
    "line", [b"", b"hello\n", b"unable to retrieve container logs for x\n", b"2026-13-01T12:00:00Z a"]
)
def test_what_has_no_stamp_is_no_line_of_the_container(line: bytes) -> None:
    assert Stamps().read(line) is None


@pytest.mark.parametrize("seed", range(5))
def test_lines_do_not_depend_on_how_a_stream_is_cut(seed: int) -> None:
    rng = random.Random(seed)
    wanted = [
        (i * 1000, bytes(rng.choices(range(256), k=rng.randrange(200))).replace(b"\n", b"x") + b"\n")
        for i in range(200)
    ]
    data = b"".join(stamped(t, text) for t, text in wanted)
    reader, found = LineReader(Resume()), []
    while data:
        n = rng.randrange(1, 300)
        found += reader.lines(data[:n])
        data = data[n:]
    assert [(line.t_ns - NOON, line.text, line.size) for line in found] == [(t, x, len(x)) for t, x in wanted]


def test_a_last_line_without_an_end_is_one_too() -> None:
    reader = LineReader(Resume())
    assert list(reader.lines(stamped(1, b"no end"))) == []
    assert list(reader.rest()) == [LogLine(NOON + 1, b"no end", 6)]
    assert list(reader.rest()) == []


def test_a_line_longer_than_memory_is_counted_whole_and_cut() -> None:
    reader, found = LineReader(Resume()), []
    long = b"x" * (MOST_LINE_BYTES + 5000) + b"\n"
    data = stamped(1, long) + stamped(2, b"next\n")
    for begin in range(0, len(data), 65536):
        found += reader.lines(data[begin : begin + 65536])
    assert [line.size for line in found] == [len(long), 5]
    assert len(found[0].text) <= MOST_LINE_BYTES


def test_counting_only_counts_the_same_bytes() -> None:
    data = b"".join(stamped(i * 10_000_000, b"line %d\n" % i) for i in range(300))
    wanted = sum(len(b"line %d\n" % i) for i in range(300))
    reader, found = LineReader(Resume()), []
    for begin in range(0, len(data), 1000):
        found += reader.counted(data[begin : begin + 1000])
    assert sum(line.size for line in found) == wanted
    assert found[-1].t_ns == NOON + 299 * 10_000_000
    assert len(found) < 60, "pieces are counted, not lines"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("counting", [False, True])
def test_broken_streams_lose_and_double_nothing(seed: int, counting: bool) -> None:
    """Stamps are alike now and then, and out of order between stdout and stderr; streams break in mid-line."""
    rng = random.Random(seed)
    t, log = 0, []
    for i in range(400):
        t += rng.choice([0, 1000, 5_000_000, 40_000_000])
        log.append((t - (0 if counting else rng.choice([0, 0, 500])), b"line %d\n" % i))
    log = [(max(0, at), text) for at, text in log]
    if counting:
        log = [(at + i, text) for i, (at, text) in enumerate(log)]
    resume, found = Resume(), []
    for _ in range(30):
        since = resume.since[17:19]
        data = b"".join(
            stamped(at, text) for at, text in log if at // S >= (int(since) if since else 0) or since == "59"
        )
        reader, broken = LineReader(resume), rng.randrange(len(data) + 1)
        for begin in range(0, broken, 997):
            piece = data[begin : min(begin + 997, broken)]
            found += reader.counted(piece) if counting and begin > 2000 else reader.lines(piece)
    reader = LineReader(resume)
    since = resume.since[17:19]
    found += reader.lines(
        b"".join(stamped(at, x) for at, x in log if since == "59" or at // S >= int(since or 0))
    )
    assert sum(line.size for line in found) == sum(len(x) for _, x in log)
    if not counting:
        assert [line.text for line in found] == [x for _, x in log]


def test_a_log_keeps_its_beginning_and_counts_the_rest(tmp_path) -> None:
    log = ContainerLog(tmp_path / "a.log", 12, Secrets())
    log.written_on(lambda t_ns: t_ns - NOON)
    for i in range(4):
        log.take(LogLine(NOON + i * S, b"line %d\n" % i, 7))
    log.close()
    assert (log.written, log.kept) == (28, 12)
    assert (
        tmp_path / "a.log"
    ).read_bytes() == b"line 0\nline \n[towtank: 16 more bytes of output were cut at 12 bytes]\n"
    timed = TimedLog.read(tmp_path / "a.log")
    assert [timed.bytes_at(i * S) for i in range(4)] == [7, 14, 21, 28]
    assert [line.t_us for line in timed.lines(0, 0, 1e12)][:2] == [0, 1_000_000]


def test_secrets_never_reach_a_log_not_even_cut_ones(tmp_path, monkeypatch) -> None:
    monkeypatch.setenv("TOKEN", "swordfish")
    monkeypatch.setenv("KEY", "first part\nsecond part")
    log = ContainerLog(tmp_path / "a.log", 1000, Secrets(["TOKEN", "KEY"]))
    for text in (b"a swordfish b\n", b"second part\n"):
        log.take(LogLine(NOON, text, len(text)))
    log.take(LogLine(NOON, b"cut within swordf", 5000))
    log.close()
    content = (tmp_path / "a.log").read_bytes()
    assert content.startswith(b"a *** b\n***\n")
    assert b"sword" not in content
    assert b"second" not in content
