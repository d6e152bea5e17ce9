"""Actions on a fake OpenWhisk: created, reached, refused with OpenWhisk's own reasons, and removed."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.fake_openwhisk import fake_openwhisk
from support.on_openwhisk import config, context, on_openwhisk
from support.openwhisk_script import FOREIGN, KEY, Ran, Script, fails
from towtank.errors import Interrupted, PlatformError, ReadinessTimeout
from towtank.platforms import rest
from towtank.platforms.openwhisk.api import Api
from towtank.platforms.openwhisk.entities import package_name
from towtank.platforms.openwhisk.note import Note
from towtank.platforms.openwhisk.platform import OpenWhiskPlatform, connect

Start = Callable[[Any], Any]
TOKEN = "tt-0123456789abcdef"
PACKAGE = package_name("shop", TOKEN)
platform = OpenWhiskPlatform()


def deploy(url: str, folder: Path, **keys: Any) -> Any:
    return platform.deploy(config(url, folder, **keys), context(folder))


def test_a_web_action_is_reached_by_its_address(start: Start, tmp_path: Path) -> None:
    with on_openwhisk(start, tmp_path) as (made, script):
        (instance,) = made.targets["app"].instances
        assert instance.url.endswith(f"/api/v1/web/guest/{PACKAGE}/hello.http")
        answer = httpx.get(instance.url + "/", trust_env=False)
        assert (answer.status_code, answer.text) == (200, "hello")
        assert script.left() == [f"actions/{PACKAGE}/hello", f"packages/{PACKAGE}"]
        assert made.targets["app"].headers == {}
    assert script.left() == []


def test_the_api_is_reached_with_the_key_which_is_written_nowhere(start: Start, tmp_path: Path) -> None:
    keys = {
        "actions": {"work": {"code": "action.js"}}, "triggers": {"tick": {}},
        "rules": {"ticks": {"trigger": "tick", "action": "work"}},
        "targets": {"calls": {"api": "actions"}, "fires": {"api": "triggers"}},
    }  # fmt: skip
    script = Script(runs={"work": lambda given: Ran({"done": given.get("n")})})
    with on_openwhisk(start, tmp_path, script, **keys) as (made, _):
        calls, fires = made.targets["calls"], made.targets["fires"]
        url = calls.instances[0].url + "/work?blocking=true&result=true"
        answer = httpx.post(url, json={"n": 3}, headers=dict(calls.headers), trust_env=False)
        assert (answer.status_code, answer.json()) == (200, {"done": 3})
        assert len(answer.headers["x-openwhisk-activation-id"]) == 32
        url = f"{fires.instances[0].url}/{PACKAGE}-tick"
        assert httpx.post(url, headers=dict(fires.headers), trust_env=False).status_code == 202
        assert [one["name"] for one in script.activations] == ["work", "work"]
        encoded = base64.b64encode(KEY.encode()).decode()
        text = json.dumps(made.describe()) + (tmp_path / "data" / Note.FILE).read_text()
        assert KEY not in text
        assert encoded not in text
        assert made.mask(f"{KEY} {encoded} {KEY.partition(':')[2]}") == "*** *** ***"


def test_blocking_calls_that_take_long_are_answered_with_an_id(start: Start, tmp_path: Path) -> None:
    script = Script(
        runs={"work": lambda _: Ran({"a": 1}, 0.05)}, blocking_wait_s=0.01, init_s=0.0, record_delay_s=0.0
    )
    with on_openwhisk(start, tmp_path, script, actions={"work": {"code": "action.js"}}) as (made, _):
        api: Api = made.activations_api()
        activation, record = api.invoke(f"{PACKAGE}/work", {})
        assert record is None
        kept = api.activation(activation)
        assert kept is not None
        assert kept["response"]["result"] == {"a": 1}
        assert api.activation("0" * 32) is None
        script.blocking_wait_s = 60.0
        _, record = api.invoke(f"{PACKAGE}/work", {})
        assert record is not None
        script.record_delay_s = 1000.0
        assert api.activation(activation) is None, "records come late"


def test_an_action_that_is_there_is_never_changed(start: Start, tmp_path: Path) -> None:
    url, script = fake_openwhisk(start)
    script.entities["guest", "packages", PACKAGE] = {"name": PACKAGE, "annotations": []}
    with pytest.raises(
        PlatformError, match=r"creating package .* answers 409: resource already exists"
    ) as caught:
        deploy(url, tmp_path)
    assert "nothing that is there already is changed" in str(caught.value.hint)
    assert script.left() == [f"packages/{PACKAGE}"], "somebody else's stays"


def test_what_was_created_though_the_answer_was_lost_is_ours(start: Start, tmp_path: Path) -> None:
    url, script = fake_openwhisk(start)
    marks = [{"key": "towtank.dev/token", "value": TOKEN}]
    script.entities["guest", "packages", PACKAGE] = {"name": PACKAGE, "annotations": marks}
    deploy(url, tmp_path).remove()
    assert script.left() == []


@pytest.mark.parametrize(
    ("keys", "changes", "words"),
    [
        ({"memory": "1GiB"}, {}, "memory 1024 MB exceeds allowed threshold of 512 MB"),
        ({"memory": "64MiB"}, {}, "memory 64 MB below allowed threshold of 128 MB"),
        ({"timeout": "10m"}, {}, "duration 600000 milliseconds exceeds allowed threshold of 300000 milliseconds"),
        ({"kind": "nodejs:6"}, {}, "kind 'nodejs:6' not in Set("),
        ({}, {"code_bytes": 10}, "answers 413: exec larger than allowed: "),
        ({}, {"broken": {"PUT actions"}}, "answers 500: There was an internal server error."),
    ],
)  # fmt: skip
def test_what_openwhisk_refuses_is_told_in_its_words_and_nothing_is_left(
    start: Start, tmp_path: Path, keys: dict[str, Any], changes: dict[str, Any], words: str
) -> None:
    url, script = fake_openwhisk(start, Script(**changes))
    with pytest.raises(PlatformError) as caught:
        deploy(url, tmp_path, actions={"hello": {"code": "action.js", **keys}})
    assert f"creating action {PACKAGE}/hello failed: OpenWhisk at {url} answers " in caught.value.message
    assert words in caught.value.message
    assert script.left() == [], "the package was there already, and is gone"


def test_what_could_not_be_removed_is_said_and_left_to_clean(start: Start, tmp_path: Path) -> None:
    url, script = fake_openwhisk(start, Script(code_bytes=1, broken={"DELETE packages"}))
    with pytest.raises(
        PlatformError, match=r"what was created before could not be removed: 1 of 2 things"
    ) as caught:
        deploy(url, tmp_path)
    assert "towtank clean" in str(caught.value.hint)
    script.broken.clear()
    assert platform.sweep_noted(TOKEN, tmp_path / "data") == 1
    assert script.left() == []


@pytest.mark.parametrize(
    ("key", "namespace", "words"),
    [
        ("no:correct-horse", "_", "answers 401: The supplied authentication is invalid"),
        ("nothing", "_", "is none of OpenWhisk's"),
        (KEY, "elsewhere", "does not belong to the namespace 'elsewhere'"),
        (FOREIGN, "guest", "it belongs to other"),
    ],
)
def test_keys_and_namespaces_that_do_not_fit(
    start: Start, tmp_path: Path, key: str, namespace: str, words: str
) -> None:
    url, script = fake_openwhisk(start)
    (tmp_path / "key").write_text(key)
    with pytest.raises(PlatformError) as caught:
        deploy(url, tmp_path, namespace=namespace)
    assert words in caught.value.message
    assert caught.value.hint
    secret = key.partition(":")[2]
    assert not secret or secret not in caught.value.message
    (problem,) = platform.check(config(url, tmp_path, namespace=namespace), tmp_path)
    assert words in problem
    assert not (tmp_path / "data").exists()
    assert script.left() == []


def test_a_missing_key_is_a_problem_before_anything_is_asked(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("NO_SUCH_KEY", raising=False)
    url, script = fake_openwhisk(start)
    wanted = config(url, tmp_path, auth="{env.NO_SUCH_KEY}")
    assert platform.check(wanted, tmp_path) == ["the variable NO_SUCH_KEY of {env.NO_SUCH_KEY} is not set"]
    with pytest.raises(PlatformError, match="not set in the environment: NO_SUCH_KEY"):
        platform.deploy(wanted, context(tmp_path))
    assert script.asked == []


def test_a_host_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(PlatformError, match=r"OpenWhisk at http://127.0.0.1:9 cannot be reached") as caught:
        deploy("http://127.0.0.1:9", tmp_path)
    assert "is this its address" in str(caught.value.hint)


def test_a_rate_limit_is_waited_out_and_then_told(
    start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with on_openwhisk(start, tmp_path, Script(later=3)) as (_, script):
        assert script.later == 0
    monkeypatch.setattr(rest, "FIRST_PAUSE_S", 0.2)
    monkeypatch.setattr(rest, "LONGEST_PAUSE_S", 0.2)
    url, _ = fake_openwhisk(start, Script(later=1000))
    api = connect(config(url, tmp_path), tmp_path)
    monkeypatch.setattr(api.rest, "_patience_s", 0.1)
    try:
        with pytest.raises(
            PlatformError, match="answers 429, for 100 ms each time it was asked: slow down"
        ) as caught:
            api.real_namespace()
    finally:
        api.close()
    assert "over its limit" in str(caught.value.hint)


def test_load_beyond_the_limit_of_the_namespace_is_answered_in_the_published_words(
    start: Start, tmp_path: Path
) -> None:
    with on_openwhisk(start, tmp_path, Script(per_minute=1, init_s=0.0)) as (made, _):
        url = made.targets["app"].instances[0].url
        answers = [httpx.get(url, trust_env=False) for _ in range(4)]
    refused = [one.json()["error"] for one in answers if one.status_code == 429]
    assert refused, "four calls of some milliseconds touch two minutes of the clock at most"
    assert refused[0] == "Too many requests in the last minute (count: 2, allowed: 1)."


@pytest.mark.parametrize("tells", [True, False])
def test_limits_are_known_before_where_the_host_tells_them(start: Start, tmp_path: Path, tells: bool) -> None:
    url, script = fake_openwhisk(start, Script(tells_itself=tells))
    wanted = config(
        url, tmp_path,
        actions={
            "big": {"code": "action.js", "memory": "1GiB"}, "long": {"code": "action.js", "timeout": "6m"},
            "old": {"code": "action.js", "kind": "nodejs:6"}, "good": {"code": "action.js"},
            "many": {"sequence": ["good"] * 51},
        },
    )  # fmt: skip
    assert platform.check(wanted, tmp_path) == (
        [
            "actions.big.memory is 1 GiB; this OpenWhisk allows it from 128 MiB up to 512 MiB",
            "actions.long.timeout is 6 min; this OpenWhisk allows it from 100 ms up to 5 min",
            "actions.old.kind is 'nodejs:6'; this OpenWhisk has nodejs:20, python:3.11",
            "actions.many.sequence has 51 actions; allowed are 50 at most",
        ]
        if tells
        else []
    )
    assert {method for method, _ in script.asked} == {"GET"}


def test_an_action_that_does_not_start_is_told_with_its_reason(start: Start, tmp_path: Path) -> None:
    keys = {"ready": {"http": "/", "timeout": "200ms"}}
    with (
        on_openwhisk(start, tmp_path, Script(runs={"hello": fails}), **keys) as (made, _),
        pytest.raises(ReadinessTimeout) as caught,
    ):
        made.wait_ready(cancelled=lambda: None)
    assert (
        "saw last: status 502; the last activation says: action developer error: The action failed during init"
        in (caught.value.message)
    )


def test_a_dead_towtank_is_cleaned_up_after(start: Start, tmp_path: Path) -> None:
    url, script = fake_openwhisk(start)
    made = deploy(url, tmp_path)
    made.activations_api().close()
    assert platform.sweep_noted("tt-another", tmp_path / "data") == 0
    assert script.left() != []
    assert platform.sweep_noted(TOKEN, tmp_path / "data") == 2
    assert script.left() == []
    assert platform.sweep_noted(TOKEN, tmp_path / "data") == 0


def test_clean_up_leaves_what_got_our_names_and_not_our_mark(start: Start, tmp_path: Path) -> None:
    url, script = fake_openwhisk(start)
    made = deploy(url, tmp_path)
    script.entities["guest", "actions", f"{PACKAGE}/hello"]["annotations"] = []
    with pytest.raises(PlatformError, match=r"Package not empty \(contains 1 entities\)"):
        made.remove()
    assert f"actions/{PACKAGE}/hello" in script.left()
    made.activations_api().close()


def test_a_broken_note_says_what_may_be_left(tmp_path: Path) -> None:
    (tmp_path / Note.FILE).write_text('{"token": "tt"}')
    with pytest.raises(PlatformError, match=r"openwhisk.json cannot be read") as caught:
        platform.sweep_noted("tt", tmp_path)
    assert "wsk package list" in str(caught.value.hint)


def test_a_place_is_the_namespace_of_the_key(start: Start, tmp_path: Path) -> None:
    url, _ = fake_openwhisk(start)
    assert platform.place(config(url, tmp_path), tmp_path) == (url, f"namespace guest at {url}")


def test_actions_run_once_where_that_is_wanted(start: Start, tmp_path: Path) -> None:
    """An error on purpose is an answer; a record that comes late is waited for."""
    script = Script(
        runs={"work": lambda given: Ran({"error": "no parameter n"}, 0.0, "application error")},
        blocking_wait_s=0.0, record_delay_s=0.3, init_s=0.01,
    )  # fmt: skip
    keys = {"actions": {"work": {"code": "action.js"}}, "ready": {"invoke": True, "timeout": "20s"}}
    with on_openwhisk(start, tmp_path, script, **keys) as (made, _):
        made.wait_ready(cancelled=lambda: None)
        assert len(script.activations) == 1, "what failed has run, and is not run again"
        script.record_delay_s = 1000.0

        def stop() -> None:
            if len(script.activations) > 1:
                raise Interrupted("stopped")

        with pytest.raises(Interrupted):
            made.wait_ready(cancelled=stop)


@pytest.mark.parametrize("status", ["action developer error", "whisk internal error"])
def test_an_action_that_cannot_run_is_told_with_the_reason_of_its_activation(
    start: Start, tmp_path: Path, status: str
) -> None:
    script = Script(runs={"work": lambda given: Ran({"error": "SyntaxError: x"}, 0.0, status)})
    keys = {"actions": {"work": {"code": "action.js"}}, "ready": {"invoke": True}}
    with (
        on_openwhisk(start, tmp_path, script, **keys) as (made, _),
        pytest.raises(
            PlatformError, match=f"the action work does not run: {status}: SyntaxError: x"
        ) as caught,
    ):
        made.wait_ready(cancelled=lambda: None)
    assert (
        f"wsk activation logs {script.activations[0]['activationId']}"
        == str(caught.value.hint).partition(": ")[2]
    )
    assert len(script.activations) == 1
    assert script.left() == []


def test_a_record_that_never_comes_is_told(start: Start, tmp_path: Path) -> None:
    script = Script(blocking_wait_s=0.0, record_delay_s=1000.0)
    keys = {"actions": {"work": {"code": "action.js"}}, "ready": {"invoke": True, "timeout": "300ms"}}
    with (
        on_openwhisk(start, tmp_path, script, **keys) as (made, _),
        pytest.raises(
            ReadinessTimeout,
            match=r"the action work was not ready within 300 ms: activation .* has no record",
        ),
    ):
        made.wait_ready(cancelled=lambda: None)


@pytest.mark.parametrize(
    "own",
    [
        {"maxActionMemory": 1024, "maxActionTimeout": 600_000, "maxActionConcurrency": 5},
        {"actionMemoryMax": 1024, "actionDurationMax": 600_000, "actionConcurrencyMax": 5},
    ],
)
def test_limits_of_the_namespace_go_before_those_of_the_host(
    start: Start, tmp_path: Path, own: dict[str, int]
) -> None:
    url, _ = fake_openwhisk(start, Script(own_limits=own))
    limits = {"memory": "1GiB", "timeout": "10m", "concurrency": 5}
    good, bad = ({"a": {"code": "action.js", **limits, "concurrency": n}} for n in (5, 6))
    assert platform.check(config(url, tmp_path, actions=good), tmp_path) == []
    (problem,) = platform.check(config(url, tmp_path, actions=bad), tmp_path)
    assert problem == "actions.a.concurrency is 6; this OpenWhisk allows it up to 5"
