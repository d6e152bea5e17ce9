"""Units: what is read, what is refused, how numbers are shown."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank import units


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("15m", 900), ("300ms", 0.3), ("1h30m", 5400), ("2 s", 2), ("5us", 5e-6), ("5µs", 5e-6), ("1d", 86400),
     ("0", 0), (0, 0), ("1.5s", 1.5), ("2min", 120), ("1e3ms", 1.0)],
)  # fmt: skip
def test_durations(text, seconds):
    assert units.parse_duration(text) == pytest.approx(seconds)


@pytest.mark.parametrize(
    "text", ["", "5", 5, "5 parsecs", "-3s", "s", "1h-30m", "3s5", True, "inf s", "nan", "1 s x"]
)
def test_durations_refused(text):
    with pytest.raises(ValueError, match=r"allowed is|must be"):
        units.parse_duration(text)


@pytest.mark.parametrize(
    ("text", "count"), [("64MiB", 2**26), ("1.5GB", 1_500_000_000), (7, 7), ("10B", 10), ("2Gi", 2**31)]
)
def test_sizes(text, count):
    assert units.parse_bytes(text) == count


@pytest.mark.parametrize("text", ["", "64 Mb", "-1B", "x", True, "1e400B"])
def test_sizes_refused(text):
    with pytest.raises(ValueError, match="not a size"):
        units.parse_bytes(text)


@pytest.mark.parametrize(
    ("text", "share"), [("99.9%", 0.999), ("5 %", 0.05), (0.5, 0.5), (1, 1.0), ("0.25", 0.25)]
)
def test_shares(text, share):
    assert units.parse_ratio(text) == pytest.approx(share)


@pytest.mark.parametrize("text", ["101%", 5, "-1%", "half", False, "5 m"])
def test_shares_refused(text):
    with pytest.raises(ValueError, match="not a share"):
        units.parse_ratio(text)


@pytest.mark.parametrize(
    ("text", "per_s"), [("100/s", 100), ("6/min", 0.1), (2.5, 2.5), ("3600/h", 1), ("5", 5)]
)
def test_rates(text, per_s):
    assert units.parse_rate(text) == pytest.approx(per_s)


@pytest.mark.parametrize("text", ["100/d", "/s", "-1/s", True, "fast"])
def test_rates_refused(text):
    with pytest.raises(ValueError, match="not a rate"):
        units.parse_rate(text)


@pytest.mark.parametrize(("text", "cores"), [("500m", 0.5), (1.5, 1.5), ("2", 2)])
def test_cores(text, cores):
    assert units.parse_cores(text) == cores


@pytest.mark.parametrize("text", [0, "-1", "500k", True, "0m"])
def test_cores_refused(text):
    with pytest.raises(ValueError, match="CPU amount"):
        units.parse_cores(text)


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.0123, "12.3 ms"), (4.5678, "4.57 s"), (0.000_5, "500 µs"), (130, "2 min 10 s"), (7500, "2 h 5 min"),
     (0, "0 s"), (math.inf, "∞"), (math.nan, "–"), (119.6, "120 s"), (3e-8, "30 ns"),
     (2280, "38 min"), (3600, "1 h"), (-150, "-2 min 30 s"), (7199, "2 h")],
)  # fmt: skip
def test_durations_shown(seconds, text):
    assert units.format_duration(seconds) == text


def test_sizes_shares_and_numbers_shown():
    assert units.format_bytes(2**26) == "64 MiB"
    assert units.format_bytes(999) == "999 B"
    assert units.format_ratio(0.9987) == "99.9 %"
    assert units.format_number(1234567.8) == "1\u202f234\u202f568"
    assert units.format_number(0.001234) == "0.00123"


@given(st.floats(min_value=1e-6, max_value=1e5))
def test_what_is_shown_reads_back(seconds):
    """Three significant digits survive the way out and back in (minutes and hours round to their smaller part)."""
    text = units.format_duration(seconds).replace("\u202f", "").replace(" ", "")
    assert units.parse_duration(text) == pytest.approx(seconds, rel=0.01)


@given(st.text())
def test_any_text_is_read_or_refused(text):
    for parse in (
        units.parse_duration,
        units.parse_bytes,
        units.parse_ratio,
        units.parse_rate,
        units.parse_cores,
    ):
        try:
            value = parse(text)
        except ValueError:
            continue
        assert math.isfinite(value)
        assert value >= 0


@pytest.mark.parametrize(
    ("text", "number"), [("5", 5), (" 1.5e3 ", 1500), (".5", 0.5), ("5.", 5), ("-2", -2)]
)
def test_numbers_of_files(text, number):
    assert units.parse_number(text) == number


@pytest.mark.parametrize("text", ["", "+5", "1_0", "２", "nan", "inf", "0x1F", "1 0", "1,5", "5\n", "--1"])
def test_numbers_that_python_takes_and_files_do_not_write_are_refused(text):
    with pytest.raises(ValueError, match="digits from 0 to 9"):
        units.parse_number(text)
    with pytest.raises(ValueError, match="digits from 0 to 9"):
        units.parse_whole(text)


def test_no_unit_takes_digits_of_other_scripts():
    for read, text in (
        (units.parse_duration, "２s"),
        (units.parse_bytes, "２B"),
        (units.parse_rate, "２/s"),
        (units.parse_ratio, "２%"),
    ):
        with pytest.raises(ValueError, match="２"):
            read(text)
