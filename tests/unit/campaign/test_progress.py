"""What a campaign shows: rates from totals, estimates, plain lines."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from towtank.campaign.progress import Estimate, Pace, Plain, Rich, RunOutline, choose_display
from towtank.load.engine import Progress
from towtank.load.job import Stage

OUTLINE = RunOutline(
    "b01-one-a1", "one", 1, 3, 24, 22, 8.0, (Stage("plateau", 0, 3_000_000), Stage("spike", 3_000_000, 9))
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


def test_the_estimate_learns_from_runs(monkeypatch):
    now = iter([0.0, 30.0, 30.0, 40.0])
    monkeypatch.setattr("time.monotonic", lambda: next(now))
    estimate = Estimate(total=10, done=4)
    assert estimate.left_s(8.0) == 60.0, "6 runs of 8 s and what is around them"
    estimate.start(6)
    estimate.finish(usable=True)
    assert estimate.left_s(8.0) == 5 * 30.0
    estimate.start(5)
    estimate.finish(usable=False)
    assert estimate.left_s(8.0) == 5 * 20.0, "an invalid attempt leaves its run to be repeated"


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
