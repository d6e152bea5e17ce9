"""`towtank capacity`: ladders around the load of the file, and what is wrong with them."""

from pathlib import Path

import pytest
import typer

from support.plans import make_plan
from towtank.cli.capacity import _search

FILE = Path("experiment.yaml")


def search(bounds=(None, None), step="5%", **options):
    plan = make_plan(("gke",), blocks=1, slo={"p95": 0.3}, answered=False, **options)
    return _search(plan, FILE, bounds, step=step, confirmations=5, most_runs=100)


def test_the_ladder_lies_around_the_load_of_the_file():
    rungs = search().laddered.rungs["gke"]
    assert rungs[0] == pytest.approx(0.1)
    assert 950 < rungs[-1] <= 1000
    users = search(closed=True).laddered.rungs["gke"]
    assert (users[0], users[-1] <= 200) == (1, True)
    assert search((20.0, 40.0)).laddered.rungs["gke"][0] == 20


def test_a_step_may_be_written_in_any_way():
    """What was searched with `--step 5%` goes on with `--step 0.05`."""
    assert search(step="0.05").first_plan().digest == search().first_plan().digest
    assert search(step="0.050").first_plan().digest == search(step="5.0 %").first_plan().digest
    assert search(step="6%").first_plan().digest != search().first_plan().digest


def test_the_search_begins_at_the_load_of_the_file():
    searching = search((5.0, 20.0))
    (first,) = searching.first_plan().runs
    _, rung = searching.laddered.place(first.treatment_id)
    assert searching.laddered.rungs["gke"][rung] <= 10 < searching.laddered.rungs["gke"][rung + 1]


@pytest.mark.parametrize(
    ("bounds", "step", "words"),
    [((50.0, 20.0), "5%", "no rungs"), ((0.0, 20.0), "5%", "no rungs"),
     ((10.0, float("inf")), "100%", "both finite"), ((float("inf"), float("inf")), "5%", "both finite"),
     ((1.0, 2.0), "0%", "no ladder"),
     ((1.0, 2.0), "5", "5")],
)  # fmt: skip
@pytest.mark.parametrize("closed", [False, True])
def test_a_ladder_that_cannot_be_is_refused(bounds, step, words, closed):
    with pytest.raises(typer.BadParameter, match=words):
        search(bounds, step, closed=closed)
