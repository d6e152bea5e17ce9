"""What Towtank brings into a cluster beside a deployment: given up cleanly where it does not go, and tried again."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest

from support.fake_cluster import FakeCluster, meta
from towtank.errors import PlatformError
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes import creating
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.connection import connect
from towtank.platforms.kubernetes.helper import HelperObjects
from towtank.platforms.kubernetes.ownership import Note


def test_what_does_not_go_is_given_up_cleanly_and_tried_again(
    cluster: FakeCluster,
    make: Callable[..., KubernetesConfig],
    context: DeployContext,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    config = make()
    connection = connect(config.context, config.kubeconfig, context.root)
    cluster.put("namespaces", "", meta("v1", "Namespace", "mine"))
    made = HelperObjects(connection, context, "mine", origin="a test")
    made.create([{"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "data": {}}])
    hold = ["example.com/hold"]
    cluster.change("secrets", "mine", "s", lambda one: one["metadata"].update(finalizers=hold))
    monkeypatch.setitem(creating.delete_all.__kwdefaults__, "timeout_s", 0.2)
    with pytest.raises(PlatformError, match="Secret/s is still there"):
        made.close()
    names = [thread.name for thread in threading.enumerate()]
    assert f"towtank-lease {context.token}" not in names, "nobody renews what was given up"
    assert connection.api.opened() is not connection.api, "its connections are closed"
    assert (context.data_dir / Note.FILE).exists(), "`towtank clean` finds it"
    cluster.change("secrets", "mine", "s", lambda one: one["metadata"].pop("finalizers"))
    cluster.change("secrets", "mine", "s", lambda one: one["metadata"].pop("deletionTimestamp"))
    made.close()
    assert cluster.all("secrets") == []
    assert not (context.data_dir / Note.FILE).exists()
    made.close()
