"""An nginx as the way into a cluster: it answers for one host, and for no other; its pod's address is its own."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from testbed import closure, components, images
from testbed.settings import REGISTRY

from support.cluster import Cluster

HOST, PORT = "shop.example", 8080
_CONFIG = """
daemon off; pid /tmp/pid; error_log stderr;
events {}
http {
  access_log off; client_body_temp_path /tmp/a; proxy_temp_path /tmp/b; fastcgi_temp_path /tmp/c;
  uwsgi_temp_path /tmp/d; scgi_temp_path /tmp/e;
  resolver %(dns)s;
  server { listen %(port)s default_server; return 404; }
  server { listen %(port)s; server_name %(host)s; location / { set $to %(to)s; proxy_pass http://$to:80; } }
}
"""


def push_nginx(folder: Path) -> str:
    """Put this machine's nginx where the testbed's registry has it; the name of its image."""
    found = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
    if found is None:
        pytest.skip("nginx is missing: `tools/system-packages.sh test` installs it")
    program = Path(found)
    files = {
        "/nginx": program,
        "/etc/nginx/mime.types": Path("/etc/nginx/mime.types"),
        **closure.libraries(program),
    }
    recipe = images.Recipe(
        "edge:1", files, ("/nginx", "-c", "/config/nginx.conf", "-e", "stderr", "-p", "/tmp")
    )
    images.push(images.pack(recipe, folder), components.REGISTRY_ADDRESS)
    return f"{REGISTRY}/{recipe.name}"


def start(cluster: Cluster, namespace: str, image: str, *, to: str) -> str:
    """Start it, in front of a Service (`name.namespace`); the address of its pod."""
    dns = cluster.get("service", "kube-dns", "--namespace", "kube-system")["spec"]["clusterIP"]
    config = _CONFIG % {"dns": dns, "port": PORT, "host": HOST, "to": f"{to}.svc.cluster.local"}
    pod: dict[str, Any] = {
        "apiVersion": "v1", "kind": "Pod", "metadata": {"name": "edge", "namespace": namespace},
        "spec": {
            "terminationGracePeriodSeconds": 1,
            "containers": [{
                "name": "edge", "image": image, "ports": [{"containerPort": PORT}],
                "volumeMounts": [{"name": "config", "mountPath": "/config"}],
                "readinessProbe": {"tcpSocket": {"port": PORT}, "periodSeconds": 1},
            }],
            "volumes": [{"name": "config", "configMap": {"name": "edge"}}],
        },
    }  # fmt: skip
    about = {
        "apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "edge", "namespace": namespace},
        "data": {"nginx.conf": config},
    }  # fmt: skip
    for thing in (about, pod):
        cluster.kubectl("create", "--filename", "-", text=json.dumps(thing))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/edge", "--namespace", namespace, "--timeout=60s")
    return str(cluster.get("pod", "edge", "--namespace", namespace)["status"]["podIP"])
