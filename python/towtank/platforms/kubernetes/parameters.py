"""Changing objects before they are created: `copies`, `patches`, `set` and `nodes`, in this order.

What is asked for and cannot be found is an error: a factor that changes nothing would compare a deployment with itself.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.config import Copies, KubernetesConfig, Patch
from towtank.platforms.kubernetes.paths import FieldPath, parse_path, spots, written_paths
from towtank.platforms.kubernetes.sources import Json, Source
from towtank.spelling import nearest_name

COPY_LABEL = "towtank.dev/copy"
HOSTNAME_LABEL = "kubernetes.io/hostname"
_SCALED_BY = ("scaleTargetRef", "targetRef")
"""How an autoscaler names what it scales: sideways, and (VerticalPodAutoscaler) up and down."""
_NEAR = 0.5
_MOST_LISTED = 5


@dataclass(frozen=True)
class Change:
    """A field that was set, for run.json."""

    thing: str
    path: str
    was: Any
    now: Any


def changed(
    sources: Sequence[Source], config: KubernetesConfig, nodes: Sequence[str] = ()
) -> tuple[list[Source], list[Change]]:
    """Objects with everything in them that the deployment says.

    Parameters
    ----------
    sources : sequence of Source
        As they were read; they are not touched.
    config : KubernetesConfig
    nodes : sequence of str
        Host names that pods may use; empty for all.

    Raises
    ------
    PlatformError
        Something to be changed is not there.
    """
    found = [Source(copy.deepcopy(source.thing), source.where) for source in sources]
    for copies in config.copies:
        found = _copied(found, copies)
    for patch in config.patches:
        merge_into(_named(found, patch.target, "patches").thing, patch)
    changes = set_fields(found, config.fields)
    if nodes:
        for source in found:
            for template in pod_templates(source.thing):
                _keep_to(template, nodes)
    return found, changes


def set_fields(sources: Sequence[Source], fields: Mapping[str, Any]) -> list[Change]:
    """Set every field, in every place that its path leads to."""
    changes: list[Change] = []
    for text, value in fields.items():
        path = parse_path(text)
        hits = [(source, spot) for source in sources for spot in spots(path, source.thing)]
        if not hits:
            raise _nothing(path, sources)
        for source, spot in hits:
            changes.append(Change(source.name, spot.path, spot.value, value))
            spot.put(copy.deepcopy(value))
    return changes


def merge_into(thing: Json, patch: Patch) -> None:
    """Merge a patch into an object."""
    _merge(thing, copy.deepcopy(patch.merge))


def pod_templates(thing: Json) -> Iterator[Json]:
    """Templates of pods in an object, wherever its kind keeps them; the pod itself for a bare one."""
    if thing.get("kind") == "Pod" and thing.get("apiVersion") == "v1":
        yield thing
    for spec in (thing.get("spec"), _below(thing, "spec", "jobTemplate", "spec")):
        template = spec.get("template") if isinstance(spec, dict) else None
        if isinstance(template, dict) and isinstance(_below(template, "spec", "containers"), list):
            yield template


def _below(node: Any, *keys: str) -> Any:  # noqa: ANN401
    for key in keys:
        node = node.get(key) if isinstance(node, dict) else None
    return node


# --- set ------------------------------------------------------------------------------------------------------


def _nothing(path: FieldPath, sources: Sequence[Source]) -> PlatformError:
    """Nothing has this path: say where was looked, and what is nearest."""
    chosen = [source for source in sources if path.chooses(source.thing)]
    files = list(dict.fromkeys(source.where.rpartition(":")[0] or source.where for source in sources))
    where = ", ".join(files[:_MOST_LISTED])
    if not chosen:
        names = [source.name for source in sources]
        asked = f"{path.kind}/{path.name}" if path.name else path.kind
        near = nearest_name(asked, names)
        return PlatformError(
            f"{path.text!r} matches nothing: {where} has no {asked}; it has {', '.join(names[:20])}",
            hint=f"did you mean {near}?" if near else None,
        )
    known = [one for source in chosen for one in written_paths(source.thing)]
    if not path.kind:  # compare like with like: without the object's name, a single word with single words
        known = [one.partition(":")[2] for one in known]
    if path.any_depth:
        known = [one.rpartition(".")[2] for one in known]
    wanted = path.text.rpartition(".")[2] if path.any_depth else path.text
    near = nearest_name(wanted, known, cutoff=_NEAR)
    return PlatformError(
        f"{path.text!r} matches no field of {', '.join(s.name for s in chosen[:_MOST_LISTED])} in {where}",
        hint=(f"the nearest is {near!r}; " if near else "")
        + "a field that is not written there yet is added with `patches`",
    )


# --- patches --------------------------------------------------------------------------------------------------


def _named(sources: Sequence[Source], name: str, key: str) -> Source:
    for source in sources:
        if source.name == name:
            return source
    names = [source.name for source in sources]
    near = nearest_name(name, names)
    raise PlatformError(
        f"`{key}` names {name}, which is not there; there are {', '.join(names[:20])}",
        hint=f"did you mean {near}?" if near else None,
    )


def _merge(into: Json, patch: Json) -> None:
    for key, value in patch.items():
        here = into.get(key)
        if value is None:
            into.pop(key, None)
        elif isinstance(value, dict) and isinstance(here, dict):
            _merge(here, value)
        elif (
            isinstance(value, list)
            and isinstance(here, list)
            and value
            and _all_named(value)
            and _all_named(here)
        ):
            _merge_named(here, value)
        else:
            into[key] = value


def _merge_named(here: list[Json], patch: list[Json]) -> None:
    """Containers, ports, volumes and variables are known by their names, as in kubectl's own merge."""
    for item in patch:
        same = next((one for one in here if one["name"] == item["name"]), None)
        if same is None:
            here.append(item)
        else:
            _merge(same, item)


def _all_named(items: list[Any]) -> bool:
    return all(isinstance(item, dict) and isinstance(item.get("name"), str) for item in items)


# --- copies and nodes -------------------------------------------------------------------------------------------


def _copied(sources: list[Source], copies: Copies) -> list[Source]:
    """Each named object as often as wanted, in its place."""
    names = {_named(sources, name, "copies").name for name in copies.of}
    found: list[Source] = []
    for source in sources:
        if source.name not in names:
            found.append(source)
            continue
        found += [
            Source(_one_copy(source.thing, number, names), f"{source.where} (copy {number})")
            for number in range(copies.count)
        ]
    return found


def _one_copy(original: Json, number: int, names: set[str]) -> Json:
    thing = copy.deepcopy(original)
    mark = {COPY_LABEL: str(number)}
    metadata = thing["metadata"]
    metadata["name"] = f"{metadata['name']}-{number}"
    metadata["labels"] = {**(metadata.get("labels") or {}), **mark}
    spec = thing.get("spec")
    if not isinstance(spec, dict):
        return thing
    templates = list(pod_templates(thing))
    for template in templates:
        labels = template.setdefault("metadata", {})
        labels["labels"] = {**(labels.get("labels") or {}), **mark}
    selector = spec.get("selector")
    if thing.get("kind") == "Service" and isinstance(selector, dict):
        spec["selector"] = {**selector, **mark}
    elif templates and isinstance(selector, dict):
        selector["matchLabels"] = {**(selector.get("matchLabels") or {}), **mark}
    for key in _SCALED_BY:
        scaled = spec.get(key)
        if isinstance(scaled, dict) and f"{scaled.get('kind')}/{scaled.get('name')}" in names:
            scaled["name"] = f"{scaled['name']}-{number}"
    return thing


def _keep_to(template: Json, nodes: Sequence[str]) -> None:
    """Let pods of a template run on some nodes only, besides whatever else they ask for."""
    rule = {"key": HOSTNAME_LABEL, "operator": "In", "values": list(nodes)}
    spec = template["spec"]
    affinity = spec.setdefault("affinity", {}).setdefault("nodeAffinity", {})
    required = affinity.setdefault("requiredDuringSchedulingIgnoredDuringExecution", {})
    terms = required.setdefault("nodeSelectorTerms", [])
    if not terms:
        terms.append({})
    for term in terms:  # terms are alternatives: each of them needs it
        term.setdefault("matchExpressions", []).append(rule)
