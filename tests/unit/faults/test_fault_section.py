"""Faults in an experiment file: what is read, what is refused and where, and that a stored plan says the same."""

from __future__ import annotations

import json

import pytest

from support.refused import problems
from towtank.design import Plan, load_plan

FILE = """\
experiment: small
question: What does a fault do?
answer: {{primary: [availability], baseline: none}}
repetitions: 8
factors: {{fault: [none, kill, stop]}}
deployments:
  app: {deployment}
workloads:
  reads:
    load: {{model: open, rate: 40/s, duration: 20s}}
    journey: {{steps: [{{name: read, target: app, path: /}}]}}
faults:
  - {fault}
"""
ONE = "{platform: local, components: {app: {command: 'python x.py', replicas: 2}}}"
TWO = "{platform: local, components: {app: {command: 'python x.py'}, db: {command: 'python x.py'}}}"


def study(folder, fault, deployment=ONE, **changes):
    text = FILE.format(fault=fault, deployment=deployment)
    for old, new in changes.values():
        assert old in text
        text = text.replace(old, new)
    (folder / "x.py").touch()
    (folder / "experiment.yaml").write_text(text, encoding="utf-8")
    return folder / "experiment.yaml"


def faults(folder, fault, **rest):
    plan = load_plan(study(folder, fault, **rest))
    return {t.levels["fault"]: t.spec.faults for t in plan.treatments}


def test_a_factor_is_the_kind_and_none_keeps_the_time(tmp_path):
    found = faults(tmp_path, '{kind: "${{ fault }}", at: 5s, for: 2s, target: app, instance: app-1}')
    assert [f.kind for (f,) in found.values()] == ["none", "kill", "stop"]
    assert {(f.at, f.lasts, f.target, f.instance) for (f,) in found.values()} == {(5.0, 2.0, "app", "app-1")}
    assert [f.is_active for (f,) in found.values()] == [False, True, True]


def test_when_chooses_the_treatments(tmp_path):
    found = faults(tmp_path, "{kind: cpu, when: \"${{ fault == 'kill' }}\", at: 5s, for: 2s, cores: 100m}")
    assert {level: f.kind for level, (f,) in found.items()} == {"none": "none", "kill": "cpu", "stop": "none"}
    assert found["kill"][0].options == {"cores": 0.1}


def test_a_fault_may_come_several_times(tmp_path):
    (fault,) = faults(tmp_path, "{kind: kill, at: 5s, for: 1s, every: 4s, times: 3, instance: random}")[
        "none"
    ]
    assert list(fault.strokes()) == [(5.0, 6.0), (9.0, 10.0), (13.0, 14.0)]
    (once,) = faults(tmp_path, "{kind: kill, at: 5s}")["none"]
    assert list(once.strokes()) == [(5.0, None)]


def test_a_stored_plan_says_the_same(tmp_path):
    plan = load_plan(study(tmp_path, "{kind: cpu, at: 5s, for: 2s, cores: 0.5, instance: all}"))
    again = Plan.from_json(plan.to_json())
    assert [t.spec.faults for t in again.treatments] == [t.spec.faults for t in plan.treatments]
    assert json.loads(plan.to_json())["treatments"][0]["spec"]["faults"][0]["for"] == "2s"


def test_faults_matter_to_what_may_stand_side_by_side(tmp_path):
    first = load_plan(study(tmp_path, "{kind: stop, at: 5s, for: 2s}"))
    later = load_plan(study(tmp_path, "{kind: stop, at: 6s, for: 2s}"))
    assert first.digest != later.digest


@pytest.mark.parametrize(
    ("fault", "place", "words"),
    [
        (
            "{kind: kil, at: 5s}",
            "13:12: faults[0].kind",
            "there is no fault 'kil'; allowed are kill, stop, cpu, disk",
        ),
        ("{kind: kil, at: 5s}", "13:12", "did you mean 'kill'?"),
        ("{at: 5s}", "faults[0].kind", "the key 'kind' is missing here"),
        ("{kind: kill}", "faults[0].at", "the key 'at' is missing here"),
        ("kill", "13:5: faults[0]", "allowed is a mapping"),
        ("{kind: kill, at: 5}", "13:22: faults[0].at", "5"),
        ("{kind: kill, at: 5s, cores: 1}", "faults[0].cores", "unknown key 'cores'"),
        ("{kind: cpu, at: 5s, for: 1s}", "faults[0].cores", "the key 'cores' is missing here"),
        ("{kind: stop, at: 5s}", "faults[0].for", "needs `for`"),
        ("{kind: kill, at: 5s, times: 2}", "faults[0].times", "needs `every`"),
        ("{kind: stop, at: 5s, for: 3s, every: 2s}", "faults[0].every", "would come again after 2 s"),
        ("{kind: kill, at: 20s}", "13:18: faults[0].at", "the load is over after 20 s"),
        (
            "{kind: kill, at: 5s, target: ap}",
            "faults[0].target",
            "no target 'ap'; it has app (did you mean 'app'?)",
        ),
        (
            "{kind: kill, at: 5s, instance: app-2}",
            "faults[0].instance",
            "no instance 'app-2'; allowed are one, all",
        ),
        ("{kind: kill, at: 5s, when: maybe}", "faults[0].when", "true or false"),
    ],
)
def test_what_is_wrong_is_said_where_it_stands(tmp_path, fault, place, words):
    found = problems(tmp_path, lambda: load_plan(study(tmp_path, fault)))
    assert any(place in one and words in one for one in found), found
    assert all(one.startswith("experiment.yaml:") for one in found)


def test_a_platform_says_what_it_cannot_do(tmp_path):
    outside = "{platform: external, url: 'http://127.0.0.1:1'}"
    changes = {"target": ("target: app, ", "")}
    found = problems(
        tmp_path, lambda: load_plan(study(tmp_path, "{kind: kill, at: 5s}", deployment=outside, **changes))
    )
    (one,) = found
    assert one == (
        "experiment.yaml:13:6: faults[0].kind: platform 'external' (deployment 'app') cannot make the fault 'kill': "
        "what is at those addresses is not Towtank's to disturb; it can make no fault"
    )


IN_A_CLUSTER = "{{platform: kubernetes, context: any, manifests: [app.yaml]{}}}"
ITS_MANIFEST = """\
apiVersion: v1
kind: Service
metadata: {name: app}
spec: {ports: [{port: 80}]}
---
apiVersion: v1
kind: Service
metadata: {name: each}
spec: {ports: [{port: 80}], clusterIP: None}
---
apiVersion: v1
kind: Pod
metadata: {name: web}
spec: {containers: [{name: web, image: 'e:1'}]}
"""
ONLY_APP = ", targets: {app: app}"
PROXY = ONLY_APP + ", edge_proxy: {image: 't:1', engine: 'e:1'}"


@pytest.mark.parametrize(
    ("fault", "keys", "words"),
    [
        ("{kind: stop, at: 5s, for: 1s}", ONLY_APP, "needs the deployment's key 'disturber', and 'app' has none"),
        ("{kind: stop, at: 5s, for: 1s}", ONLY_APP + ", disturber: {image: 'e:1'}", ""),
        ("{kind: partition, at: 5s, for: 1s}", ONLY_APP + ", disturber: {image: 'e:1'}", "deployment's key 'edge_"),
        ("{kind: partition, at: 5s, for: 1s, of: node}", ONLY_APP + ", disturber: {image: 'e:1'}", ""),
        ("{kind: partition, at: 5s, for: 1s, of: node}", PROXY, "the deployment's key 'disturber'"),
        ("{kind: partition, at: 5s, for: 1s, of: pod}", ONLY_APP, "of"),
        ("{kind: delay, at: 5s, for: 1s, delay: 5ms}", ONLY_APP, "the deployment's key 'edge_proxy'"),
        ("{kind: delay, at: 5s, for: 1s, delay: 5ms}", PROXY, ""),
        ("{kind: drop, at: 5s, for: 1s, from: Pod/web, instance: all}", PROXY, ""),
        ("{kind: abort, at: 5s, for: 1s, instance: random}", PROXY, "faults[0].instance: on platform 'kubernetes'"),
        ("{kind: abort, at: 5s, for: 1s, from: shop}", PROXY, "faults[0].from: 'shop' names no pods"),
        ("{kind: abort, at: 5s, for: 1s, target: aps}", PROXY, "faults[0].target: the edge from load leads to 'aps'"),
        ("{kind: abort, at: 5s, for: 1s, from: Pod/web, target: each}", PROXY, "the Service 'each': it has no address"),
    ],
)  # fmt: skip
def test_in_a_cluster_some_need_helpers_and_ways(tmp_path, fault, keys, words):
    (tmp_path / "app.yaml").write_text(ITS_MANIFEST)
    file = study(tmp_path, fault, deployment=IN_A_CLUSTER.format(keys))
    if not words:
        assert load_plan(file).treatments
        return
    found = problems(tmp_path, lambda: load_plan(file))
    assert any(words in one for one in found), found


def test_an_instance_is_not_cut_off_where_there_are_only_edges(tmp_path):
    found = problems(
        tmp_path, lambda: load_plan(study(tmp_path, "{kind: partition, at: 5s, for: 1s, of: instance}"))
    )
    assert "on platform 'local' `of: instance` is not possible; allowed are edge" in found[0]


def test_several_targets_need_a_name(tmp_path):
    found = problems(tmp_path, lambda: load_plan(study(tmp_path, "{kind: kill, at: 5s}", deployment=TWO)))
    assert "the fault must name one of app, db" in found[0]


def test_a_list_is_wanted(tmp_path):
    text = (
        study(tmp_path, "{kind: kill, at: 5s}")
        .read_text("utf-8")
        .replace("faults:\n  - {kind", "faults: {kind")
    )
    (tmp_path / "experiment.yaml").write_text(text, encoding="utf-8")
    found = problems(tmp_path, lambda: load_plan(tmp_path / "experiment.yaml"))
    assert "allowed is a list of faults" in found[0]


def test_another_tool_has_no_clock_for_faults(tmp_path):
    (tmp_path / "s.js").write_text("//")
    changes = {
        "load": ("    load: {model: open, rate: 40/s, duration: 20s}\n", ""),
        "journey": (
            "    journey: {steps: [{name: read, target: app, path: /}]}",
            "    driver: k6\n    script: s.js\n    duration: 20s",
        ),
    }
    found = problems(tmp_path, lambda: load_plan(study(tmp_path, "{kind: kill, at: 5s}", **changes)))
    assert any("another tool drives the load" in one for one in found), found


CALLING = (
    "{platform: local, components: {app: {command: 'python x.py {url.db}'}, db: {command: 'python x.py'}}}"
)


def test_an_edge_is_between_components_that_call(tmp_path):
    (fault,) = faults(
        tmp_path, "{kind: delay, at: 5s, for: 2s, delay: 50ms, from: app, target: db}", deployment=CALLING
    )["none"]
    assert fault.options == {"from": "app", "delay": "0.05s"}
    assert faults(tmp_path, "{kind: partition, at: 5s, for: 2s, target: app}", deployment=CALLING)


@pytest.mark.parametrize(
    ("edge", "words"),
    [
        ("from: db, target: app", "db is not given the address of app, so its calls cannot be met"),
        ("from: apps, target: db", "no component 'apps'; allowed are load, app, db (did you mean 'app'?)"),
    ],
)
def test_an_edge_without_calls_is_refused(tmp_path, edge, words):
    text = f"{{kind: drop, at: 5s, for: 2s, {edge}}}"
    found = problems(tmp_path, lambda: load_plan(study(tmp_path, text, deployment=CALLING)))
    assert any("faults[0].from" in one and words in one for one in found), found


@pytest.mark.parametrize(
    ("second", "meets"),
    [
        ("{kind: stop, at: 7s, for: 5s}", True),
        ("{kind: stop, at: 7s, for: 5s, instance: random}", True),
        ("{kind: stop, at: 7s, for: 5s, instance: app-1}", False),
        ("{kind: stop, at: 10s, for: 5s, instance: app-0}", False),
        ("{kind: kill, at: 7s, for: 5s, instance: app-0}", False),
    ],
)
def test_two_of_a_kind_are_not_on_at_once(tmp_path, second, meets):
    file = study(tmp_path, "{kind: stop, at: 5s, for: 5s, instance: app-0}")
    file.write_text(file.read_text() + f"  - {second}\n")
    if meets:
        found = problems(tmp_path, lambda: load_plan(file))
        assert found
        assert all("faults[1].at: another 'stop' that begins at 5 s may hit the same" in one for one in found)
    else:
        assert len(load_plan(file).treatments[0].spec.faults) == 2


def test_what_faults_do_is_not_asked_where_there_are_none(tmp_path):
    file = study(tmp_path, "{kind: kill, at: 5s}")
    text = file.read_text("utf-8").partition("faults:\n")[0]
    file.write_text(text.replace("repetitions: 8", "repetitions: {at_most: 9, until: {time_to_recover: 5%}}"))
    found = problems(tmp_path, lambda: load_plan(file))
    assert [one.partition(" is known")[0] for one in found] == [
        "experiment.yaml:3:20: answer.primary[0]: 'availability'",
        "experiment.yaml:4:35: repetitions.until.time_to_recover: 'time_to_recover'",
    ]
