"""Problems of form do not hide problems of meaning, and nothing is said that only follows from another problem."""

from __future__ import annotations

import pytest

from towtank.design import load_plan
from towtank.design.loading import read_draft
from towtank.errors import DesignError

FILE = """\
experiment: small
question: Which is faster?
answer: {primary: [p95], baseline: a}
repetitions: 3
factors: {deployment: [a, b]}
deployments:
  a: {platform: external, targets: {shop: "http://127.0.0.1:1", wiki: "http://127.0.0.1:2"}}
  b: {platform: external, targets: {shop: "http://127.0.0.1:3", wiki: "http://127.0.0.1:4"}}
workloads:
  w:
    timeout: 2s
    load: {model: open, rate: 10/s, duration: 10s, warmup: 1s}
    journey:
      steps:
        - {name: home, target: shop}
        - {name: page, target: wiki, path: /a}
"""


@pytest.fixture
def said(tmp_path):
    """Problems of the file with texts replaced: key path and message of each."""

    def load(*changes):
        text = FILE
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        path = tmp_path / "experiment.yaml"
        path.write_text(text, encoding="utf-8")
        try:
            load_plan(path)
        except DesignError as error:
            return [(problem.path, problem.message) for problem in error.problems]
        return []

    return load


def paths(problems):
    """Key paths, each once: what two deployments lack is said for each of them."""
    return list(dict.fromkeys(path for path, _ in problems))


BAD_TIMEOUT = ("timeout: 2s", "timeout: soon")
TOO_LONG_WARMUP = ("warmup: 1s", "warmup: 20s")
NO_SLASH = ("path: /a", "path: a")
TWICE = ("name: page", "name: home")
UNKNOWN_TARGET = ("target: shop}", "target: shopp}")


def test_the_file_is_good(said):
    assert said() == []


def test_one_wrong_value_hides_nothing_of_its_workload(said):
    found = said(BAD_TIMEOUT, TOO_LONG_WARMUP, NO_SLASH, TWICE, UNKNOWN_TARGET)
    assert sorted(paths(found)) == [
        "workloads.w.journey.steps[0].target",
        "workloads.w.journey.steps[1].name",
        "workloads.w.journey.steps[1].path",
        "workloads.w.load.warmup",
        "workloads.w.timeout",
    ]


def test_a_load_of_wrong_form_hides_nothing_of_the_journey(said):
    found = said(("rate: 10/s", "rate: many"), NO_SLASH, TWICE)
    assert sorted(paths(found)) == [
        "workloads.w.journey.steps[1].name", "workloads.w.journey.steps[1].path", "workloads.w.load.rate",
    ]  # fmt: skip


def test_a_step_of_wrong_form_hides_nothing_of_the_others(said):
    found = said(("name: home,", "name: home, metod: GET,"), NO_SLASH, TOO_LONG_WARMUP)
    assert sorted(paths(found)) == [
        "workloads.w.journey.steps[0].metod", "workloads.w.journey.steps[1].path", "workloads.w.load.warmup",
    ]  # fmt: skip


def test_a_misspelt_key_has_no_follow_up(said):
    """What a misspelt key may have said is not missed: a target, a rotation, a bound, a timeout."""
    assert paths(said(("target: shop}", "traget: shop}"))) == ["workloads.w.journey.steps[0].traget"]
    without_targets = (("home, target: shop", "home"), ("page, target: wiki", "page"))
    assert paths(said(*without_targets, ("timeout: 2s", "rotat: [shop, wiki]"))) == ["workloads.w.rotat"]
    fast = ("rate: 10/s, duration: 10s", "rate: 20000/s, duration: 100s")
    assert paths(said(("timeout: 2s", "timeot: 10ms"), fast)) == ["workloads.w.timeot"]
    assert paths(said(("timeout: 2s", "timeout: soon"), fast)) == ["workloads.w.timeout"]
    assert paths(
        said(("rate: 10/s,", "rate: 20000/s, max_in_fligt: 5,"), ("timeout: 2s", "timeout: 30s"))
    ) == ["workloads.w.load.max_in_fligt"]


def test_a_load_is_held_against_the_machine_when_what_that_needs_is_right(said):
    fast = ("rate: 10/s, duration: 10s", "rate: 20000/s, duration: 100s")
    found = said(fast, ("timeout: 2s", "timeout: 30s\n    feeds: {users: {file: u.csv, ordr: random}}"))
    assert sorted(paths(found)) == ["workloads.w.feeds.users.ordr", "workloads.w.load"]


def test_steps_of_wrong_form_are_not_missed(said):
    found = said(
        ("- {name: home, target: shop}", "- home"), ("- {name: page, target: wiki, path: /a}", "- page")
    )
    assert sorted(paths(found)) == ["workloads.w.journey.steps[0]", "workloads.w.journey.steps[1]"]


def test_a_deployment_of_wrong_form_hides_no_file_that_is_missing(said):
    tls = ", tls: {ca: none.pem}, redy: {}}"
    https = [(f"http://127.0.0.1:{port}", f"https://127.0.0.1:{port}") for port in (3, 4)]
    found = said(*https, ('4"}}', '4"}' + tls), BAD_TIMEOUT)
    assert sorted(paths(found)) == ["deployments.b.redy", "deployments.b.tls.ca", "workloads.w.timeout"]
    assert "there is no file 'none.pem'" in dict(found)["deployments.b.tls.ca"]


def test_targets_are_looked_for_although_the_life_of_the_deployment_is_wrong(said):
    found = said(('2"}}', '2"}, deploy: per-rum}'), UNKNOWN_TARGET)
    assert sorted(paths(found)) == ["deployments.a.deploy", "workloads.w.journey.steps[0].target"]


def test_targets_of_a_deployment_that_cannot_be_read_are_not_guessed(said):
    found = said(('shop: "http://127.0.0.1:1"', 'shop: "nowhere"'), ('shop: "http://127.0.0.1:3"', "shop: 5"))
    assert sorted(path.split(".")[1] for path in paths(found)) == ["a", "b"]


@pytest.mark.parametrize(
    "wrong", [BAD_TIMEOUT, NO_SLASH, ("question: Which is faster?", "question: ''"), ("small", "a b")]
)
def test_the_question_is_checked_whatever_else_is_wrong(said, wrong):
    found = said(wrong, ("baseline: a", "baseline: c"))
    assert len(found) == 2
    assert "there is no treatment and no level 'c'" in dict(found)["answer.baseline"]
    few = said(wrong, ("repetitions: 3", "repetitions: 1"))
    assert "1 repetition cannot decide the question" in dict(few)["repetitions"]
    unsaid = said(wrong, ('2"}}', '2"}, deploy: once}'))
    assert "`reset` is missing" in dict(unsaid)["reset"]


@pytest.mark.parametrize(
    ("wrong", "where"),
    [
        (("[a, b]", "[a, c]"), "factors.deployment"),
        (("[a, b]", "[a, [b]]"), "factors.deployment[1]"),
        (("primary: [p95]", "primary: [speed]"), "answer.primary[0]"),
        (("repetitions: 3", "repetitions: three"), "repetitions"),
    ],
)
def test_what_the_question_hangs_on_must_be_right_to_ask_it(said, wrong, where):
    """Else `baseline: c` might be right, or the number of repetitions enough."""
    other = ("baseline: a", "baseline: c") if where.startswith("factors") else BAD_TIMEOUT
    found = said(wrong, other)
    assert where in paths(found)
    assert not [path for path in paths(found) if path in ("answer.baseline", "reset")]


def test_numbers_of_the_answer_are_checked_beside_a_wrong_name(said):
    found = said(("small", "a b"), ("baseline: a", "baseline: a, confidence: 100%"))
    assert sorted(paths(found)) == ["answer.confidence", "experiment"]


def test_files_of_a_workload_are_looked_for_beside_wrong_values(said, tmp_path):
    (tmp_path / "ragged.csv").write_text("a,b\n1\n")
    feeds = "\n    feeds: {one: {file: none.csv}, two: {file: ragged.csv}, three: {file: u.csv, ordr: x}}"
    found = said(("timeout: 2s", "timeout: soon" + feeds), ("path: /a", "body: {file: none.bin}"))
    assert sorted(paths(found)) == [
        "", "workloads.w.feeds.one", "workloads.w.feeds.three.ordr", "workloads.w.journey.steps[1].body.file",
        "workloads.w.timeout",
    ]  # fmt: skip
    assert dict(found)[""] == "1 fields, where the header has 2"


def test_a_trace_that_is_wrong_hides_nothing_of_the_journey(said, tmp_path):
    (tmp_path / "t.txt").write_text("2\n1\n")
    trace = ("rate: 10/s, duration: 10s, warmup: 1s", "trace: {file: t.txt, format: timestamps}")
    found = said(trace, NO_SLASH, BAD_TIMEOUT)
    assert sorted(paths(found)) == ["", "workloads.w.journey.steps[1].path", "workloads.w.timeout"]


def test_expressions_that_have_no_value_have_no_follow_up(said):
    """`${{ … }}` that cannot be worked out is one problem, wherever it stands."""
    for old, new in (
        ("timeout: 2s", 'timeout: "${{ nix }}"'),
        ("rate: 10/s", 'rate: "${{ nix }}"'),
        ("name: home", 'name: "${{ nix }}"'),
        ("path: /a", 'path: "${{ nix }}"'),
        ("target: shop}", 'target: "${{ nix }}"}'),
        ('"http://127.0.0.1:1"', '"${{ nix }}"'),
    ):
        found = said((old, new))
        assert len(found) == 1, (new, found)
        assert "nix" in found[0][1]


def test_a_draft_offers_what_the_engine_can_be_asked_about(tmp_path):
    path = tmp_path / "experiment.yaml"
    path.write_text(FILE.replace("question: Which is faster?", "qestion: Which?"))
    draft = read_draft(path)
    assert draft.plan is None
    one, two = draft.drivable
    assert list(one.workloads) == ["w"]
    assert {one.deployment.target_names(), two.deployment.target_names()} == {("shop", "wiki")}
    path.write_text(FILE.replace('shop: "http://127.0.0.1:1"', "shop: 5"))
    assert [known.deployment is None for known in read_draft(path).drivable] == [True, False]
    path.write_text(FILE.replace("path: /a", "path: a"))
    assert read_draft(path).drivable == ()
    path.write_text(FILE.replace("deployment: [a, b]", "deployment: [c]"))
    assert [known.deployment for known in read_draft(path).drivable] == [None], "no treatment is certain"


def test_a_workload_that_no_treatment_uses_is_not_driven(tmp_path):
    path = tmp_path / "experiment.yaml"
    unused = "  unused:" + FILE.partition("  w:")[2]
    path.write_text(FILE.replace("[a, b]}", "[a, b], workload: [w]}") + unused)
    draft = read_draft(path)
    assert draft.plan is not None
    assert [list(known.workloads) for known in draft.drivable] == [["w"], ["w"]]


def test_a_wrong_answer_hides_nothing_of_the_rest_of_the_design(said):
    wrong = ("primary: [p95]", "primary: [speed]")
    assert sorted(paths(said(wrong, ('2"}}', '2"}, deploy: once}')))) == ["answer.primary[0]", "reset"]
    assert sorted(paths(said(wrong, ("repetitions: 3", "repetitions: 9000")))) == [
        "answer.primary[0]",
        "repetitions",
    ]


def test_unknown_fixtures_are_said_though_no_treatment_is_certain(said):
    local = "{platform: local, command: 'cat {fixture.nix}'}"
    old = '{platform: external, targets: {shop: "http://127.0.0.1:1", wiki: "http://127.0.0.1:2"}}'
    found = said((old, local), ("[a, b]", "[c]"))
    assert sorted(paths(found)) == ["deployments.a", "factors.deployment"]
