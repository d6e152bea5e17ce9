"""The platform as processes: two microservices, functions, actions; what outlives their ends. Go tests the rest."""

import base64
import contextlib
import http.client
import json
import os
import signal
import stat
import threading

import pytest

from support import iot
from support.iot import bearer, record
from support.waiting import eventually

pytestmark = pytest.mark.timeout(600)  # the first test builds the program


@pytest.fixture(scope="module", autouse=True)
def program():
    iot.build()


@pytest.fixture
def platform(tmp_path):
    return iot.Platform(tmp_path)


def consumed(core, row):
    answer = core.ask(
        f"/api/consumers/consume/{row['sensor_id']}", headers=bearer(row["consumer_token"]), timeout_s=30
    )
    assert answer.status == 200, answer.body
    return [one["value"] for one in answer.json["records"]]


def test_everything_that_is_tested_in_go():
    iot.build("test")


def test_a_seeded_platform_as_two_microservices(platform):
    rows = platform.seed(users=3, records=5)
    assert len(rows) == 3
    assert stat.S_IMODE((platform.folder / "feed.csv").stat().st_mode) == 0o600
    with (
        platform.serving("core") as core,
        platform.serving("gateway") as gateway,
        platform.serving("connect"),
    ):
        for row in rows:
            signed_in = core.ask(
                "/api/users/signin",
                body=json.dumps({"username": row["username"], "password": row["password"]}),
            )
            assert signed_in.status == 200
            own = core.ask("/api/users/", headers=bearer(signed_in.json["token"]))
            assert own.json["id"] == int(row["user_id"])
            sensors = f"/api/users/{row['user_id']}/devices/{row['device_id']}/sensors"
            listed = core.ask(sensors, headers=bearer(row["user_token"]))
            assert [one["id"] for one in listed.json] == [int(row["sensor_id"])]
            assert len(consumed(core, row)) == 5
        sent = gateway.ask(
            "/gateway",
            body=json.dumps(record(rows[0], 99.5, 4 * 10**12)),
            headers=bearer(rows[0]["device_token"]),
        )
        assert sent.status == 200
        eventually(lambda: 99.5 in consumed(core, rows[0]), within_s=30)
        assert gateway.ask("/api/users/").status == 404, "the gateway has no endpoint of the core"
        assert core.ask("/gateway", body="{}").status == 404
        reconciled = [
            line for line in map(json.loads, platform.log("core").splitlines()) if line["msg"] == "reconciled"
        ]
        assert [(one["sensors"], one["topics_made"]) for one in reconciled] == [(3, 0)]


def test_what_was_acknowledged_outlives_killed_processes(platform):
    [row] = platform.seed(users=1, records=0)
    acknowledged = []

    def send(gateway, first):
        for value in range(first, first + 10_000):
            body = json.dumps(record(row, value, value))
            with contextlib.suppress(OSError, http.client.HTTPException):
                if gateway.ask("/gateway", body=body, headers=bearer(row["device_token"])).status == 200:
                    acknowledged.append(value)
                    continue
            return

    for first in (0, 10_000):
        with platform.serving("gateway") as gateway, platform.serving("connect") as connect:
            sender = threading.Thread(target=send, args=(gateway, first))
            sender.start()
            eventually(lambda: len(acknowledged) >= (20 if first == 0 else 40), within_s=60)  # noqa: B023 - within the loop
            os.killpg(connect.process.pid, signal.SIGKILL)
            os.killpg(gateway.process.pid, signal.SIGKILL)
            sender.join(60)
    with platform.serving("core") as core, platform.serving("connect"):
        newest = set(acknowledged[-500:])  # an answer has the newest 1,000
        eventually(lambda: newest <= set(consumed(core, row)), within_s=60)
        values = consumed(core, row)
        assert len(values) == len(set(values)), "and nothing is there twice"


def test_functions_and_actions_answer_alike(platform):
    [row] = platform.seed(users=1)
    devices = f"/api/users/{row['user_id']}/devices"
    with platform.serving("function", "devices-get") as function, platform.serving("action", "devices-get") as action, \
            platform.serving("action", "authenticate") as authenticate:  # fmt: skip
        plain = function.ask(devices, headers=bearer(row["user_token"]))
        assert plain.status == 200
        assert plain.headers["x-cold-start"] == "true"
        assert function.ask("/api/users/", headers=bearer(row["user_token"])).status == 404
        given = {
            "__ow_method": "get",
            "__ow_path": devices,
            "__ow_headers": {"authorization": f"Bearer {row['user_token']}"},
        }
        for each in (authenticate, action):
            assert each.ask("/init", body="{}").status == 200
            answer = each.ask("/run", body=json.dumps({"value": given}))
            assert answer.status == 200
            given = answer.json
        assert given["statusCode"] == 200
        assert json.loads(base64.b64decode(given["body"])) == plain.json
        addresses = [f"http://127.0.0.1:{each.port}" for each in (authenticate, action)]
        with platform.serving("sequence", *addresses) as sequence:
            carried = sequence.ask(devices, headers=bearer(row["user_token"]))
            assert (carried.status, carried.json) == (200, plain.json)
        eventually(lambda: "XXX_THE_END_OF_A_WHISK_ACTIVATION_XXX" in platform.log("action", "devices-get"))


def test_a_process_that_is_ended_ends(platform):
    platform.seed(users=1)
    with platform.serving("all") as everything:
        everything.process.send_signal(signal.SIGTERM)
        assert everything.process.wait(30) == 0


@pytest.mark.parametrize(
    ("arguments", "variables", "said"),
    [
        ((), {}, "a command is needed"),
        (("cores",), {}, 'no command "cores"'),
        (("function",), {}, "wrong arguments for function"),
        (("function", "devices-got"), {}, "known are users-signin"),
        (("action", "devices-got"), {}, "and the action authenticate"),
        (("core",), {"IOT_SECRET": "short"}, "IOT_SECRET"),
        (
            ("core",),
            {"IOT_PASSWORD_COST": "high"},
            'from 4 to 16 (each step doubles the time of a sign-in), not "high"',
        ),
        (("core",), {"IOT_DATA": "/dev/null/x"}, "/dev/null/x"),
        (("core",), {"PORT": "99999"}, "99999"),
        (
            ("core",),
            {"IOT_MARIADB": "here"},
            "IOT_MARIADB must be like user:password@tcp(host:3306)/database",
        ),
        (("core",), {"IOT_MARIADB": "iot@tcp(127.0.0.1:1)/iot"}, "MariaDB at 127.0.0.1:1"),
        (("sequence", "http://127.0.0.1:1"), {}, "a sequence has two actions or more, not 1"),
        (("sequence", "http://127.0.0.1:1", "there"), {}, 'like http://127.0.0.1:9001, not "there"'),
        (("core",), {"IOT_KAFKA": "127.0.0.1:1"}, "Kafka at 127.0.0.1:1 does not answer"),
        (
            ("core",),
            {"IOT_KAFKA_REPLICAS": "0"},
            'IOT_KAFKA_REPLICAS must be a whole number from 1 to 16, not "0"',
        ),
        (
            ("core",),
            {"IOT_SEARCH": "here"},
            'IOT_SEARCH must be an address such as http://search:9200, not "here"',
        ),
        (("core",), {"IOT_SEARCH": "http://127.0.0.1:1"}, "the search server"),
        (
            ("core",),
            {"IOT_PREFIX": "Mine"},
            'IOT_PREFIX must be lower-case letters, digits and -, such as sensor-, not "Mine"',
        ),
        (("seed", "--users=0"), {}, "--users must be 1 or more, not 0"),
    ],
)
def test_a_wrong_use_is_said_in_a_line(platform, arguments, variables, said):
    done = platform.run(*arguments, **variables)
    assert done.returncode == 1
    assert said in done.stderr
    assert "goroutine" not in done.stderr


def test_a_platform_is_seeded_once(platform):
    platform.seed(users=1)
    done = platform.run("seed", "--users=1")
    assert done.returncode == 1
    assert "has 2 users already: seed an empty one" in done.stderr
