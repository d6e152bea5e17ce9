"""`settle: {until: {replicas: zero}}` where the deployment can never be without an instance: refused at its line."""

from __future__ import annotations

import pytest

from towtank.design import load_plan
from towtank.errors import DesignError

FILE = """\
experiment: cold
question: How long does the first request take?
factors: {least: [0, 2]}
repetitions: 2
deployments:
  it: %s
workloads:
  w:
    timeout: 2s
    load: {model: open, rate: 1/s, duration: 10s}
    journey: {steps: [{name: home, target: %s}]}
settle: {until: {replicas: %s}}
"""
LOCAL = "{platform: local, command: 'true', scaling: {%s}}"
PARTS = "{platform: local, components: {a: {command: 'true', scaling: {%s}}, b: {command: 'true'}}}"
KNATIVE = "{platform: knative, context: c, functions: {f: {image: i, scaling: {%s}}}}"
OBJECTS = "{platform: %s, context: c, manifests: [things.yaml]}"
FUNCTION = """\
{apiVersion: serving.knative.dev/v1, kind: Service, metadata: {name: f},
 spec: {template: {metadata: {annotations: {%s}}}}}"""
DEPLOYMENT = """\
{apiVersion: apps/v1, kind: Deployment, metadata: {name: d},
 spec: {%s template: {spec: {containers: [{image: i}]}}}}"""
SCALER = (
    "{apiVersion: %s, kind: %s, metadata: {name: s}, spec: {%s scaleTargetRef: {kind: Deployment, name: d}}}"
)
KEDA = SCALER % ("keda.sh/v1alpha1", "ScaledObject", "")
ACTION = (
    "{platform: openwhisk, url: 'http://127.0.0.1:1', auth: '{env.KEY}', actions: {a: {image: i, web: true}}}"
)
SERVICE = "{platform: cloud_run, project: some-project, region: europe-west1, services: {s: {image: i}}}"


def problems(folder, deployment, *things, replicas="zero"):
    (folder / "things.yaml").write_text("\n---\n".join(things) or "{}")
    path = folder / "experiment.yaml"
    path.write_text(FILE % (deployment, "a" if "components" in deployment else "app", replicas))
    try:
        load_plan(path)
    except DesignError as error:
        return [str(problem).removeprefix(f"{path}:") for problem in error.problems]
    return []


@pytest.mark.parametrize(
    ("deployment", "words"),
    [
        (LOCAL % "fixed: 3", "`fixed: 3` is always 3"),
        (LOCAL % "hpa: {cpu: 50%, cpu_request: 1, max_replicas: 4}", "`hpa` keeps 1 (`min_replicas`)"),
        (LOCAL % "kpa: {min_scale: '${{ least }}'}", "`kpa` keeps 2 (`min_scale`)"),
        (LOCAL % "kpa: {enable_scale_to_zero: false}", "`kpa` keeps the last instance"),
        (PARTS % "fixed: 1", "a: `fixed: 1` is always 1"),
        ("{platform: local, command: 'true'}", "nothing of it has `scaling`"),
        (KNATIVE % "min_scale: 1", "Service/f keeps 1 (`min-scale`)"),
        (KNATIVE % "by: hpa, metric: cpu", "Service/f is scaled by Kubernetes' autoscaler, which keeps 1"),
        ("{platform: external, url: 'http://127.0.0.1:1'}", "nobody tells how many instances it has"),
        (ACTION, "`deploy: per-run` begins every run anew"),
        (SERVICE, "`deploy: per-run` begins every run anew"),
    ],
)  # fmt: skip
def test_a_deployment_that_keeps_an_instance_is_refused(deployment, words, tmp_path):
    (problem,) = problems(tmp_path, deployment)
    assert problem.startswith("12:28: settle.until.replicas: deployment 'it' always has an instance: ")
    assert words in problem
    assert "replicas: baseline" in problem
    assert not problems(tmp_path, deployment, replicas="baseline")


@pytest.mark.parametrize(
    ("platform", "things", "words"),
    [
        ("kubernetes", [DEPLOYMENT % "replicas: 2,"], "Deployment/d keeps 2 (`replicas`)"),
        ("kubernetes", [DEPLOYMENT % ""], "Deployment/d keeps 1 (`replicas`)"),
        (
            "kubernetes",
            [
                DEPLOYMENT % "replicas: 0,",
                SCALER % ("autoscaling/v2", "HorizontalPodAutoscaler", "minReplicas: 2,"),
            ],
            "HorizontalPodAutoscaler/s keeps 2 (`minReplicas`) of Deployment/d",
        ),
        ("kubernetes", ["{apiVersion: apps/v1, kind: DaemonSet, metadata: {name: d}}"], "DaemonSet/d is always"),
        ("knative", [FUNCTION % "autoscaling.knative.dev/min-scale: '2'"], "Service/f keeps 2 (`min-scale`)"),
        ("knative", [FUNCTION % "", DEPLOYMENT % ""], "Deployment/d keeps 1 (`replicas`)"),
    ],
)  # fmt: skip
def test_so_is_what_written_objects_keep(platform, things, words, tmp_path):
    (problem,) = problems(tmp_path, OBJECTS % platform, *things)
    assert words in problem


@pytest.mark.parametrize(
    ("deployment", "things"),
    [
        (LOCAL % "kpa: {}", []),
        (LOCAL % "openwhisk: {}", []),
        (PARTS % "kpa: {}", []),  # what is not scaled is not asked for
        (KNATIVE % "min_scale: 0", []),
        (OBJECTS % "knative", [FUNCTION % ""]),
        (OBJECTS % "kubernetes", [DEPLOYMENT % "replicas: 0,"]),
        (OBJECTS % "kubernetes", [DEPLOYMENT % "", KEDA]),  # what scales it is not known here
    ],
)
def test_what_may_have_none_is_not(deployment, things, tmp_path):
    assert not problems(tmp_path, deployment, *things)
