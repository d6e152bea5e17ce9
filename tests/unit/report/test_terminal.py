import io
import re

import pytest
from rich.cells import cell_len
from rich.console import Console

from support.sample_analysis import HOSTILE
from towtank import report


def shown(model, *, width=120, terminal=False, runs=True):
    console = Console(
        file=io.StringIO(),
        width=width,
        force_terminal=terminal,
        color_system="standard" if terminal else None,
    )
    report.terminal.show(model, console, runs=runs)
    return console.file.getvalue()


def test_it_opens_with_question_and_answer(model):
    text = shown(model)
    assert text.startswith(f"{model.question}\nTwo processes serve")
    assert "✓ better  p95 latency, two-processes against one-process: −66.9 %" in text


@pytest.mark.parametrize("width", [60, 80, 120, 200])
def test_no_line_is_wider_than_the_screen_and_no_number_is_cut(model, width):
    text = shown(model, width=width)
    assert max(cell_len(line) for line in text.splitlines()) <= width
    assert "−66.9 %" in text
    assert "…" not in text.replace("… ", "").replace("−83.4 …", "")


def test_what_has_no_room_is_named(model):
    narrow = shown(model, width=70)
    assert "Not shown here: " in narrow
    assert "Verdict" in narrow.split("Service-level")[0]  # the least important columns go first


def test_tables_are_those_of_the_other_forms(model):
    text = shown(model)
    for wanted in (
        "What is claimed",
        "Treatments: mean over runs",
        "Latency: mean over runs",
        "Outcomes",
        "All runs",
    ):
        assert wanted in text
    assert "3 of 8" in text
    assert "> 2 s" in text


def test_dashes_have_reasons(model):
    text = shown(model)
    assert re.search(r"– [ab]\b", text)
    assert "a in some runs this percentile falls among the failures" in text


def test_control_sequences_and_markup_are_inert(hostile):
    text = shown(hostile, terminal=True)
    allowed = re.sub(r"\x1b\[[0-9;]*m", "", text)  # rich's own colours
    assert not re.search("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]", allowed)
    assert "\x1b[31mred" not in text
    assert r"\x1b[31mred" in re.sub(r"\x1b\[[0-9;]*m", "", text)
    assert HOSTILE[2] in allowed


def test_square_brackets_are_not_read_as_rich_markup(hostile):
    assert "[click]" in shown(hostile)
