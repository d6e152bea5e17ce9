"""Copies of `reset` that leave the folders of an experiment are refused by the plan, with their place."""

from __future__ import annotations

import pytest

from towtank.errors import DesignError, ExitCode

FIXTURE = "fixtures: {db: {prepare: {run: [make]}}}\n"


@pytest.fixture
def copying(small, tmp_path):
    """Load the small experiment with one copy in its `reset`."""
    (tmp_path / "seed").mkdir()
    (tmp_path / "out").symlink_to("/")

    def load(source, to):
        return small(("seed: 1", f'seed: 1\n{FIXTURE}reset: {{copy: [{{source: "{source}", to: "{to}"}}]}}'))

    return load


@pytest.mark.parametrize(
    "to",
    [
        "{data}/../../../../x", "{data}/..", "{data}/a/../../x", "/tmp/x", "x.db", "{root}/x", "{data}x",
        "a/{data}/x", "{fixture.db}/../x", "{python}", "{data}/\\0",
    ],
)  # fmt: skip
def test_what_is_written_stays_in_data_and_fixtures(copying, to):
    with pytest.raises(DesignError) as caught:
        copying("seed", to)
    (problem,) = caught.value.problems
    assert problem.path == "reset.copy[0].to"
    assert (problem.line, problem.column) == (7, 37)
    assert "outside of {data} and fixtures" in problem.message
    assert caught.value.exit_code is ExitCode.BAD_FILE


@pytest.mark.parametrize(
    "source",
    ["/etc/passwd", "../seed", "{root}/../seed", "out/etc/passwd", "{fixture.db}/../x", "{python}"],
)
def test_what_is_read_stays_in_the_experiment(copying, source):
    with pytest.raises(DesignError) as caught:
        copying(source, "{data}/x")
    (problem,) = caught.value.problems
    assert problem.path == "reset.copy[0].source"
    assert (problem.line, problem.column) == (7, 25)
    assert "outside of the experiment's folder" in problem.message


@pytest.mark.parametrize(
    ("source", "to"),
    [
        ("seed", "{data}"),
        ("./seed/../seed", "{data}/a/../x"),
        ("{root}/seed", "{data}//x"),
        ("{fixture.db}/x.db", "{data}/x..db"),
        ("{data}/a", "{fixture.db}/..a"),
        ("not-made-yet", "{data}/x"),
    ],
)
def test_the_folders_of_an_experiment_may_be_copied_between(copying, source, to):
    (copy,) = copying(source, to).treatments[0].spec.reset.copy_files
    assert (copy.source, copy.to) == (source, to)


def test_an_absolute_source_inside_of_the_experiment_is_allowed(copying, tmp_path):
    copying(tmp_path / "seed", "{data}/x")
