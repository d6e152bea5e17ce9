"""Credentials that expire while a study goes on: renewed, nobody notices; not renewed, it is said and goes on later.

No server gives tokens for less than ten minutes, so these are bound to a Secret: without it they are not accepted any
more, within the ten seconds for which the server remembers that they were.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from support.cluster import Cluster
from support.troubled_study import ENDED, Study, finished, reasons

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(240)]
REMEMBERED_S = 10
PRINTS = """\
import json, os, pathlib
version = json.loads(os.environ["KUBERNETES_EXEC_INFO"])["apiVersion"]
token = pathlib.Path(__file__).with_name("token").read_text()
print(json.dumps({"apiVersion": version, "kind": "ExecCredential", "status": {"token": token}}))
"""


@pytest.fixture
def token(cluster: Cluster, namespace: str) -> Iterator[Callable[[str], str]]:
    """Gives a token of an account that may do everything, good while the Secret of that name is there."""
    cluster.kubectl("create", "serviceaccount", "towtank", "--namespace", namespace)
    account = f"--serviceaccount={namespace}:towtank"
    cluster.kubectl("create", "clusterrolebinding", namespace, "--clusterrole=cluster-admin", account)

    def made(name: str) -> str:
        cluster.kubectl("create", "secret", "generic", name, "--namespace", namespace)
        bound = ("--bound-object-kind=Secret", f"--bound-object-name={name}")
        return cluster.kubectl("create", "token", "towtank", "--namespace", namespace, *bound).strip()

    yield made
    cluster.kubectl("delete", "clusterrolebinding", namespace)


def study_with(cluster: Cluster, folder: Path, user: dict[str, Any]) -> Study:
    """A study whose kubeconfig has these credentials, and a load that outlives the server's memory."""
    kubeconfig = yaml.safe_load(Path(cluster.kubeconfig).read_text("utf-8"))
    (used,) = [one["context"] for one in kubeconfig["contexts"] if one["name"] == cluster.context]
    used["user"] = "account"
    kubeconfig["users"] = [{"name": "account", "user": user}]
    (folder / "kubeconfig").write_text(yaml.safe_dump(kubeconfig))
    study = Study(cluster, folder, seconds=REMEMBERED_S + 4, kubeconfig=str(folder / "kubeconfig"))
    study.write()
    return study


USERS = {
    "token-file": {"tokenFile": "token"},
    "program": {
        "exec": {
            "apiVersion": "client.authentication.k8s.io/v1", "command": sys.executable, "args": ["FOLDER/gives.py"],
            "interactiveMode": "Never",
        }
    },
}  # fmt: skip


@pytest.mark.parametrize("name", USERS)
def test_a_token_that_is_renewed_in_time_is_nothing_to_speak_of(
    cluster: Cluster, namespace: str, token: Callable[[str], str], tmp_path: Path, name: str
) -> None:
    (tmp_path / "token").write_text(token("first"))
    (tmp_path / "gives.py").write_text(PRINTS)
    user = yaml.safe_load(yaml.safe_dump(USERS[name]).replace("FOLDER", str(tmp_path)))
    study = study_with(cluster, tmp_path, user)
    process = study.start()
    (tmp_path / "token").write_text(token("second"))
    cluster.kubectl("delete", "secret", "first", "--namespace", namespace)
    done = finished(process)
    assert done.returncode in ENDED, done.stderr
    (record,) = study.records()
    assert "platform_lost" not in reasons(record, "instrument")
    assert study.left() == []


def test_a_token_that_has_expired_is_said_and_the_study_goes_on_with_another(
    cluster: Cluster, namespace: str, token: Callable[[str], str], tmp_path: Path
) -> None:
    (tmp_path / "token").write_text(token("first"))
    study = study_with(cluster, tmp_path, {"tokenFile": "token"})
    process = study.start()
    cluster.kubectl("delete", "secret", "first", "--namespace", namespace)
    done = finished(process)
    assert done.returncode == 4, done.stderr
    assert f"the credentials of context '{cluster.context}' are not accepted: expired" in done.stderr
    assert "log in anew" in done.stderr
    (record,) = study.records()
    assert record["verdicts"]["instrument"] == "invalid"
    assert "expired" in reasons(record, "instrument")["platform_lost"]
    assert study.left(), "nobody may delete it without credentials"
    refused = study.run()
    assert refused.returncode == 4, refused.stderr
    assert "are not accepted: expired" in refused.stderr
    (tmp_path / "token").write_text(token("second"))
    again = study.run()
    assert again.returncode in ENDED, again.stderr
    assert len(study.records()) == 2
    assert "platform_lost" not in reasons(study.records()[-1], "instrument")
    assert study.left() == []
