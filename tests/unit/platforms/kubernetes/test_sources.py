"""Manifests as kubectl reads them, and what is none."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from towtank.errors import PlatformError
from towtank.platforms.kubernetes import sources
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.sources import parse, read

GOOD = "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n"


def config(**keys: object) -> KubernetesConfig:
    return KubernetesConfig.model_validate({"platform": "kubernetes", "context": "c", **keys})


def test_values_mean_what_they_mean_to_kubectl() -> None:
    text = GOOD + "mode: 0644\ntime: 2024-01-01\nsexagesimal: 1:30\nyes: 'yes'\nbig: 1e3\n"
    (source,) = parse(text, "a.yaml")
    assert source.thing["mode"] == 0o644
    assert source.thing["time"] == "2024-01-01"
    assert source.thing["sexagesimal"] == "1:30"
    assert source.where == "a.yaml:1"


def test_several_documents_lists_and_empty_ones() -> None:
    listed = "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: Secret, metadata: {name: b}}\n"
    text = f"---\n---\n{GOOD}---\n{listed}"
    assert [source.name for source in parse(text, "a.yaml")] == ["ConfigMap/a", "Secret/b"]


def test_anchors_are_not_one_thing_in_two_places() -> None:
    (source,) = parse(GOOD + "one: &x {k: 1}\ntwo: *x\n", "a.yaml")
    source.thing["one"]["k"] = 2
    assert source.thing["two"]["k"] == 1


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("a: [1", r"a.yaml:1:\d+: not valid YAML"),
        ("a: 1\na: 2\n", "a.yaml:2:1: not valid YAML: the key 'a' is written twice"),
        ("just text", "a.yaml:1: found str, which is no object"),
        ("kind: Pod\n", "the object has no 'apiVersion'"),
        ("apiVersion: v1\nmetadata: {name: a}\n", "the object has no 'kind'"),
        ("apiVersion: v1\nkind: Pod\n", "has no metadata.name"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {generateName: a-}\n", "generateName"),
        ("apiVersion: v1\nkind: Pod\nmetadata: {name: 7}\n", "has no metadata.name that is text"),
        (GOOD + "x: !!python/object/apply:os.system [ls]\n", "not valid YAML"),
        (GOOD + "x: .nan\n", "cannot be sent to a cluster"),
        ("{{ broken helm }}: x\n", "not valid YAML"),
    ],
)
def test_what_is_no_manifest_is_said_with_its_place(text: str, words: str) -> None:
    with pytest.raises(PlatformError, match=words):
        list(parse(text, "a.yaml"))


def test_files_must_be_there_inside_and_hold_something(tmp_path: Path) -> None:
    root = tmp_path / "experiment"
    root.mkdir()
    (tmp_path / "outside.yaml").write_text(GOOD)
    (root / "empty.yaml").write_text("---\n")
    (root / "latin.yaml").write_bytes(b"\xff\xfe")
    (root / "a.yaml").write_text(GOOD)
    for name, words in {
        "../outside.yaml": "outside of the experiment's folder",
        "nowhere.yaml": "cannot be read: No such file",
        "empty.yaml": "holds no object",
        "latin.yaml": "is not UTF-8",
    }.items():
        with pytest.raises(PlatformError, match=words):
            read(config(manifests=[name]), root)
    with pytest.raises(PlatformError, match=r"ConfigMap/a is written twice: a.yaml:1 and a.yaml:1"):
        read(config(manifests=["a.yaml", "a.yaml"]), root)


def test_kustomize_renders_without_asking_a_cluster(tmp_path: Path, program: Callable[..., Path]) -> None:
    (tmp_path / "k").mkdir()
    said = program("kustomize", f"echo \"$KUBECONFIG $*\" >&2; printf '%s' '{GOOD}'")
    (source,) = read(config(kustomize="k"), tmp_path)
    assert source.name == "ConfigMap/a"
    said.write_text('#!/bin/sh\necho "$KUBECONFIG $*" >&2; exit 3\n')
    with pytest.raises(PlatformError, match="kustomize build ended with code 3: /dev/null build k"):
        read(config(kustomize="k"), tmp_path)


def test_helm_gets_values_as_written(tmp_path: Path, program: Callable[..., Path]) -> None:
    (tmp_path / "chart").mkdir()
    said = program(
        "helm", 'printf \'apiVersion: v1\\nkind: ConfigMap\\nmetadata: {name: %s}\\ndata: \' "$2"; cat "$5"'
    )
    chart = {"chart": "chart", "values": {"replicas": 3, "yes": "no"}, "release": "r1"}
    (source,) = read(config(helm=chart), tmp_path)
    assert source.name == "ConfigMap/r1"
    assert source.thing["data"] == {"replicas": 3, "yes": "no"}
    said.write_text('#!/bin/sh\necho "$*" >&2; exit 3\n')
    with pytest.raises(PlatformError, match=r"chart 'chart': helm template ended with code 3: .* --no-hooks"):
        read(config(helm=chart), tmp_path)


def test_programs_that_are_missing_are_asked_for_by_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(PlatformError, match="neither kustomize nor kubectl is on the PATH"):
        read(config(kustomize="k"), tmp_path)
    with pytest.raises(PlatformError, match="helm is not on the PATH"):
        read(config(helm={"chart": "c"}), tmp_path)


@pytest.fixture
def program(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Path]:
    """A program of that name, first on the PATH."""

    def made(name: str, script: str) -> Path:
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path

    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    return made


def test_too_much_is_refused(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(sources, "MOST_OBJECTS", 1)
    with pytest.raises(PlatformError, match="more than 1 objects"):
        list(parse(GOOD + "---\n" + GOOD, "a.yaml"))
