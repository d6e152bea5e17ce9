"""Where the load came from: gathered from runs' records, and told in the report."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

from support.sample_analysis import sample_analysis
from towtank.analysis.generators import generators_of
from towtank.report import tables


def run(run_id: str, *generators: dict[str, Any]) -> Any:
    return SimpleNamespace(run_id=run_id, engine={"generators": list(generators)})


def worker(number: int, node: str, offset_us: float, **more: Any) -> dict[str, Any]:
    clock = {"offset_us": offset_us, "uncertainty_us": abs(offset_us) + 50}
    return {
        "worker": number, "kind": "cluster", "where": f"node {node}", "host": f"pod-{number}-{offset_us}",
        "control": "direct",
        "clock": clock, "connect_us": {"app": 200 + number}, **more,
    }  # fmt: skip


def test_places_are_gathered_over_runs_and_their_worst_is_told() -> None:
    frame = generators_of(
        [
            run("a", worker(0, "n1", -120.0), worker(1, "n2", 30.0)),
            run("b", worker(0, "n1", 80.0), worker(1, "n1", 10.0)),
        ]
    )
    assert frame["where"].tolist() == ["node n1", "node n2"]
    first = frame.iloc[0]
    assert (first.runs, first.workers) == (2, 2)
    assert (first.connect_us_low, first.connect_us_high) == (200, 201)
    assert (first.offset_us_low, first.offset_us_high, first.uncertainty_us) == (-120, 80, 170)
    table = tables.generators(replace(sample_analysis(), generators=frame))
    assert table is not None
    words = [[cell.text for cell in row] for row in table.rows]
    assert words[0] == ["node n1", "2", "app", "200 µs to 201 µs", "−120 µs to 80 µs", "170 µs", "directly"]


def test_orders_through_the_api_server_are_told_and_what_is_not_known_is_none() -> None:
    frame = generators_of([run("a", worker(0, "n1", 900.0, control="port_forward", connect_us={}, clock={}))])
    table = tables.generators(replace(sample_analysis(), generators=frame))
    assert table is not None
    (row,) = table.rows
    assert row[-1].text == "through the API server"
    assert row[3].note == "no connection was opened"
    assert row[4].note == "its clock was not asked"


def test_one_engine_of_this_machine_has_no_table() -> None:
    assert tables.generators(replace(sample_analysis(), generators=generators_of([run("a")]))) is None
