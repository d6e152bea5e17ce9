"""From what was seen in a run to observations that `validity.judge` can judge."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import numpy.typing as npt
import psutil
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from towtank.campaign import machine
from towtank.campaign.reasons import EVENT_KINDS, REASONS
from towtank.campaign.validity import Observation
from towtank.design.journey_shape import fewest_requests, makes_one_request
from towtank.design.model import OpenLoad, Workload
from towtank.faults.agenda import Inflicted
from towtank.load.events import COMPACT_FAILED, Done, Ready
from towtank.platforms.base import SystemEvent, Target
from towtank.store.run_record import Window
from towtank.store.schemas import outcome_class
from towtank.units import format_duration

_RESOURCE_FINDINGS = ("out_of_descriptors", "out_of_ports", "out_of_connections", "source_address_failed")

_RECORD_FINDINGS = ("record_write_failed", COMPACT_FAILED)


@dataclass(frozen=True)
class Outcomes:
    """What became of the requests that were due in the measured window."""

    due: int = 0
    answered_as_expected: int = 0
    answered: int = 0
    """With any status."""
    sent: int = 0
    server_errors: int = 0


def read_outcomes(requests: Path, window: Window) -> Outcomes:
    """Count outcomes in the measured window from `requests.parquet`, streaming."""
    due = ds.field("scheduled_us")
    chosen = (due >= window.start_us) & (due < window.end_us)
    counts: Counter[tuple[str, int]] = Counter()
    for batch in ds.dataset(requests, format="parquet").to_batches(
        columns={"outcome": ds.field("outcome").cast("string"), "status": ds.field("status")}, filter=chosen
    ):
        if batch.num_rows == 0:
            continue
        table = batch.set_column(1, "status", pc.fill_null(batch.column("status"), 0))
        grouped = (
            pa.Table.from_batches([table]).group_by(["outcome", "status"]).aggregate([([], "count_all")])
        )
        for row in grouped.to_pylist():
            counts[row["outcome"], row["status"]] += row["count_all"]
    return Outcomes(
        due=counts.total(),
        answered_as_expected=sum(n for (outcome, _), n in counts.items() if outcome == "answered"),
        answered=sum(n for (_, status), n in counts.items() if status),
        sent=sum(n for (outcome, _), n in counts.items() if outcome_class(outcome) != "not_sent"),
        server_errors=sum(n for (_, status), n in counts.items() if 500 <= status <= 599),
    )


def of_self(done: Done) -> Iterator[Observation]:
    """What the engine measured about itself."""
    own = done.self_
    yield Observation("engine_late", float(own.get("lag_p99_us") or 0) / 1000)
    yield Observation("engine_stalled", float(own.get("stalled_ratio") or 0))
    yield Observation("engine_short_of_cpu", float(own.get("run_queue_wait_ratio") or 0))
    busiest = own.get("cpu_cores_max_1s") or 0
    yield Observation("engine_cpu_bound", float(max(busiest) if isinstance(busiest, list) else busiest))


def of_engine(done: Done, findings: Sequence[Mapping[str, Any]], ready: Ready) -> Iterator[Observation]:
    """What the engine says of itself, checked against what it wrote."""
    yield from of_self(done)
    scarce = [finding for finding in findings if finding.get("name") in _RESOURCE_FINDINGS]
    if scarce:
        yield Observation("engine_out_of_resources", len(scarce), str(scarce[0].get("message", "")))
    template = next((f for f in findings if f.get("name") == "template_failed"), None)
    if template is not None:
        yield Observation("template_failed", 1, str(template.get("message", "")))
    if ready.build.get("profile") != "release":
        yield Observation("debug_build")
    rows = int(done.counts.get("rows") or 0)
    on_disk = sum(int(file.get("rows") or 0) for file in done.files)
    yield Observation("records_lost", abs(rows - on_disk))
    failed = [f for f in findings if f.get("name") in _RECORD_FINDINGS]
    if failed and rows == on_disk:
        yield Observation("records_lost", 1, str(failed[0].get("message", "")))


def of_stop(done: Done) -> Iterator[Observation]:
    """Whether the load was stopped before its end."""
    if done.stopped_by == "stop":
        yield Observation("load_stopped", 1, f"after {format_duration(done.window['end_us'] / 1e6)}")


def of_arrivals(done: Done, driven: Iterable[Workload], requests: Path) -> Iterator[Observation]:
    """Whether what was due has rows; nothing is said where a journey may rightly lead to no request.

    Rows of several steps would hide an arrival that has none, so arrivals of open load are counted in the records.

    Parameters
    ----------
    done : Done
    driven : iterable of Workload
        All that was driven.
    requests : Path
        The records; where there are none, `records_lost` tells it.
    """
    workloads, due = tuple(driven), done.counts.get("due")
    if due is None or not workloads or any(fewest_requests(w) < 1 for w in workloads):
        return
    due, rows = int(due), int(done.counts.get("rows") or 0)
    if all(makes_one_request(w.journey) for w in workloads):
        yield Observation("arrivals_unaccounted", abs(due - rows))
    elif not all(isinstance(w.load, OpenLoad) for w in workloads):
        yield Observation("arrivals_unaccounted", max(0, due - rows))
    elif requests.exists():
        # cut off while it thought, before its first request
        cut = int(done.counts.get("sessions_cut") or 0)
        seen = arrivals_in(requests)
        yield Observation("arrivals_unaccounted", max(seen - due, due - cut - seen, 0))


def arrivals_in(requests: Path) -> int:
    """Count the arrivals of open load that have a row, streaming; a byte for each is in memory."""
    seen: dict[str, npt.NDArray[np.bool_]] = {}
    columns = {"workload": ds.field("workload").cast("string"), "user": ds.field("user")}
    for batch in ds.dataset(requests, format="parquet").to_batches(columns=columns):
        if batch.num_rows == 0:
            continue
        users = batch.column("user").to_numpy()
        names = batch.column("workload").dictionary_encode()
        codes = names.indices.to_numpy()
        for code, name in enumerate(names.dictionary.to_pylist()):
            own = users[codes == code]
            known = seen.get(name, np.zeros(0, bool))
            if (beyond := int(own.max()) + 1 - len(known)) > 0:
                known = np.concatenate([known, np.zeros(max(beyond, len(known)), bool)])
            known[own] = True
            seen[name] = known
    return sum(int(known.sum()) for known in seen.values())


def of_window(outcomes: Outcomes) -> Iterator[Observation]:
    """Whether anything was measured at all by a load that was carried out."""
    if outcomes.due == 0:
        yield Observation("nothing_measured")


def of_host(during: machine.Interval) -> Iterator[Observation]:
    """What the machine did to everything on it during the load."""
    yield Observation("cpu_stolen", during.steal_ratio)
    yield Observation("wall_clock_step", abs(during.wall_step_us) / 1000)
    yield Observation("machine_suspended", during.suspended_us / 1000)


def of_machine(
    before: machine.Interval, during: machine.Interval, targets: Iterable[Target]
) -> Iterator[Observation]:
    """What the machine did before and during the load.

    Load of others is only known when the system under test is elsewhere, or its processes are ours: a server
    on this machine that Towtank did not start looks like any other program. Before the load it should have little
    to do, so a machine that is busy then makes the run suspect.
    """
    yield from of_host(during)
    if can_tell_foreign_load(targets):
        yield Observation("busy_before", before.foreign_ratio)
        yield Observation("foreign_load", during.foreign_ratio)
    else:
        yield Observation("busy_before_untold", before.foreign_ratio)


def of_telemetry(gaps_us: Mapping[str, int], failed: Sequence[str], window: Window) -> Iterator[Observation]:
    """Gaps per source inside the measured window, µs; and sources that failed."""
    length = max(1, window.end_us - window.start_us)
    if gaps_us:
        source, longest = max(gaps_us.items(), key=lambda pair: pair[1])
        yield Observation("telemetry_gap", min(1.0, longest / length), f"source {source}")
    if failed:
        yield Observation("telemetry_failed", len(failed), ", ".join(failed))


def of_system(
    events: Iterable[SystemEvent], targets: Mapping[str, Target], outcomes: Outcomes
) -> Iterator[Observation]:
    """What the load did to the deployment."""
    by_kind: dict[str, list[SystemEvent]] = {}
    for event in events:
        if event.kind in EVENT_KINDS:
            by_kind.setdefault(event.kind, []).append(event)
    for kind, seen in by_kind.items():
        words = "; ".join(dict.fromkeys(f"{event.instance}: {event.message}" for event in seen[:3]))
        if REASONS[kind].unit == "count":
            yield Observation(kind, len(seen), words)
        else:
            yield Observation(kind, _share_lost(seen, targets), words)
    if outcomes.due == 0:
        return
    yield Observation("goodput_low", outcomes.answered_as_expected / outcomes.due)
    if outcomes.sent > 0:
        yield Observation("server_errors", outcomes.server_errors / outcomes.sent)
        if outcomes.answered == 0:
            yield Observation("never_answered")


def of_faults(inflicted: Inflicted) -> Iterator[Observation]:
    """Whether the faults of the treatment came as planned: without them, the run is one of another treatment."""
    yield Observation("fault_late", inflicted.latest_s * 1000)
    if inflicted.problems:
        yield Observation("fault_failed", 1, "; ".join(inflicted.problems[:3]))


def can_tell_foreign_load(targets: Iterable[Target]) -> bool:
    """Whether every instance is a process of ours, or on another machine."""
    local = _local_addresses()
    return all(
        instance.pid is not None or not (instance.shares_machine or _is_local(instance.url, local))
        for target in targets
        for instance in target.instances
    )


def _share_lost(events: Sequence[SystemEvent], targets: Mapping[str, Target]) -> float:
    """Largest share of a target's instances that were lost; 1 when they cannot be placed.

    Where instances are not known by name, as behind a Service, an event says of how many it is one.
    """
    lost = {event.instance for event in events}
    counts = [int(event.detail["of"]) for event in events if event.detail.get("of")]
    if counts:
        return min(1.0, len(lost) / max(counts))
    shares = [
        len(lost & {instance.name for instance in target.instances}) / len(target.instances)
        for target in targets.values()
        if target.instances
    ]
    share = max(shares, default=0.0)
    return share if share > 0 else 1.0


def _local_addresses() -> set[str]:
    return {
        address.address.partition("%")[0]
        for addresses in psutil.net_if_addrs().values()
        for address in addresses
    }


def _is_local(url: str, local: set[str]) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost") or host in local:
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
