"""Workers beside what they measure: found, and told when it may not be asked."""

from __future__ import annotations

from towtank.errors import PlatformError
from towtank.load.workers import neighbours

WORKERS = [{"spec": {"nodeName": "a"}}, {"spec": {"nodeName": "b"}}]


class Api:
    def __init__(self, **pods):
        self.pods = pods
        self.asked = []

    def list(self, path, **query):
        self.asked.append((path, query))
        node = query["fieldSelector"].removeprefix("spec.nodeName=")
        names = self.pods[node]
        if names is None:
            raise PlatformError("pods is forbidden")
        return [{"metadata": {"name": name}, "status": {"phase": "Running"}} for name in names], "1"


def test_nodes_with_pods_of_a_deployment_are_named():
    found = neighbours.look(Api(a=["shop-1", "shop-2"], b=[]), WORKERS).findings()
    assert [(one["name"], one["value"]) for one in found] == [("generator_shares_node", 1)]
    assert "(a: shop-1, shop-2)" in found[0]["message"]


def test_nodes_of_their_own_are_no_finding():
    api = Api(a=[], b=[])
    assert neighbours.look(api, WORKERS).findings() == []
    assert [path for path, _ in api.asked] == ["/api/v1/pods"] * 2
    assert all("!=" in query["labelSelector"] for _, query in api.asked)


def test_what_may_not_be_asked_is_said():
    found = neighbours.look(Api(a=["shop-1"], b=None), WORKERS).findings()
    assert [one["name"] for one in found] == ["generator_shares_node", "generator_nodes_unknown"]
    assert "pods is forbidden" in found[1]["message"]
    assert "allow towtank to list pods" in found[1]["advice"]


def test_pods_that_came_later_are_added():
    begin = neighbours.look(Api(a=["shop-1"], b=[]), WORKERS)
    end = neighbours.look(Api(a=["shop-1", "shop-2"], b=["shop-3"]), WORKERS)
    (found,) = begin.joined(end).findings()
    assert found["value"] == 2
    assert "(a: shop-1, shop-2; b: shop-3)" in found["message"]
    assert begin.joined(neighbours.Neighbours(unasked="the API server is away")).unasked
