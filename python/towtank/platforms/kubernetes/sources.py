"""What a deployment is made of: objects read from manifests, a kustomize folder or a Helm chart."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Hashable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from towtank.errors import PlatformError
from towtank.platforms.kubernetes.config import KubernetesConfig

Json = dict[str, Any]
MOST_BYTES = 8 * 2**20
"""Of one file; an object of a cluster is at most 1.5 MB."""
MOST_OBJECTS = 5000
RENDER_TIMEOUT_S = 60.0
CHART = "Chart.yaml"


@dataclass(frozen=True)
class Source:
    """One object and where it was written.

    Parameters
    ----------
    thing : dict
    where : str
        File and line as the author knows them.
    """

    thing: Json
    where: str

    @property
    def name(self) -> str:
        """``Kind/name``."""
        return f"{self.thing.get('kind')}/{(self.thing.get('metadata') or {}).get('name')}"


class _Loader(yaml.SafeLoader):
    """YAML as kubectl reads it: 1.1 without times and base-60 numbers, and no key twice.

    1.1 because `defaultMode: 0644` must stay octal; times and 1:30 because the cluster would be given something else
    than what is written.
    """

    def construct_mapping(self, node: yaml.MappingNode, deep: bool = False) -> dict[Hashable, Any]:  # noqa: FBT001, FBT002
        seen: set[str] = set()
        for key, _ in node.value:
            if not isinstance(key, yaml.ScalarNode):
                raise yaml.constructor.ConstructorError(None, None, "a key is no text", key.start_mark)
            if key.value in seen and key.value != "<<":
                raise yaml.constructor.ConstructorError(
                    None, None, f"the key {key.value!r} is written twice", key.start_mark
                )
            seen.add(key.value)
        return super().construct_mapping(node, deep)


_NOT_READ = ("tag:yaml.org,2002:timestamp",)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, pattern) for tag, pattern in resolvers if tag not in _NOT_READ]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}


def _whole(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
    text = str(loader.construct_scalar(node))
    return text if ":" in text else yaml.SafeLoader.construct_yaml_int(loader, node)


def _fraction(loader: yaml.SafeLoader, node: yaml.ScalarNode) -> object:
    text = str(loader.construct_scalar(node))
    return text if ":" in text else yaml.SafeLoader.construct_yaml_float(loader, node)


_Loader.add_constructor("tag:yaml.org,2002:int", _whole)
_Loader.add_constructor("tag:yaml.org,2002:float", _fraction)


def read(config: KubernetesConfig, root: Path) -> list[Source]:
    """Read everything that a deployment is made of.

    Raises
    ------
    PlatformError
        A file is missing or is no manifest, or a program that renders one is missing or fails.
    """
    if config.manifests:
        found = [source for name in config.manifests for source in _read_file(root, name)]
    elif config.kustomize is not None:
        text = _rendered(_kustomize(), [config.kustomize], root, f"kustomize folder {config.kustomize!r}")
        found = list(parse(text, f"kustomize {config.kustomize}"))
    elif config.helm is not None:
        found = list(parse(_helm(config, root), f"chart {config.helm.chart}"))
    else:
        found = []
    found += [Source(thing, where) for where, thing in config.made_of()]
    if not found:
        raise PlatformError(
            f"nothing to create: {', '.join(config.manifests) or config.kustomize or 'the chart'} holds no object"
        )
    _refuse_doubles(found)
    return found


def parse(text: str, shown_as: str) -> Iterator[Source]:
    """Objects of a YAML text; a `List` is its items.

    Raises
    ------
    PlatformError
        Not YAML, or not objects of Kubernetes; with file and line.
    """
    loader = _Loader(text)
    count = 0
    try:
        while loader.check_node():
            node = loader.get_node()
            where = f"{shown_as}:{node.start_mark.line + 1}" if node is not None else shown_as
            document = loader.construct_document(node)
            for thing in _objects(document, where):
                count += 1
                if count > MOST_OBJECTS:
                    raise PlatformError(f"{shown_as} holds more than {MOST_OBJECTS} objects")
                yield Source(thing, where)
    except yaml.YAMLError as error:
        raise PlatformError(_not_yaml(error, shown_as)) from error
    except RecursionError as error:
        raise PlatformError(f"{shown_as} is nested too deeply to be a manifest") from error
    finally:
        loader.dispose()


def _objects(document: Any, where: str) -> Iterator[Json]:  # noqa: ANN401
    if document is None:
        return
    if not isinstance(document, dict):
        raise PlatformError(
            f"{where}: found {type(document).__name__}, which is no object; "
            "allowed is a mapping with apiVersion, kind and metadata"
        )
    kind = document.get("kind")
    if isinstance(kind, str) and kind.endswith("List") and isinstance(document.get("items"), list):
        for item in document["items"]:
            yield from _objects(item, where)
        return
    for key in ("apiVersion", "kind"):
        if not isinstance(document.get(key), str) or not document[key]:
            raise PlatformError(f"{where}: the object has no {key!r}; found {_short(document)}")
    metadata = document.get("metadata")
    if not isinstance(metadata, dict) or not isinstance(metadata.get("name"), str):
        extra = "; `generateName` cannot be used, since what is to be created is written down before" if (
            isinstance(metadata, dict) and metadata.get("generateName")
        ) else ""  # fmt: skip
        raise PlatformError(f"{where}: the {kind} has no metadata.name that is text{extra}")
    try:  # a copy of our own: anchors would make one mapping stand in two places
        yield json.loads(json.dumps(document, allow_nan=False))
    except (TypeError, ValueError) as error:
        raise PlatformError(
            f"{where}: {kind} {metadata['name']!r} cannot be sent to a cluster: {error}"
        ) from error


def _read_file(root: Path, name: str) -> Iterator[Source]:
    path = inside(root, name)
    try:
        with path.open("rb") as stream:
            raw = stream.read(MOST_BYTES + 1)
        if len(raw) > MOST_BYTES:
            raise PlatformError(f"{name} is larger than {MOST_BYTES >> 20} MiB, which no manifest needs")
        text = raw.decode("utf-8-sig")
    except OSError as error:
        raise PlatformError(f"{name} cannot be read: {error.strerror or error}") from error
    except UnicodeDecodeError as error:
        raise PlatformError(f"{name} is not UTF-8: {error.reason} at byte {error.start}") from error
    found = list(parse(text, name))
    if not found:
        raise PlatformError(f"{name} holds no object")
    yield from found


def inside(root: Path, name: str) -> Path:
    """A file or folder in the experiment's folder.

    Raises
    ------
    PlatformError
        It lies outside of it.
    """
    path = (root / name).resolve()
    if not path.is_relative_to(root.resolve()):
        raise PlatformError(
            f"{name!r} lies outside of the experiment's folder", hint="copy it beside the experiment"
        )
    return path


def _kustomize() -> list[str]:
    if shutil.which("kustomize"):
        return ["kustomize", "build"]
    if shutil.which("kubectl"):
        return ["kubectl", "kustomize"]
    raise PlatformError(
        "`kustomize` needs a program that is not here: neither kustomize nor kubectl is on the PATH",
        hint="install one of them, or render the folder yourself and name the result in `manifests`",
    )


def _helm(config: KubernetesConfig, root: Path) -> str:
    helm = config.helm
    if helm is None:
        raise PlatformError("the deployment has no chart")
    if not shutil.which("helm"):
        raise PlatformError(
            "`helm` needs a program that is not here: helm is not on the PATH",
            hint="install it, or render the chart yourself (`helm template`) and name the result in `manifests`",
        )
    with tempfile.TemporaryDirectory(prefix="towtank-helm-") as folder:
        values = Path(folder) / "values.json"  # JSON is YAML, and nothing in it means anything else
        values.write_text(json.dumps(helm.values), encoding="utf-8")
        # Hooks are steps of an installation by Helm itself; without this they would be objects like all others.
        command = ["helm", "template", helm.release, helm.chart, "--values", str(values), "--no-hooks"]
        if config.namespace:
            command += ["--namespace", config.namespace]
        inside(root, helm.chart)
        return _rendered(command, [], root, f"chart {helm.chart!r}")


def _rendered(command: list[str], arguments: list[str], root: Path, what: str) -> str:
    for argument in arguments:
        inside(root, argument)
    # Rendering asks no cluster, and must not be able to: not even the one of the shell's default context.
    environment = {**os.environ, "KUBECONFIG": os.devnull}
    try:
        done = subprocess.run(
            [*command, *arguments],
            cwd=root,
            env=environment,
            capture_output=True,
            timeout=RENDER_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise PlatformError(f"{what}: {command[0]} could not render it: {error}") from error
    if done.returncode != 0:
        words = " ".join(done.stderr.decode("utf-8", "replace").split())[:600]
        raise PlatformError(f"{what}: {' '.join(command[:2])} ended with code {done.returncode}: {words}")
    return done.stdout.decode("utf-8", "replace")


def _refuse_doubles(found: list[Source]) -> None:
    seen: dict[tuple[str, str], Source] = {}
    for source in found:
        key = (source.thing["apiVersion"].rpartition("/")[0], source.name)
        if key in seen:
            raise PlatformError(f"{source.name} is written twice: {seen[key].where} and {source.where}")
        seen[key] = source


def _not_yaml(error: yaml.YAMLError, shown_as: str) -> str:
    if isinstance(error, yaml.MarkedYAMLError):
        mark = error.problem_mark or error.context_mark
        place = f"{shown_as}:{mark.line + 1}:{mark.column + 1}" if mark else shown_as
        return f"{place}: not valid YAML: {error.problem or error.context}"
    return f"{shown_as}: not valid YAML: {' '.join(str(error).split())[:200]}"


def _short(document: Json) -> str:
    return "keys " + ", ".join(str(key) for key in list(document)[:6]) if document else "an empty mapping"


def _is_chart(path: Path) -> bool:
    """Whether a folder is a chart; of a packed one only Helm can tell."""
    return not path.is_dir() or (path / CHART).is_file()


def written_changed(config: KubernetesConfig, root: Path) -> list[Source]:
    """Written objects as they will be created; none where a program renders some, and where something is wrong."""
    from towtank.platforms.kubernetes.parameters import changed  # noqa: PLC0415 - it builds on this module

    if config.kustomize is not None or config.helm is not None:
        return []
    try:
        return changed(read(config, root), config)[0]
    except PlatformError:  # said by `written_problems`, or when it is deployed
        return []


def written_problems(config: KubernetesConfig, root: Path) -> Iterator[tuple[tuple[str | int, ...], str]]:
    """What is wrong with written manifests and with what is set in them: key path in the deployment, words.

    Kustomize folders and charts are looked at when the deployment is made: planning runs no programs.
    """
    from towtank.platforms.kubernetes.parameters import set_fields  # noqa: PLC0415 - it builds on this module

    found: list[Source] = []
    if config.helm is not None and not _is_chart(root / config.helm.chart):
        yield ("helm", "chart"), f"the folder {config.helm.chart!r} has no {CHART}, so it is no chart"
    for index, name in enumerate(config.manifests):
        try:
            found += _read_file(root, name)
        except PlatformError as error:
            yield ("manifests", index), error.message
            return
    if config.kustomize is None and config.helm is None:
        found += [Source(thing, where) for where, thing in config.made_of()]
    if not found:
        return
    try:
        _refuse_doubles(found)
    except PlatformError as error:
        yield ("manifests",), error.message
        return
    for path, value in config.fields.items():
        try:
            set_fields(found, {path: value})
        except PlatformError as error:
            yield ("set", path), error.message + (f"; {error.hint}" if error.hint else "")
