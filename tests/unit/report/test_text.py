import re
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.report.text import clean, fenced, identifier, listed, markdown, shorten

ANY = st.text(st.characters(codec=None), max_size=80)
INVISIBLE = {"Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp"}


@given(ANY)
def test_clean_leaves_nothing_that_a_terminal_or_browser_acts_on(text):
    assert not [c for c in clean(text) if unicodedata.category(c) in INVISIBLE]


@given(ANY)
def test_clean_keeps_lines_and_tabs_of_files_only(text):
    kept = clean(text, lines=True)
    assert not [c for c in kept if unicodedata.category(c) in INVISIBLE and c not in "\n\t"]


@given(st.text(st.characters(categories=["L", "N", "P", "S", "Zs"]), max_size=80))
def test_clean_changes_nothing_that_is_visible(text):
    assert clean(text) == text


def test_clean_says_what_it_found():
    assert clean("a\x1b[31mb\u202ec") == r"a\x1b[31mb\u202ec"
    assert clean("\U000e0001") == r"\U000e0001"


def test_clean_bounds_length():
    assert clean("x" * 500, limit=10) == "x" * 9 + "…"


@given(ANY)
def test_markdown_leaves_no_active_punctuation(text):
    bare = re.sub(r"\\[\\`*_\[\]<|~&$>#+=-]", "", markdown(clean(text)))
    assert not re.search(r"[\\`*_\[\]<|~&$]", bare)
    assert not re.match(r"\s*([-+=>#]|\d+[.)])", markdown(clean(text)))


@pytest.mark.parametrize(
    "link", ["https://evil.example", "javascript:alert(1)", "www.evil.example", "data:text/html"]
)
def test_markdown_makes_no_links(link):
    assert link not in markdown(link)


@given(ANY, st.integers(0, 12))
def test_a_code_block_cannot_be_closed_from_within(text, ticks):
    block = fenced(f"{clean(text, lines=True)}\n{'`' * ticks}\n# after")
    first, *body, last = block.split("\n")
    assert first == last
    assert len(first) >= 3
    assert all(line.strip() != first and not line.startswith(first) for line in body)


@given(st.text(max_size=60), st.integers(5, 40))
def test_shorten_keeps_both_ends(text, limit):
    short = shorten(text, limit)
    assert len(short) <= limit
    if len(text) > limit:
        assert short[0] == text[0]
        assert "…" in short


def test_identifier_is_fit_for_ids_and_files():
    assert identifier("../../etc <x>") == "etc-x"
    assert identifier("☃") == "x"


def test_listed_counts_what_it_leaves_out():
    assert listed(["a"]) == "a"
    assert listed(["a", "b", "c"]) == "a, b and c"
    assert listed([str(i) for i in range(9)], most=2) == "0, 1 and 7 more"
