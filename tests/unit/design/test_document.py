"""YAML: the core schema of 1.2, positions of everything, and bounds that hostile text runs into."""

from __future__ import annotations

import math
import time

import pytest

from towtank.design.document import MAX_DEPTH, MAX_FILE_BYTES, parse_document, read_document
from towtank.design.problems import Problems
from towtank.design.tree import Mapping, Scalar, Sequence, plain


def parse(text):
    problems = Problems()
    return parse_document(text, "a.yaml", problems), [str(p) for p in problems.sorted()]


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("no", "no"), ("yes", "yes"), ("on", "on"), ("off", "off"), ("y", "y"),
        ("true", True), ("True", True), ("FALSE", False), ("tRue", "tRue"),
        ("null", None), ("~", None), ("", None), ("nil", "nil"),
        ("010", 10), ("0o10", 8), ("0x1F", 31), ("-7", -7), ("+7", 7), ("1_000", "1_000"), ("0b11", "0b11"),
        ("1.10", 1.1), ("1e3", 1000.0), (".5", 0.5), ("1.", 1.0), (".inf", math.inf), ("-.INF", -math.inf),
        ("12:30:45", "12:30:45"), ("2001-12-14", "2001-12-14"), ("'7'", "7"), ('"true"', "true"), ("=", "="),
    ],
)  # fmt: skip
def test_core_schema(text, value):
    node, problems = parse(f"key: {text}")
    assert not problems
    assert plain(node) == {"key": value}
    assert type(plain(node)["key"]) is type(value)


def test_nan_is_read():
    assert math.isnan(plain(parse("key: .nan")[0])["key"])


def test_everything_knows_its_place():
    node, _ = parse("a: 1\nb:\n  - x\n  - {c: d}\n")
    assert isinstance(node, Mapping)
    assert str(node.key_place("b")).count("line=2")
    items = node.get("b")
    assert isinstance(items, Sequence)
    assert (items.items[0].place.line, items.items[0].place.column) == (3, 5)
    inner = items.items[1]
    assert isinstance(inner, Mapping)
    assert (inner.key_place("c").line, inner.key_place("c").column) == (4, 6)
    assert inner.get("c").place.column == 9
    assert inner.key_place("missing") == inner.place


def test_a_scalar_keeps_what_the_file_says():
    node, _ = parse("version: 1.10")
    scalar = node.get("version")
    assert isinstance(scalar, Scalar)
    assert (scalar.value, scalar.text) == (1.1, "1.10")
    assert plain(node, frozenset({("version",)})) == {"version": "1.10"}


def test_merge_takes_what_is_not_written():
    node, problems = parse("a: &a {x: 1, y: 2}\nb: &b {z: 4}\nc: {<<: [*a, *b], y: 3}\n")
    assert not problems
    assert plain(node)["c"] == {"y": 3, "x": 1, "z": 4}


def test_keys_are_text_as_written():
    assert plain(parse("200: a\ntrue: b\n1.10: c")[0]) == {"200": "a", "true": "b", "1.10": "c"}


def bomb():
    """A billion laughs: 10 ** 9 values out of 300 characters."""
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{i}: &a{i} [{', '.join([f'*a{i - 1}'] * 10)}]" for i in range(1, 9)]
    return "\n".join(lines)


HOSTILE = {
    "billion laughs": (bomb(), "unfolds into more than 20,000 values"),
    "chain of merges": (
        "k0: &a0 {x: 1}\n" + "".join(f"k{i}: &a{i} {{<<: *a{i - 1}, x{i}: 1}}\n" for i in range(1, 3000)),
        "unfolds into more than 20,000 values",
    ),
    "deep lists": ("[" * 50_000, f"nested deeper than {MAX_DEPTH} levels"),
    "deep block lists": ("- " * 50_000, f"nested deeper than {MAX_DEPTH} levels"),
    "deep keys": ("? " * 50_000, f"nested deeper than {MAX_DEPTH} levels"),
    "wide list": ("a: [" + "x," * 60_000 + "]", "unfolds into more than 20,000 values"),
    "open braces": ("{" + "a:{" * 60_000, "not valid YAML"),
    "open quote": ("a: '" + "\n" * 200_000, "not valid YAML"),
    "alias of itself": ("a: &a [*a]", "stands inside of what it refers to"),
    "alias of nothing": ("a: *b", "refers to no anchor above it"),
    "python object": ("a: !!python/object/apply:os.system [id]", "is not allowed"),
    "tag": ("a: !x 1", "is not allowed"),
    "binary tag": ("a: !!binary aGk=", "is not allowed"),
    "directive": ("%TAG ! tag:x,2000:\n---\na: 1", "tag directives are not allowed"),
    "wrong version": ("%YAML 3.1\n---\na: 1", "not valid YAML"),
    "second document": ("a: 1\n---\nb: 2", "a second document"),
    "null character": ("a: \x00", "U+0000 is not allowed"),
    "lone surrogate": ("a: \ud800", "U+D800 is not allowed"),
    "escape": ("a: \x1b[31m", "U+001B is not allowed"),
    "nothing": ("", "the file is empty"),
    "comment only": ("# nothing\n", "the file is empty"),
    "key is a map": ("{a: 1}: 2", "a key must be text"),
    "empty key": ("~: 2", "a key is empty"),
    "twice": ("a: 1\nb: 2\na: 3", "the key 'a' is written twice; it stands in line 1 already"),
    "twice by quotes": ("a: 1\n'a': 3", "is written twice"),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_is_a_problem_at_once(name):
    text, message = HOSTILE[name]
    start = time.process_time()
    _, problems = parse(text)
    assert time.process_time() - start < 5
    assert len(problems) == 1
    assert message in problems[0]
    assert len(problems[0]) < 500


def test_a_huge_file_is_not_read(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: " + b"x" * MAX_FILE_BYTES)
    problems = Problems()
    assert read_document(path, "a.yaml", problems) == (None, "")
    assert "larger than 256 KiB" in str(problems.sorted()[0])


def test_what_is_not_utf8_says_where(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"a: 1\nb: \xc3\xa4 \xe4\n")
    problems = Problems()
    read_document(path, "a.yaml", problems)
    (problem,) = problems.sorted()
    assert (problem.line, problem.column) == (2, 6)
    assert "0xe4 is not UTF-8" in problem.message


def test_a_byte_order_mark_is_skipped(tmp_path):
    path = tmp_path / "a.yaml"
    path.write_bytes(b"\xef\xbb\xbfa: 1")
    node, _ = read_document(path, "a.yaml", Problems())
    assert plain(node) == {"a": 1}


def test_a_folder_is_no_file(tmp_path):
    problems = Problems()
    assert read_document(tmp_path, "folder", problems)[0] is None
    assert "cannot be read" in str(problems.sorted()[0])
