"""Results of vegeta that were glued together are refused with their line; those of one attack never are."""

import csv
import io
import json
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest

from towtank.errors import ForeignFileError
from towtank.load.importers import open_file
from towtank.load.importers.one_attack import WRITTEN_LATE_US, OneAttack

DATA = Path(__file__).parents[3] / "data" / "imports"
FILES = ("vegeta.csv", "vegeta-9.csv", "vegeta.json")
HOUR_S = 3600


def later(name, seconds):
    """Results as another attack would have left them, so much later."""
    text = (DATA / name).read_text()
    if name.endswith(".json"):
        return "".join(_json_later(line, seconds) for line in text.splitlines())
    written = io.StringIO()
    writer = csv.writer(written, lineterminator="\n")
    for row in csv.reader(io.StringIO(text)):
        writer.writerow([str(int(row[0]) + seconds * 10**9), *row[1:]])
    return written.getvalue()


def _json_later(line, seconds):
    said = json.loads(line)
    moment = datetime.fromisoformat(said["timestamp"]).astimezone(UTC) + timedelta(seconds=seconds)
    return json.dumps({**said, "timestamp": moment.isoformat()}) + "\n"


def read(path):
    return sum(batch.num_rows for batch in open_file("vegeta", path).batches())


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("apart_s", [HOUR_S, -HOUR_S, 0])
def test_two_attacks_in_one_file_are_refused_with_the_first_line_of_the_second(tmp_path, name, apart_s):
    path = tmp_path / name
    first = later(name, 0)
    path.write_text(first)
    assert read(path) == 12
    path.write_text(first + later(name, apart_s))
    with pytest.raises(ForeignFileError, match="results of several attacks in one file") as caught:
        read(path)
    assert f"{path}:13:" in caught.value.message
    assert "nothing was imported" in caught.value.hint


def test_a_line_break_within_a_cell_does_not_shift_the_line(tmp_path):
    path = tmp_path / "vegeta.csv"
    first = later("vegeta.csv", 0).replace("connection refused", "connection\nrefused")
    breaks = first.count("\n") - 12
    assert breaks > 0
    path.write_text(first + later("vegeta.csv", HOUR_S))
    with pytest.raises(ForeignFileError) as caught:
        read(path)
    assert f"{path}:{13 + breaks}:" in caught.value.message


def attack(count, *, seed=1):
    """Start, time and number of an attack's requests, in the order in which they ended."""
    rng = np.random.default_rng(seed)
    start = np.cumsum(rng.integers(1, 2_000, count)).astype(np.int64)
    took = rng.lognormal(8, 2, count).astype(np.int64) % 200_000
    order = np.argsort(start + took, kind="stable")
    return start[order], took[order], order.astype(np.int64)


def looked_at(columns, at_once=1_000):
    one = OneAttack()
    for begin in range(0, columns[0].size, at_once):
        found = one.contradiction(*(column[begin : begin + at_once] for column in columns))
        if found is not None:
            return found
    return None


@pytest.mark.parametrize("at_once", [1, 7, 1_000, 10_000])
def test_an_attack_passes_in_any_pieces(at_once):
    assert looked_at(attack(5_000), at_once) is None


def test_an_attack_passes_that_was_filtered_sorted_by_time_or_written_a_little_late():
    start, took, seq = attack(5_000)
    some = seq % 3 == 0
    assert looked_at((start[some], took[some], seq[some])) is None
    by_time = np.argsort(start, kind="stable")
    assert looked_at((start[by_time], took[by_time], seq[by_time])) is None
    late = np.argsort(start + took + np.random.default_rng(2).integers(0, WRITTEN_LATE_US // 2, seq.size))
    assert looked_at((start[late], took[late], seq[late])) is None


@pytest.mark.parametrize("apart_s", [HOUR_S, 0, -HOUR_S])
@pytest.mark.parametrize("share", [1, 3])
def test_the_first_row_of_another_attack_is_found(apart_s, share):
    """Also where only every third row of both was kept: times and numbers still contradict each other."""
    start, took, seq = attack(5_000)
    other_start, other_took, other_seq = attack(9_000, seed=2)
    one, two = seq % share == 0, other_seq % share == 0
    glued = (
        np.concatenate((start[one], other_start[two] + apart_s * 1_000_000)),
        np.concatenate((took[one], other_took[two])),
        np.concatenate((seq[one], other_seq[two])),
    )
    found = looked_at(glued)
    assert found is not None
    assert found.row == one.sum()


def test_two_attacks_that_were_mixed_row_by_row_are_found():
    start, took, seq = attack(1_000)
    mixed = tuple(np.repeat(column, 2) for column in (start, took, seq))
    assert looked_at(mixed) is not None
