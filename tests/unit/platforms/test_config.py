"""Config models of the platforms: both forms, every refusal, and what JSON makes of them."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from towtank.errors import PlatformError
from towtank.platforms import registry
from towtank.platforms.external_config import ExternalConfig
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.readiness import Ready


def local(**keys: Any) -> LocalConfig:
    return LocalConfig.model_validate({"platform": "local", **keys})


def external(**keys: Any) -> ExternalConfig:
    return ExternalConfig.model_validate({"platform": "external", **keys})


def test_short_form_is_one_component_named_app() -> None:
    config = local(
        command="python -m 'my app' --port {port}", replicas=3, limits={"cpu": "500m", "memory": "64MiB"}
    )
    assert config.target_names() == ("app",)
    component = config.resolved()["app"]
    assert component.command == ("python", "-m", "my app", "--port", "{port}")
    assert (component.limits.cpu, component.limits.memory) == (0.5, 64 * 2**20)
    assert component.replicas == 3


def test_long_form_keeps_the_order_of_the_file() -> None:
    config = local(components={"web": {"command": ["a", 1, 2.5]}, "db": {"command": "b {fixture.x} {env.K}"}})
    assert config.target_names() == ("web", "db")
    assert config.resolved()["web"].command == ("a", "1", "2.5")
    assert config.fixture_names() == ("x",)
    assert config.secret_names() == ("K",)


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "nothing to run"),
        ({"command": ""}, "the command is empty"),
        ({"command": []}, "the command is empty"),
        ({"command": "a 'b"}, "no closing quotation"),
        ({"command": ["a", True]}, "True is not text"),
        ({"command": ["a", None]}, "None is not text"),
        ({"command": 5}, "5 is not a command"),
        ({"command": "a {prt}"}, r"did you mean \{port\}\?"),
        ({"command": "a {prot}"}, r"did you mean \{port\}\?"),
        ({"command": "a", "env": {"A": "{x}"}}, r"unknown placeholder \{x\}"),
        ({"command": "a", "env": {"A=B": "x"}}, "'A=B' is not a name"),
        ({"command": "a", "env": {"TOWTANK_TOKEN": "x"}}, "set by Towtank itself"),
        ({"command": "a", "cwd": "{"}, "single '{'"),
        ({"command": "a {url.db}"}, "the only component is 'app'"),
        ({"command": "a", "components": {"b": {"command": "c"}}}, "`command` stands beside `components`"),
        ({"replicas": 2, "components": {"b": {"command": "c"}}}, "`replicas` stands beside `components`"),
        ({"components": {"b": {"command": "{urls.c}"}}}, "components are b"),
        ({"components": {"b": {"command": "c", "port": 80, "replicas": 3}, "d": {"command": "e", "port": 82}}},
         "'b' and 'd' both take port 82"),
        ({"components": {"a/b": {"command": "c"}}}, "should match pattern"),
        ({"command": "a", "replicas": 0}, "greater than or equal to 1"),
        ({"command": "a", "replicas": 10**9}, "less than or equal to 1000"),
        ({"command": "a", "replicas": True}, "not a whole number"),
        ({"command": "a", "port": 65535, "replicas": 2}, "ports up to 65536"),
        ({"command": "a", "cpus": [0, 0]}, "names a CPU twice"),
        ({"command": "a", "cpus": []}, "at least 1 item"),
        ({"command": "a", "limits": {"memory": 512}}, "greater than or equal to 1048576"),
        ({"command": "a", "limits": {"cpu": 0}}, "must be > 0"),
        ({"command": "a", "nice": 20}, "less than or equal to 19"),
        ({"command": "a", "stop": {"signal": "STOP"}}, "TERM"),
        ({"command": "a", "ready": {"http": "health"}}, "must begin with /"),
        ({"command": "a", "ready": {"http": "/h", "tcp": True}}, "allowed is one of them"),
        ({"command": "a", "ready": {"tcp": False}}, "leaves no probe"),
        ({"command": "a", "ready": {"timeout": 5}}, "has no unit"),
        ({"command": "a", "ready": {"interval": "0s"}}, "greater than 0"),
        ({"command": "a", "no_such_key": 1}, "Extra inputs"),
    ],
)  # fmt: skip
def test_local_refuses(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        local(**keys)


def test_external_has_three_forms() -> None:
    assert external(url="http://h:1/").resolved() == {"app": {"app-0": "http://h:1"}}
    assert external(instances={"left": "http://h:1", "right": "https://h"}).resolved() == {
        "app": {"left": "http://h:1", "right": "https://h"}
    }
    both = external(targets={"a": "http://h:1", "b": ["http://h:2", "http://h:3/base"]})
    assert both.resolved() == {
        "a": {"a-0": "http://h:1"},
        "b": {"b-0": "http://h:2", "b-1": "http://h:3/base"},
    }
    assert both.target_names() == ("a", "b")


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({}, "exactly one of `url`, `instances` and `targets`; found none"),
        ({"url": "http://h", "targets": {"a": "http://h"}}, "found `url` and `targets`"),
        ({"url": "h:80"}, "'h:80' is not an address"),
        ({"url": "ftp://h"}, "allowed is http://HOST"),
        ({"url": "http://"}, "is not an address"),
        ({"url": "http://h:99999"}, "is not an address"),
        ({"url": "http://h:0"}, "is not an address"),
        ({"url": 5}, "5 is not an address"),
        ({"url": "http://h/?a=1"}, "has a query"),
        ({"url": "http://u:p@h"}, "carries a user or password"),
        ({"targets": {"a": []}}, "list of addresses is empty"),
        ({"targets": {"a": ["http://h", "http://h/"]}}, "names an address twice"),
        ({"targets": {}}, "at least 1 item"),
        ({"url": "http://h", "headers": {"a b": "c"}}, "not a name that an HTTP header"),
        ({"url": "http://h", "headers": {"a": "b", "A": "c"}}, "given twice"),
        ({"url": "http://h", "headers": {"a": "b\r\nc: d"}}, "control character"),
        ({"url": "http://h", "headers": {"a": "{port}"}}, r"known are \{env.NAME\}"),
    ],
)
def test_external_refuses(keys: dict[str, Any], message: str) -> None:
    with pytest.raises(ValidationError, match=message):
        external(**keys)


def test_a_password_in_an_address_is_not_repeated() -> None:
    with pytest.raises(ValidationError) as caught:
        external(url="http://user:hunter2@h")
    assert "hunter2" not in caught.value.errors()[0]["msg"]


@pytest.mark.parametrize("name", registry.names())
def test_every_key_is_described_in_the_schema(name: str) -> None:
    schema = registry.config_model(name).model_json_schema()
    for title, model in {"top": schema, **schema.get("$defs", {})}.items():
        for key, value in model.get("properties", {}).items():
            assert "description" in value, f"{name}: {title}.{key}"


def test_unknown_platforms_are_refused_with_the_known_ones() -> None:
    with pytest.raises(
        PlatformError, match="no platform 'locol'; known are local, external, kubernetes"
    ) as caught:
        registry.create("locol")
    assert caught.value.hint == "did you mean 'local'?"
    with pytest.raises(PlatformError, match="known are"):
        registry.config_model("nothing-like-it")


def test_probe_is_named_in_words() -> None:
    assert Ready(http="/h").probe == "GET /h"
    assert Ready().probe == "TCP connection"
