"""A deployment in a cluster: created, waited for, watched, described and removed."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms import placeholders
from towtank.platforms.base import (
    Cancelled,
    DeployContext,
    Edge,
    EdgeTrouble,
    Filling,
    Instance,
    LogFile,
    SystemEvent,
    Target,
    Undo,
)
from towtank.platforms.kubernetes import (
    creating,
    disturbing,
    edge_proxies,
    ownership,
    pods,
    reach,
)
from towtank.platforms.kubernetes.baseline import Baseline, busy_nodes, off_baseline
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.connection import Connection
from towtank.platforms.kubernetes.creating import Planned
from towtank.platforms.kubernetes.disturbers import Disturbers, container_ids
from towtank.platforms.kubernetes.journal import Step
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.lease import LiveLease
from towtank.platforms.kubernetes.ownership import Note
from towtank.platforms.kubernetes.parameters import Change
from towtank.platforms.kubernetes.pod_logs import PodLogs
from towtank.platforms.kubernetes.readiness import LOOK_EVERY_S, Waiter, cancelled_sleep
from towtank.platforms.kubernetes.view import ClusterView
from towtank.platforms.kubernetes.watches import Watches
from towtank.platforms.kubernetes.ways import NotYet, Route
from towtank.platforms.kubernetes.workloads import Workload, is_workload
from towtank.platforms.masking import Secrets
from towtank.platforms.probe import Prober, Waiting, wait_until_ready
from towtank.sensitive import mask_values
from towtank.units import format_duration

MOST_PODS_SHOWN = 500
"""Pods that are described in run.json; of more, how many are left out. Telemetry has the lives of all."""


class KubernetesDeployment:
    """Objects that Towtank created in one namespace.

    Parameters
    ----------
    connection : Connection
    config : KubernetesConfig
    context : DeployContext
    secrets : Secrets
    planned : sequence of Planned
        What is to be created, in order.
    changes : sequence of Change
        What was set in it.
    """

    def __init__(
        self,
        connection: Connection,
        config: KubernetesConfig,
        context: DeployContext,
        secrets: Secrets,
        *,
        planned: Sequence[Planned],
        changes: Sequence[Change],
    ) -> None:
        self._connection = connection
        self._api = connection.api
        self._config = config
        self._context = context
        self._secrets = secrets
        self._planned = tuple(planned)
        self._changes = tuple(changes)
        self._namespace = config.namespace or ownership.namespace_name(context.name, context.token)
        self._routes_wanted = reach.find_routes(config, [one.owned for one in planned])
        self._routes: dict[str, Route] = {}
        self._targets: dict[str, Target] = {}
        self._workloads = tuple(Workload(one.owned) for one in planned if is_workload(one.body))
        self._marks = ownership.labels(context)
        self._note = Note(
            context.token, self._api.context, self._api.server, connection.kubeconfig, connection.identity,
            self._namespace, config.namespace is None, tuple(one.owned for one in planned),
        )  # fmt: skip
        self._lease = LiveLease(self._api, self._namespace, context.token, self._marks)
        self._disturbers = (
            None if config.disturber is None else Disturbers(connection, config.disturber, context)
        )
        self._edges = edge_proxies.plan(
            connection, config, context, self._namespace, targets=self._routes_wanted, planned=planned
        )
        self._logs: PodLogs | None = None
        self._seen = Watches(self._api, self._namespace, context.token)
        self._baseline: Baseline | None = None
        self._timings_s: dict[str, float] = {}
        self._removing = threading.Lock()
        self._removal = creating.Removal()
        self._ending = threading.Event()
        self._removed = False

    # --- coming up -----------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Create everything, the server having tried it first.

        Raises
        ------
        PlatformError
            What had been created is gone again.
        """
        own = self._note.own_namespace
        for one in self._planned:
            ownership.marked(one.body, self._namespace if one.owned.namespaced else None, self._marks)
        if not own:
            creating.check_namespace(self._api, self._namespace, self._context.token)
        self._try_out([one for one in self._planned if not own or not one.owned.namespaced])
        self._note.write(self._context.data_dir)
        begun = time.monotonic()
        try:
            if own:
                creating.create_namespace(self._api, self._namespace, self._marks)
            self._lease.start()
            if own:
                self._try_out([one for one in self._planned if one.owned.namespaced])
            else:  # somebody may have come at the same moment; then both give way
                creating.check_namespace(self._api, self._namespace, self._context.token)
            self._logs = self._listen()
            self._seen.open(self._logs)
            edge_proxies.create_all(self._api, self._planned, self._edges)
            if self._disturbers is not None:
                self._disturbers.create()
        except BaseException as error:
            try:
                self.remove()
            except PlatformError as failure:
                error.add_note(f"while removing: {failure.message}")
            raise
        self._timings_s["create"] = round(time.monotonic() - begun, 4)

    def _try_out(self, planned: Sequence[Planned]) -> None:
        problems = creating.try_out(self._api, planned)
        if problems:
            raise PlatformError(
                self.mask(f"deployment {self._context.name!r}: " + "\n".join(problems)),
                hint="the server tried it without keeping it: nothing of it was created",
            )

    def _listen(self) -> PodLogs | None:
        """Follow what pods write, unless that is not wanted."""
        wanted, config = self._config.logs, self._config
        if wanted is False:
            return None
        # Every stream occupies a connection: a client of their own leaves those of the platform free.
        api = ApiClient(find_context(config.context, config.kubeconfig, self._context.root))
        folder = self._context.log_dir
        return PodLogs(api, folder, wanted.pods, config.log_limit, self._secrets)

    def wait_ready(self, *, cancelled: Cancelled) -> None:
        """Block until every workload is up and every target answers; see `Deployment.wait_ready`."""
        begun = time.monotonic()
        ready = self._config.ready
        first = f"{next(iter(self._routes_wanted))}-0"
        waiter = Waiter(
            self._api, self._context.name, self._namespace, self._workloads, lambda: self._seen.pods, self.mask
        )  # fmt: skip
        waiter.wait(ready.timeout, first_instance=first, cancelled=cancelled)
        self._timings_s["pods_ready"] = round(time.monotonic() - begun, 4)
        until = begun + ready.timeout
        if self._disturbers is not None:
            self._disturbers.wait_ready(max(1.0, until - time.monotonic()), cancelled)
        if self._edges is not None:
            self._edges.wait_ready(max(1.0, until - time.monotonic()), cancelled)
        for name in self._routes_wanted:
            self._find_target(name, until, cancelled)
        left_s = max(0.001, until - time.monotonic())
        probes = ready.model_copy(update={"timeout": left_s})
        waiting = [Waiting(i, probes, target) for target in self._targets.values() for i in target.instances]
        with Prober(self._context.root) as prober:
            wait_until_ready(
                waiting, prober=prober, cancelled=cancelled, watch=lambda: None, give_up=self._not_ready
            )
        self._baseline = Baseline.take(self._api, self._workloads)
        self._timings_s["ready"] = round(time.monotonic() - begun, 4)
        self._seen.journal.arm()

    def _find_target(self, name: str, until: float, cancelled: Cancelled) -> None:
        """Find the way to a target, waiting for it as long as there is time."""
        wanted, transport = self._routes_wanted[name], self._config.transport_of(name)
        namespace, facts = self._namespace, dict[str, Any]()
        if self._edges is not None:
            namespace, wanted, facts = self._edges.way_in(name, wanted)
        scheme = "https" if transport.tls is not None else "http"
        while True:
            try:
                found = reach.route(self._api, namespace, name, wanted, scheme)
                break
            except NotYet as error:
                if time.monotonic() >= until:
                    raise ReadinessTimeout(
                        f"deployment {self._context.name!r}: {name}-0 was not ready within "
                        f"{format_duration(self._config.ready.timeout)}: {error.message}",
                        hint=error.hint,
                    ) from error
            cancelled_sleep(LOOK_EVERY_S, cancelled)
        transport = transport.filled(self._secrets.placeholders)
        if found.host is not None and transport.host is None:
            transport = transport.model_copy(update={"host": found.host})
        headers = {
            key: placeholders.render(value, self._secrets.placeholders)
            for key, value in self._config.headers_of(name).items()
        }
        self._routes[name] = replace(found, facts={**found.facts, **facts})
        here = bool(self._connection.cluster["on_this_machine"])
        instance = Instance(f"{name}-0", found.url, shares_machine=here)
        self._targets[name] = Target(name, (instance,), headers, transport)

    def _not_ready(self, item: Waiting) -> PlatformError:
        facts = self._routes[item.target.name].facts
        return ReadinessTimeout(
            f"deployment {self._context.name!r}: {item.instance.name} at {item.instance.url} was not ready within "
            f"{format_duration(self._config.ready.timeout)}; its pods are, but {item.ready.probe} "
            f"({str(facts['way']).replace('_', ' ')}) saw last: {self._secrets.mask(item.seen)}",
            hint="is the path right, and does the Service select these pods and their port?",
        )

    # --- being there ---------------------------------------------------------------------------------------------

    @property
    def targets(self) -> Mapping[str, Target]:
        """Where requests can go; known once it is ready."""
        return dict(self._targets)

    def mask(self, text: str) -> str:
        """Replace every secret value in a text that is about to be written somewhere."""
        return self._secrets.mask(text)

    def events(self) -> Sequence[SystemEvent]:
        """Failures of pods and nodes since it was ready; see `Deployment.events`."""
        if not self._ending.is_set():
            self._seen.check_heard()
            self._lease.check()
            if self._edges is not None:
                self._edges.check()
        return self._seen.journal.events

    def steps(self) -> Sequence[Step]:
        """Steps of every pod's life, in the order in which they were seen."""
        return self._seen.journal.steps

    def images(self) -> dict[str, list[str]]:
        """What its pods really run; see `base.NamesImages`."""
        return pods.images(self._seen.pods)

    def view(self) -> ClusterView:
        """What telemetry may see; see `view.SeenInCluster`."""
        return ClusterView(
            self._api, self._namespace, self._context.token, self._workloads, self._seen.watchers,
            self._seen.journal, self._seen.census, self._seen.nodes, self._connection.kubeconfig,
        )  # fmt: skip

    def unsettled(self, *, cpu_below: float | None, replicas: bool) -> str:
        """What keeps the deployment from its baseline; see `base.KnowsBaseline`."""
        if self._baseline is None:
            return "it was not ready yet"
        living = self._seen.pods
        try:
            if replicas:
                for words in off_baseline(
                    self._api, self._namespace, self._workloads, self._baseline, living
                ):
                    return words
            if cpu_below is not None:
                for words in busy_nodes(self._api, living, cpu_below):
                    return words
        except PlatformError as error:
            return error.message
        return ""

    def above_zero(self) -> str:
        """Pods that are there; see `base.ScalesToZero`."""
        living = self._seen.pods
        return (
            f"{len(living)} pod(s) are there, {sum(map(pods.is_leaving, living))} of them ending"
            if living
            else ""
        )

    def describe(self) -> dict[str, Any]:
        """Facts for run.json; header values that hold a secret are masked."""
        living = self._seen.pods
        return {
            "platform": self._config.platform,
            "cluster": self._connection.cluster,
            "namespace": {"name": self._namespace, "made": self._note.own_namespace},
            "objects": [one.owned.shown for one in self._planned],
            "set": [{"object": c.thing, "path": c.path, "was": c.was, "now": c.now} for c in self._changes],
            "instances": [
                {"name": instance.name, "target": name, "url": instance.url, **self._routes[name].facts}
                for name, target in self.targets.items()
                for instance in target.instances
            ],
            "pods": [pods.shown(pod) for pod in living[:MOST_PODS_SHOWN]],
            **({"pods_left_out": left_out} if (left_out := len(living) - MOST_PODS_SHOWN) > 0 else {}),
            "images": self.images(),
            "headers": {
                name: placeholders.render(value, self._secrets.masked_placeholders)
                for name, value in mask_values(self._config.headers).items()
            },
            "baseline": dict(self._baseline.replicas) if self._baseline is not None else {},
            "baseline_nodes": (
                self._baseline.nodes._asdict()
                if self._baseline is not None and self._baseline.nodes is not None
                else {}
            ),
            "watches": self._seen.facts(),
            "logs": self._logs.facts() if self._logs is not None else {},
            **({"edges": self._edges.facts()} if self._edges is not None else {}),
            "timings_s": dict(self._timings_s),
        }

    def logs(self) -> Sequence[LogFile]:
        """What pods wrote up to now; see `base.WritesLogs`."""
        return self._logs.up_to_now() if self._logs is not None else ()

    # --- being disturbed -----------------------------------------------------------------------------------------

    def victims(self, target: str) -> Sequence[str]:
        """Pods that a fault can hit; see `base.HasVictims`."""
        return disturbing.behind(self._api, self._namespace, self._routes_wanted[target], self._seen.pods)

    def kill_instance(self, name: str, *, grace_s: float) -> None:
        """Delete a pod; see `base.KillsInstances`."""
        disturbing.kill(self._api, self._namespace, self._pod(name), grace_s)

    def limit_cpu(self, name: str, cores: float, *, lasts_s: float | None = None) -> Undo:
        """Resize a running pod, or limit it from its node where it has no limit; see `base.LimitsCpu`."""
        pod = self._pod(name)
        if self._disturbers is None or disturbing.has_cpu_limits(pod):
            return disturbing.limit_cpu(self._api, self._namespace, name, cores)
        fault = {"kind": "cpu", "containers": container_ids(pod), "cores": cores}
        return self._disturbers.begin(pod, fault, lasts_s)[1]

    def stop_instance(self, name: str, *, lasts_s: float | None = None) -> Undo:
        """Stop every process of a pod; see `base.StopsInstances`."""
        pod = self._pod(name)
        return self._hands().begin(pod, {"kind": "stop", "containers": container_ids(pod)}, lasts_s)[1]

    def cut_instance(
        self, name: str, what: Literal["instance", "node"], *, lasts_s: float | None = None
    ) -> Undo:
        """Cut a pod or its node off; see `base.CutsInstances`."""
        pod = self._pod(name)
        if what == "node":
            return self._hands().begin(pod, {"kind": "cut_machine"}, lasts_s, alone=True)[1]
        return self._hands().begin(pod, {"kind": "cut", "containers": container_ids(pod)}, lasts_s)[1]

    def disturb_whole_edge(self, edge: Edge, trouble: EdgeTrouble, *, lasts_s: float | None = None) -> Undo:
        """Make calls over an edge go wrong; see `base.HasWholeEdges`."""
        if self._edges is None:
            raise PlatformError(f"no call from {edge.source} to {edge.target} goes through a proxy")
        return self._edges.disturb(edge, trouble, lasts_s)

    def fill_volume(self, name: str, filling: Filling, *, lasts_s: float | None = None) -> tuple[int, Undo]:
        """Fill a volume of a pod; see `base.FillsVolumes`."""
        pod = self._api.get(POD.path(self._namespace, name))  # of one that is watched, volumes are not kept
        facts, undo = self._hands().begin(pod, disturbing.disk_fault(pod, filling), lasts_s)
        return int(facts.get("bytes", 0)), undo

    def _pod(self, name: str) -> Json:
        pod = next((pod for pod in self._seen.pods if pod["metadata"]["name"] == name), None)
        if pod is None:
            raise PlatformError(f"there is no pod {name} any more")
        return pod

    def _hands(self) -> Disturbers:
        if self._disturbers is None:
            raise PlatformError(
                f"deployment {self._context.name!r} has no disturbers, which this fault needs",
                hint="give it some: `disturber: {image: …}`; docs/faults.md",
            )
        return self._disturbers

    # --- going ---------------------------------------------------------------------------------------------------

    def remove(self) -> Sequence[LogFile]:
        """Delete everything that was created and wait until it is gone; repeated calls do nothing more."""
        self._ending.set()
        with self._removing:
            if self._removed:
                return self._kept_logs()
            self._seen.journal.disarm()
            self._seen.close()
            with contextlib.ExitStack() as each:  # whatever fails, from the last to the first
                api = self._api.opened()
                each.callback(api.close)
                each.callback(self._lease.close)  # nobody renews what is given up
                each.callback(self._kept_logs)
                each.callback(creating.delete_all, api, self._note, tell=self._removal.tell)
                for helpers in (self._disturbers, self._edges):
                    if helpers is not None:
                        each.callback(helpers.close, api)
            self._removed = True
            with contextlib.suppress(OSError):
                (self._context.data_dir / ownership.Note.FILE).unlink(missing_ok=True)
        return self._kept_logs()

    def removal_events(self) -> Sequence[SystemEvent]:
        """What kept it from going at once; see `base.TellsOfRemoval`."""
        return self._removal.events

    def _kept_logs(self) -> Sequence[LogFile]:
        """Logs, read to their end."""
        return self._logs.close() if self._logs is not None else ()
