"""The platform on MariaDB, Kafka and OpenSearch, as they are from Debian and Maven Central."""

import json
import os
import subprocess

import pytest

from support import iot, iot_servers
from support.iot import bearer, record
from support.waiting import eventually

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def servers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("servers")
    with (
        iot_servers.mariadb(folder) as mariadb,
        iot_servers.kafka(folder) as kafka,
        iot_servers.search(folder) as search,
    ):
        yield {"mariadb": mariadb, "kafka": kafka, "search": search}


@pytest.fixture(scope="module")
def variables(servers):
    return {
        "IOT_MARIADB": f"iot@tcp(127.0.0.1:{servers['mariadb'].port})/iot",
        "IOT_KAFKA": f"127.0.0.1:{servers['kafka'].port}",
        "IOT_SEARCH": f"http://127.0.0.1:{servers['search'].port}",
    }


@pytest.fixture(scope="module")
def platform(variables, tmp_path_factory):
    iot.build()
    return iot.Platform(tmp_path_factory.mktemp("platform"), {**variables, "IOT_PREFIX": "processes-"})


@pytest.fixture(scope="module")
def rows(platform):
    return platform.seed(users=2, records=20)


def consumed(core, row):
    answer = core.ask(f"/api/consumers/consume/{row['sensor_id']}", headers=bearer(row["consumer_token"]))
    return [one["value"] for one in answer.json["records"]] if answer.status == 200 else []


def test_everything_that_is_tested_in_go(variables):
    servers = {f"TEST_{name}": value for name, value in variables.items()}
    done = subprocess.run(
        [iot.HERE / "build.sh", "test"], env={**os.environ, **servers},
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout


def test_two_microservices_on_servers_that_come_and_go(servers, platform, rows):
    row, acknowledged = rows[0], []

    def send(value):
        sent = gateway.ask(
            "/gateway",
            body=json.dumps(record(row, value, 4 * 10**12 + value)),
            headers=bearer(row["device_token"]),
        )
        if sent.status == 200:
            acknowledged.append(value)
        return sent.status

    def sign_in():
        body = {"username": row["username"], "password": row["password"]}
        return core.ask("/api/users/signin", body=json.dumps(body)).status

    with (
        platform.serving("core") as core,
        platform.serving("gateway") as gateway,
        platform.serving("connect"),
    ):
        assert len(consumed(core, row)) == 20
        assert send(1000) == 200
        for name, asked, others in (
            ("kafka", lambda: send(2000), sign_in),
            ("mariadb", sign_in, lambda: 200),
        ):
            servers[name].stop()
            assert asked() == 503
            assert others() == 200
            servers[name].start()
            eventually(lambda: asked() == 200, within_s=60, every_s=0.5)  # noqa: B023 - within the loop
        servers["search"].stop()
        assert (
            core.ask(
                f"/api/consumers/consume/{row['sensor_id']}", headers=bearer(row["consumer_token"])
            ).status
            == 503
        )
        assert send(3000) == 200, "a gateway needs no index"
        servers["search"].start()
        eventually(lambda: set(acknowledged) <= set(consumed(core, row)), within_s=120, every_s=0.5)


def test_functions_on_servers(platform, rows):
    row = rows[1]
    sensors = f"/api/users/{row['user_id']}/devices/{row['device_id']}/sensors"
    with (
        platform.serving("function", "sensors-add") as add,
        platform.serving("function", "http-gateway") as gateway,
    ):
        added = add.ask(sensors, body=json.dumps({"name": "new"}), headers=bearer(row["user_token"]))
        assert added.status == 201
        one = {"sensor_id": added.json["id"], "value": 1, "timestamp": 1}
        assert (
            gateway.ask("/gateway", body=json.dumps(one), headers=bearer(row["device_token"])).status == 200
        )
