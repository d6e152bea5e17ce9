"""Services on a fake Cloud Run: created, ready or not with Google's reasons, and removed."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.fake_cloud_run import PROJECT, Script
from support.on_cloud_run import IMAGE, config, context
from towtank.errors import Interrupted, PlatformError, ReadinessTimeout, RemovalTimeout
from towtank.platforms.cloud_run import api as apis
from towtank.platforms.cloud_run.note import Note
from towtank.platforms.cloud_run.platform import CloudRunPlatform

Cloud = Callable[..., tuple[str, Script]]
TOKEN = "tt-0123456789abcdef"
BROKEN = "europe-docker.pkg.dev/p/r/broken"
NO_PORT = (
    "The user-provided container failed to start and listen on the port defined provided by the PORT=8080 "
    "environment variable within the allocated timeout."
)
platform = CloudRunPlatform()


def deploy(url: str, folder: Path, **keys: Any) -> Any:
    return platform.deploy(config(url, **keys), context(folder))


def ready(made: Any) -> None:
    made.wait_ready(cancelled=lambda: None)


def test_a_service_becomes_ready_and_goes(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud(Script(looks=3))
    script.app = url
    made = deploy(url, tmp_path, ready={"tcp": True})
    try:
        assert made.targets["app"].instances == (), "its address is not known yet"
        ready(made)
        (instance,) = made.targets["app"].instances
        assert (instance.name, instance.url) == ("app-0", url)
        (own,) = script.services.values()
        assert own["labels"]["towtank-token"] == TOKEN
        assert own["template"]["labels"] == own["labels"]
        told = made.describe()
        assert told["services"]["hello"]["uid"] == own["uid"]
        assert told["services"]["hello"]["images"] == [IMAGE]
        assert script.token not in json.dumps(told) + (tmp_path / "data" / Note.FILE).read_text()
        assert made.mask(f"Bearer {script.token}") == "Bearer ***"
    finally:
        made.remove()
    assert script.services == {}
    assert list(made.events()) == []


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ({"revisionReason": "HEALTH_CHECK_CONTAINER_ERROR", "message": NO_PORT}, f"_CONTAINER_ERROR: {NO_PORT}"),
        ({"reason": "CONTAINER_MISSING", "message": "Image 'x' not found."}, "CONTAINER_MISSING: Image 'x' not found."),
    ],
)  # fmt: skip
def test_a_revision_that_fails_is_told_with_its_reasons(
    cloud: Cloud, tmp_path: Path, condition: dict[str, str], words: str
) -> None:
    url, script = cloud(Script(fails={BROKEN: condition}))
    services = {"good": {"image": IMAGE}, "bad": {"image": BROKEN}}
    made = deploy(url, tmp_path, services=services)
    try:
        with pytest.raises(PlatformError) as caught:
            ready(made)
    finally:
        made.remove()
    assert "-00001-abc of the service towtank-bad-" in caught.value.message
    assert "failed: REVISION_FAILED; " in caught.value.message
    assert words in caught.value.message
    assert "gcloud run services logs read towtank-bad-" in str(caught.value.hint)
    assert script.services == {}


def test_a_revision_that_takes_too_long_is_told(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud(Script(looks=10**6))
    made = deploy(url, tmp_path, ready={"timeout": "100ms"})
    try:
        with pytest.raises(
            ReadinessTimeout, match=r"app-0 .* was not ready within 100 ms; Cloud Run says: Deploying"
        ):
            ready(made)

        def stop() -> None:
            raise Interrupted("stopped")

        with pytest.raises(Interrupted):
            made.wait_ready(cancelled=stop)
    finally:
        made.remove()
    assert script.services == {}


def test_a_service_that_never_answers_its_probe_is_told_with_what_was_seen(
    cloud: Cloud, tmp_path: Path
) -> None:
    """Its revision is ready, for Google asks for a port only; our own probe asks for a path."""
    url, script = cloud()
    script.app = url
    made = deploy(url, tmp_path, ready={"http": "/health", "timeout": "300ms"})
    try:
        with pytest.raises(ReadinessTimeout, match=r"GET /health .* status 401"):
            ready(made)
    finally:
        made.remove()
    assert script.services == {}


@pytest.mark.parametrize(
    ("keys", "words"),
    [
        (
            {"project": "somebody-else"},
            "answers 403: PERMISSION_DENIED Permission 'run.services.create' denied",
        ),
        (
            {"region": "europe-nowhere9"},
            "Permission denied on 'locations/europe-nowhere9' (or it may not exist)",
        ),
        (
            {"services": {"hello": {"image": IMAGE}, "big": {"image": IMAGE, "cpu": "9"}}},
            "template.containers[0].resources.limits.cpu: Invalid value specified for cpu",
        ),
    ],
)
def test_what_google_refuses_is_told_in_its_words_and_nothing_is_left(
    cloud: Cloud, tmp_path: Path, keys: dict[str, Any], words: str
) -> None:
    url, script = cloud()
    with pytest.raises(PlatformError) as caught:
        deploy(url, tmp_path, **keys)
    assert words in caught.value.message
    assert caught.value.hint
    assert script.services == {}
    (problem,) = platform.check(config(url, **keys), tmp_path)
    assert problem.startswith("services.")
    assert words in problem
    assert script.services == {}, "a trial creates nothing"


def test_a_quota_that_is_used_up_half_way(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("towtank.platforms.rest.PATIENCE_S", 0.0)
    url, script = cloud(Script(quota=1))
    monkeypatch.setattr(
        apis, "RestClient", lambda *words, **keys: _RestClient(*words, **keys, patience_s=0.0)
    )
    services = {"one": {"image": IMAGE}, "two": {"image": IMAGE}}
    with pytest.raises(
        PlatformError, match=r"answers 429, .*RESOURCE_EXHAUSTED Quota exceeded for services"
    ) as caught:
        deploy(url, tmp_path, services=services)
    assert "quota" in str(caught.value.hint)
    assert script.services == {}, "the first one was there already, and is gone"


_RestClient = apis.RestClient


def test_a_rate_limit_is_waited_out(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud(Script(later=3, looks=0))
    deploy(url, tmp_path).remove()
    assert (script.later, script.services) == (0, {})


def test_credentials_that_are_missing_or_wrong_or_expired(
    cloud: Cloud, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    url, script = cloud(Script(refused="Invalid JWT Signature."))
    with pytest.raises(
        PlatformError, match=r"the credentials for Google are not taken: .*Invalid JWT Signature"
    ) as caught:
        deploy(url, tmp_path)
    assert "expired" in str(caught.value.hint)
    assert "private_key" not in caught.value.message
    (problem,) = platform.check(config(url))
    assert "Invalid JWT Signature" in problem

    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "nowhere.json"))
    with pytest.raises(PlatformError, match=r"no credentials for Google: File .*nowhere.json was not found"):
        deploy(url, tmp_path)

    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS")
    for name in ("CLOUDSDK_CONFIG", "HOME"):
        monkeypatch.setenv(name, str(tmp_path))
    with pytest.raises(PlatformError, match="no credentials for Google: ") as caught:
        deploy(url, tmp_path)
    assert "GOOGLE_APPLICATION_CREDENTIALS=FILE" in str(caught.value.hint)
    assert script.services == {}
    assert not (tmp_path / "data").exists()
    assert "GOOGLE_APPLICATION_CREDENTIALS" not in os.environ


def test_a_token_that_is_refused(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud()
    made = deploy(url, tmp_path)
    old, script.token = script.token, "another"
    with pytest.raises(PlatformError, match="answers 401: UNAUTHENTICATED"):
        ready(made)
    script.token = old
    made.remove()
    assert script.services == {}


def test_without_google_auth_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "google.auth", None)
    (problem,) = platform.check(config("http://127.0.0.1:9"))
    assert "google-auth is not installed" in problem
    assert "pip install 'towtank[cloud-run]'" in problem


def test_a_service_of_that_name_is_never_touched(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud()
    made = deploy(url, tmp_path)
    ((name, own),) = script.services.items()
    own["labels"] = {"towtank-token": "tt-somebody"}
    with pytest.raises(PlatformError, match="answers 409: ALREADY_EXISTS"):
        deploy(url, tmp_path)
    assert list(script.services) == [name]
    made.remove()
    assert list(script.services) == [name], "it is somebody else's now"


def test_what_was_created_though_the_answer_was_lost_is_ours(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud(Script(lost=True))
    made = deploy(url, tmp_path)
    assert len(script.services) == 1
    made.remove()
    assert script.services == {}


def test_what_could_not_be_removed_is_left_to_clean(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud()
    made = deploy(url, tmp_path)
    script.broken = {"DELETE"}
    with pytest.raises(PlatformError, match=r"1 of 1 services .* could not be removed: .*INTERNAL") as caught:
        made.remove()
    assert "towtank clean" in str(caught.value.hint)
    script.broken.clear()
    assert platform.sweep_noted("tt-another", tmp_path / "data") == 0
    assert platform.sweep_noted(TOKEN, tmp_path / "data") == 1
    assert script.services == {}
    assert platform.sweep_noted(TOKEN, tmp_path / "data") == 0
    made.api().close()


def test_a_service_that_stays_is_said(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud()
    made = deploy(url, tmp_path)
    (own,) = made.service_ids
    with pytest.raises(RemovalTimeout, match="is still there 0 s after it was deleted"):
        made.api().wait_gone(own, within_s=0.0)
    made.remove()
    assert script.services == {}


def test_a_broken_note_says_how_to_look(tmp_path: Path) -> None:
    (tmp_path / Note.FILE).write_text("[]")
    with pytest.raises(PlatformError, match=r"cloud-run.json cannot be read") as caught:
        platform.sweep_noted("tt", tmp_path)
    assert "gcloud run services list" in str(caught.value.hint)


def test_a_place_is_a_project_and_a_region(tmp_path: Path) -> None:
    name, identity = platform.place(config("http://127.0.0.1:9"), tmp_path)
    assert name == PROJECT
    assert identity == f"{PROJECT} in europe-west1, by http://127.0.0.1:9"


def test_a_creation_that_comes_to_nothing_is_told(cloud: Cloud, tmp_path: Path) -> None:
    url, _ = cloud(Script(fails_later="VPC connector net does not exist."))
    made = deploy(url, tmp_path)
    with pytest.raises(PlatformError, match=r"was not created: VPC connector net does not exist\."):
        ready(made)
    made.remove()


def test_a_service_that_somebody_deleted_meanwhile_is_told(cloud: Cloud, tmp_path: Path) -> None:
    url, script = cloud(Script(lost=True, looks=10))
    made = deploy(url, tmp_path)
    script.services.clear()
    with pytest.raises(PlatformError, match="it is not there any more"):
        ready(made)
    made.remove()
