"""What the load engine, other drivers, imports and telemetry sources reported about runs, and how serious it is."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.model import Finding


@dataclass(frozen=True)
class EngineFinding:
    """Something reported about a run: an event of source `engine`, `driver` or `import`, or any other with advice."""

    name: str
    message: str
    advice: str
    source: str = "engine"


ENGINE = "engine"
"""Source of what the load engine says: messages of another program, which are quoted."""
_SAYS = {
    ENGINE: "The load engine reported in",
    "driver": "Of the load that another tool made in",
    "import": "Of what was imported as",
}
"""Source of events → how its words are introduced; others are telemetry sources."""
_ADVISED = '"advice"'
"""In the detail of an event: whoever observes and has advice wants to be read."""
ENGINE_SEVERITY: dict[str, Literal["info", "warning", "serious"]] = {
    "capture_missing": "warning",
    "compact_failed": "serious",
    "count_not_reached": "warning",
    "cpu_bound": "warning",
    "cpus_not_permitted": "warning",
    "debug_build": "serious",
    "dns_failed": "warning",
    "in_flight_bound_reached": "warning",
    "instance_names_full": "warning",
    "late": "warning",
    "nice_not_permitted": "warning",
    "out_of_connections": "serious",
    "out_of_descriptors": "serious",
    "out_of_ports": "serious",
    "protocol_failed": "warning",
    "proxy_failed": "warning",
    "record_write_failed": "serious",
    "records_lost": "serious",
    "sessions_cut": "info",
    "source_address_failed": "serious",
    "stalled": "warning",
    "template_failed": "warning",
    "tls_failed": "warning",
}
"""Every finding of the load engine. *serious*: numbers are wrong or requests were lost by the instrument itself;
*warning*: they mean something else than they seem to; *info*: what every reader of this load should know."""


def engine_findings(events: pa.Table) -> tuple[EngineFinding, ...]:
    """What was reported in a run, each kind of each source once, from the run's events."""
    wanted = pc.or_kleene(
        pc.is_in(events["source"].cast(pa.string()), pa.array(list(_SAYS))),
        pc.match_substring(events["detail"].cast(pa.string()), _ADVISED),
    )
    rows = events.filter(wanted).to_pylist()
    found: dict[tuple[str, str], EngineFinding] = {}
    for row in rows:
        try:
            detail = json.loads(row["detail"] or "{}")
        except ValueError:
            detail = {}
        advice = detail.get("advice") if isinstance(detail, dict) else None
        said = EngineFinding(row["kind"], row["message"] or "", str(advice or ""), row["source"])
        found.setdefault((row["source"] if row["source"] not in _SAYS else "", row["kind"]), said)
    return tuple(found.values())


def reported(said: Mapping[str, Sequence[EngineFinding]]) -> Iterator[Finding]:
    """What was reported, grouped by name, and by source where it is telemetry's."""
    grouped: dict[tuple[str, str], list[tuple[str, EngineFinding]]] = defaultdict(list)
    for run_id, items in said.items():
        for item in items:
            grouped["" if item.source in _SAYS else item.source, item.name].append((run_id, item))
    for (telemetry, name), cases in grouped.items():
        first = cases[0][1]
        severity = ENGINE_SEVERITY.get(name, "warning" if first.source == ENGINE else "info")
        quoted, runs = first.message or name.replace("_", " "), runs_in_words(len(cases))
        if first.source == ENGINE:
            told = f"The load engine reported in {runs}: “{quoted}”."
        else:
            says = f"The telemetry source {telemetry} reported in" if telemetry else _SAYS[first.source]
            told = f"{says} {runs}: {quoted}"
        yield Finding(
            name,
            "warning" if telemetry else severity,
            told,
            first.advice or "See the events of the run.",
            tuple(run_id for run_id, _ in cases),
        )


def runs_in_words(number: int) -> str:
    """How many runs.

    >>> runs_in_words(1), runs_in_words(2)
    ('1 run', '2 runs')
    """
    return "1 run" if number == 1 else f"{number} runs"
