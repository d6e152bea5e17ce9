import re

import pytest

from support.sample_analysis import HOSTILE
from towtank import report


@pytest.fixture(scope="module")
def text(model):
    return report.markdown.render(model)


@pytest.fixture(scope="module")
def attacked(hostile):
    return report.markdown.render(hostile)


def outside_code(text):
    return re.sub(r"^(`{3,}).*?^\1$", "", text, flags=re.DOTALL | re.MULTILINE)


def test_it_opens_with_question_and_answer(text, model):
    lines = [line for line in text.splitlines() if line]
    assert lines[0] == f"# {model.question}"
    assert lines[2].startswith("**Two processes serve this workload better")


def test_it_carries_the_same_tables(text, model):
    assert len(re.findall(r"^\| ---", text, flags=re.MULTILINE)) == len(model.tables)
    for table in model.tables:
        assert f"### {table.caption}" in text
    assert "| two-processes (against one-process) | p95 latency" in text


def test_every_row_has_the_columns_of_its_head(attacked):
    for block in re.findall(r"(?:^\|.*\n)+", outside_code(attacked), flags=re.MULTILINE):
        pipes = {len(re.findall(r"(?<!\\)\|", line)) for line in block.strip().splitlines()}
        assert len(pipes) == 1, block[:200]


def test_no_markup_from_outside(attacked):
    bare = outside_code(attacked)
    assert not re.search(r"(?<!\\)<[a-zA-Z/!]", bare)
    assert not re.search(r"(?<!\\)\]\s*\(", bare.replace("](figures/", ""))
    assert "javascript:" not in bare
    assert "\x1b" not in attacked
    assert not re.search(r"^# heading", bare, flags=re.MULTILINE)


def test_files_stay_in_their_code_blocks(attacked):
    assert re.search(r"^````\n.*^```\n# heading\n````$", attacked, flags=re.DOTALL | re.MULTILINE)
    assert HOSTILE[0] in attacked  # verbatim, inside a block


def test_figures_are_linked_where_they_were_saved(model):
    linked = report.markdown.render(model, figures="figures")
    assert linked.count("](figures/") == len(model.figures)
    assert "](figures/forest.svg)" in linked
