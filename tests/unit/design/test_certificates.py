"""Certificates that a deployment names are read with the plan: missing, no PEM, or not of this key."""

from __future__ import annotations

import shutil

import pytest

from support import refused, servers
from towtank.design import load_plan
from towtank.errors import DesignError

FILE = """\
experiment: tls
question: Does it answer?
repetitions: 2
deployments:
  app:
    platform: external
    url: https://127.0.0.1:1
    tls: {{{tls}}}
workloads:
  w:
    load: {{model: closed, users: 2, duration: 10s}}
    journey: {{steps: [{{name: home}}]}}
"""


@pytest.fixture(scope="module")
def pems(tmp_path_factory):
    """Two certificates with their keys, made by openssl."""
    folder = tmp_path_factory.mktemp("pems")
    for name in ("a", "b"):
        servers.make_certificate(folder, name)
    servers.openssl(
        folder, "pkcs8", "-topk8", "-in", "a.key", "-out", "locked.key", "-passout", "pass:secret"
    )
    (folder / "note.pem").write_text("not a certificate\n")
    (folder / "broken.pem").write_text("-----BEGIN CERTIFICATE-----\nAAAA\n-----END CERTIFICATE-----\n")
    return folder


def plan(folder, pems, tls):
    shutil.copytree(pems, folder, dirs_exist_ok=True)
    path = folder / "experiment.yaml"
    path.write_text(FILE.format(tls=tls), "utf-8")
    return load_plan(path)


def test_good_ones_are_part_of_the_plan_but_for_the_key(tmp_path, pems):
    made = plan(tmp_path, pems, "ca: b.pem, cert: a.pem, key: a.key")
    assert set(made.treatments[0].spec.files) == {"a.pem", "b.pem"}
    assert "PRIVATE KEY" not in made.to_json()


def test_a_key_may_lie_elsewhere(tmp_path, pems, monkeypatch):
    plan(tmp_path / "one", pems, f"cert: a.pem, key: {pems / 'a.key'}")
    plan(
        tmp_path / "two", pems, 'cert: a.pem, key: "{env.SOME_KEY}"'
    )  # not set: the platform's check says so
    monkeypatch.setenv("SOME_KEY", str(pems / "b.key"))
    with pytest.raises(DesignError, match="does not belong to the certificate"):
        plan(tmp_path / "three", pems, 'cert: a.pem, key: "{env.SOME_KEY}"')


@pytest.mark.parametrize(
    ("tls", "expected"),
    [
        ("ca: gone.pem", "8:15: deployments.app.tls.ca: there is no file 'gone.pem' in the experiment's folder"),
        ("ca: note.pem", ("8:15: deployments.app.tls.ca: 'note.pem' holds no certificate in PEM "
                         "(-----BEGIN CERTIFICATE-----)")),
        ("ca: broken.pem", "8:15: deployments.app.tls.ca: 'broken.pem' holds a certificate that cannot be read: "),
        ("cert: a.pem, key: b.key", ("8:29: deployments.app.tls.key: the key 'b.key' does not belong to the "
                                    "certificate 'a.pem'")),
        ("cert: a.pem, key: a.pem", ("8:29: deployments.app.tls.key: 'a.pem' holds no private key in PEM "
                                    "(-----BEGIN PRIVATE KEY-----)")),
        ("cert: a.pem, key: locked.key", ("8:29: deployments.app.tls.key: 'locked.key' is encrypted; a key without a "
                                         "passphrase is needed")),
        ("cert: a.pem, key: /gone.key", "8:29: deployments.app.tls.key: there is no file '/gone.key'"),
    ],
)  # fmt: skip
def test_what_cannot_be_used(tmp_path, pems, tls, expected):
    (found,) = refused.problems(tmp_path, lambda: plan(tmp_path, pems, tls))
    assert found.removeprefix("experiment.yaml:").startswith(expected)
