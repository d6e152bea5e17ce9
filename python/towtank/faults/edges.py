"""Faults on the way of calls from one component to another: delay, drop, abort, partition."""

from __future__ import annotations

from collections.abc import Iterable

from towtank.faults import registry
from towtank.faults.base import Order, cannot, each
from towtank.faults.model import Fault
from towtank.faults.options import EdgeOptions
from towtank.platforms.base import (
    CutsInstances,
    Deployment,
    Edge,
    EdgeTrouble,
    HasEdges,
    HasWholeEdges,
    Undo,
)


class Delay:
    """Answers come later."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        options = order.options
        return _trouble(deployment, order, EdgeTrouble("delay", options.share, options.delay, options.jitter))


class Drop:
    """Calls vanish."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        return _trouble(deployment, order, EdgeTrouble("drop", order.options.share))


class Abort:
    """Calls break."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        return _trouble(deployment, order, EdgeTrouble("abort", order.options.share))


class Partition:
    """Nothing comes through, either way: on an edge, to and from an instance, or its node."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        what = order.options.of
        if what == "edge":
            return _trouble(deployment, order, EdgeTrouble("cut"))
        cutter = deployment if isinstance(deployment, CutsInstances) else cannot(deployment, order)
        return each(order, lambda name: cutter.cut_instance(name, what, lasts_s=order.lasts_s))


def _trouble(deployment: Deployment, order: Order, trouble: EdgeTrouble) -> Undo:
    edge = Edge(order.options.source, order.target)
    if isinstance(deployment, HasWholeEdges):
        return deployment.disturb_whole_edge(edge, trouble, lasts_s=order.lasts_s)
    edges = deployment if isinstance(deployment, HasEdges) else cannot(deployment, order)
    return each(order, lambda name: edges.disturb_edge(edge, name, trouble))


def edges_of(faults: Iterable[Fault], only_target: str) -> tuple[Edge, ...]:
    """Edges that faults are about, each once.

    Parameters
    ----------
    faults : iterable of Fault
        Of all treatments that share a deployment: an edge has its proxy in each of them.
    only_target : str
        Target of a fault that names none.
    """
    found = (edge_of(fault, fault.target or only_target) for fault in faults)
    return tuple(dict.fromkeys(edge for edge in found if edge is not None))


def edge_of(fault: Fault, target: str) -> Edge | None:
    """The edge that a fault is about; None where it is about none, or about an instance or a node.

    Parameters
    ----------
    fault : Fault
    target : str
        What it hits.
    """
    if not fault.is_active or registry.kind(fault.kind).hits != "edge":
        return None
    options = registry.config_model(fault.kind).model_validate(fault.options)
    if not isinstance(options, EdgeOptions) or getattr(options, "of", "edge") != "edge":
        return None
    return Edge(options.source, target)
