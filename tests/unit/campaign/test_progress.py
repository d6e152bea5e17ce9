"""What a campaign shows: rates from totals, estimates, plain lines."""

from __future__ import annotations

import io
from dataclasses import replace

import pytest
from rich.console import Console

from towtank.campaign.progress import Pace, Plain, Rich, RunOutline, choose_display
from towtank.load.events import Progress
from towtank.load.job import Stage

OUTLINE = RunOutline(
    "b01-one-a1",
    "one",
    1,
    3,
    24,
    [3] * 22,
    8.0,
    (Stage("plateau", 0, 3_000_000), Stage("spike", 3_000_000, 9)),
)


def test_rates_come_from_totals():
    pace = Pace()
    assert pace.words() == ""
    pace.take(Progress(t_us=1_000_000, done=40))
    assert pace.words().startswith("40/s, p95 –, 0 failed")
    pace.take(Progress(t_us=3_000_000, done=240, failed=3, p95_us=12_000, queued=2))
    assert pace.words() == "100/s, p95 12 ms, 3 failed, 0 in flight, 2 queued"
    pace.restart()
    pace.take(Progress(t_us=500_000, done=40))
    assert pace.words().startswith("80/s")


def test_plain_lines_say_what_happens(monkeypatch):
    monkeypatch.setattr("towtank.campaign.progress._PLAIN_EVERY_S", 0.0)
    out = io.StringIO()
    plain = Plain(out)
    plain.campaign("trial", 24, 2)
    plain.run(OUTLINE)
    plain.load(Progress(t_us=1_000_000, done=20))
    plain.note("older results are elsewhere")
    text = out.getvalue()
    assert "trial: 24 runs, 2 kept from before" in text
    assert "run 3 of 24: b01-one-a1 (one); about" in text
    assert "plateau: 20/s" in text
    assert "older results are elsewhere" in text


def test_both_displays_tell_runs_that_are_given_up_from_those_done():
    outline = replace(OUTLINE, chances=[3] * 19, given_up=3)
    out = io.StringIO()
    plain = Plain(out)
    plain.campaign("trial", 24, 2)
    plain.run(outline)
    assert "run 3 of 24: b01-one-a1 (one); 3 given up, about 3 min 10 s left" in out.getvalue()
    console = Console(file=out, force_terminal=True, width=120)
    with Rich(console) as live:
        live.campaign("trial", 24, 2)
        live.run(outline)
        console.print(live._render())
    assert "2 of 24 runs, 3 given up" in out.getvalue()


def test_expected_repeats_are_said(monkeypatch):
    """A share of 1/2 was spoiled; each of 22 runs may be repeated twice: 22 × (1/2 + 1/4)."""
    out = io.StringIO()
    plain = Plain(out)
    plain.campaign("trial", 24, 2)
    plain._estimate._spoiled, plain._estimate._durations_s = 3, [10.0] * 5
    plain.run(OUTLINE)
    assert "about 6 min 25 s left, 16 repeats expected" in out.getvalue()


def test_the_live_display_shows_run_stage_and_rate():
    out = io.StringIO()
    console = Console(file=out, force_terminal=True, width=120)
    with Rich(console) as live:
        live.campaign("trial", 24, 2)
        live.run(OUTLINE)
        live.phase("load")
        live.load(Progress(t_us=2_000_000, done=50, p95_us=3_000))
        live.note("[bold]not markup[/]")
        console.print(live._render())
    text = out.getvalue()
    for words in ("2 of 24 runs", "plateau", "25/s, p95 3 ms", "[bold]not markup[/]"):
        assert words in text


@pytest.mark.parametrize("environment", [{"CI": "1"}, {"TERM": "dumb"}, {}])
def test_without_a_terminal_lines_are_plain(environment):
    assert isinstance(choose_display(plain=False, environment=environment), Plain)
