"""Which file is which run."""

from pathlib import Path

import pytest

from towtank.errors import ForeignFileError
from towtank.load.importers import label_files


def labels(*names, said=()):
    return [
        (one.treatment, one.repetition, one.path.as_posix())
        for one in label_files([Path(n) for n in names], said)
    ]


def test_six_files_of_two_variants_in_the_order_of_the_shell():
    names = sorted(f"{variant}-{n}.csv" for variant in ("before", "after") for n in (1, 2, 3))
    assert labels(*names) == [
        ("after", 1, "after-1.csv"), ("after", 2, "after-2.csv"), ("after", 3, "after-3.csv"),
        ("before", 1, "before-1.csv"), ("before", 2, "before-2.csv"), ("before", 3, "before-3.csv"),
    ]  # fmt: skip


def test_repetitions_are_in_the_order_of_their_numbers():
    names = [f"x{n}.json.gz" for n in (10, 1, 2, 3, 4, 5, 6, 7, 8, 9)]
    assert [path for _, _, path in labels(*names)] == [f"x{n}.json.gz" for n in range(1, 11)]


@pytest.mark.parametrize(
    "name", ["a-run{}.csv", "a_run_{}.csv", "a.{}.csv", "a #{}.csv", "a rep {}.csv", "a{}.csv"]
)
def test_ways_to_number_repetitions(name):
    assert {label for label, _, _ in labels(*(name.format(n) for n in (1, 2)))} == {"a"}


def test_numbers_that_mean_something_else_stay_in_the_name():
    assert [label for label, _, _ in labels("users-10.csv", "users-50.csv")] == ["users-10", "users-50"]
    assert [label for label, _, _ in labels("v1.csv")] == ["v1"], "one file says nothing about repetitions"


def test_files_of_the_same_name_are_called_after_their_folders(tmp_path):
    assert [label for label, _, _ in labels(f"{tmp_path}/nfs/k6.csv", f"{tmp_path}/ceph/k6.csv")] == [
        "nfs",
        "ceph",
    ]
    numbered = [f"{tmp_path}/{v}/r{n}.csv" for v in ("nfs", "ceph") for n in (1, 2)]
    assert [label for label, _, _ in labels(*numbered)] == ["nfs/r", "nfs/r", "ceph/r", "ceph/r"]


def test_what_is_said_wins_and_keeps_its_order():
    found = labels(said=["new=b.csv", "old=a.csv", "new=c.csv"])
    assert found == [("new", 1, "b.csv"), ("new", 2, "c.csv"), ("old", 1, "a.csv")]


@pytest.mark.parametrize("said", ["a.csv", "=a.csv", "x=", "a\nb=c.csv"])
def test_a_label_that_is_none_is_refused(said):
    with pytest.raises(ForeignFileError, match="--treatment"):
        label_files([], [said])


def test_a_file_given_twice_is_refused():
    with pytest.raises(ForeignFileError, match="given twice"):
        label_files([Path("a.csv"), Path("./a.csv")], [])
