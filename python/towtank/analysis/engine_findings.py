"""What whatever made the load reported about its runs, each with how serious it is for the numbers of a run."""

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
    """Something that whatever made the load reported about a run: an event of source `engine`, `driver` or `import`."""

    name: str
    message: str
    advice: str
    source: str = "engine"


_SAYS = {
    "engine": "The load engine reported in",
    "driver": "Of the load that another tool made in",
    "import": "Of what was imported as",
}
"""Source of events → how its words are introduced."""
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
    """What the load engine reported in a run, each kind once, from the run's events."""
    rows = events.filter(pc.is_in(events["source"].cast(pa.string()), pa.array(list(_SAYS)))).to_pylist()
    found: dict[str, EngineFinding] = {}
    for row in rows:
        try:
            detail = json.loads(row["detail"] or "{}")
        except ValueError:
            detail = {}
        advice = detail.get("advice") if isinstance(detail, dict) else None
        said = EngineFinding(row["kind"], row["message"] or "", str(advice or ""), row["source"])
        found.setdefault(row["kind"], said)
    return tuple(found.values())


def reported(said: Mapping[str, Sequence[EngineFinding]]) -> Iterator[Finding]:
    """What the load engine reported, grouped by name."""
    grouped: dict[str, list[tuple[str, EngineFinding]]] = defaultdict(list)
    for run_id, items in said.items():
        for item in items:
            grouped[item.name].append((run_id, item))
    for name, cases in grouped.items():
        first = cases[0][1]
        yield Finding(
            name,
            ENGINE_SEVERITY.get(name, "warning" if first.source == "engine" else "info"),
            f"{_SAYS[first.source]} {runs_in_words(len(cases))}: {first.message or name.replace('_', ' ')}",
            first.advice or "See the events of the run.",
            tuple(run_id for run_id, _ in cases),
        )


def runs_in_words(number: int) -> str:
    """How many runs.

    >>> runs_in_words(1), runs_in_words(2)
    ('1 run', '2 runs')
    """
    return "1 run" if number == 1 else f"{number} runs"
