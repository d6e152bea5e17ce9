"""Workers through a real ssh: a server of our own on loopback, with keys of its own."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import socket
import subprocess
import time
from pathlib import Path

import pytest

from support.fleets import begin, carry_out, never, open_load
from towtank.load import find_engine
from towtank.load.echo import EchoServer
from towtank.load.workers import Fleet, Shipment, WorkerLost, WorkersNotReady
from towtank.load.workers.ssh import Ssh

SSHD = shutil.which("sshd") or shutil.which("sshd", path="/usr/sbin")
PRIVATE = Path("/run/sshd")
"""Where a server that runs as root wants an empty folder."""
pytestmark = [
    pytest.mark.alone,
    pytest.mark.skipif(
        SSHD is None or shutil.which("ssh") is None, reason="no sshd: tools/system-packages.sh test"
    ),
]


@pytest.fixture(scope="module")
def address(tmp_path_factory):
    """A server that lets us in, and a client in PATH that knows it."""
    folder = tmp_path_factory.mktemp("sshd")
    for name in ("host", "user"):
        subprocess.run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", folder / name], check=True)
    (folder / "authorized").write_text((folder / "user.pub").read_text())
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    (folder / "known").write_text(f"[127.0.0.1]:{port} {(folder / 'host.pub').read_text()}")
    (folder / "sshd_config").write_text(
        f"ListenAddress 127.0.0.1\nPort {port}\nHostKey {folder}/host\nAuthorizedKeysFile {folder}/authorized\n"
        "StrictModes no\nUsePAM no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\n"
    )
    (folder / "ssh_config").write_text(
        f"IdentityFile {folder}/user\nIdentitiesOnly yes\nUserKnownHostsFile {folder}/known\n"
        "GlobalKnownHostsFile none\n"
    )
    client = folder / "bin" / "ssh"
    client.parent.mkdir()
    client.write_text(f'#!/bin/sh\nexec {shutil.which("ssh")} -F {folder}/ssh_config "$@"\n')
    client.chmod(0o755)
    made = os.geteuid() == 0 and not PRIVATE.exists()
    if made:
        PRIVATE.mkdir()
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen([str(SSHD), "-D", "-e", "-f", folder / "sshd_config"], stderr=log)
    try:
        until = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), 1).close()
                break
            except OSError:
                assert server.poll() is None, (folder / "log").read_text()
                assert time.monotonic() < until
                time.sleep(0.05)
        with pytest.MonkeyPatch.context() as patch:
            patch.setenv("PATH", f"{client.parent}:{os.environ['PATH']}")
            yield f"ssh://{getpass.getuser()}@127.0.0.1:{port}"
    finally:
        server.terminate()
        server.wait()
        if made:
            PRIVATE.rmdir()


@pytest.fixture(scope="module")
def url():
    with EchoServer(find_engine(), core=None, token="tt-ssh") as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def fleet_of(tmp_path, monkeypatch):
    """Make a fleet of two workers; on the other side nothing is left of them."""
    there = tmp_path / "there"
    there.mkdir()
    made = []

    def make(address, job, *, remote_engine=None):
        place = Ssh([address], find_engine(), remote_engine=remote_engine, logs=tmp_path, mark="tt-ssh")
        # The other side's folder for temporary files, so that what is left there is seen.
        plain = place._command
        monkeypatch.setattr(
            place, "_command", lambda *about: f"TMPDIR={there}; export TMPDIR; {plain(*about)}"
        )
        made.append(
            Fleet(
                place, 2, lambda _: job, Shipment(), deadline_s=120, output=tmp_path / "requests",
                engine=find_engine(),
            )
        )  # fmt: skip
        return made[-1]

    yield make
    for fleet in made:
        fleet.close()
    until = time.monotonic() + 20
    while any(there.iterdir()):
        assert time.monotonic() < until, list(there.iterdir())
        time.sleep(0.05)


@pytest.mark.parametrize("sent", [True, False])
def test_a_load_by_ssh(address, fleet_of, url, sent):
    fleet = fleet_of(address, open_load(url, seconds=1.0), remote_engine=None if sent else str(find_engine()))
    with fleet:
        _, done = carry_out(fleet)
        facts = fleet.facts()["generators"]
    assert done.counts["rows"] == done.files[0]["rows"] == done.counts["by_outcome"]["answered"]
    assert [(one["kind"], one["where"], one["address"]) for one in facts] == [
        ("ssh", "127.0.0.1", address)
    ] * 2
    assert all(abs(one["clock"]["offset_us"]) <= one["clock"]["uncertainty_us"] + 1 for one in facts)


def test_a_connection_that_breaks_ends_the_run(address, fleet_of, url):
    fleet = fleet_of(address, open_load(url, seconds=60))
    with fleet:
        begin(fleet)
        time.sleep(fleet.start_ahead_s + 0.5)
        os.kill(fleet.own_pids[0], signal.SIGKILL)
        with pytest.raises(WorkerLost, match=r"worker 0 on 127\.0\.0\.1 was lost: "):
            fleet.wait_done(timeout_s=90, cancelled=never)


def test_an_engine_that_is_not_there_is_told_in_the_words_of_the_other_side(address, fleet_of, url):
    fleet = fleet_of(address, open_load(url, seconds=1), remote_engine="/nowhere/towtank-engine")
    with (
        fleet,
        pytest.raises(
            WorkersNotReady, match=r"(?s)no load was sent: .*exit code 127.*/nowhere/towtank-engine"
        ),
    ):
        fleet.wait_ready(cancelled=never)
