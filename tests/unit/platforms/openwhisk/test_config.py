"""The `openwhisk` platform's part of an experiment file."""

from __future__ import annotations

import base64
import re
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from support.on_openwhisk import config, context
from support.openwhisk_script import KEY
from towtank.platforms.openwhisk.config import MIB, OpenWhiskConfig
from towtank.platforms.openwhisk.entities import entities, package_name

URL = "http://127.0.0.1:9"
CODE = {"code": "action.js"}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"auth": "user:key"}, "a secret is not written here"),
        ({"auth": "{env.A}{env.B}"}, "a secret is not written here"),
        ({"url": "unix:/run/socket"}, "allowed is http://HOST"),
        ({"actions": {}}, "at least 1 item"),
        ({"actions": {"a": {}}}, "needs one of `code`, `image` and `sequence`"),
        ({"actions": {"a": {"code": "a.zip"}}}, "`kind` is missing: 'a.zip' does not say by its name"),
        ({"actions": {"a": {"code": "a.jar"}}}, "`main` is missing"),
        ({"actions": {"a": {"code": "a.js", "image": "b", "kind": "c"}}}, "`image` and `kind` exclude each other"),
        ({"actions": {"a": {"sequence": ["b"], "kind": "c"}}}, "`sequence` and `kind` exclude each other"),
        ({"actions": {"a": {"sequence": ["b"], "memory": "128MiB"}}}, "a sequence has no `memory` of its own"),
        ({"actions": {"a": {"sequence": ["b"]}}}, "names 'b', which is no action"),
        ({"actions": {"a": {"sequence": ["b"]}, "b": {"sequence": ["a"]}}}, "a sequence contains itself: "),
        ({"actions": {"a": {**CODE, "memory": "1000kB"}}}, "no whole number of MiB"),
        ({"actions": {"a": {**CODE, "timeout": "1us"}}}, "no whole number of milliseconds"),
        ({"actions": {"a": {**CODE, "concurrency": 501}}}, "less than or equal to 500"),
        ({"actions": {"with blank": CODE}}, "should match pattern"),
        ({"actions": {"a": CODE}, "rules": {"r": {"trigger": "t", "action": "a"}}}, "names 't', which is no trigger"),
        ({"actions": {"a": CODE}, "targets": {"app": "a"}}, "names 'a', which is no web action"),
        ({"actions": {"a": CODE}, "ready": {"http": "/"}}, "the API runs nothing by GET"),
        ({"targets": {"app": {"web": "hello", "api": "actions"}}}, "exactly one of `web` and `api`; found both"),
        ({"targets": {"app": {"api": "actions", "headers": {"Authorization": "x"}}}}, "brings its own header"),
        ({"tls": {"insecure": True}}, "`tls` is for https only"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_said(keys: dict[str, Any], words: str, tmp_path: Path) -> None:
    with pytest.raises(ValidationError, match=re.escape(words)):
        config(URL, tmp_path, **keys)


@pytest.mark.parametrize(
    ("keys", "targets"),
    [
        ({}, ("app",)),
        ({"actions": {"a": {**CODE, "web": True}, "b": {**CODE, "web": "raw"}, "c": CODE}}, ("a", "b")),
        ({"actions": {"a": CODE}}, ("api",)),
        ({"targets": {"x": "hello", "y": {"api": "triggers"}}}, ("x", "y")),
    ],
)
def test_targets_that_are_not_written_are_known(
    keys: dict[str, Any], targets: tuple[str, ...], tmp_path: Path
) -> None:
    assert config(URL, tmp_path, **keys).target_names() == targets


def test_the_key_is_a_secret_that_is_declared(tmp_path: Path) -> None:
    assert config(URL, tmp_path).secret_files() == ("key",)
    assert config(URL, tmp_path, auth="{env.WSK}", headers={"x": "{env.OTHER}"}).secret_names() == (
        "OTHER",
        "WSK",
    )


def test_everything_is_marked_and_in_an_order_that_can_be_created(tmp_path: Path) -> None:
    (tmp_path / "packed.zip").write_bytes(b"PK\x00")
    wanted = config(
        URL, tmp_path,
        actions={
            "all": {"sequence": ["both", "/whisk.system/utils/echo"]},
            "both": {"sequence": ["one", "two"], "web": True},
            "one": {"code": "action.js", "memory": "256MiB", "timeout": "1500ms", "logs": "1MiB", "concurrency": 3,
                    "parameters": {"a": 1}, "annotations": {"mine": True}},
            "two": {"code": "packed.zip", "kind": "nodejs:20", "main": "go"}, "three": {"image": "me/image"},
        },
        triggers={"tick": {"parameters": {"b": 2}}}, rules={"ticks": {"trigger": "tick", "action": "one"}},
    )  # fmt: skip
    made = list(entities(wanted, context(tmp_path), "guest"))
    package = package_name("shop", "tt-0123456789abcdef")
    names = [one.shown for one in made]
    assert names[0] == f"package {package}"
    assert names[-2:] == [f"trigger {package}-tick", f"rule {package}-ticks"]
    order = [one.name.rpartition("/")[2] for one in made if one.collection == "actions"]
    assert order.index("one") < order.index("both") < order.index("all")
    bodies = {one.name.rpartition("/")[2]: one.body for one in made}
    token = {"key": "towtank.dev/token", "value": "tt-0123456789abcdef"}
    assert all(token in body["annotations"] for body in bodies.values())
    assert {"key": "towtank.dev/experiment", "value": "cold-or-warm"} in bodies["one"]["annotations"]
    assert bodies["one"]["exec"] == {
        "kind": "nodejs:default", "code": (tmp_path / "action.js").read_text(), "binary": False,
    }  # fmt: skip
    assert bodies["one"]["limits"] == {"memory": 256, "timeout": 1500, "logs": 1, "concurrency": 3}
    assert bodies["one"]["parameters"] == [{"key": "a", "value": 1}]
    assert {"key": "mine", "value": True} in bodies["one"]["annotations"]
    assert bodies["two"]["exec"] == {
        "kind": "nodejs:20", "code": base64.b64encode(b"PK\x00").decode(), "binary": True, "main": "go",
    }  # fmt: skip
    assert bodies["three"]["exec"] == {"kind": "blackbox", "image": "me/image"}
    assert bodies["both"]["exec"]["components"] == [f"/guest/{package}/one", f"/guest/{package}/two"]
    assert bodies["all"]["exec"]["components"] == [f"/guest/{package}/both", "/whisk.system/utils/echo"]
    assert {"key": "web-export", "value": True} in bodies["both"]["annotations"]
    assert bodies[f"{package}-ticks"]["trigger"] == f"/guest/{package}-tick"


def test_wrong_files_are_problems_with_their_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("towtank.platforms.openwhisk.entities.MOST_CODE_BYTES", 100)
    (tmp_path / "big.js").write_text("x" * 101)
    (tmp_path / "packed.zip").write_bytes(b"x" * 76)
    (tmp_path / "odd.js").write_bytes(b"\xff")
    kinds = {"big": "big.js", "packed": "packed.zip", "odd": "odd.js", "none": "none.js", "good": "action.js"}
    wanted = config(URL, tmp_path, actions={n: {"code": c, "kind": "nodejs:20"} for n, c in kinds.items()})
    assert list(wanted.file_sections()) == [("actions", name, "code") for name in kinds]
    found = {keys[1]: words for keys, words in wanted.file_problems(tmp_path)}
    assert set(found) == {"big", "packed", "odd", "none"}
    assert found["big"].startswith("'big.js' has 101 B; OpenWhisk takes 100 B")
    assert found["packed"].startswith("'packed.zip' has 104 B once it is base64")
    assert "no text in UTF-8" in found["odd"]
    assert found["none"] == "'none.js' cannot be read: No such file or directory"


def test_the_key_never_stands_in_a_stored_config(tmp_path: Path) -> None:
    stored = config(URL, tmp_path).model_dump_json()
    assert KEY not in stored
    assert OpenWhiskConfig.model_validate_json(stored).auth == "{file.key}"
    assert MIB == 1048576
