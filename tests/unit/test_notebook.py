"""`towtank.open`: tables and figures of stored results, and what is refused."""

from __future__ import annotations

import shutil
import subprocess
import sys

import altair as alt
import pandas as pd
import pytest

import towtank
from support.make_results import TreatmentModel, make_results
from towtank.design.model import Answer, OwnVariable
from towtank.errors import QueryError, ResultsError, TowtankError


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    levels = ({"deployment": "one", "mean": "a"}, {"deployment": "two <b>", "mean": "b"})
    return make_results(
        tmp_path_factory.mktemp("notebook") / "results",
        treatments={
            "one": TreatmentModel(median_ms=10, invalid=(2,), levels=levels[0]),
            "two": TreatmentModel(median_ms=5, timeouts=0.2, levels=levels[1]),
            "three": TreatmentModel(median_ms=5, levels={"deployment": "three", "mean": "c"}),
        },
        blocks=4, rate_per_s=20.0, duration_s=3.0, timeout_s=1.0, question="Is <b> faster?",
        answer=Answer(primary=("p50_ok",), baseline="one"),
    )  # fmt: skip


@pytest.fixture(scope="module")
def opened(folder):
    return towtank.open(folder)


def test_summary_is_what_the_analysis_found(opened):
    table = opened.summary("median", "goodput")
    assert list(table["treatment"]) == ["one", "two", "three"] * 2
    assert list(table["deployment"][:2]) == ["one", "two <b>"]
    assert list(table["mean_"][:2]) == ["a", "b"], "a factor that is called like a column of ours"
    median = table[table["variable"] == "median"].set_index("treatment")
    assert median.loc["one", "mean"] == opened.analysis.treatments[0].estimates["median"].mean
    assert 0.008 < median.loc["one", "low"] < median.loc["one", "mean"] < median.loc["one", "high"] < 0.013
    assert set(median["unit"]) == {"s"}
    assert set(table[table["variable"] == "goodput"]["unit"]) == {"ratio"}
    assert {"p95", "cpu_cores"} <= set(opened.summary()["variable"])


def test_what_lies_among_failures_is_marked(opened):
    assert opened.summary("p95").set_index("treatment").loc["two", "above"]
    runs = opened.runs("p95")
    assert (runs[runs["treatment"] == "two"]["p95"] == float("inf")).all()


def test_runs_say_which_count(opened):
    runs = opened.runs("p95")
    assert len(runs) == 13
    spoiled = runs[~runs["counts"]]
    assert list(spoiled["instrument"]) == ["invalid"]
    assert list(runs.columns[-1:]) == ["p95"]


def test_comparisons_claims_first(opened):
    claimed = opened.compare("p50_ok")
    assert list(claimed["treatment"]) == ["two", "three"]
    row = claimed.iloc[1]
    assert (row["verdict"], row["scale"], row["n"]) == ("better", "ratio", 4)
    assert row["low"] < 0.5 < row["high"]
    assert "better" in row["sentence"]
    everything = opened.compare()
    assert everything["variable"].iloc[0] == "p50_ok"
    assert everything[everything["variable"] == "throughput"]["verdict"].isna().all()


@pytest.mark.parametrize(
    ("ask", "said", "hint"),
    [
        (lambda e: e.summary("p59"), "no variable 'p59'; there is .*p95", "p9"),
        (lambda e: e.runs("nothing like it"), "no variable 'nothing like it'", "answer.variables"),
        (lambda e: e.compare("p50ok"), "no comparison of 'p50ok'; there is .*p50_ok", "p50_ok"),
        (lambda e: e.figure("ecfd"), "no figure 'ecfd'; there is .*ecdf", "did you mean 'ecdf'"),
        (lambda e: e.figure("ecdf").save("x.gif"), "gif is no format", "svg, png and pdf"),
        (lambda e: e.figure("ecdf").save("/nowhere/x.svg"), "cannot be written to /nowhere", None),
    ],
)  # fmt: skip
def test_names_that_are_not_there_are_refused_with_those_that_are(opened, ask, said, hint):
    with pytest.raises(TowtankError, match=said) as caught:
        ask(opened)
    assert hint is None or hint in caught.value.hint


def test_a_figure_draws_itself_and_is_an_altair_chart(opened, tmp_path):
    drawing = opened.figure("ecdf")
    bundle = drawing._repr_mimebundle_(include=None, exclude=None)
    assert bundle["image/svg+xml"].startswith("<svg")
    assert "two &lt;b&gt;" in bundle["image/svg+xml"]
    assert "text/html" not in bundle, "altair's HTML would fetch scripts"
    assert bundle["text/plain"].startswith("Drawing('ecdf'): How many requests")
    assert isinstance(drawing.chart, alt.TopLevelMixin)
    changed = drawing.chart.properties(title="Ours").to_dict()
    assert changed["title"] == "Ours"
    assert changed["datasets"] == drawing.figure.datasets
    assert drawing.data["ecdf"]["share"].between(0, 1).all()
    assert drawing.save(tmp_path / "ecdf.PNG").read_bytes().startswith(b"\x89PNG")
    assert list(opened.figures["name"]) == [figure.id for figure in opened.report.figures]


def test_it_shows_question_and_answer_without_markup_from_outside(opened):
    assert repr(opened).startswith("Is <b> faster?\n")
    assert "Is &lt;b&gt; faster?" in opened._repr_html_()
    assert "<b>" not in opened._repr_html_()


def test_sql_and_findings(opened):
    counted = opened.sql("select count(*) as n from requests")
    assert counted["n"].iloc[0] > 1000
    with pytest.raises(QueryError):
        opened.sql("drop table requests")
    assert {"severity", "message", "advice"} <= set(opened.findings().columns)


def test_reload_takes_in_what_was_added(folder, tmp_path):
    here = shutil.copytree(folder, tmp_path / "results")
    late = next((here / "runs").glob("b04-two-a1"))
    shutil.move(late, tmp_path / "later")
    e = towtank.open(here)
    assert len(e.runs()) == 12
    shutil.move(tmp_path / "later", late)
    assert len(e.runs()) == 12
    assert len(e.reload().runs()) == 13
    assert isinstance(e.compare("p50_ok"), pd.DataFrame)


def test_no_results(tmp_path):
    with pytest.raises(ResultsError, match="does not exist"):
        towtank.open(tmp_path / "nothing")
    with pytest.raises(AttributeError, match="no attribute 'opne'"):
        towtank.opne  # noqa: B018


def test_importing_towtank_stays_cheap():
    code = "import sys, towtank; sys.exit(any(name in sys.modules for name in ('altair', 'scipy', 'pandas')))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_a_variable_called_like_a_column_takes_no_place_of_it(tmp_path):
    """`answer.variables` may be called like a factor, or like what every run has."""
    sql = OwnVariable(sql="SELECT count(*) FROM requests", better="lower")
    answer = Answer(primary=("p95",), baseline="on", variables=dict.fromkeys(("run", "cache", "counts"), sql))
    models = {name: TreatmentModel(levels={"cache": name}) for name in ("on", "off")}
    folder = make_results(tmp_path / "own", treatments=models, blocks=1, duration_s=2.0, answer=answer)
    frame = towtank.open(folder).runs("run", "cache", "counts")
    assert set(frame["run"]) == {"b01-on-a1", "b01-off-a1"}
    assert set(frame["cache"]) == {"on", "off"}
    assert frame["counts"].all()
    assert (frame[["run_", "cache_", "counts_"]] > 0).all(axis=None)
