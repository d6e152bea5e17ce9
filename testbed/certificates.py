"""Who may speak to whom: certificates (made by openssl), tokens and kubeconfigs of one start."""

from __future__ import annotations

import base64
import json
import secrets
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from testbed.settings import (
    API_PORT,
    API_SERVICE,
    CLUSTER_DOMAIN,
    INSIDE_CONFIG,
    NAME,
    Folders,
    Node,
    Options,
)
from testbed.shell import find, run

DAYS = "3650"
AUTHORITIES = ("ca", "front-proxy-ca")


@dataclass(frozen=True)
class User:
    """Somebody who speaks to the API server with a token."""

    name: str
    groups: str = ""


def users(options: Options) -> dict[str, User]:
    """Who gets a kubeconfig, by the name of its file."""
    fixed = {
        "admin": User("admin", "system:masters"),
        "controller-manager": User("system:kube-controller-manager"),
        "scheduler": User("system:kube-scheduler"),
        "proxy": User("system:kube-proxy"),
    }
    kubelets = {
        f"kubelet-{node.name}": User(f"system:node:{node.name}", "system:nodes")
        for node in options.all_nodes()
    }
    return fixed | kubelets | ({"kwok": User("kwok", "system:masters")} if options.kwok else {})


def make(folders: Folders, options: Options) -> None:
    """Write all of it: into `/run/testbed/etc` of each node, and the administrator's kubeconfig outside."""
    nodes = options.all_nodes()
    made = folders.state / "certificates"
    made.mkdir(parents=True, exist_ok=True, mode=0o700)
    _of_the_control_plane(made, nodes[0])
    _tokens(made, nodes[0], options)
    control_plane = [
        *(path.name for path in made.iterdir() if path.suffix in {".crt", ".key", ".pub", ".csv"}),
        "controller-manager.kubeconfig",
        "scheduler.kubeconfig",
        *(["kwok.kubeconfig"] if options.kwok else []),
    ]
    _deliver(made, folders.node(nodes[0]) / "etc", {name: name for name in control_plane})
    for node in nodes:
        own = f"kubelet-{node.name}"
        subject = f"/O=system:nodes/CN=system:node:{node.name}"
        _certificate(made, own, subject, "ca", [f"IP:{node.address}", f"DNS:{node.name}"])
        wanted = {f"kubelet.{kind}": f"{own}.{kind}" for kind in ("crt", "key", "kubeconfig")}
        wanted |= {name: name for name in ("ca.crt", "proxy.kubeconfig")}
        _deliver(made, folders.node(node) / "etc", wanted)
    _deliver(made, folders.root, {folders.kubeconfig.name: "admin.kubeconfig"})


def _of_the_control_plane(made: Path, first: Node) -> None:
    for name in AUTHORITIES:
        _authority(made, name)
    names = [
        "kubernetes",
        "kubernetes.default",
        "kubernetes.default.svc",
        f"kubernetes.default.svc.{CLUSTER_DOMAIN}",
    ]
    addresses = [f"IP:{first.address}", f"IP:{API_SERVICE}"]
    _certificate(made, "apiserver", "/CN=kube-apiserver", "ca", addresses + [f"DNS:{name}" for name in names])
    _certificate(made, "kubelet-client", "/O=system:masters/CN=kube-apiserver-kubelet-client", "ca", [])
    _certificate(made, "front-proxy-client", "/CN=front-proxy-client", "front-proxy-ca", [])
    service_account_key(made)


def _tokens(made: Path, first: Node, options: Options) -> None:
    """One token and one kubeconfig for each user, and the table by which the API server knows them."""
    authority = (made / "ca.crt").read_bytes()
    server = f"https://{first.address}:{API_PORT}"
    rows = []
    for file, user in users(options).items():
        token = secrets.token_hex(16)
        rows.append(f'{token},{user.name},{user.name},"{user.groups}"\n')
        _private(made / f"{file}.kubeconfig", kubeconfig(server, token, authority))
    _private(made / "tokens.csv", "".join(rows))


def _deliver(made: Path, target: Path, wanted: Mapping[str, str]) -> None:
    """Copy files under the names that the receiver expects."""
    for there, here in wanted.items():
        _private(target / there, (made / here).read_text("utf-8"))


def kubeconfig(server: str, token: str, authority: bytes) -> str:
    """A kubeconfig with everything in it; JSON is YAML."""
    return json.dumps(
        {
            "apiVersion": "v1",
            "kind": "Config",
            "clusters": [
                {
                    "name": NAME,
                    "cluster": {
                        "server": server,
                        "certificate-authority-data": base64.b64encode(authority).decode(),
                    },
                }
            ],
            "users": [{"name": NAME, "user": {"token": token}}],
            "contexts": [{"name": NAME, "context": {"cluster": NAME, "user": NAME}}],
            "current-context": NAME,
        },
        indent=1,
    )


def path(name: str) -> str:
    """Where a component finds a file of this module."""
    return str(INSIDE_CONFIG / name)


def _authority(folder: Path, name: str) -> None:
    run(
        [
            find("openssl"), "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", folder / f"{name}.key", "-out", folder / f"{name}.crt", "-days", DAYS, "-subj", f"/CN={name}",
            "-addext", "keyUsage=critical,keyCertSign,cRLSign,digitalSignature",
        ]
    )  # fmt: skip


def _certificate(folder: Path, name: str, subject: str, authority: str, names: list[str]) -> None:
    openssl = find("openssl")
    key, request, extensions = (folder / f"{name}.{kind}" for kind in ("key", "csr", "ext"))
    run(
        [
            openssl, "req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes",
            "-keyout", key, "-out", request, "-subj", subject,
        ]
    )  # fmt: skip
    extensions.write_text(
        "keyUsage=critical,digitalSignature\nextendedKeyUsage=serverAuth,clientAuth\n"
        + (f"subjectAltName={','.join(names)}\n" if names else ""),
        "utf-8",
    )
    run(
        [
            openssl, "x509", "-req", "-in", request, "-CA", folder / f"{authority}.crt",
            "-CAkey", folder / f"{authority}.key", "-CAcreateserial", "-days", DAYS,
            "-extfile", extensions, "-out", folder / f"{name}.crt",
        ]
    )  # fmt: skip
    for path in (request, extensions):
        path.unlink()


def service_account_key(folder: Path) -> None:
    """Make the pair of keys by which tokens of service accounts are signed and known."""
    openssl = find("openssl")
    run([openssl, "genrsa", "-out", folder / "service-accounts.key", "2048"])
    run(
        [
            openssl, "rsa", "-in", folder / "service-accounts.key", "-pubout",
            "-out", folder / "service-accounts.pub",
        ]
    )  # fmt: skip


def _private(target: Path, text: str) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    target.touch(mode=0o600)
    target.chmod(0o600)
    target.write_text(text, "utf-8")
