"""Waiting until everything is up, and saying why it is not: the pod, its state, its events, its last words."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from towtank.errors import PlatformError, ReadinessTimeout
from towtank.platforms.base import Cancelled
from towtank.platforms.kubernetes import pods
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.creating import POLICY_HINT
from towtank.platforms.kubernetes.kinds import CLAIM, EVENT, POD
from towtank.platforms.kubernetes.pods import Trouble
from towtank.platforms.kubernetes.workloads import Workload, failed_revision, failure
from towtank.platforms.output import clean
from towtank.units import format_duration

LOOK_EVERY_S = 0.25
PAUSE_FACTOR = 9
"""Looking at thousands of pods takes long: so many times as long nobody looks, which leaves it a tenth of a core."""
HOPELESS_AFTER_S = 6.0
"""A pull that failed once may succeed a moment later; one that is refused for this long will not."""
FAILURE_AFTER_S = 4.0
"""A quota may be raised by an object that comes a moment later; then it is in the way."""
LAST_LINES = 20
MOST_EVENTS = 6

_WORDS = {
    "image_pull": (
        "its image cannot be pulled",
        "is the name right, is it in the registry, may the cluster pull it?",
    ),
    "bad_config": ("a container cannot be made", "does what it refers to (ConfigMap, Secret, volume) exist?"),
    "crash_loop": ("it crashes", "look at its last lines"),
    "unschedulable": (
        "no node can take it",
        "lower its requests or selectors, add nodes, or raise `ready.timeout`",
    ),
    "probe_failing": (
        "it runs and is not ready",
        "is the probe's path and port right? it may also need more time",
    ),
    "volume": ("a volume is missing", "is there a StorageClass that provides it?"),
    "quota": ("a quota is in the way", "raise the quota or ask for less"),
    "refused": ("a policy is in the way", POLICY_HINT),
    "revision": (
        "its revision failed",
        "is the image right, does it listen on the port in $PORT, and does its probe answer?",
    ),
    "evicted": ("it was evicted", "the node is short of something"),
    "pending": ("it has not started", "raise `ready.timeout`, or look with `kubectl describe pod`"),
}


@dataclass(frozen=True)
class Waiter:
    """Waits for workloads of one deployment.

    Parameters
    ----------
    api : ApiClient
    deployment : str
        Its name, for messages.
    namespace : str
    workloads : sequence of Workload
    living : callable
        All pods that are there now.
    mask : callable
        Takes secrets out of a text.
    """

    api: ApiClient
    deployment: str
    namespace: str
    workloads: Sequence[Workload]
    living: Callable[[], Sequence[Json]]
    mask: Callable[[str], str]

    def wait(self, timeout_s: float, *, first_instance: str, cancelled: Cancelled) -> None:
        """Block until every workload is up.

        Raises
        ------
        ReadinessTimeout
            With the reason, the pod's own events and its last lines.
        PlatformError
            Waiting longer would not help.
        """
        begun = time.monotonic()
        hopeless_since: float | None = None
        failing_since: float | None = None
        given_up_since: float | None = None
        while True:
            cancelled()
            looking = time.monotonic()
            things = [(one, self.api.find(one.owned.path)) for one in self.workloads]
            missing = [words for one, thing in things if (words := one.missing(thing))]
            if not missing:
                return
            now = time.monotonic()
            refused = next((words for _, thing in things if thing and (words := failure(thing))), "")
            failing_since = (failing_since or now) if refused else None
            if failing_since is not None and now - failing_since >= FAILURE_AFTER_S:
                kind = "quota" if "quota" in refused else "refused"
                raise self._cannot(f"{missing[0]}: its pods are refused: {refused}", kind)
            worst = self._worst()
            given_up = next((words for _, thing in things if thing and (words := failed_revision(thing))), "")
            given_up_since = (given_up_since or now) if given_up else None
            if given_up_since is not None and now - given_up_since >= HOPELESS_AFTER_S:
                of_pod = f"; {self._of_pod(*worst)}" if worst is not None else ""
                raise self._cannot(f"Knative says: {given_up}{of_pod}", "revision")
            hopeless = worst is not None and worst[1].hopeless
            hopeless_since = (hopeless_since or now) if hopeless else None
            if worst is not None and hopeless_since is not None and now - hopeless_since >= HOPELESS_AFTER_S:
                raise self._cannot(self._of_pod(*worst), worst[1].kind)
            if now - begun >= timeout_s:
                raise self._late(timeout_s, missing, refused, worst, first_instance)
            looked_s = time.monotonic() - looking
            cancelled_sleep(min(max(LOOK_EVERY_S, looked_s * PAUSE_FACTOR), timeout_s), cancelled)

    def _worst(self) -> tuple[Json, Trouble] | None:
        """The pod to speak of: a hopeless one if there is one, else the one that got least far."""
        troubled = [(pod, found) for pod in self.living() if (found := pods.trouble(pod)) is not None]
        order = list(_WORDS)
        return min(troubled, key=lambda one: (not one[1].hopeless, order.index(one[1].kind)), default=None)

    def _cannot(self, words: str, kind: str) -> PlatformError:
        return PlatformError(
            self.mask(f"deployment {self.deployment!r} cannot come up: {words}"), hint=_WORDS[kind][1]
        )

    def _late(
        self,
        timeout_s: float,
        missing: Sequence[str],
        refused: str,
        worst: tuple[Json, Trouble] | None,
        first: str,
    ) -> ReadinessTimeout:
        said = "; ".join(missing[:3])
        words = (
            f"deployment {self.deployment!r}: {first} was not ready within {format_duration(timeout_s)} "
            f"in namespace {self.namespace}: {said}"
        )
        if refused:
            words += f"; pods are refused: {refused}"
        if worst is not None:
            words += f"; {self._of_pod(*worst)}"
        hint = (
            _WORDS[worst[1].kind][1]
            if worst is not None
            else "look with `kubectl describe` at what is not ready"
        )
        return ReadinessTimeout(self.mask(words), hint=hint)

    def _of_pod(self, pod: Json, found: Trouble) -> str:
        name = pod["metadata"]["name"]
        node = (pod.get("spec") or {}).get("nodeName")
        place = f" on node {node}" if node else ""
        container = f" (container {found.container})" if found.container else ""
        said = f"pod {name}{place}{container}: {_WORDS[found.kind][0]}: {found.words}"
        said += self._events("its events", f"involvedObject.uid={pod['metadata']['uid']}")
        if found.kind == "volume":
            said += self._events("events of its claims", f"involvedObject.kind={CLAIM.kind}")
        return said + self._last_lines(pod, found)

    def _events(self, whose: str, selector: str) -> str:
        try:
            events, _ = self.api.list(EVENT.path(self.namespace), fieldSelector=selector)
        except PlatformError as error:
            return f"\n{whose} could not be read: {error.message}"
        warned = [one for one in events if one.get("type") == "Warning"] or events
        warned.sort(key=lambda one: str(one.get("lastTimestamp") or one.get("eventTime") or ""))
        lines = list(
            dict.fromkeys(
                f"{one.get('reason')}: {clean(str(one.get('message')))}" for one in warned[-MOST_EVENTS:]
            )
        )
        return f"\n{whose}:\n" + "\n".join(f"  | {line}" for line in lines) if lines else ""

    def _last_lines(self, pod: Json, found: Trouble) -> str:
        if found.kind not in ("crash_loop", "probe_failing"):
            return ""
        params = {"tailLines": str(LAST_LINES)}
        if found.container:
            params["container"] = found.container
        path = POD.path(self.namespace, pod["metadata"]["name"]) + "/log"
        text, trouble = "", ""
        for previous in (
            {},
            {"previous": "true"},
        ):  # a container that was just started again has said nothing yet
            try:
                text = self.api.text(path, **params, **previous)
            except PlatformError as error:
                trouble = error.message
            if text.strip():
                break
        lines = [clean(line) for line in text.splitlines()[-LAST_LINES:]]
        if not lines:
            return f"\nits log could not be read: {trouble}" if trouble else "\nit wrote nothing"
        return f"\nits last {len(lines)} line(s):\n" + "\n".join(f"  | {line}" for line in lines)


def cancelled_sleep(seconds: float, cancelled: Cancelled) -> None:
    """Sleep in small pieces, so that stopping takes no longer than one of them."""
    until = time.monotonic() + seconds
    while (left := until - time.monotonic()) > 0:
        cancelled()
        time.sleep(min(left, 0.1))
