"""Recipes of the functions' images: what goes in, and what is said when something is missing."""

from __future__ import annotations

import json

import pytest
from testbed import functions
from testbed.__main__ import main
from testbed.errors import BuildError


def test_an_unknown_function_is_named_with_those_that_are_known():
    with pytest.raises(BuildError, match=r"no function for 'cobol'; known are go, python"):
        functions.recipe("cobol", "1")


def test_what_is_needed_to_build_only_stays_out(monkeypatch, tmp_path):
    folder = tmp_path / "typescript"
    locked = {
        "": {}, "node_modules/a": {}, "node_modules/a/node_modules/b": {}, "node_modules/tsc": {"dev": True}
    }  # fmt: skip
    for place in locked:
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "index.js").write_text("")
    (folder / "package.json").write_text("{}")
    (folder / "package-lock.json").write_text(json.dumps({"packages": locked}))
    monkeypatch.setattr(functions, "FUNCTIONS", tmp_path)
    monkeypatch.setattr(functions, "find", lambda _program: "/bin/true")
    files = functions.recipe("typescript", "1").files
    assert {path for path in files if "node_modules" in path} == {
        "/app/node_modules/a/index.js", "/app/node_modules/a/node_modules/b/index.js"
    }  # fmt: skip
    assert any("libc" in path for path in files), "and the interpreter's libraries"


def test_what_is_not_built_is_named(monkeypatch, tmp_path):
    (tmp_path / "quarkus").mkdir()
    monkeypatch.setattr(functions, "FUNCTIONS", tmp_path)
    with pytest.raises(BuildError, match=r"jre/build/runtime cannot be packed: there is no such folder"):
        functions.recipe("quarkus", "1")


def test_pushing_without_a_testbed_is_refused_before_anything_is_built(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("TOWTANK_TESTBED", str(tmp_path / "testbed"))
    monkeypatch.setattr(functions, "build", lambda runtime: pytest.fail(f"{runtime} was built"))
    assert main(["functions", "go", "--push"]) == 1
    assert "the testbed is not up" in capsys.readouterr().err


def test_the_dockerfile_has_a_target_for_each_and_copies_what_exists():
    lines = (functions.FUNCTIONS / "Dockerfile").read_text("utf-8").splitlines()
    targets = [line.split()[-1] for line in lines if line.startswith("FROM")]
    assert set(targets) >= set(functions.RUNTIMES)
    copied = [line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line]
    missing = [name for names in copied for name in names if not list(functions.FUNCTIONS.glob(name))]
    assert copied
    assert missing == []
