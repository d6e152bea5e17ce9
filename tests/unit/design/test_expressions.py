"""``${{ … }}``: what it computes, and that it can do nothing else."""

from __future__ import annotations

import math

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from towtank.design.expression import compile_expression
from towtank.design.operations import TemplateError, as_text
from towtank.design.template import compile_template

LEVELS = {"users": 25, "share": 0.5, "store": "nfs", "cached": True}


def work(text, **levels):
    return compile_expression(text).evaluate({**LEVELS, **levels})


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("users", 25), ("users * 2 + 1", 51), ("1 + 2 * 3", 7), ("(1 + 2) * 3", 9), ("users / 50", 0.5),
        ("users // 10", 2), ("users % 10", 5), ("-7 // 2", -4), ("-7 % 3", 2), ("- - 3", 3), ("2 - 3 - 4", -5),
        ("1e3", 1000.0), (".5 + .5", 1.0), ("share * users", 12.5),
        ("store", "nfs"), ("'a' + \"b\"", "ab"), ("store + '-1'", "nfs-1"), ("'it is'", "it is"),
        ("users > 20", True), ("users <= 20", False), ("store == 'nfs'", True), ("store != 'nfs'", False),
        ("1 == 1.0", True), ("'a' < 'b'", True),
        ("10 if users > 20 else 5", 10), ("1 if cached else 2 if users > 3 else 3", 1),
        ("1 if not cached else 2", 2), ("cached and users > 100", False), ("false or cached", True),
        ("not users > 100", True),
        ("min(3, users, 7)", 3), ("max(1, 2)", 2), ("round(2.6)", 3), ("round(2.345, 2)", 2.35), ("ceil(2.1)", 3),
        ("floor(-2.1)", -3), ("int('12')", 12), ("int(2.9)", 2), ("float('1.5')", 1.5),
        ("str(users) + 'm'", "25m"),
        ("str(50 / 25)", "2"), ("str(cached)", "true"), ("1 if true else 1 / 0", 1),
    ],
)  # fmt: skip
def test_values(text, value):
    result = work(text)
    assert result == value or math.isclose(result, value)
    assert type(result) is type(value)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "an empty ${{ }}"), ("   ", "an empty ${{ }}"), ("1 +", "where a value is needed"),
        ("(1", "')' is needed"), ("1)", "')' is not expected"), ("1 2", "'2' is not expected"),
        ("users.real", "is not allowed in an expression"), ("users[0]", "is not allowed"),
        ("a = 1", "is not allowed"),
        ("2 ** 3", "where a value is needed"), ("'a", "is not allowed"), ("2x", "is not allowed"),
        ("open('f')", "unknown function 'open'"), ("__import__('os')", "unknown function '__import__'"),
        ("nix", "unknown name 'nix'"), ("usrs", "unknown name 'usrs'"), ("min", "unknown name 'min'"),
        ("min(1)", "takes 2 to 10 values"), ("round()", "takes 1 to 2 values"), ("str(1, 2)", "takes 1 values"),
        ("1 / 0", "division by zero"), ("1 % 0", "division by zero"), ("1 // 0.0", "division by zero"),
        ("1e308 * 10", "not a finite number"), ("1e999", "not a finite number"),
        ("10000000000 * 10000000000", "beyond"),
        ("99999999999999999999999", "whole number beyond|finite"), ("int('x')", "cannot make anything of 'x'"),
        ("int(1e300)", "beyond"), ("float('nan')", "not a finite number"), ("float('inf')", "not a finite number"),
        ("'a' * 3", "needs a number; found 'a'"), ("'a' + 1", "mixes text and a number"),
        ("-store", "needs a number"),
        ("cached + 1", "needs a number; found true"), ("users and cached", "needs true or false"),
        ("1 if users else 2", "needs true or false"), ("store < 1", "cannot be compared"),
        ("cached == 1", "compared"),
        ("1 < 2 < 3", "cannot be chained"), ("1 if true", "'else' is needed"), ("min('a', 'b')", "needs a number"),
        ("round(1.5, 99)", "whole digits"),
        ("round(1.5, 'a')", "cannot make anything|whole digits|needs a number"),
        ("1 +" * 200 + "1", "at most 500"), ("(" * 100 + "1" + ")" * 100, "nested deeper"),
        ("-" * 300 + "1", "nested deeper"),
        ("not " * 100 + "true", "nested deeper"), ("lambda: 1", "is not allowed|not expected"),
        ("\u0663", "is not allowed"),
    ],
)  # fmt: skip
def test_errors(text, message):
    with pytest.raises(TemplateError) as caught:
        work(text)
    assert any(part in caught.value.message for part in message.split("|"))


def test_a_misspelling_has_a_hint():
    with pytest.raises(TemplateError) as caught:
        work("usres")
    assert caught.value.hint == "did you mean 'users'?"


def test_a_condition_protects_its_other_side():
    assert work("10 / share if share > 0 else 0", share=0) == 0


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${{ users }}", 25), ("${{users/50}}", 0.5), ("x ${{ users }} y", "x 25 y"), ("${{ 50 / 25 }}/s", "2/s"),
        ("${{ store }}-${{ users }}", "nfs-25"), ("${{ '}}' }}", "}}"),
        ("a {{ user }} ${{ users }}", "a {{ user }} 25"),
        ("{{ ${{ users }} }}", "{{ 25 }}"), ("no expression", "no expression"), ("${{ cached }}!", "true!"),
        ("$${{ users }}", "$25"), ("${ users }", "${ users }"),
    ],
)  # fmt: skip
def test_templates(text, value):
    result = compile_template(text).expand(LEVELS)
    assert result == value
    assert type(result) is type(value)


def test_names_are_known_before_anything_is_worked_out():
    assert compile_template("${{ a + min(b, 1) }} ${{ c }}").names == {"a", "b", "c"}


@pytest.mark.parametrize("text", ["${{ users", "x ${{ 'a }}", "${{ ${{ users }} }}"])
def test_templates_that_are_not_closed(text):
    with pytest.raises(TemplateError):
        compile_template(text).expand(LEVELS)


def test_expanded_text_is_bounded():
    big = "${{ '" + "x" * 400 + "' }}"
    with pytest.raises(TemplateError, match="at most 10,000"):
        compile_template(big * 30).expand({})


numbers = st.integers(-1000, 1000).map(str) | st.floats(0.001, 1000, allow_nan=False).map("{:.3f}".format)
arithmetic = st.recursive(
    numbers,
    lambda inner: st.builds(
        "({} {} {})".format, inner, st.sampled_from(["+", "-", "*", "/", "//", "%"]), inner
    ),
    max_leaves=8,
)


@given(arithmetic)
def test_arithmetic_is_pythons(text):
    try:
        expected = eval(text)  # made of digits and operators above
    except ZeroDivisionError:
        with pytest.raises(TemplateError, match="division by zero"):
            work(text)
        return
    try:
        result = work(text)
    except TemplateError as error:
        assume("beyond" not in error.message)  # some part of it, though perhaps not the whole
        raise
    assert result == expected


@given(st.text(max_size=60))
def test_any_text_is_a_value_or_an_error(text):
    for template in (text, "${{" + text + "}}"):
        try:
            value = compile_template(template).expand(LEVELS)
        except TemplateError:
            continue
        else:
            assert isinstance(value, bool | int | float | str)
            assert isinstance(as_text(value), str)
