"""Many results over time: the planted change is found and named, nothing else is, and what cannot be said is told."""

from __future__ import annotations

import json
import math
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.make_results import Step, TreatmentModel, make_results
from towtank.analysis.followed_series import _beyond
from towtank.analysis.history import history
from towtank.cli.main import build_app
from towtank.design.model import Answer
from towtank.errors import ResultsError
from towtank.store import Results

RESULTS = 12
SLOWER_FROM = 8


def made(path, number, *, median_ms=10.0, answer=None, **more):
    """Write the results of one night; treatment two has a median of its own."""
    treatments = {"one": TreatmentModel(run_sd=0.02), "two": TreatmentModel(median_ms=median_ms, run_sd=0.02)}
    options = {"blocks": 1, "duration_s": 2.0, "rate_per_s": 20.0, "warmup_s": 0.5, "sample_hz": 0.5,
               "steps": (Step("list"),), "block_sd": 0.02}  # fmt: skip
    answer = answer or Answer(primary=("median",), baseline="one", matters=0.25)
    folder = make_results(
        path, treatments=treatments, seed=100 + number, answer=answer, **{**options, **more}
    )
    return changed(
        folder, lambda record: record.update(started_utc=f"2026-03-{number + 1:02d}T03:00:00+00:00")
    )


def changed(folder, change, pattern="*"):
    for path in folder.glob(f"runs/{pattern}/run.json"):
        record = json.loads(path.read_text("utf-8"))
        change(record)
        path.write_text(json.dumps(record), "utf-8")
    return folder


@pytest.fixture(scope="module")
def nights(tmp_path_factory):
    root = tmp_path_factory.mktemp("nights")
    folders = []
    for number in range(RESULTS):
        slower = number >= SLOWER_FROM
        folders.append(made(root / f"n{number + 1:02d}", number, median_ms=18.0 if slower else 10.0))
        if slower:
            path = folders[-1] / "environment.json"
            environment = json.loads(path.read_text("utf-8"))
            environment["versions"]["towtank"] = "0.2.0"
            path.write_text(json.dumps(environment), "utf-8")
    return folders


def opened(folders):
    return [Results.open(folder) for folder in folders]


@pytest.fixture(scope="module")
def found(nights):
    return history(opened(reversed(nights)))


def command(*arguments):
    return CliRunner().invoke(build_app(["history"]), ["history", *map(str, arguments)])


def test_results_are_put_in_the_order_of_their_times(found):
    assert [point.name for point in found.points] == [f"n{i:02d}" for i in range(1, RESULTS + 1)]


def test_the_planted_change_is_found_and_nothing_else(found):
    [change] = found.changes
    assert (change.treatment_id, change.variable, change.at) == ("two", "median", SLOWER_FROM)
    assert change.size == pytest.approx(1.8, rel=0.1)
    assert (change.before, change.after, change.word) == (8, 4, "worse")
    assert change.sentence.startswith("two: median latency became 1.")
    assert "× what it was with n09 (8 results before, 4 from then on; permutation p" in change.sentence
    assert found.worse_since(4) == (change,)
    assert found.worse_since(3) == ()
    assert all(None not in series.values for series in found.series)


def test_the_other_way_round_it_is_better(nights, found):
    """As if the newer results had been the older ones: no code for a pipeline."""
    backwards = opened(nights)
    for number, one in enumerate(backwards):
        for run in one.runs("all"):
            run.record.__dict__["started_utc"] = f"2026-02-{28 - number:02d}T03:00:00+00:00"
    again = history(backwards)
    [change] = again.changes
    assert (change.word, change.at) == ("better", 4)
    assert change.size == pytest.approx(1 / found.changes[0].size, rel=1e-9)


def test_the_command_ends_with_8_and_names_what_else_changed(nights):
    told = command(*nights)
    assert told.exit_code == 8, told.output
    assert "12 results, 2026-03-01 (n01) to 2026-03-12 (n12)" in told.output
    assert "the environments differ there: versions.towtank: 0.1.0 → 0.2.0" in told.output
    assert "2 series, 1 change of level, 1 for the worse" in told.output
    assert command(*nights, "--newest", "3").exit_code == 0
    noted = command(*nights, "--github").output.splitlines()[-1]
    assert noted.startswith("::error title=two%3A median worse::two: median latency became")
    as_json = json.loads(command(*nights, "--json").output)
    assert [c["treatment_id"] for c in as_json["worse"]] == ["two"]
    assert len(as_json["series"][0]["values"]) == RESULTS


def test_too_few_results_say_how_many_it_takes(nights):
    few = history(opened(nights[5:11]))
    assert few.changes == ()
    [note] = few.notes
    assert "with 6 results that have a value; it takes 9 or more" in note
    with pytest.raises(ResultsError, match="two results with valid runs, and there is one"):
        history(opened(nights[:1]))
    with pytest.raises(ResultsError, match="named twice"):
        history(opened([nights[0], nights[0]]))


def test_another_design_is_refused_with_the_difference(nights, tmp_path):
    other = made(tmp_path / "other", 20, rate_per_s=25.0)
    with pytest.raises(ResultsError, match="not comparable") as refused:
        history(opened([*nights[:3], other]))
    assert "→" in refused.value.message


def test_gaps_are_left_out_and_told(nights, tmp_path):
    copies = [shutil.copytree(folder, tmp_path / folder.name) for folder in nights]

    def spoil(record):
        record["verdicts"]["instrument"] = "invalid"

    changed(copies[2], spoil, "*two*")
    changed(copies[4], spoil)
    found = history(opened(copies))
    assert len(found.points) == RESULTS - 1
    assert any("n05 has no valid run and is left out" in note for note in found.notes)
    assert any("median of two has no value in 1 of 11 results" in note for note in found.notes)
    two = next(series for series in found.series if series.treatment_id == "two")
    assert two.values[2] is None
    assert two.reasons[2] == "the treatment has no valid run"
    [change] = found.changes
    assert found.points[change.at].name == "n09"
    assert change.before == 6


@pytest.mark.parametrize("newest", ["invalid", "empty", "gap"])
def test_a_newest_result_of_which_nothing_is_known_is_not_green(nights, tmp_path, newest):
    copies = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in nights[:SLOWER_FROM]]
    assert command(*copies).exit_code == 0

    def spoil(record):
        record["verdicts"]["instrument"] = "invalid"

    if newest == "empty":
        for run in (copies[-1] / "runs").iterdir():
            shutil.rmtree(run)
    changed(copies[-1], spoil, "*two*" if newest == "gap" else "*")
    told = command(*copies, "--github")
    assert told.exit_code == 6, told.output
    expected = {
        "gap": "not known: median of two has no value in the newest result: the treatment has no valid run.",
    }.get(
        newest, "not known: n08 is newer than n07 and has no valid run: nothing is said of it, good or bad."
    )
    assert expected in told.output
    assert told.output.splitlines()[-1].startswith("::error title=the newest result::")
    assert json.loads(command(*copies, "--json").output)["unsaid"] == [expected.removeprefix("not known: ")]


def test_a_change_for_the_worse_counts_more_than_what_is_not_known(nights, tmp_path):
    copies = [Path(shutil.copytree(folder, tmp_path / folder.name)) for folder in nights]
    changed(copies[-1], lambda record: record["verdicts"].update(instrument="invalid"))
    assert command(*copies).exit_code == 8


def test_what_falls_among_failures_is_worse_without_a_size(nights, tmp_path):
    broken = list(nights[:SLOWER_FROM])
    for number in range(SLOWER_FROM, RESULTS):
        treatments = {"one": TreatmentModel(run_sd=0.02), "two": TreatmentModel(timeouts=0.9)}
        folder = make_results(
            tmp_path / f"n{number + 1:02d}", treatments=treatments, seed=number, blocks=1, duration_s=2.0,
            rate_per_s=20.0, warmup_s=0.5, sample_hz=0.5, steps=(Step("list"),), block_sd=0.02,
            answer=Answer(primary=("median",), baseline="one", matters=0.25),
        )  # fmt: skip
        day = f"2026-03-{number + 1:02d}T03:00:00+00:00"
        broken.append(changed(folder, lambda record, day=day: record.update(started_utc=day)))
    found = history(opened(broken))
    [change] = found.changes
    assert (change.size, change.word, change.at) == (None, "worse", SLOWER_FROM)
    assert "rose to where it lies among failures with" in change.sentence
    told = command(*broken, "--json")
    assert told.exit_code == 8
    assert "NaN" not in told.output
    assert "Infinity" not in told.output


def test_without_an_answer_changes_have_no_words(nights, tmp_path):
    copies = [shutil.copytree(folder, tmp_path / folder.name) for folder in nights]
    for copy in copies:
        plan = json.loads((copy / "plan.json").read_text("utf-8"))
        plan["experiment"]["answer"] = None
        (copy / "plan.json").write_text(json.dumps(plan), "utf-8")
    found = history(opened(copies))
    assert found.changes
    assert {change.word for change in found.changes} == {""}
    assert any("declares no `answer`" in note for note in found.notes)
    assert found.worse_since(RESULTS) == ()


def test_a_level_that_no_number_of_orders_reaches_is_told(tmp_path):
    answer = Answer(primary=("median",), baseline="one", matters=0.25, confidence=1 - 1e-9)
    found = history(opened(made(tmp_path / f"n{number}", number, answer=answer) for number in range(2)))
    assert any("No change could be told of anything" in note for note in found.notes)


def test_a_level_that_has_no_size_is_said_to_go_where_it_goes():
    inf = math.inf
    assert _beyond(inf, -4.0, rises=False) == "fell from where it lay among failures"
    assert _beyond(-4.0, inf, rises=True) == "rose to where it lies among failures"
    assert _beyond(-4.0, -inf, rises=False) == "fell to 0"
    assert _beyond(-inf, -4.0, rises=True) == "rose from 0"
    assert _beyond(-4.0, -3.0, rises=True) == "rose, with some results among failures or at 0"
