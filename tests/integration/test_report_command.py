"""`towtank report` on result folders that went through the real store and the real analysis."""

import pytest

from support import cli
from support.make_results import SPIKE, TreatmentModel, make_results
from towtank import report


@pytest.fixture(scope="module")
def results(tmp_path_factory):
    folder = tmp_path_factory.mktemp("results") / "demo"
    treatments = {
        "one": TreatmentModel(median_ms=12, load_effect=0.5),
        "two": TreatmentModel(median_ms=7, instances=2, invalid=(2,)),
        "two-limited": TreatmentModel(median_ms=20, instances=2, timeouts=0.08, collapsed=(1, 3)),
    }
    return make_results(
        folder, treatments=treatments, blocks=8, stages=SPIKE, slo={"p95": 0.05}, rate_per_s=20.0
    )


def towtank(*words):
    return cli.towtank("report", *words, timeout=110, COLUMNS="100", NO_COLOR="1")


def test_the_default_writes_both_forms_and_prints_the_tables(results):
    done = towtank(results)
    assert done.returncode == 0, done.stderr
    page = results / "report" / "report.html"
    assert str(page) in done.stdout
    assert "Which deployment serves the workload better?" in done.stdout
    assert "What is claimed" in done.stdout
    assert page.stat().st_size < 3_000_000
    assert (results / "report" / "report.md").read_text(encoding="utf-8").startswith("# Which deployment")
    written = [".derived", "report.html", "report.md"]
    assert sorted(p.name for p in (results / "report").iterdir()) == written
    done = towtank(results, "--language", "pt")
    assert "Constatações e ameaças à validade" in done.stdout
    assert (results / "report" / "report.pt.html").is_file()
    refused = towtank(results, "--language", "xx")
    assert (refused.returncode, "there is en and pt" in refused.stderr) == (1, True), refused.stderr


def test_markdown_figures_and_a_paper(results, tmp_path):
    done = towtank(
        results,
        "--html",
        tmp_path / "out.html",
        "--figures",
        tmp_path / "figures",
        "--format",
        "svg",
        "--markdown",
        "--pareto",
        "throughput,p99",
        "--for",
        "paper",
        "--into",
        tmp_path / "paper",
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("# Which deployment")
    assert (tmp_path / "out.html").exists()
    assert {"forest.svg", "timeseries.svg", "heat.svg", "violins.svg", "pareto-throughput-p99.svg"} <= {
        p.name for p in (tmp_path / "figures").iterdir()
    }
    text = (results / "report" / "report.md").read_text(encoding="utf-8")
    assert "figures/forest.svg)" in text
    paper = {p.relative_to(tmp_path / "paper").as_posix() for p in (tmp_path / "paper").rglob("*.*")}
    assert {"index.md", "all.tex", "tables/claims.tex", "figures/forest-column.svg"} <= paper


@pytest.mark.parametrize(("words", "code", "said"), [
    (("nowhere",), 3, "nowhere does not exist"),
    (("--figures", "x", "--format", "bmp"), 1, "allowed is svg, png and pdf"),
    (("--into", "x"), 2, "add --for paper"),
    (("--pareto", "p95"), 2, "is not two response variables"),
    (("--pareto", "p95,cpu"), 1, "cpu has no value in these results"),
])  # fmt: skip
def test_mistakes_end_in_one_clear_line(results, tmp_path, words, code, said):
    done = towtank(*([tmp_path / words[0]] if len(words) == 1 else [results, *words]))
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_write_is_what_run_calls_at_its_end(results):
    path = report.write(results)
    assert path == results / "report" / "report.html"
    assert "3 of 8" not in path.read_text(encoding="utf-8").split("<main")[0]
