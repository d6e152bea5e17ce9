"""`towtank logs` as a user calls it, on stored results and on a real run of the guard."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from support import small_study as study
from support.make_results import TreatmentModel, make_results
from towtank.store.log_lines import times_path

MS = 1_000_000


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of two instances and a hook."""
    results = tmp_path_factory.mktemp("study") / "results" / "shop"
    make_results(results, treatments={"one": TreatmentModel()}, blocks=1, duration_s=2, experiment="shop")
    folder = results / "runs" / "b01-one-a1"
    zero_ns = json.loads((folder / "run.json").read_text())["clock"]["zero_monotonic_ns"]
    logs = folder / "logs"
    logs.mkdir(exist_ok=True)
    for name, text, noted in (
        (
            "app-0",
            "starting\nready\nerror: \x1b[31mno\x1b[0m more\n",
            ((-1500, 9, 1), (-100, 15, 2), (1250, 38, 3)),
        ),
        ("app-1", "ready too\nGET /\n", ((-50, 10, 1), (1900, 16, 2))),
    ):
        (logs / f"{name}.log").write_text(text)
        lines = [f"{zero_ns + at_ms * MS} {count} {number}\n" for at_ms, count, number in noted]
        times_path(logs / f"{name}.log").write_text("".join(lines))
    (logs / "prepare.log").write_text("prepared\n")
    return folder


def test_all_lines_in_one_order_on_the_runs_clock(run: Path) -> None:
    done = study.towtank("logs", run)
    assert done.returncode == 0, done.stderr
    assert done.stdout.splitlines() == [
        "    -1.500 s  app-0  starting",
        "    -0.100 s  app-0  ready",
        "    -0.050 s  app-1  ready too",
        "    +1.250 s  app-0  error: no more",
        "    +1.900 s  app-1  GET /",
    ]
    assert done.stderr == "not searched, since their times are not known: one-0.log, prepare.log\n"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        (["--from", "0"], ["error: no more", "GET /"]),
        (["--from", "-1s", "--to", "1s"], ["ready", "ready too"]),
        (["--to", "-100ms"], ["starting"]),
        (["--grep", "^ready$|GET"], ["ready", "GET /"]),
        (["--instance", "app-1", "--to", "1s"], ["ready too"]),
        (["--from", "5s"], []),
    ],
)
def test_lines_are_chosen_by_time_words_and_instance(run: Path, words: list[str], found: list[str]) -> None:
    done = study.towtank("logs", run, *words)
    assert done.returncode == 0, done.stderr
    assert [line.split("  ")[-1] for line in done.stdout.splitlines()] == found


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (["--from", "2s", "--to", "1s"], 2, "--from 2s is not before --to 1s"),
        (["--from", "soon"], 2, "--from soon: "),
        (["--grep", "("], 2, "is no regular expression"),
        (["--instance", "ap-0"], 3, "has no log of 'ap-0'; it has app-0, app-1"),
    ],
)
def test_what_is_wrong_is_said(run: Path, words: list[str], code: int, said: str) -> None:
    done = study.towtank("logs", run, *words)
    assert done.returncode == code
    assert said in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize("place", ["..", "../..", "../b01-noe-a1"])
def test_what_is_no_run_names_those_that_are(run: Path, place: str) -> None:
    done = study.towtank("logs", run / place)
    assert done.returncode == 3
    assert "b01-one-a1" in done.stderr
    assert "Traceback" not in done.stderr


def test_the_output_of_a_real_run_stands_at_its_times(tmp_path: Path) -> None:
    """The application prints 300 KB at each request, 1 s apart: bytes are counted, lines are found by time."""
    file = study.write_study(
        tmp_path / "study", blocks=2, path="/print?300000", rate=1, duration="2500ms", flags=", --say, hello",
        extra="log_limit: 100KiB",
    )  # fmt: skip
    done = study.towtank("run", file, "--plain", "--no-report")
    assert done.returncode in (0, 6), done.stderr
    results = tmp_path / "study" / "results" / "small"
    folder = results / "runs" / "b01-one-a1"
    record = json.loads((folder / "run.json").read_text())
    (facts,) = [log for log in record["logs"] if log["instance"] == "app-0"]
    printed = facts["bytes_written"] - len("hello\n")
    assert printed in (600_000, 900_000), "two or three requests"
    assert facts["bytes_kept"] == 100 * 1024
    shown = study.towtank("logs", folder, "--to", "0")
    assert shown.stdout.rstrip().endswith("app-0  hello")
    assert "cut at 102400 bytes" in study.towtank("logs", folder, "--grep", "towtank").stdout
    asked = study.towtank(
        "sql", results, "SELECT sum(value) AS n FROM samples WHERE run_id = 'b01-one-a1' AND source = 'logs'",
        "--format", "json",
    )  # fmt: skip
    (row,) = json.loads(asked.stdout)
    assert row["n"] % 300_000 == 0
    assert 300_000 <= row["n"] <= printed, "of whole seconds of the load"
