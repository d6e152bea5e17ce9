"""What a command needs and is not there: said as far as it can be known before anything is started."""

from __future__ import annotations

from pathlib import Path

import pytest

from towtank.platforms.local_config import LocalConfig
from towtank.platforms.local_programs import script_of


def found(root: Path, **keys: object) -> list[tuple[tuple[str | int, ...], str]]:
    config = LocalConfig.model_validate({"platform": "local", **keys})
    return [(one.keys, one.words) for one in config.missing_programs(root)]


def test_programs_are_looked_for_as_the_guard_will(tmp_path: Path) -> None:
    def problem(**keys: object) -> str | None:
        said = [words for keys_of_it, words in found(tmp_path, **keys) if keys_of_it == ("command", 0)]
        return said[0] if said else None

    script = tmp_path / "serve.sh"
    script.write_text("#!/bin/sh\n")
    assert "cannot be executed; try `chmod +x" in str(problem(command="./serve.sh"))
    script.chmod(0o755)
    assert problem(command="./serve.sh") is None
    assert problem(command="serve.sh", env={"PATH": str(tmp_path)}) is None
    assert "not in PATH" in str(problem(command="serve.sh"))
    assert "is not there" in str(problem(command="./other.sh"))
    assert problem(command="python") is None
    assert problem(command="{fixture.x}/bin/a") is None, "known only when it is made"


@pytest.mark.parametrize(
    ("command", "keys"),
    [
        ("python app.py", ("command", 1)),
        (["{python}", "-S", "{root}/app.py", "--port", "{port}"], ("command", 2)),
        ("python3.11 -Bu app.py", ("command", 2)),
        ("sh -eu app.py", ("command", 2)),
    ],
)
def test_a_script_that_is_not_there_is_named_with_its_word(tmp_path, command, keys):
    ((where, words),) = [one for one in found(tmp_path, command=command) if "script" in one[1]]
    assert where == keys
    assert f"is not there (looked at {tmp_path}/app.py)" in words
    (tmp_path / "app.py").write_text("")
    assert [one for one in found(tmp_path, command=command) if "script" in one[1]] == []


@pytest.mark.parametrize(
    "command",
    [
        ["python", "-m", "catalogue", "x"],
        ["python", "-c", "print()"],
        ["python", "-X", "dev", "app.py"],
        ["python", "{data}/app.py"],
        ["sh", "-c", "exec ./app"],
        ["node", "--require", "x", "app.js"],
        ["cat", "app.py"],
        ["python"],
    ],
)
def test_what_cannot_be_known_is_passed_over(tmp_path, command):
    assert [one for one in found(tmp_path, command=command) if "script" in one[1]] == []


def test_words_behind_an_option_of_unknown_meaning_are_no_scripts():
    assert script_of(["bash", "-o", "pipefail", "x.sh"]) is None
    assert script_of(["/usr/bin/python3.12", "-uB", "x.py", "y.py"]) == 2
    assert script_of(["./server", "x.py"]) is None


def test_a_working_folder_that_is_not_there_is_said_alone(tmp_path):
    ((where, words),) = found(tmp_path, command="python app.py", cwd="service")
    assert where == ("cwd",)
    assert f"the working folder 'service' is not there (looked at {tmp_path}/service)" in words
    assert found(tmp_path, command="python app.py", cwd="{data}") == [], "known only when it is made"
    (tmp_path / "service").mkdir()
    ((where, words),) = found(tmp_path, command="python app.py", cwd="service")
    assert where == ("command", 1)
    assert f"{tmp_path}/service/app.py" in words


def test_components_have_their_key_path(tmp_path):
    components = {"web": {"command": "python web.py"}, "api": {"command": ["./api"]}}
    assert [keys for keys, _ in found(tmp_path, components=components)] == [
        ("components", "web", "command", 1),
        ("components", "api", "command", 0),
    ]


@pytest.mark.parametrize("command", ["x" * 300, "./" + "x" * 300, ["python", "x" * 300 + ".py"]])
def test_a_name_that_no_file_can_have_is_not_there(tmp_path, command):
    ((_, words),) = found(tmp_path, command=command)
    assert "is not" in words


def test_a_folder_name_that_is_too_long_is_not_there(tmp_path):
    ((where, _),) = found(tmp_path, command="python app.py", cwd="x" * 300)
    assert where == ("cwd",)
