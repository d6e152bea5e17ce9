"""Creating what a deployment is made of, and deleting it again: create-only, checked by the server first, by UID after.

Order matters on the way in (what others need comes first) and is reversed on the way out.
"""

from __future__ import annotations

import re
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from towtank.errors import PlatformError, RemovalTimeout
from towtank.platforms.base import SystemEvent
from towtank.platforms.kubernetes.client import ApiClient, ApiError, Json
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.discovery import Kinds
from towtank.platforms.kubernetes.kinds import CLAIM, KNATIVE, LEASE, NAMESPACE, POD
from towtank.platforms.kubernetes.lease import HOLDER, holder, lease_name, live_holder
from towtank.platforms.kubernetes.ownership import Note, Owned, is_ours, selector
from towtank.platforms.kubernetes.sources import Json as Thing
from towtank.platforms.kubernetes.sources import Source
from towtank.units import format_duration

GONE_TIMEOUT_S = 180.0
"""Pods may take their grace period to end; where in this time nothing more has gone, the rest is stuck."""
_LOOK_EVERY_S = 0.3
TRY_IN = "default"
"""Where objects are tried out by the server while their own namespace is not there yet."""
_FIRST = (
    "CustomResourceDefinition", "StorageClass", "PriorityClass", "ResourceQuota", "LimitRange", "ServiceAccount",
    "ClusterRole", "Role", "ClusterRoleBinding", "RoleBinding", "Secret", "ConfigMap", "PersistentVolume",
    "PersistentVolumeClaim", "NetworkPolicy", "Service",
)  # fmt: skip
POLICY_HINT = "a policy of the cluster speaks against it: change what it names, or have it changed"
_RIGHTS = re.compile(r" cannot \w+ resource |attempting to grant")
"""What the server says where rights are missing; all else that is forbidden is by admission."""
_LAST = (
    "HorizontalPodAutoscaler", "VerticalPodAutoscaler", "PodDisruptionBudget", "Ingress", "Gateway", "HTTPRoute",
)  # fmt: skip


@dataclass(frozen=True)
class Planned:
    """An object that is to be created, with its place in the API."""

    source: Source
    owned: Owned

    @property
    def body(self) -> Thing:
        """What is sent."""
        return self.source.thing


def plan_objects(
    sources: Sequence[Source], kinds: Kinds, config: KubernetesConfig, namespace: str
) -> list[Planned]:
    """Place every object, in the order of creation.

    Raises
    ------
    PlatformError
        A kind that the cluster does not know, an object of another namespace, or one of none that was not allowed.
    """
    planned = []
    for source in sources:
        kind = kinds.of(source.thing, source.where)
        name = source.thing["metadata"]["name"]
        if not kind.namespaced:
            _check_allowed(source, config)
        own = source.thing["metadata"].get("namespace")
        if kind.namespaced and own not in (None, namespace) and own != config.namespace:
            raise PlatformError(
                f"{source.where}: {source.name} belongs to the namespace {own!r}, and the deployment goes into "
                f"{config.namespace or 'one of its own'}",
                hint=f"leave metadata.namespace out, or write `namespace: {own}`",
            )
        place = namespace if kind.namespaced else ""
        planned.append(
            Planned(source, Owned(kind.api_version, kind.kind, kind.plural, kind.namespaced, place, name))
        )
    return sorted(planned, key=lambda one: _rank(one.owned.kind))


def _check_allowed(source: Source, config: KubernetesConfig) -> None:
    if source.thing["kind"] == "Namespace":
        raise PlatformError(
            f"{source.where}: {source.name}: a deployment does not bring its own namespace",
            hint="leave it out: Towtank makes a namespace for each deployment, or uses the one in `namespace`",
        )
    if source.name not in config.cluster_scoped:
        raise PlatformError(
            f"{source.where}: {source.name} belongs to the whole cluster, where it may be in the way of others",
            hint=f"allow it by name: `cluster_scoped: [{source.name}]`",
        )


def _rank(kind: str) -> int:
    if kind in _FIRST:
        return _FIRST.index(kind)
    return len(_FIRST) + 1 + _LAST.index(kind) if kind in _LAST else len(_FIRST)


def try_out(api: ApiClient, planned: Iterable[Planned], *, instead: str | None = None) -> list[str]:
    """Let the server try everything without keeping it; what it refuses, in words.

    Parameters
    ----------
    api : ApiClient
    planned : iterable of Planned
    instead : str, optional
        A namespace that exists, while the deployment's own does not; a name that is taken there says nothing.
    """
    problems = []
    for one in planned:
        body = one.body
        place = one.owned.namespace
        if instead is not None and one.owned.namespaced:
            place = instead
            body = {**body, "metadata": {**body["metadata"], "namespace": instead}}
        try:
            api.create(one.owned.of.path(place), body, dry_run=True)
        except ApiError as error:
            if error.code == 409 and instead is not None and one.owned.namespaced:
                continue
            problems.append(refusal(one, error))
    return problems


def refusal(one: Planned, error: ApiError) -> str:
    """Why the server would not have an object, in words."""
    begin = f"{one.source.where}: {one.source.name}"
    if error.code == 409:
        return (
            f"{begin} exists already and is not this deployment's (HTTP 409); Towtank only creates: "
            "delete it, give it another name, or use another namespace"
        )
    if error.code == 403 and "quota" in error.said:
        return f"{begin} does not fit into the quota of its namespace: {error.said}"
    if error.code == 403 and _RIGHTS.search(error.said):
        return f"{begin} may not be created: {error.said}; {error.hint}"
    if error.code == 403 or "denied" in error.said:
        return f"{begin} was refused: {error.said}; {POLICY_HINT}"
    return f"{begin} was refused: {error.said}"


def create_all(api: ApiClient, planned: Sequence[Planned]) -> None:
    """Create every object, in order.

    Raises
    ------
    PlatformError
        One was refused; those before it exist.
    """
    for one in planned:
        try:
            api.create(one.owned.of.path(one.owned.namespace), one.body)
        except ApiError as error:
            raise PlatformError(refusal(one, error)) from error


def create_namespace(api: ApiClient, name: str, marks: dict[str, str]) -> None:
    """Make the deployment's own namespace.

    Raises
    ------
    PlatformError
    """
    body: Json = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": marks}}
    try:
        api.create(NAMESPACE.path(), body)
    except ApiError as error:
        if error.code == 403:
            raise PlatformError(
                f"no namespace of its own may be made for the deployment: {error.said}",
                hint="have one made and name it in `namespace`, or have the right granted: docs/kubernetes.md",
            ) from error
        raise


def check_namespace(api: ApiClient, name: str, token: str) -> None:
    """Refuse a given namespace that is not there, on its way out, or used by another deployment.

    Raises
    ------
    PlatformError
    """
    found = api.find(NAMESPACE.path(name=name))
    if found is None:
        raise PlatformError(
            f"there is no namespace {name!r} in context {api.context!r}",
            hint="make it (`kubectl create namespace`), or leave `namespace` out to have one made and removed",
        )
    if (found.get("status") or {}).get("phase") == "Terminating":
        raise PlatformError(
            f"the namespace {name!r} is being deleted", hint="wait until it is gone, or use another"
        )
    leases, _ = api.list(LEASE.path(name), labelSelector="towtank.dev/token")
    for lease in leases:
        mine = (lease["metadata"].get("annotations") or {}).get(HOLDER) == holder()
        if not is_ours(lease, token) and not mine:
            who = live_holder(api, lease)
            other = lease["metadata"]["labels"]["towtank.dev/token"]
            state = (
                f"used by {who}" if who else "left behind by a towtank that ended; `towtank clean` removes it"
            )
            raise PlatformError(
                f"the namespace {name!r} is in use: the deployment {other} is in it, {state}",
                hint="two in one namespace would disturb each other; leave `namespace` out to have one each",
            )


# --- the way out ------------------------------------------------------------------------------------------------


def delete_all(
    api: ApiClient,
    note: Note,
    *,
    timeout_s: float = GONE_TIMEOUT_S,
    sleep: Callable[[float], None] = time.sleep,
    tell: Callable[[str], None] = lambda _words: None,
) -> int:
    """Delete everything that carries the token, and wait until it is gone; how much there was.

    Parameters
    ----------
    api : ApiClient
    note : Note
    timeout_s : float
        Waiting ends when nothing more has gone for so long: thousands of pods take their time.
    sleep : callable
    tell : callable
        Told, in words, each time that waiting goes on because something has gone.

    Raises
    ------
    PlatformError
        Something does not go away; says what holds it.
    """
    count = _end_functions(api, note, _Patience(timeout_s, tell), sleep) if note.own_namespace else 0
    waiting: list[str] = []
    for owned in reversed(note.things):
        if owned.namespaced and note.own_namespace:
            continue  # goes with its namespace
        count += _delete(api, owned.path, note.token, waiting)
    if note.own_namespace:
        count += _delete(api, NAMESPACE.path(name=note.namespace), note.token, waiting)
    else:
        for kind in (POD, CLAIM):  # pods without an owner any more; claims that a StatefulSet leaves behind
            pages = api.pages(kind.path(note.namespace), labelSelector=selector(note.token))
            for thing in (thing for page, _ in pages for thing in page):
                if kind is POD and thing["metadata"].get("ownerReferences"):
                    waiting.append(kind.path(note.namespace, thing["metadata"]["name"]))
                else:
                    count += _delete(
                        api, kind.path(note.namespace, thing["metadata"]["name"]), note.token, waiting
                    )
    _wait_gone(api, waiting, note, _Patience(timeout_s, tell), sleep)
    if not note.own_namespace:  # last, so that a sweep that is interrupted finds the deployment still marked
        lease: list[str] = []
        count += _delete(api, LEASE.path(note.namespace, lease_name(note.token)), note.token, lease)
    return count


def _delete(api: ApiClient, path: str, token: str, waiting: list[str]) -> int:
    found = api.find(path)
    if found is None or not is_ours(found, token):
        return 0
    if not found["metadata"].get("deletionTimestamp"):
        api.delete(path, found["metadata"]["uid"])
    waiting.append(path)
    return 1


def _end_functions(api: ApiClient, note: Note, patience: _Patience, sleep: Callable[[float], None]) -> int:
    """Delete what Knative brings pods for, and wait until these are gone; what is still there goes with the namespace.

    Their pods may take minutes to end and end much sooner; who deletes a namespace looks at them again after half of
    these minutes only.
    """
    gone: list[str] = []
    for owned in reversed(note.things):
        if owned.of.group == KNATIVE:
            _delete(api, owned.path, note.token, gone)
    while (
        gone and _pods_in(api, note.namespace) and not patience.is_over(lambda: _pods_in(api, note.namespace))
    ):
        sleep(_LOOK_EVERY_S)
    return len(gone)


class Removal:
    """What is told of a removal, as events."""

    def __init__(self) -> None:
        self.events: list[SystemEvent] = []

    def tell(self, words: str) -> None:
        """Keep it, with the instant."""
        self.events.append(SystemEvent(time.monotonic_ns(), "removal_slow", "", words))


class _Patience:
    """How long what is deleted is waited for: anew as long as it becomes less.

    Parameters
    ----------
    timeout_s : float
    tell : callable
    """

    def __init__(self, timeout_s: float, tell: Callable[[str], None]) -> None:
        self._timeout_s = timeout_s
        self._tell = tell
        self._begun = time.monotonic()
        self._until = self._begun + timeout_s
        self._fewest: int | None = None

    def is_over(self, count: Callable[[], int]) -> bool:
        """Whether it is.

        Parameters
        ----------
        count : callable
            How much is left; asked at the beginning and when the time is over.
        """
        if self._fewest is None:
            self._fewest = count()
            return False
        now = time.monotonic()
        if now < self._until:
            return False
        left = count()
        if left >= self._fewest:
            return True
        self._tell(
            f"after {format_duration(self.waited_s)} {left} of {self._fewest} objects are left; as they become fewer, "
            "they are waited for"
        )
        self._fewest, self._until = left, now + self._timeout_s
        return False

    @property
    def waited_s(self) -> float:
        """Since the beginning."""
        return time.monotonic() - self._begun


def _wait_gone(
    api: ApiClient, paths: Sequence[str], note: Note, patience: _Patience, sleep: Callable[[float], None]
) -> None:
    left = list(paths)

    def count() -> int:
        return len(left) + (_pods_in(api, note.namespace) if note.own_namespace else 0)

    while left:
        found = api.find(left[0])
        if found is None or not is_ours(found, note.token):
            left.pop(0)
        elif patience.is_over(count):
            raise RemovalTimeout(
                f"{found['kind'] if 'kind' in found else left[0]}/{found['metadata']['name']} is still there "
                f"{format_duration(patience.waited_s)} after its deletion: {_what_holds(found)}",
                hint="remove what holds it, then `towtank clean`",
            )
        else:
            sleep(_LOOK_EVERY_S)


def _pods_in(api: ApiClient, namespace: str) -> int:
    """How many pods a namespace has, without reading them; 0 where that may not be asked."""
    try:
        page = api.get(POD.path(namespace), limit="1")
    except ApiError:
        return 0
    items, meta = page.get("items") or [], page.get("metadata") or {}
    return len(items) + int(meta.get("remainingItemCount") or 0)


def _what_holds(thing: Json) -> str:
    """Finalizers and conditions that keep an object from going."""
    held = [
        *(thing["metadata"].get("finalizers") or []),
        *((thing.get("spec") or {}).get("finalizers") or []),
    ]
    said = [
        str(condition.get("message"))
        for condition in (thing.get("status") or {}).get("conditions") or []
        if condition.get("status") == "True" and condition.get("message")
    ]
    words = [f"finalizers {', '.join(map(str, held))}"] if held else []
    return "; ".join([*words, *said]) or "the cluster does not say why"
