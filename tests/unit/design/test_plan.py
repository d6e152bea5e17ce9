"""Plans: which treatments there are, what is in them, how they are stored, and what makes two of them differ."""

from __future__ import annotations

import json

import pytest

from towtank.design import Plan, difference
from towtank.design.model import ClosedLoad, OpenLoad, UniformThink
from towtank.errors import DesignError, NewerVersionError, ResultsError


def test_the_full_file_is_read_as_it_is_meant(full):
    plan = full()
    assert [t.id for t in plan.treatments] == [
        "nfs-reads-users-25", "nfs-reads-users-50", "nfs-mixed-users-25", "nfs-mixed-users-50",
        "ceph-reads-users-25", "ceph-mixed-users-25", "ceph-mixed-users-50",
    ]  # fmt: skip
    first = plan.treatments[0]
    assert first.levels == {"deployment": "nfs", "workload": "reads", "users": 25}
    assert first.label == "nfs · reads · users=25"
    spec = first.spec
    assert (spec.deployment_name, spec.workload_name, spec.deploy) == ("nfs", "reads", "per-block")
    assert spec.deployment.components["db"].limits.memory == 64 * 2**20
    load = spec.workload.load
    assert isinstance(load, ClosedLoad)
    assert (load.users, load.spawn_per_s, load.duration, load.warmup) == (25, 5.0, 60.0, 10.0)
    assert spec.workload.journey.think == UniformThink.model_validate({"uniform": ["500ms", "1s"]})
    assert spec.workload.journey.steps[0].expect.status == ("200", "3xx")
    assert spec.workload.journey.steps[0].path == "/pages/{{ random_int(1, 1000) }}"
    assert spec.reset.copy_files[0].to == "{data}/wiki.db"
    assert spec.reset.verify == {"pages": 1000}
    assert spec.reset_stated
    assert spec.settle.until.cpu_below == 0.1
    assert [(o.source, o.interval, o.options) for o in spec.observe] == [
        ("host", 1.0, {}), ("process", 0.5, {"open_files": False}),
    ]  # fmt: skip
    assert spec.slo == {"p95": 0.3, "goodput": 0.999, "throughput": 10.0}
    assert spec.fixtures["pages"].prepare.env == {"PAGES": "1000"}
    assert plan.experiment.factors == {
        "deployment": ("nfs", "ceph"), "workload": ("reads", "mixed"), "users": (25, 50),
    }  # fmt: skip
    assert plan.experiment.max_invalid_repeats == 1


def test_levels_reach_an_included_journey_and_stage_names(full):
    plan = full()
    mixed = plan.treatment("nfs-mixed-users-50").spec.workload
    assert isinstance(mixed.load, OpenLoad)
    assert mixed.load.stages[0].name == "to 50"
    assert mixed.load.stages[0].rate == 50.0
    assert mixed.journey.steps[1].choose[0].steps[0].path == "/pages/50"
    assert mixed.journey.think == 0.1
    assert set(plan.files) == {"experiment.yaml", "journeys/wiki.yaml"}


def test_a_plan_is_the_same_after_storing(full):
    plan = full()
    text = plan.to_json()
    assert Plan.from_json(text) == plan
    assert Plan.from_json(text.encode()).to_json() == text
    stored = json.loads(text)
    assert stored["version"] == 1
    assert stored["treatments"][0]["spec"]["settle"]["hold"] == "2s", "durations carry their unit"


@pytest.mark.parametrize("text", ["", "{", "[]", "{}", '{"version": "x"}', '{"version": 1}', "null", "\x00"])
def test_a_damaged_plan_is_refused(text):
    with pytest.raises(ResultsError):
        Plan.from_json(text)


def test_a_wrong_value_in_a_stored_plan_is_named(small):
    data = json.loads(small().to_json())
    data["treatments"][0]["spec"]["workload"]["timeout"] = "soon"
    with pytest.raises(ResultsError, match=r"workload\.timeout.*'soon' is not a duration"):
        Plan.from_json(json.dumps(data))


def test_a_newer_plan_is_refused(small):
    data = json.loads(small().to_json())
    with pytest.raises(NewerVersionError, match="version 2"):
        Plan.from_json(json.dumps({**data, "version": 2}))


def test_the_only_deployment_and_workload_need_no_factor(small):
    plan = small(
        ("answer: {primary: [p95], baseline: a}\n", ""),
        ("factors: {deployment: [a, b]}\n", ""),
        ('  b: {platform: external, url: "http://127.0.0.1:2"}\n', ""),
    )
    (treatment,) = plan.treatments
    assert (treatment.id, treatment.levels, treatment.label) == ("a", {}, "a")
    assert [run.id for run in plan.runs] == ["b01-a", "b02-a", "b03-a"]
    assert any("no `answer`" in note for note in plan.notes)


def test_factors_change_one_deployment(small):
    plan = small(
        ("answer: {primary: [p95], baseline: a}\n", ""),
        ("factors: {deployment: [a, b]}", "factors: {port: [1, 2], deployment: [a]}"),
        ('a: {platform: external, url: "http://127.0.0.1:1"}',
         'a: {platform: external, url: "http://127.0.0.1:${{ port + 8000 }}"}'),
    )  # fmt: skip
    assert [t.spec.deployment.url for t in plan.treatments] == [
        "http://127.0.0.1:8001",
        "http://127.0.0.1:8002",
    ]
    assert [t.id for t in plan.treatments] == ["port-1-a", "port-2-a"]
    assert "never used: deployment b" in plan.notes


def test_ids_are_unique_and_fit_for_folders(small):
    plan = small(
        ("answer: {primary: [p95], baseline: a}\n", ""),
        ("factors: {deployment: [a, b]}",
         'factors: {deployment: [a], x: ["/", "..", "A b", "a-b", "ü", "' + "y" * 150 + '", true, 1.5, -1]}'),
    )  # fmt: skip
    ids = [t.id for t in plan.treatments]
    assert len({name.lower() for name in ids}) == 9
    for name in ids:
        assert name.isascii()
        assert len(name) <= 90
        assert not set(name) & set("/ \\")
        assert name.strip(".-") == name
    assert ids[2:4] == ["a-A-b", "a-a-b-2"]
    assert ids[6:] == ["a-x-true", "a-x-1.5", "a-x-minus-1"]


def test_include_adds_levels_off_the_grid(small):
    plan = small(
        ("answer: {primary: [p95], baseline: a}\n", ""),
        ("factors: {deployment: [a, b]}",
         ("factors: {deployment: [a, b], users: [1, 2]}\nexclude: [{users: 2}]\n"
          "include: [{users: 9}, {deployment: a, users: 2}]")),
    )  # fmt: skip
    assert [tuple(t.levels.values()) for t in plan.treatments] == [
        ("a", 1), ("b", 1), ("a", 9), ("b", 9), ("a", 2),
    ]  # fmt: skip


def test_true_is_not_one(small):
    plan = small(
        ("answer: {primary: [p95], baseline: a}\n", ""),
        (
            "factors: {deployment: [a, b]}",
            'factors: {deployment: [a], x: [1, true, "1", "true"]}\nexclude: [{x: true}]',
        ),
    )
    assert [t.levels["x"] for t in plan.treatments] == [1, "1", "true"]


def test_a_profile_changes_sizes(full):
    plan = full(profile="laptop")
    assert plan.experiment.profile == "laptop"
    assert plan.experiment.repetitions == 4
    assert plan.experiment.factors["users"] == (5, 10)
    assert len(plan.treatments) == 8
    spec = plan.treatment("nfs-mixed-users-5").spec
    assert spec.workload.load.max_in_flight == 50
    assert spec.workload.load.stages[0].rate == 5.0, "what the profile does not name stays"
    assert (spec.settle.hold, spec.settle.timeout) == (0.5, 30.0)


def test_a_profile_may_go_to_another_platform_where_other_keys_hold(small):
    profiles = "profiles: {here: {deployments: {a: {platform: local, command: [sleep, 60]}}}}"
    plan = small(("repetitions: 3", f"repetitions: 3\n{profiles}"), profile="here")
    by_name = {treatment.id: treatment.spec.deployment for treatment in plan.treatments}
    assert by_name["a"].platform == "local", "its `url` is gone: local has no such key"
    assert by_name["b"].platform == "external"


def test_an_unknown_profile_is_a_problem(full):
    with pytest.raises(
        DesignError, match=r"there is no profile 'laptp'; there are laptop \(did you mean 'laptop'\?\)"
    ):
        full(profile="laptp")


def test_overrides_change_any_value_and_are_kept(full):
    plan = full(
        overrides={
            "repetitions": "2",
            "workloads.reads.load.duration": "20s",
            "observe[1].process.interval": "1s",
        }
    )
    assert plan.blocks == 2
    assert plan.treatments[0].spec.workload.load.duration == 20.0
    assert plan.treatments[0].spec.observe[1].interval == 1.0
    assert plan.experiment.overrides["repetitions"] == "2"
    assert Plan.from_json(plan.to_json()) == plan


@pytest.mark.parametrize(
    ("path", "value", "message"),
    [
        ("repetitions", "x", "--set repetitions:1:1: repetitions: 'x' is not a whole number"),
        ("repetitions", "[", "--set repetitions:1:2: not valid YAML"),
        ("nix", "1", "--set nix:1:1: nix: unknown key 'nix'"),
        ("", "1", "not a key path"),
        ("a..b", "1", "not a key path"),
        ("observe[7]", "host", "there is no such place in the file"),
        ("experiment.name", "x", "there is no such place in the file"),
    ],
)
def test_wrong_overrides_say_where_they_come_from(full, path, value, message):
    with pytest.raises(DesignError) as caught:
        full(overrides={path: value})
    assert message in str(caught.value)


SAME = [
    ("question: Which is faster?", "question: Is there a difference?"),
    ("seed: 1\n", "max_invalid_repeats: 7\nseed: 1\n"),
    ("timeout: 2s", "timeout: 2000ms"),
    ("load: {model: open,", "load: {arrivals: uniform, model: open,"),
    ("experiment: small", "# a comment\nexperiment: small"),
    ("repetitions: 3", "repetitions: 3\nprofiles: {p: {repetitions: 9}}"),
    ("answer: {primary: [p95],", "answer: {timeout_as: 408, primary: [p95],"),
]
DIFFERENT = [
    ("repetitions: 3", "repetitions: 4", ["repetitions: 3 → 4"]),
    ("seed: 1", "seed: 2", ["seed: 1 → 2"]),
    ("baseline: a", "baseline: b", ['answer.baseline: "a" → "b"']),
    ("rate: 10/s", "rate: 11/s", ["workload.load.rate (every treatment): 10.0 → 11.0"]),
    ("duration: 10s", "duration: 1m", ['workload.load.duration (every treatment): "10s" → "60s"']),
    ("127.0.0.1:2", "127.0.0.1:3", ['deployment.url (b): "http://127.0.0.1:2" → "http://127.0.0.1:3"']),
    ("{name: home}", "{name: home, path: /x}", ['workload.journey.steps.0.path (every treatment): "/" → "/x"']),
    ("seed: 1\n", "seed: 1\nslo: {p95: 1s}\n",
     ["slo (every treatment): {} → (absent)", "slo.p95 (every treatment): (absent) → 1.0"]),
    ("deployment: [a, b]", "deployment: [a, b, c]",
     ['factors.deployment: ["a", "b"] → ["a", "b", "c"]', "treatment c: new"]),
]  # fmt: skip


@pytest.mark.parametrize("change", SAME, ids=lambda c: c[1][:30])
def test_what_changes_no_request_and_no_claim_is_no_difference(small, change):
    before, after = small(), small(change)
    assert before.digest == after.digest
    assert difference(before, after) == []


@pytest.mark.parametrize("change", DIFFERENT, ids=lambda c: c[1][:30])
def test_differences_are_said_in_words(small, change):
    old, new, lines = change
    before = small()
    extra = (
        [("  b: {", '  c: {platform: external, url: "http://127.0.0.1:9"}\n  b: {')] if "c]" in new else []
    )
    after = small((old, new), *extra)
    assert before.digest != after.digest
    assert difference(before, after) == lines
    assert difference(Plan.from_json(before.to_json()), after) == lines


def test_a_secret_header_is_not_stored_and_its_change_is_noticed(small):
    step = "{name: home, headers: {Authorization: s3cr3t}}"
    before, changed = small(("{name: home}", step)), small(("{name: home}", step.replace("s3cr3t", "0ther")))
    assert "s3cr3t" in before.files["experiment.yaml"], "in memory it is whole"
    text = before.to_json()
    assert "s3cr3t" not in text
    stored = Plan.from_json(text)
    assert stored.to_json() == text
    assert stored.digest == before.digest
    assert difference(stored, before) == []
    (line,) = difference(stored, changed)
    assert line.startswith("a header whose value is not kept: authorization")
    assert difference(stored, small(("{name: home}", step), ("repetitions: 3", "repetitions: 4"))) == [
        "repetitions: 3 → 4"
    ]


def test_a_profile_that_changes_nothing_is_no_difference(small):
    before = small()
    after = small(("repetitions: 3", "repetitions: 3\nprofiles: {p: {repetitions: 3}}"), profile="p")
    assert after.experiment.profile == "p"
    assert before.digest == after.digest


def test_the_digest_is_the_one_it_was(small):
    """Written down: stored results of today must be recognised by later versions."""
    assert small().digest == "9182028ab1ba739a7bf89f0d4d3887c7a35c205fda7ab45cddcbe9c55db483b3"


def test_ten_thousand_treatments_take_seconds(small):
    factors = ", ".join(f"f{i}: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9]" for i in range(4))
    plan = small(
        ("answer: {primary: [p95], baseline: a}\n", ""),
        ("repetitions: 3", "repetitions: 1"),
        ("factors: {deployment: [a, b]}", f"factors: {{deployment: [a], {factors}}}"),
        ("rate: 10/s", 'rate: "${{ f0 + 1 }}/s"'),
    )
    assert len(plan.runs) == 10_000
