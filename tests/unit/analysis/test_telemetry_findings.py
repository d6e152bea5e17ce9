"""What telemetry sources have advice about becomes a finding; their other events do not."""

import json

import pyarrow as pa

from towtank.analysis.engine_findings import engine_findings, reported


def events(*rows):
    columns = ("t_us", "source", "kind", "instance", "message", "detail")
    return pa.table({name: [row[i] for row in rows] for i, name in enumerate(columns)})


def advised(source, kind, message):
    return (0, source, kind, "", message, json.dumps({"advice": f"mend {kind}"}))


def test_events_with_advice_are_findings_of_their_source():
    seen = engine_findings(
        events(
            advised("prometheus", "no_data", "cpu gave nothing"),
            advised("netdata", "no_data", "net gave nothing"),
            advised("prometheus", "no_data", "said once is enough"),
            (0, "prometheus", "source_recovered", "", "the source can be read again", "{}"),
            (0, "engine", "late", "", "it was late", json.dumps({"advice": "hurry"})),
        )
    )
    found = {finding.message: finding for finding in reported({"r1": seen, "r2": seen})}
    assert set(found) == {
        "The telemetry source prometheus reported in 2 runs: cpu gave nothing",
        "The telemetry source netdata reported in 2 runs: net gave nothing",
        "The load engine reported in 2 runs: “it was late”.",
    }
    for finding in found.values():
        assert finding.severity == "warning"
    first = found["The telemetry source prometheus reported in 2 runs: cpu gave nothing"]
    assert (first.name, first.advice, first.runs) == ("no_data", "mend no_data", ("r1", "r2"))
