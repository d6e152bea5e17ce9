"""How targets are reached: what may be said of it, what cannot go together, and what becomes of it in the job."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from towtank.design.model import Generator, Workload
from towtank.errors import PlatformError
from towtank.load import JobRequest, build_job, masked
from towtank.platforms.base import DeployContext, KeepsSecrets
from towtank.platforms.external import ExternalPlatform
from towtank.platforms.external_config import ExternalConfig
from towtank.platforms.local_config import LocalConfig
from towtank.platforms.masking import MASK

WORKLOAD = Workload.model_validate(
    {"load": {"model": "open", "rate": 1, "duration": "1s"}, "journey": {"steps": [{"name": "a"}]}}
)


def external(**keys):
    return ExternalConfig.model_validate({"platform": "external", **keys})


def deployed(config, folder):
    """The deployment, and the targets of a job that is driven against it."""
    context = DeployContext("x", "tt-0", folder / "data", folder / "log", folder)
    deployment = ExternalPlatform().deploy(config, context)
    targets = deployment.targets
    job = build_job(JobRequest("r", 0, Path("/r"), {"w": WORKLOAD}, targets, Generator(), files=(folder,)))
    return deployment, job


def test_everything_at_once(tmp_path, monkeypatch):
    monkeypatch.setenv("PROXY_TOKEN", "hunter2-hunter2")
    monkeypatch.setenv("CLIENT_KEY", "/keys/client.key")
    (tmp_path / "token").write_text("from-a-file\n")
    config = external(
        url="https://10.0.0.7:8443/v1", headers={"x-key": "{file.token}"}, protocol="http2", host="shop.example",
        tls={"ca": "ca.pem", "cert": "c.pem", "key": "{env.CLIENT_KEY}", "server_name": "s.example",
             "min_version": "1.3", "resumption": False},
        proxy={"url": "http://127.0.0.1:3128", "headers": {"proxy-authorization": "Basic {env.PROXY_TOKEN}"}},
        source_addresses=["127.0.0.2", "::1"], max_streams=10,
    )  # fmt: skip
    deployment, job = deployed(config, tmp_path)
    assert job["targets"]["app"] == {
        "instances": [{"name": "app-0", "url": "https://10.0.0.7:8443/v1"}],
        "headers": {"x-key": "from-a-file"},
        "protocol": "http2",
        "host": "shop.example",
        "tls": {"ca_file": str(tmp_path / "ca.pem"), "cert_file": str(tmp_path / "c.pem"),
                "key_file": "/keys/client.key", "server_name": "s.example", "min_version": "1.3",
                "resumption": False},
        "proxy": {"url": "http://127.0.0.1:3128", "headers": {"proxy-authorization": "Basic hunter2-hunter2"}},
        "source_addresses": ["127.0.0.2", "::1"],
        "max_streams": 10,
    }  # fmt: skip
    assert isinstance(deployment, KeepsSecrets)
    kept = repr([masked(job, deployment.mask), deployment.describe()])
    assert "hunter2" not in kept
    assert "from-a-file" not in kept
    assert MASK in kept


def test_what_says_nothing_is_not_in_the_job(tmp_path):
    _, job = deployed(external(url="http://127.0.0.1:1"), tmp_path)
    assert set(job["targets"]["app"]) == {"instances", "headers"}


def test_targets_may_differ(tmp_path):
    config = external(
        protocol="http2",
        headers={"x": "all"},
        targets={
            "old": {"url": ["http://h:1", "http://h:2"], "protocol": "http1", "headers": {}},
            "new": "http://h:3",
            "sock": {"url": "unix:/run/a.sock:/v1", "host": "a.example"},
        },
    )
    _, job = deployed(config, tmp_path)
    old, new, sock = (job["targets"][name] for name in ("old", "new", "sock"))
    assert ("protocol" in old, old["headers"], len(old["instances"])) == (False, {}, 2)
    assert (new["protocol"], new["headers"]) == ("http2", {"x": "all"})
    assert (sock["host"], sock["instances"][0]["url"]) == ("a.example", "unix:/run/a.sock:/v1")


def test_local_processes_that_speak_tls_are_reached_over_https():
    config = LocalConfig.model_validate(
        {"platform": "local", "command": "a", "tls": {"insecure": True}, "host": "shop.example"}
    )
    component = config.resolved()["app"]
    assert component.tls is not None
    assert component.transport().model_dump(exclude_defaults=True)["host"] == "shop.example"


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        ({"url": "http://h", "tls": {}}, "`tls` is for https only"),
        ({"url": "http://h", "protocol": "auto"}, "`protocol: auto` is for https only"),
        ({"url": "https://h", "tls": {"cert": "a"}}, "`key` is missing"),
        ({"url": "https://h", "tls": {"ca": "a", "insecure": True}}, "leave one away"),
        ({"url": "https://h", "tls": {"min_version": "1.3", "max_version": "1.2"}}, "is above"),
        ({"url": "unix:run/a.sock"}, "is not the address of a Unix socket"),
        ({"url": "unix:/a", "proxy": {"url": "http://p:1"}}, "a Unix socket has no `proxy`"),
        ({"url": "http://h", "proxy": {"url": "https://p:1"}}, "is not the address of a proxy"),
        ({"url": "http://h", "proxy": {"url": "http://u:p@p:1"}}, "carries a user or password"),
        ({"url": "http://h", "source_addresses": ["localhost"]}, "is not an IP address"),
        ({"url": "http://h", "headers": {"a": "{port}"}}, "unknown placeholder"),
        ({"targets": {"a": {"url": "http://h", "tls": {}}}}, "`tls` is for https only"),
    ],
)
def test_what_cannot_be(keys, words):
    with pytest.raises(ValidationError, match=words):
        external(**keys)


def test_secret_files_that_are_not_there(tmp_path):
    config = external(url="http://h", headers={"a": "{file.gone}", "b": "{file.../up}"})
    found = ExternalPlatform().check(config, tmp_path)
    assert len(found) == 2
    assert any("lies outside" in problem for problem in found)
    with pytest.raises(PlatformError, match=r"cannot be read|outside"):
        deployed(config, tmp_path)
