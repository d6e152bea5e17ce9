"""Results that cannot answer: the whole report says what cannot be said and why; no nan, no silent zero.

One small result folder a case, analysed and rendered once; the three forms of the report are searched for what numbers
become when nobody looked.
"""

import html
import io
import json
import re
import shutil

import pyarrow.parquet as pq
import pytest
from rich.console import Console

from support.make_results import Step, TreatmentModel, make_results
from towtank import report
from towtank.analysis import analyse
from towtank.cost.price_list import Reserved
from towtank.cost.spec import CostSpec, PricedDeployment
from towtank.design.model import Answer
from towtank.store import Results

SMALL = {
    "blocks": 3,
    "duration_s": 2.0,
    "rate_per_s": 15.0,
    "warmup_s": 0.5,
    "sample_hz": 2.0,
    "steps": (Step("list"),),
}
NOBODY_LOOKED = re.compile(
    r"(?<![\w/-])(?:[-−]?nan|NaN|None|NaT|[-−+]?inf|Infinity|(?<!\()null|undefined)(?![\w-])"
)
PLAIN = {"one": TreatmentModel(), "two": TreatmentModel(median_ms=6)}


def made(path, treatments=PLAIN, **more):
    return make_results(path / "results", treatments=treatments, **{**SMALL, **more})


def changed(folder, change, pattern="*"):
    """Change the records of runs, as their files have them."""
    for path in sorted((folder / "runs").glob(f"{pattern}/run.json")):
        record = json.loads(path.read_text("utf-8"))
        change(record)
        path.write_text(json.dumps(record), "utf-8")
    return folder


def looked_at(folder, *, figures=False):
    """Analysis and Markdown, after all three forms were searched for what should not be there."""
    found = analyse(Results.open(folder))
    model = report.build(found, figures=figures)
    text = report.markdown.render(model)
    page = report.html.render(model)
    specs = re.findall(r'<script type="application/json" class="spec">(.*?)</script>', page, flags=re.DOTALL)
    assert bool(specs) == figures
    for spec in specs:
        json.loads(spec, parse_constant=lambda word: pytest.fail(f"{word} in a figure"))
    page = re.sub(r"<(script|style)\b.*?</\1>", " ", page, flags=re.DOTALL)
    console = Console(file=io.StringIO(), width=160, highlight=False)
    report.terminal.show(model, console, runs=True)
    for shown in (text, html.unescape(re.sub(r"<[^>]+>", " ", page)), console.file.getvalue()):
        wrong = [shown[max(0, m.start() - 60) : m.end() + 40] for m in NOBODY_LOOKED.finditer(shown)]
        assert wrong == []
    return found, text


def names(found):
    return {finding.name for finding in found.findings}


def claims(found):
    return [c for c in found.comparisons if c.confirmatory]


def test_the_search_finds_what_it_looks_for():
    for text in ("p95 nan ms", "(None)", "−inf–3", "mean: NaN", "| null |"):
        assert NOBODY_LOOKED.search(text)
    for text in ("information", "nanoseconds", "Nonetheless", "influence", "nullable"):
        assert not NOBODY_LOOKED.search(text)


def test_too_few_runs_for_a_claim(tmp_path):
    answer = Answer(primary=("median", "collapsed"), baseline="one")
    found, text = looked_at(
        made(
            tmp_path,
            {"one": TreatmentModel(), "two": TreatmentModel(median_ms=10.1)},
            blocks=2,
            answer=answer,
        )
    )
    assert "few_blocks" in names(found)
    assert {c.verdict for c in claims(found)} == {"undecided"}
    assert [c.sentence for c in claims(found) if c.sentence.endswith("undecided.")] == []  # each says why
    assert "undecided" in text


def test_one_run_of_each(tmp_path):
    found, text = looked_at(made(tmp_path, blocks=1))
    assert {(c.verdict, c.low, c.p_value) for c in claims(found)} == {("undecided", None, None)}
    assert all("no variation known" in c.reason for c in claims(found))
    assert found.treatments[0].estimates["p95"].reason == "one run: its variation is unknown"
    assert "one run: its variation is unknown" in text


def test_one_run_only(tmp_path):
    answer = Answer(primary=("p95",), baseline="only")
    found, text = looked_at(made(tmp_path, {"only": TreatmentModel()}, blocks=1, answer=answer))
    assert found.headline.startswith("One treatment, only")
    assert found.comparisons == ()
    assert "there is nothing to compare it with" in text


def test_no_variation_at_all(tmp_path):
    """Goodput is 100 % and nothing collapses in any run: equal, and said to be the same in every run."""
    answer = Answer(primary=("goodput", "collapsed"), baseline="one")
    found, text = looked_at(made(tmp_path, answer=answer))
    goodput = found.treatments[0].estimates["goodput"]
    assert (goodput.method, goodput.low) == ("constant", None)
    assert "no variation to reckon with" in goodput.reason
    assert all(c.estimate == 0 and c.verdict == "undecided" for c in claims(found))
    assert "in every run" in text


def test_all_runs_of_a_treatment_are_invalid(tmp_path):
    def spoil(record):
        record["verdicts"]["instrument"] = "invalid"

    found, text = looked_at(changed(made(tmp_path), spoil, "*two*"))
    two = next(t for t in found.treatments if t.treatment_id == "two")
    assert (two.n_valid, two.n_invalid) == (0, 3)
    assert all(e.mean is None and e.reason for e in two.estimates.values())
    assert {c.verdict for c in claims(found)} == {"undecided"}
    assert all("no block has a value on both sides" in c.reason for c in claims(found))
    assert "missing_runs" in names(found)
    assert "no block has a value on both sides" in text


def test_all_runs_of_a_treatment_collapsed(tmp_path):
    broken = TreatmentModel(collapsed=(1, 2, 3), timeouts=1.0)
    found, text = looked_at(made(tmp_path, {"one": TreatmentModel(), "two": broken}))
    two = next(t for t in found.treatments if t.treatment_id == "two")
    assert two.n_collapsed == 3
    assert two.estimates["p95"].above
    assert two.estimates["p95_ok"].mean is None
    assert two.estimates["p95_ok"].reason
    assert "two collapsed in 3 of 3 runs" in found.headline
    assert "> 5 s" in text


def fallen_over(folder, pattern):
    """Change runs as if their system had collapsed before the load came."""

    def change(record):
        record["window"] = None
        record["failure"] = "it fell over before the load came"
        record["verdicts"]["system"] = "collapsed"

    for path in (folder / "runs").glob(f"{pattern}/*.parquet"):
        path.unlink()
    return changed(folder, change, pattern)


def test_a_treatment_that_collapsed_before_the_load_came(tmp_path):
    found, text = looked_at(fallen_over(made(tmp_path), "*two*"))
    two = next(t for t in found.treatments if t.treatment_id == "two")
    assert two.n_collapsed == 3
    assert (two.estimates["goodput"].mean, two.estimates["p95"].above) == (0.0, True)
    assert "it fell over before the load came" in two.estimates["cpu_cores"].reason
    assert "two collapsed in 3 of 3 runs" in found.headline
    assert "> 5 s" in text


def test_nothing_was_run(tmp_path):
    folder = made(tmp_path)
    for run in (folder / "runs").iterdir():
        shutil.rmtree(run)
    found, text = looked_at(folder)
    assert found.headline.startswith("No answer: no run is complete")
    assert all(c.estimate is None and c.verdict == "undecided" for c in claims(found))
    assert "No answer" in text


def test_no_request_was_ever_sent(tmp_path):
    found, text = looked_at(made(tmp_path, {"one": TreatmentModel(), "two": TreatmentModel(not_sent=1.0)}))
    two = next(t for t in found.treatments if t.treatment_id == "two")
    assert two.estimates["goodput"].mean == 0.0
    assert two.estimates["median_ok"].reason.startswith("no request succeeded")
    assert "no request succeeded" in text


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["*two*", "*"])
def test_figures_of_what_has_no_values(tmp_path, pattern):
    looked_at(fallen_over(made(tmp_path), pattern), figures=True)


def test_telemetry_is_missing(tmp_path):
    folder = made(tmp_path)
    emptied = 0
    for samples in (folder / "runs").glob("*/samples*.parquet"):
        table = pq.read_table(samples)
        pq.write_table(table.slice(0, 0), samples)
        emptied += 1
    assert emptied == 6
    found, text = looked_at(folder)
    for treatment in found.treatments:
        for name in ("cpu_cores", "memory_bytes"):
            estimate = treatment.estimates[name]
            assert estimate.mean is None, name
            assert estimate.reason
    assert {c.variable for c in found.comparisons if c.p_value is not None}.isdisjoint(
        {"cpu_cores", "memory_bytes"}
    )
    assert found.treatments[0].estimates["cpu_cores"].reason.split(";")[0] in text


def test_engine_versions_are_mixed(tmp_path):
    def other(record):
        record["environment_digest"] = "f" * 64
        record["versions"]["engine"] = "0.2.0"
        record["engine"]["version"] = "0.2.0"

    found, text = looked_at(changed(made(tmp_path), other, "b02*"))
    mixed = next(f for f in found.findings if f.name == "mixed_environments")
    assert mixed.severity == "serious"
    assert "2 different environments" in mixed.message
    assert "2 different environments" in text


def test_a_price_is_missing(tmp_path):
    """Of `two` no price is known: its cost is no 0, nothing is cheapest or claimed, and the report says whose it is.

    What a price list itself lacks, and currencies that there are not, are refused with the file (tests/unit/cost).
    """
    prices = Reserved(
        prices="nodes", date="2026-01-01", source="made up", currency="EUR", log="free", egress="free",
        model="reserved", node="0.36/h", fee="free",
    )  # fmt: skip
    cost = CostSpec(currency="EUR", deployments={"one": PricedDeployment(prices=prices, nodes=2)})
    folder = made(tmp_path, answer=Answer(primary=("cost",), baseline="one"))
    plan = json.loads((folder / "plan.json").read_text("utf-8"))
    plan["experiment"]["cost"] = cost.model_dump(mode="json")
    (folder / "plan.json").write_text(json.dumps(plan), "utf-8")
    found, text = looked_at(folder)
    one, two = (t.estimates["cost"] for t in found.treatments)
    assert one.mean == pytest.approx(2 * 2.0 * 0.36 / 3600)
    assert two.mean is None
    assert "two has no price" in two.reason
    [claim] = claims(found)
    assert (claim.verdict, claim.estimate) == ("undecided", None)
    assert "two has no price" in text
    assert "cheapest" not in text.partition("## ")[0]


SAYS_NOTHING = {
    "how slow was it?": "the expression failed",
    "select count(*) from read_csv('/etc/passwd')": "the expression failed",
    "select count(*) from 'https://example.org/x.parquet'": "the expression failed",
    "select avg(total_us) from nothing_here": "the expression failed",
    "select avg(latency_us) from requests where step = 'none'": "null",
    "select 1.0 / 0": "no finite number",
    "select 'nan'::double": "no finite number",
    "select 'fast'": "which is no number",
    "select 0 - 1": "never negative",
}


def test_expressions_that_say_nothing(tmp_path):
    """A stored plan may come from anywhere: its expressions are held to the same bounds as those of a file."""
    names_of = {f"odd{number}": sql for number, sql in enumerate(SAYS_NOTHING)}
    variables = {name: {"sql": sql, "better": "lower"} for name, sql in names_of.items()}
    answer = Answer(primary=tuple(names_of), baseline="one", variables=variables)
    found, text = looked_at(made(tmp_path, answer=answer, blocks=2))
    by_name = {claim.variable: claim for claim in claims(found)}
    assert set(by_name) == set(names_of)
    for name, sql in names_of.items():
        claim = by_name[name]
        assert (claim.verdict, claim.estimate, claim.p_value) == ("undecided", None, None), sql
        assert SAYS_NOTHING[sql] in claim.sentence
        for treatment in found.treatments:
            assert treatment.estimates[name].mean is None, sql
            assert SAYS_NOTHING[sql] in treatment.estimates[name].reason
    assert all(why in text for why in SAYS_NOTHING.values())
    assert "root:" not in text
