"""Tables and figures of a paper: every file is in the index, a real LaTeX compiles all of them, no name is markup."""

from __future__ import annotations

import csv
import re
import shutil
import string
import subprocess
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.errors import ResultsError, TowtankError
from towtank.report.computed import computed
from towtank.report.model import Cell, Column, Figure, Table
from towtank.report.paper import latex, write_paper
from towtank.report.paper.escape import latex as escaped
from towtank.report.text import clean

PDFLATEX = shutil.which("pdflatex")
EVERY_SIGN = Table(
    "every-sign",
    "Every sign: " + string.punctuation,
    (Column("sign", explanation=string.punctuation), Column("[a]", numeric=True)),
    tuple(
        (Cell(f"{sign}{sign}x{sign}", note=sign), Cell(sign, detail=f"{sign} {sign}", sort=1.0))
        for sign in [*string.punctuation, "–", "−", "≥", "≈", "µs", "é", "ß", "Ł", "İ", "ő", "中", "🙂", "ж", "…"]
    ),
    string.punctuation,
)  # fmt: skip
"""Rows begin with brackets and stars, which LaTeX would take for arguments of the line end before them."""


@pytest.fixture(scope="module")
def folder(hostile, tmp_path_factory):
    """Everything about an experiment whose names are markup, and a table of every sign."""
    first = hostile.sections[0]
    more = replace(first, blocks=(*first.blocks, EVERY_SIGN))
    path = tmp_path_factory.mktemp("paper") / "paper"
    write_paper(replace(hostile, sections=(more, *hostile.sections[1:])), path, ("pdf",))
    return path


def index(folder):
    with (folder / "index.csv").open(encoding="utf-8", newline="") as lines:
        return list(csv.DictReader(lines))


@pytest.mark.skipif(PDFLATEX is None, reason="no pdflatex: tools/system-packages.sh test")
def test_a_real_latex_compiles_everything(folder):
    command = [PDFLATEX, "-interaction=nonstopmode", "-halt-on-error", "-no-shell-escape", "all.tex"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False, timeout=100)
    said = done.stdout.decode("utf-8", "replace")
    assert done.returncode == 0, said[-2000:]
    listed = {line for row in index(folder) for line in row["files"].split() if line.endswith(".tex")}
    assert all(
        f"({file}" in said.replace("\n", "") or f"./{file}" in said.replace("\n", "") for file in listed
    )
    labels = (folder / "all.aux").read_text("utf-8", "replace")
    for row in index(folder):
        prefix = "tab" if row["kind"] == "table" else "fig"
        assert f"newlabel{{{prefix}:{row['id']}" in labels
    assert "Missing character" not in said
    assert "Float too large" not in said


def test_the_index_lists_what_is_there_and_how_it_came_about(folder):
    rows = index(folder)
    files = {file for row in rows for file in row["files"].split()}
    there = {p.relative_to(folder).as_posix() for p in folder.rglob("*/*") if p.is_file()}
    assert files == there
    for row in rows:
        assert row["title"], row["id"]
        assert row["computed"] or row["id"] == "every-sign", f"{row['id']}: add it to report/computed.py"
    assert {"table", "figure"} == {row["kind"] for row in rows}
    text = (folder / "index.md").read_text(encoding="utf-8")
    assert all(f"`{file}`" in text for file in files)
    assert all(f"| `{row['id']}` |" in text for row in rows)


def test_the_index_says_what_everything_was_made_from(model, tmp_path):
    small = replace(model, sections=model.sections[:1])
    text = write_paper(small, tmp_path / "paper", ("svg",)).index.read_text(encoding="utf-8")
    assert model.digest in text
    assert "towtank 0.1.0" in text
    assert "2026-03-02 09:14 UTC" in text


def test_every_form_of_every_block_and_figures_in_two_widths(model, tmp_path):
    small = replace(model, sections=tuple(s for s in model.sections if s.id == "answer-section"))
    write_paper(small, tmp_path / "paper")
    names = {p.relative_to(tmp_path / "paper").as_posix() for p in (tmp_path / "paper").rglob("*.*")}
    assert names == {
        "index.md", "index.csv", "all.tex",
        *(f"tables/{t}.{e}" for t in ("claims", "slo") for e in ("tex", "md", "csv")),
        *(f"figures/forest{w}.{e}" for w in ("", "-column") for e in ("svg", "pdf", "png")), "figures/forest.tex",
    }  # fmt: skip
    head = (tmp_path / "paper" / "figures" / "forest.pdf").read_bytes()[:5]
    assert head == b"%PDF-"
    table = (tmp_path / "paper" / "tables" / "claims.md").read_text(encoding="utf-8")
    assert table.startswith("### What is claimed\n\n| Contrast |")


def test_without_pdf_there_is_nothing_for_latex_to_include(model, tmp_path):
    small = replace(model, sections=tuple(s for s in model.sections if s.id == "answer-section"))
    write_paper(small, tmp_path / "paper", ("svg",))
    assert not (tmp_path / "paper" / "figures" / "forest.tex").exists()
    assert "forest" not in (tmp_path / "paper" / "all.tex").read_text(encoding="utf-8")


def test_files_of_an_earlier_paper_go_and_others_stay(model, tmp_path):
    folder = tmp_path / "paper"
    small = replace(model, sections=tuple(s for s in model.sections if s.id == "answer-section"))
    write_paper(small, folder, ("svg",))
    own = folder / "figures" / "mine.svg"
    own.write_text("drawn by hand")
    outside = tmp_path / "precious.svg"
    outside.write_text("not ours")
    with (folder / "index.csv").open("a", encoding="utf-8", newline="") as lines:
        csv.writer(lines).writerow(
            ("figure", "x", "", "", "", "", "../precious.svg figures/../../precious.svg")
        )
    without = replace(
        small.sections[0], blocks=tuple(b for b in small.sections[0].blocks if isinstance(b, Table))
    )
    write_paper(replace(small, sections=(without,)), folder, ("svg",))
    assert not (folder / "figures" / "forest.svg").exists()
    assert own.exists()
    assert outside.exists()


def test_a_folder_that_cannot_be_written_is_named(model, tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(ResultsError, match="file/paper"):
        write_paper(replace(model, sections=model.sections[:1]), tmp_path / "file" / "paper", ("svg",))
    with pytest.raises(TowtankError, match="bmp; allowed is svg, png and pdf"):
        write_paper(model, tmp_path / "paper", ("bmp",))
    assert not (tmp_path / "paper").exists()


@given(st.text())
def test_escaped_text_is_ascii_balanced_and_has_no_markup(text):
    found = escaped(clean(text))
    bare = re.sub(r"\\towtankchar\{[0-9A-F]+\}\{.\}", "", found)
    assert bare.isascii()
    assert not re.search(
        r"(?<!\\)[#&%_^~](?!\{)", re.sub(r"\\[~^]\{", "", bare).replace("~", "").replace("$^", "")
    )
    depth = 0
    for sign in re.sub(r"\\[{}]", "", bare):
        depth += {"{": 1, "}": -1}.get(sign, 0)
        assert depth >= 0
    assert depth == 0
    assert len(re.findall(r"(?<!\\)\$", bare)) % 2 == 0


def test_a_high_figure_leaves_room_for_its_caption(model):
    text = latex.figure(model.figures[0], "figures/forest")
    assert (
        r"[width=\linewidth,height=0.8\textheight,keepaspectratio]{\towtankfolder/figures/forest.pdf}" in text
    )


def test_a_table_longer_than_a_page_comes_in_parts():
    rows = tuple((Cell(f"row {i}", note="late" if i == 70 else ""),) for i in range(100))
    text = latex.table(Table("long", "Long", (Column("what"),), rows, "All of it."))
    assert text.count(r"\begin{table}") == text.count("All of it.") == 3
    assert [f"Long ({i} of 3)" in text for i in (1, 2, 3)] == [True] * 3
    assert all(f"row {i} " in text or f"row {i}\\" in text for i in range(100))
    first, second, _ = text.split(r"\end{table}")[:3]
    assert "late" not in first
    assert "late" in second


def test_long_words_are_set_in_lines_and_numbers_to_the_right():
    long = Table("x", "x", (Column("a"), Column("b", numeric=True)), ((Cell("word " * 20), Cell("1")),))
    assert r"{@{}>{\raggedright\arraybackslash}p{0.32\linewidth}r@{}}" in latex.table(long)


def test_numbers_of_parts_share_a_sentence_about_how_they_are_computed(model):
    one = next(b for b in model.figures if b.id == "timeseries")
    assert computed(replace(one, id="timeseries-3")) == computed(one)
    assert "median over runs" in computed(one)
    assert isinstance(one, Figure)
