"""Whatever is in the file: a plan or a DesignError, soon, and nothing else."""

from __future__ import annotations

import time
from pathlib import Path

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from towtank.design import Plan, load_plan
from towtank.errors import DesignError

FULL = Path(__file__).parents[2] / "data" / "experiments" / "full" / "experiment.yaml"
TEXT = FULL.read_text("utf-8")
PIECES = (
    "${{ users }}", "${{", "}}", "null", "~", "{}", "[]", "&a", "*wiki", "<<: *wiki", "!!str ", "- ",
    "? ", ": ", "'", '"',
    "|", ">",
    "%YAML 1.2", "---", "...", "0", "-1", "1e999",
    ".nan", ".inf", "true", "\\t", "\\0", "é", "\u2028", "{", "}",
    "[", "]", ",", "#", "@", "`", "9" * 400, "0x", "platform: local", "stages",
    "choose", "\\n", "  ", "deployment", "once",
    "none", "answer:", "factors: {a: [1]}", "../..", "/etc/passwd", "\x7f", "a" * 500,
)  # fmt: skip
edits = st.lists(
    st.tuples(st.integers(0, len(TEXT)), st.sampled_from([0, 0, 1, 3, 10, 80]), st.sampled_from(("", *PIECES))),
    min_size=1, max_size=6,
)  # fmt: skip
values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=8)
    | st.sampled_from(["10s", "5%", "${{ a }}", "open", "closed", "local", "host", "none", "1/s", "{fixture.x}"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.sampled_from(
        ["platform", "command", "run", "load", "model", "journey", "steps", "name", "choose", "weight", "rate",
         "users", "duration", "stages", "hold", "think", "uniform", "prepare", "copy", "verify", "timeout", "a", "b"]),
        inner,
        max_size=5),
    max_leaves=12,
)  # fmt: skip
KEYS = (
    "answer", "repetitions", "order", "seed", "factors", "exclude", "include", "fixtures", "deployments", "workloads",
    "prepare", "reset", "settle", "observe", "generator", "slo", "max_invalid_repeats", "profiles",
)  # fmt: skip


def ends_well(path, **options):
    """Load; the only ways to end are a plan that can be stored, and problems that have a place."""
    start = time.process_time()
    try:
        plan = load_plan(path, **options)
    except DesignError as error:
        problems = error.problems
    else:
        problems = None
        assert Plan.from_json(plan.to_json()) == plan
    assert time.process_time() - start < 10
    assert problems is None or problems
    for problem in problems or ():
        assert min(problem.line, problem.column) >= 1
        assert problem.message


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(edits)
def test_damaged_files(tmp_path, changes):
    text = TEXT
    for place, cut, piece in changes:
        text = text[:place] + piece + text[place + cut :]
    path = tmp_path / "experiment.yaml"
    path.write_text(text, encoding="utf-8")
    ends_well(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.text(max_size=200))
def test_any_text(tmp_path, text):
    path = tmp_path / "experiment.yaml"
    path.write_text(text, encoding="utf-8", errors="surrogatepass")
    ends_well(path)


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=100))
def test_any_bytes(tmp_path, data):
    path = tmp_path / "experiment.yaml"
    path.write_bytes(data)
    ends_well(path)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.dictionaries(st.sampled_from(KEYS), values, min_size=1, max_size=4))
def test_good_yaml_with_anything_in_it(tmp_path, changes):
    """JSON is YAML: any value at any key of the file."""
    import json

    kept = {"experiment": "x", "question": "q"}
    kept |= {"deployments": {"d": {"platform": "external", "url": "http://127.0.0.1:1"}}}
    kept |= {
        "workloads": {
            "w": {
                "load": {"model": "open", "rate": 1, "duration": "1s"},
                "journey": {"steps": [{"name": "a"}]},
            }
        }
    }
    path = tmp_path / "experiment.yaml"
    path.write_text(json.dumps({**kept, **changes}), encoding="utf-8")
    ends_well(path)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.dictionaries(st.text(max_size=12) | st.sampled_from(KEYS), st.text(max_size=12), max_size=3),
    st.text(max_size=6),
)
def test_any_override_and_profile(tmp_path, overrides, profile):
    path = tmp_path / "experiment.yaml"
    path.write_text(TEXT, encoding="utf-8")
    ends_well(path, overrides=overrides, profile=profile or None)


def test_the_file_name_may_be_anything(tmp_path):
    for name in ("\x00", "a" * 5000, "[red]", "x\ny"):
        ends_well(tmp_path / name)
