"""`towtank import` from the command line: what it prints, its exit codes, and what follows."""

from pathlib import Path

import pytest

from support.cli import towtank

DATA = Path(__file__).parents[1] / "data" / "imports"


def test_import_then_report_sql_and_export(tmp_path):
    done = towtank(
        "import", "k6", "--treatment", f"csv={DATA / 'k6.csv'}", "--treatment", f"json={DATA / 'k6.json.gz'}",
        "--primary", "p95", "--matters", "10%", "--slo", "goodput=99%", cwd=tmp_path,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "b01-csv-a1, 16 requests" in done.stdout
    assert "lag" not in done.stdout
    assert "sent late cannot be told" in done.stderr
    report = towtank("report", "results/imported-k6", "--quiet", cwd=tmp_path)
    assert report.returncode == 0, report.stderr
    assert (tmp_path / report.stdout.strip()).exists()
    asked = towtank("sql", "results/imported-k6", "SELECT count(*) AS n FROM requests", cwd=tmp_path)
    assert "32" in asked.stdout


@pytest.mark.parametrize(
    ("arguments", "code", "words"),
    [
        (("jmeter", "x"), 2, "allowed are k6, locust, hey, vegeta, oha"),
        (("k6",), 2, "k6 run --out csv=FILE"),
        (("k6", DATA / "hey.csv"), 3, "towtank import hey"),
        (("hey", DATA / "hey.csv", "--warmup", "soon"), 2, "'soon' is not a duration"),
        (("hey", DATA / "hey.csv", "--name", "../x"), 2, "cannot be the name"),
        (("hey", DATA / "hey.csv", "--primary", "p95"), 2, "only one"),
        (("hey", DATA / "hey.csv", "--slo", "p95=fast"), 2, "p95=fast"),
        (("hey", DATA / "hey.csv", "--slo", "speed=1"), 2, "no response variable"),
        (("locust", DATA / "locust_stats_history.csv"), 3, "CsvRequestLogger"),
        (("hey", DATA / "none.csv"), 3, "No such file"),
    ],
)
def test_what_cannot_be_imported_is_said(tmp_path, arguments, code, words):
    done = towtank("import", *arguments, cwd=tmp_path)
    assert done.returncode == code, done.stderr
    assert words in " ".join(done.stderr.replace("│", " ").split())
    assert list(tmp_path.iterdir()) == []


def test_a_copy_of_a_run_is_no_further_run(tmp_path):
    for name in ("a-1.csv", "a-2.csv"):
        (tmp_path / name).write_bytes((DATA / "hey.csv").read_bytes())
    done = towtank("import", "hey", "a-1.csv", "a-2.csv", cwd=tmp_path)
    assert done.returncode == 3, done.stderr
    assert "a-2.csv has the same content as a-1.csv" in done.stderr
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a-1.csv", "a-2.csv"]
