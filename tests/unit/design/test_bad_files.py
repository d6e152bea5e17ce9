"""Every kind of bad file: all of its problems, each with file:line:column, key path, found, allowed and a hint."""

from __future__ import annotations

import itertools
import random
import re
import resource
import shutil
from pathlib import Path
from typing import NamedTuple

import pytest

from towtank.design import load_plan
from towtank.design.load_checks import RESERVED_DESCRIPTORS
from towtank.errors import DesignError, ExitCode

DATA = Path(__file__).parents[2] / "data" / "experiments"
FULL = DATA / "full"


class Case(NamedTuple):
    name: str
    old: str
    new: str
    problems: list[str]


def read_cases():
    """Read problems.txt: blocks of ``## name``, ``- old``, ``+ new`` and ``= problem`` lines."""
    cases = []
    for block in DATA.joinpath("problems.txt").read_text("utf-8").split("## ")[1:]:
        name, *lines = block.splitlines()
        parts = {
            sign: [line[2:] for line in lines if line == sign or line.startswith(f"{sign} ")]
            for sign in "-+="
        }
        cases.append(Case(name, "\n".join(parts["-"]), "\n".join(parts["+"]), parts["="]))
    return cases


CASES = read_cases()


def changed(folder, old, new):
    """Copy the full experiment with one change in it."""
    shutil.copytree(FULL, folder, dirs_exist_ok=True)
    path = folder / "experiment.yaml"
    text = path.read_text("utf-8")
    assert old in text
    path.write_text(text.replace(old, new, 1), encoding="utf-8")
    return path


def test_there_are_many_kinds():
    assert len(CASES) > 90
    assert len({case.name for case in CASES}) == len(CASES)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_problems_of(case, tmp_path, monkeypatch):
    changed(tmp_path, case.old, case.new)
    monkeypatch.chdir(tmp_path)
    with pytest.raises(DesignError) as caught:
        load_plan(Path("experiment.yaml"))
    found = [str(problem).removeprefix("experiment.yaml:") for problem in caught.value.problems]
    assert found == case.problems
    assert caught.value.exit_code is ExitCode.BAD_FILE


def alone(case, folder):
    """Problems of one case; texts of lines elsewhere may move."""
    with pytest.raises(DesignError) as caught:
        load_plan(changed(folder, case.old, case.new))
    return {(p.path, re.sub(r"line \d+", "line …", p.message)) for p in caught.value.problems}


def test_two_mistakes_have_no_problem_that_neither_has_alone(tmp_path):
    """In 30 pairs of kinds; what changes which treatments there are may rightly have others."""
    design = ("factors", "exclude", "include", "answer", "treatments")
    cases = [case for case in CASES if not any(word in line for line in case.problems for word in design)]
    text = FULL.joinpath("experiment.yaml").read_text("utf-8")
    pairs = [
        (one, two)
        for one, two in itertools.combinations(cases, 2)
        if two.old in text.replace(one.old, one.new, 1)
        and text.replace(one.old, one.new, 1).replace(two.old, two.new, 1)
        == text.replace(two.old, two.new, 1).replace(one.old, one.new, 1)
    ]
    assert len(pairs) > 1_000
    for one, two in random.Random(11).sample(pairs, 30):
        both = Case("both", text, text.replace(one.old, one.new, 1).replace(two.old, two.new, 1), [])
        more = alone(both, tmp_path) - alone(one, tmp_path) - alone(two, tmp_path)
        assert not more, (one.name, two.name)


def test_the_unchanged_file_is_good():
    assert len(load_plan(FULL).treatments) == 7


def test_beyond_ports_names_the_limit_of_this_machine(tmp_path):
    path = changed(
        tmp_path,
        'rate: "${{ users }}/s", ramp: 10s, hold: 20s}\n      max_in_flight: 500',
        "rate: 1000/s, ramp: 10s, hold: 20s}",
    )
    with pytest.raises(
        DesignError, match=r"1000/s × a timeout of 30 s can be 30,000 requests in flight"
    ) as caught:
        load_plan(path)
    (problem,) = caught.value.problems
    assert (problem.line, problem.column) == (45, 7)
    limit = int(re.search(r"for ([\d,]+)$", problem.message)[1].replace(",", ""))
    assert 0 < limit <= 28_000
    assert "max_in_flight" in problem.hint


def test_a_population_beyond_descriptors_is_refused_before_anything_is_touched(tmp_path, monkeypatch):
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, RESERVED_DESCRIPTORS + 599))
    old = 'load: {model: closed, users: "${{ users }}", spawn_per_s: "${{ users / 5 }}", duration: 60s, warmup: 10s}'
    new = "load: {model: closed, users: 600, duration: 60s}"
    with pytest.raises(DesignError, match="600 users with a connection each") as caught:
        load_plan(changed(tmp_path, old, new))
    (problem,) = caught.value.problems
    assert "file descriptors for 599 connections" in problem.message
    assert "ulimit -Hn" in problem.hint
    load_plan(changed(tmp_path, old, new.replace("600", "599")))


def test_problems_in_an_included_file_have_their_own_place(tmp_path):
    shutil.copytree(FULL, tmp_path, dirs_exist_ok=True)
    journey = tmp_path / "journeys" / "wiki.yaml"
    journey.write_text(journey.read_text("utf-8").replace("weight: 9", "weight: -9"), encoding="utf-8")
    with pytest.raises(DesignError) as caught:
        load_plan(tmp_path)
    (problem,) = caught.value.problems
    assert problem.file == str(journey)
    assert (problem.line, problem.column) == (5, 18)
    assert problem.path == "workloads.mixed.journey.steps[1].choose[0].weight"
    assert problem.message == "found -9; allowed is more than 0"


def test_a_link_out_of_the_folder_is_refused(tmp_path):
    experiment = tmp_path / "experiment"
    shutil.copytree(FULL, experiment)
    outside = tmp_path / "outside.yaml"
    outside.write_text("steps: [{name: a, target: web}]", encoding="utf-8")
    (experiment / "journeys" / "wiki.yaml").unlink()
    (experiment / "journeys" / "wiki.yaml").symlink_to(outside)
    with pytest.raises(DesignError, match="lies outside of the experiment's folder"):
        load_plan(experiment)


def test_a_link_inside_of_the_folder_is_fine(tmp_path):
    shutil.copytree(FULL, tmp_path, dirs_exist_ok=True)
    (tmp_path / "journeys" / "wiki.yaml").rename(tmp_path / "other.yaml")
    (tmp_path / "journeys" / "wiki.yaml").symlink_to(tmp_path / "other.yaml")
    assert load_plan(tmp_path).files.keys() == {"experiment.yaml", "other.yaml"}


def test_nothing_in_a_file_steers_the_terminal(tmp_path):
    path = changed(
        tmp_path,
        "question: Does the backend or the application decide performance?",
        'question: "a\\e[31mb"\n"\\e[2Jkey": 1',
    )
    with pytest.raises(DesignError) as caught:
        load_plan(path)
    assert "\x1b" not in str(caught.value)
    assert "holds line breaks or control characters" in str(caught.value)
    assert "unknown key '\\x1b[2Jkey'" in str(caught.value)


def test_a_file_that_is_not_there():
    with pytest.raises(DesignError, match=r"^nowhere\.yaml:1:1: the file does not exist$"):
        load_plan(Path("nowhere.yaml"))


def test_many_problems_are_bounded(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text("".join(f"key{i}: 1\n" for i in range(1000)), encoding="utf-8")
    with pytest.raises(DesignError) as caught:
        load_plan(path)
    assert len(caught.value.problems) == 200
    assert "more problems are not shown" in caught.value.hint
