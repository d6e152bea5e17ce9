"""`towtank doctor --cloud-run`: what is found, and what it means."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from support import servers
from support.fake_cloud_run import PROJECT, REGION, Script, fake_cloud_run, write_credentials
from towtank.campaign.cloud_run_checks import check_cloud_run
from towtank.campaign.machine_checks import Finding

Check = Callable[..., list[Finding]]
ALL_OK = dict.fromkeys(("credentials", "project", "region", "rights", "metrics"), "ok")


@pytest.fixture
def check(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Check:
    """Asks a fake Cloud Run with a service account's credentials."""

    def ask(script: Script, project: str = PROJECT, region: str = REGION) -> list[Finding]:
        with servers.serving() as start:
            url, _ = fake_cloud_run(start, script)
            path = write_credentials(tmp_path / "credentials.json", url)
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
            return check_cloud_run(project, region, endpoint=url, metrics=url)

    monkeypatch.setenv("NO_GCE_CHECK", "true")
    return ask


HERE = (PROJECT, REGION)


@pytest.mark.parametrize(
    ("script", "place", "states", "words"),
    [
        (Script(), HERE, ALL_OK, "a trial was accepted"),
        (
            Script(refused="Invalid JWT Signature."), HERE, {"credentials": "missing"},
            "invalid_grant: Invalid JWT Signature.",
        ),
        (
            Script(disabled=True), HERE, {"credentials": "ok", "project": "missing"},
            "Cloud Run Admin API has not been used in project",
        ),
        (
            Script(), ("some-project", REGION), {"credentials": "ok", "project": "missing"},
            "Permission denied on resource project some-project.",
        ),
        (
            Script(), (PROJECT, "europe-west7"), {"credentials": "ok", "project": "ok", "region": "missing"},
            "'europe-west7' is none of the project's",
        ),
        (
            Script(forbidden="Permission 'run.services.create' denied."), HERE, {**ALL_OK, "rights": "missing"},
            "Permission 'run.services.create' denied.",
        ),
    ],
)  # fmt: skip
def test_each_is_asked_in_turn_and_nothing_is_created(
    script: Script, place: tuple[str, str], states: dict[str, str], words: str, check: Check
) -> None:
    found = check(script, *place)
    assert {one.name: one.state for one in found} == states
    assert all(one.meaning for one in found)
    assert any(words in one.found for one in found), found
    assert script.services == {}
    assert script.token not in "".join(one.found for one in found)


def test_metrics_that_may_not_be_read_are_a_limit(check: Check) -> None:
    found = check(Script(blind=True))
    assert {one.name: one.state for one in found} == {**ALL_OK, "metrics": "limited"}
    assert "roles/monitoring.viewer" in found[-1].meaning


def test_names_that_are_none() -> None:
    found = check_cloud_run("No Project", "here")
    assert [(one.what, one.found) for one in found] == [("project", "'No Project'"), ("region", "'here'")]
