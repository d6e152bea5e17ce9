"""`capacity: FILE`: loads taken from a search, and what is said where it has none."""

import pytest

from support.capacities import record
from towtank.design.capacity_file import CapacityFile
from towtank.design.digest import difference
from towtank.errors import DesignError

KEY = ("seed: 1\n", "seed: 1\ncapacity: found/capacity.json\n")
RATE = ("rate: 10/s", 'rate: "${{ 1.5 * capacity }}"')


def capacity(deployment, holds, **levels):
    return record(
        treatment=deployment, label=deployment, deployment=deployment, workload="w",
        levels={"deployment": deployment, **levels}, holds=holds, fails=None if holds is None else holds * 1.05,
    )  # fmt: skip


@pytest.fixture
def found(tmp_path):
    def write(*capacities):
        (tmp_path / "found").mkdir(exist_ok=True)
        file = CapacityFile.model_validate({"experiment": "x", "digest": "d", "capacities": capacities})
        (tmp_path / "found" / "capacity.json").write_text(file.to_json())

    return write


def rates(plan):
    return {t.id: t.spec.workload.load.rate for t in plan.treatments}


def problems(load, *changes):
    with pytest.raises(DesignError) as caught:
        load(*changes)
    return [(one.path, one.message) for one in caught.value.problems]


def test_each_deployment_takes_its_own_load_and_the_plan_keeps_the_file(found, small):
    found(capacity("a", 410.0), capacity("b", 205.5))
    plan = small(KEY, RATE)
    assert rates(plan) == {"a": 615, "b": pytest.approx(308.25)}
    assert "410" in plan.files["found/capacity.json"]


def test_another_capacity_is_another_experiment(found, small):
    found(capacity("a", 410.0), capacity("b", 205.0))
    before = small(KEY, RATE)
    found(capacity("a", 420.0), capacity("b", 205.0))
    after = small(KEY, RATE)
    assert before.digest != after.digest
    assert any("rate" in line for line in difference(before, after))


def test_capacities_of_factors_go_to_the_same_levels(found, small):
    found(*[capacity(name, 100.0 * n, size=n) for name in ("a", "b") for n in (1, 2)])
    sizes = ("{deployment: [a, b]}", "{deployment: [a, b], size: [1, 2]}")
    plan = small(KEY, RATE, sizes, ("baseline: a", "contrasts: all-pairs"))
    assert sorted(rates(plan).values()) == [150, 150, 300, 300]


def test_a_deployment_without_a_capacity_is_named(found, small):
    found(capacity("a", 410.0))
    assert problems(small, KEY, RATE) == [
        ("capacity", "no capacity fits deployment 'b' with its levels; known are those of a")
    ]
    found(capacity("a", 410.0), capacity("b", None))
    assert problems(small, KEY, RATE) == [
        ("capacity", "the search confirmed no load of b: it has no capacity")
    ]
    found(capacity("a", 410.0), capacity("b", 1.0, size=1), capacity("b", 2.0, size=2))
    assert problems(small, KEY, RATE)[0][1].startswith("2 capacities fit deployment 'b'")


def test_a_file_that_is_none_is_said_at_its_place(found, small, tmp_path):
    assert problems(small, KEY, RATE) == [
        ("capacity", "there is no file 'found/capacity.json' in the experiment's folder")
    ]
    found()
    (tmp_path / "found" / "capacity.json").write_text("{")
    ((path, message),) = problems(small, KEY, RATE)
    assert path == "capacity"
    assert "cannot be read" in message


def test_without_the_key_there_is_no_such_name(small):
    ((_, message),) = problems(small, RATE)
    assert "unknown name 'capacity'" in message


def test_a_factor_of_that_name_is_refused_beside_the_key(found, small):
    found(capacity("a", 410.0), capacity("b", 205.0))
    said = problems(small, KEY, RATE, ("{deployment: [a, b]}", "{deployment: [a, b], capacity: [1, 2]}"))
    assert any("factor of that name" in message for _, message in said)
