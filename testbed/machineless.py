"""A cluster without machines: etcd, API server, controllers, scheduler and KWOK as programs of whoever asks for them.

It is for experiments with thousands of pods, which would be too much for the testbed. Everything listens on free ports
of loopback, keeps its files in one folder and needs neither root nor namespaces. Nodes with the annotation
``kwok.x-k8s.io/node: fake`` become Ready, and so do the pods on them; nothing runs in any of them.
"""

from __future__ import annotations

import secrets
import socket
import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed import certificates, components
from testbed.errors import NotPossibleError, NotReadyError
from testbed.kubectl import wait_for
from testbed.settings import NAME, SERVICE_RANGE, Folders
from testbed.shell import find, run

READY_TIMEOUT_S = 120
END_TIMEOUT_S = 20
LOG_BYTES = 3000
LOOPBACK = "127.0.0.1"
PROGRAMS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kubectl", "kwok")
BUSY = ("--kube-api-qps=1000", "--kube-api-burst=2000")
"""By themselves controllers make 20 requests a second: thousands of pods would take minutes."""

NEVER_LOST = "--node-monitor-grace-period=1h"
"""There is no machine that could be lost, only leases of hundreds of nodes that are renewed late on a busy machine."""


def check(folders: Folders) -> None:
    """Refuse where a program is missing.

    Raises
    ------
    NotPossibleError
    """
    for program in ("etcd", "openssl", "setpriv"):
        find(program)
    missing = [name for name in PROGRAMS if not (folders.programs / name).exists()]
    if missing:
        raise NotPossibleError(
            f"{', '.join(missing)} missing in {folders.programs}; `make testbed-build` builds them"
        )


@dataclass(frozen=True)
class Daemon:
    """A program of the cluster, and where it writes."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def end(self) -> None:
        """End it and wait for that."""
        self.process.terminate()
        try:
            self.process.wait(END_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()


@contextmanager
def cluster(folders: Folders, folder: Path) -> Iterator[Path]:
    """Start the cluster; end it with the block.

    Parameters
    ----------
    folders : Folders
        Where the programs are.
    folder : Path
        For its files, empty or not there yet.

    Yields
    ------
    Path
        The administrator's kubeconfig, with one context, `settings.NAME`.

    Raises
    ------
    NotPossibleError
        A program is missing.
    NotReadyError
        One of them ended, or the API server does not answer, with the end of its log.
    """
    check(folders)
    folder.mkdir(parents=True, exist_ok=True)
    certificates.service_account_key(folder)
    token = secrets.token_hex(16)
    (folder / "tokens.csv").write_text(f'{token},admin,admin,"system:masters"\n', "utf-8")
    client, peers, api = _free_ports(3)
    kubeconfig = folder / "kubeconfig"
    running: list[Daemon] = []
    with ExitStack() as ending:

        def start(name: str, command: Sequence[str]) -> None:
            running.append(_start(name, command, folder))
            ending.callback(running[-1].end)

        start("etcd", _etcd(folder, client, peers))
        start("kube-apiserver", [str(folders.programs / "kube-apiserver"), *_apiserver(folder, client, api)])
        _wait("the API server's certificate", (folder / "apiserver.crt").exists, running)
        authority = (folder / "apiserver.crt").read_bytes()
        kubeconfig.write_text(certificates.kubeconfig(f"https://{LOOPBACK}:{api}", token, authority), "utf-8")
        kubectl: list[str | Path] = [
            folders.programs / "kubectl",
            "--kubeconfig",
            kubeconfig,
            "--context",
            NAME,
        ]
        _wait("the API server", lambda: run([*kubectl, "get", "--raw", "/readyz"]) == "ok", running)
        for name in ("kube-controller-manager", "kube-scheduler"):
            keys = [f"--service-account-private-key-file={folder / 'service-accounts.key'}"]
            own = [*keys, NEVER_LOST] if name == "kube-controller-manager" else []
            common = [f"--kubeconfig={kubeconfig}", "--secure-port=0", "--leader-elect=false", *BUSY]
            start(name, [str(folders.programs / name), *common, *own])
        start("kwok", [str(folders.programs / "kwok"), *components.kwok_flags(str(kubeconfig))])
        account = ("get", "serviceaccount", "default", "--output", "name")
        _wait("the first service account", lambda: bool(run([*kubectl, *account])), running)
        yield kubeconfig


def _etcd(folder: Path, client: int, peers: int) -> list[str]:
    return [
        find("etcd"), f"--data-dir={folder / 'etcd'}", "--log-level=warn",
        f"--listen-client-urls=http://{LOOPBACK}:{client}", f"--advertise-client-urls=http://{LOOPBACK}:{client}",
        f"--listen-peer-urls=http://{LOOPBACK}:{peers}", f"--initial-advertise-peer-urls=http://{LOOPBACK}:{peers}",
        f"--initial-cluster=default=http://{LOOPBACK}:{peers}",
    ]  # fmt: skip


def _apiserver(folder: Path, etcd: int, port: int) -> list[str]:
    return [
        f"--etcd-servers=http://{LOOPBACK}:{etcd}",
        f"--bind-address={LOOPBACK}", f"--advertise-address={LOOPBACK}", f"--secure-port={port}",
        "--endpoint-reconciler-type=none",  # loopback may be no endpoint of a service
        f"--cert-dir={folder}", f"--token-auth-file={folder / 'tokens.csv'}",
        f"--service-cluster-ip-range={SERVICE_RANGE}", "--authorization-mode=RBAC",
        "--service-account-issuer=https://kubernetes.default.svc",
        f"--service-account-key-file={folder / 'service-accounts.pub'}",
        f"--service-account-signing-key-file={folder / 'service-accounts.key'}",
        components.FOR_OLD_ETCD,
    ]  # fmt: skip


def _start(name: str, command: Sequence[str], folder: Path) -> Daemon:
    log = folder / f"{name}.log"
    # Whatever becomes of its parent, it does not outlive it.
    words = [find("setpriv"), "--pdeathsig", "KILL", "--", *command]
    with log.open("wb") as output:
        process = subprocess.Popen(words, stdin=subprocess.DEVNULL, stdout=output, stderr=output, cwd=folder)
    return Daemon(name, process, log)


def _wait(what: str, holds: Callable[[], bool], running: Sequence[Daemon]) -> None:
    def still_holds() -> bool:
        if dead := _dead(running):
            raise NotReadyError(dead)
        return holds()

    wait_for(what, still_holds, READY_TIMEOUT_S, lambda: _dead(running))


def _dead(running: Sequence[Daemon]) -> str:
    for one in running:
        if one.process.poll() is not None:
            said = one.log.read_bytes()[-LOG_BYTES:].decode("utf-8", errors="replace")
            return f"{one.name} has ended; the end of {one.log}:\n{said}"
    return ""


def _free_ports(count: int) -> list[int]:
    """Ports of loopback that nobody has; all are held until the last is found, so that they differ."""
    with ExitStack() as held:
        found = [held.enter_context(socket.create_server((LOOPBACK, 0))) for _ in range(count)]
        return [int(one.getsockname()[1]) for one in found]
