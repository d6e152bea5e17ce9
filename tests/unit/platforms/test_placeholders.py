"""Placeholders: filled, doubled, refused."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from towtank.platforms import placeholders
from towtank.platforms.placeholders import PlaceholderError


def test_values_are_filled_in() -> None:
    values = {"port": "8080", "fixture.db": "/tmp/x", "env.KEY": "{port}"}
    assert placeholders.render("-p {port} {fixture.db} { port }", values) == "-p 8080 /tmp/x 8080"
    assert placeholders.render("{env.KEY}", values) == "{port}", "a value is not a template"


@settings(deadline=None)
@given(st.text())
def test_doubled_braces_stand_for_themselves(text: str) -> None:
    doubled = text.replace("{", "{{").replace("}", "}}")
    assert placeholders.names(doubled) == ()
    assert placeholders.render(doubled, {}) == text


@settings(deadline=None)
@given(st.lists(st.sampled_from(["{port}", "{{", "}}", "a", " ", "{index}"])))
def test_pieces_are_filled_one_by_one(pieces: list[str]) -> None:
    values = {"port": "1", "index": "2"}
    expected = "".join(placeholders.render(piece, values) for piece in pieces)
    assert placeholders.render("".join(pieces), values) == expected


@settings(deadline=None)
@given(st.text(alphabet="{}ab.", max_size=12))
def test_any_text_is_rendered_or_refused_with_a_reason(text: str) -> None:
    reason = None
    try:
        placeholders.render(text, {"a": "1"})
    except PlaceholderError as error:
        reason = str(error)
    assert reason is None or "literal brace" in reason or "did you mean" in reason


@pytest.mark.parametrize("text", ["{", "}", "a { b", "{a{b}}", "}{"])
def test_a_single_brace_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(PlaceholderError, match=r"a single '[{}]' at character \d+|unknown placeholder"):
        placeholders.validate(text)


def test_unknown_ones_are_refused_with_the_known_ones() -> None:
    with pytest.raises(
        PlaceholderError, match=r"unknown placeholder \{prt\}.*\{port\}, \{instance\}.*mean \{port\}\?"
    ):
        placeholders.validate("{prt}")
    for text in ("{fixture}", "{fixture.}", "{port.x}", "{}", '{"a": 1}', "{nothing.x}"):
        with pytest.raises(PlaceholderError, match="unknown placeholder"):
            placeholders.validate(text)


def test_families_take_any_word() -> None:
    text = "{fixture.a} {env.B} {url.c} {urls.d} {fixture.e}"
    assert placeholders.validate(text) == text
    assert placeholders.dotted([text, "{fixture.a}"], "fixture") == ("a", "e")


def test_what_is_known_depends_on_the_place() -> None:
    placeholders.validate("{env.KEY}", placeholders.SECRET_NAMES)
    with pytest.raises(PlaceholderError, match=r"known are \{env.NAME\}"):
        placeholders.validate("{port}", placeholders.SECRET_NAMES)
