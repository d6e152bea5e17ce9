"""Telemetry sources that can see some platforms only: refused where they would see nothing, noted where not all."""

from __future__ import annotations

import pytest

from towtank.errors import DesignError

OBSERVED = ("seed: 1\n", "seed: 1\nobserve: [host, kubelet]\n")
IN_CLUSTER = (
    'b: {platform: external, url: "http://127.0.0.1:2"}',
    "b: {platform: kubernetes, context: staging, manifests: [app.yaml]}",
)


@pytest.fixture(autouse=True)
def manifest(tmp_path):
    (tmp_path / "app.yaml").write_text("apiVersion: v1\nkind: Service\nmetadata: {name: app}\nspec: {}\n")


def test_a_source_that_sees_no_deployment_is_refused(small):
    with pytest.raises(DesignError) as caught:
        small(OBSERVED)
    (problem,) = caught.value.problems
    assert (problem.path, problem.line) == ("observe", 6)
    assert (
        "the source 'kubelet' sees deployments on platform kubernetes or knative only, and there is none"
        in str(problem)
    )
    assert "leave 'kubelet' out" in str(problem)


def test_one_that_sees_some_is_a_note(small):
    plan = small(OBSERVED, IN_CLUSTER)
    assert [note for note in plan.notes if "kubelet" in note] == [
        "the source 'kubelet' does not see deployment a: it sees platform kubernetes or knative"
    ]


def test_options_are_checked_in_the_file(small):
    with pytest.raises(DesignError) as caught:
        small(("seed: 1\n", "seed: 1\nobserve: [{kubelet: {nodes: some}}, metrics_server]\n"), IN_CLUSTER)
    said = "\n".join(map(str, caught.value.problems))
    assert "observe[0].kubelet.nodes" in said
    assert "there is no telemetry source 'metrics_server'" in said
    assert "did you mean 'metrics-server'" in said
