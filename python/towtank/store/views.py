"""The views that SQL sees: their columns, what each column means, and the SQL behind them.

docs/results.md is written from `VIEWS`, and a test compares `VIEWS` with what DuckDB says of the views, so the
three cannot drift apart. The views read the internal tables `store.*`, which `store.database` fills.
"""

from __future__ import annotations

from dataclasses import dataclass

from towtank.store.schemas import OUTCOME_CLASS_SQL


@dataclass(frozen=True)
class View:
    """One view.

    Parameters
    ----------
    name : str
    about : str
        One sentence: what a row is.
    columns : mapping
        Column → (SQL type, meaning).
    sql : str
        Its query. Empty for `runs`, which is a table made from the run.json files.
    """

    name: str
    about: str
    columns: dict[str, tuple[str, str]]
    sql: str


_RUN = {
    "run_id": ("VARCHAR", "the run; joins with `runs`"),
    "treatment_id": ("VARCHAR", "its treatment"),
    "block": ("INTEGER", "its block: the how-manieth repetition"),
    "instrument": ("VARCHAR", "`valid`, `suspect` or `invalid`; null while the run is not complete"),
    "valid": ("BOOLEAN", "the instrument did not spoil the run (`instrument` is not `invalid`)"),
}
_RUN_SQL = "f.run_id, f.treatment_id, f.block, f.instrument, f.valid"

RUNS = {
    "run_id": ("VARCHAR", "name of the run's folder: block, treatment, attempt"),
    "planned_id": ("VARCHAR", "the planned run; its attempts share it"),
    "experiment": ("VARCHAR", "name of the experiment"),
    "treatment_id": ("VARCHAR", "the treatment"),
    "treatment": ("VARCHAR", "how figures name it"),
    "block": ("INTEGER", "the how-manieth repetition of every treatment"),
    "position": ("INTEGER", "place of the run in its block"),
    "attempt": ("INTEGER", "from 1; more than one after an invalid or killed attempt"),
    "state": ("VARCHAR", "`complete`, or `running`: under way, or killed"),
    "seed": ("BIGINT", "of the run's random choices"),
    "started_utc": ("TIMESTAMP", "when its deployment began, UTC"),
    "finished_utc": ("TIMESTAMP", "when it was complete, UTC"),
    "load_start_utc": ("TIMESTAMP", "zero of the run clock, UTC"),
    "workload": ("VARCHAR", "name of the workload"),
    "load_model": (
        "VARCHAR",
        "`open`, `closed`, `mixed` where workloads side by side differ, or `foreign`: another tool made the load",
    ),
    "timeout_us": ("BIGINT", "the longest timeout of any step, µs"),
    "window_start_us": ("BIGINT", "end of the warm-up on the run clock, µs"),
    "window_end_us": ("BIGINT", "end of the schedule on the run clock, µs"),
    "drained_us": ("BIGINT", "when the last request was over, µs"),
    "bin_us": ("BIGINT", "width of a time bin in `counts`, µs"),
    "instrument": _RUN["instrument"],
    "valid": _RUN["valid"],
    "instrument_reasons": ("VARCHAR[]", "names of the reasons why it is not valid"),
    "system": ("VARCHAR", "`intact`, `degraded` or `collapsed`: the treatment's result"),
    "system_reasons": ("VARCHAR[]", "names of the reasons why it is not intact"),
    "failure": ("VARCHAR", "why the run could not be carried out; null otherwise"),
    "stages": (
        'STRUCT(workload VARCHAR, "name" VARCHAR, start_us BIGINT, end_us BIGINT)[]',
        "of the load model",
    ),
    "levels": ("MAP(VARCHAR, VARCHAR)", "factor → level, as text; safe names are also columns of their own"),
    "versions": ("MAP(VARCHAR, VARCHAR)", "of everything that took part"),
    "timings_s": ("MAP(VARCHAR, DOUBLE)", "phase of the run → its length, s"),
    "environment_digest": ("VARCHAR", "tells environments apart"),
    "engine_detail": ("JSON", "what the engine says of itself"),
    "deployment_detail": ("JSON", "what the platform says of the deployment"),
    "telemetry_detail": ("JSON", "what the telemetry sources say of themselves"),
}
"""Fixed columns of `runs`; after them comes one column per factor."""

_TRACED = 'f.run_id, r.workload, r.worker, r."user", r.iteration, r.step, r.scheduled_us'
"""What ids of traces follow from: `trace_ids.COLUMNS`."""
_REQUEST_SQL = {
    "total_us": "(coalesce(r.ttfb_us, 0)::BIGINT + r.after_ttfb_us)",
    "in_window": """CASE WHEN f.window_start_us IS NULL THEN NOT r.warmup
        ELSE r.scheduled_us >= f.window_start_us AND r.scheduled_us < f.window_end_us END""",
    "trace_id": f"towtank_trace_id({_TRACED})",
    "parent_id": f"towtank_parent_id({_TRACED})",
    "trace_draw": f"towtank_trace_draw({_TRACED})",
}

REQUESTS = View(
    "requests",
    "One row a request that was due, sent or not.",
    {
        **_RUN,
        "scheduled_us": ("BIGINT", "when it was due on the run clock, µs"),
        "lag_us": (
            "INTEGER",
            "due → picked up by the engine: the instrument's share, µs; null: another tool, not known",
        ),
        "wait_us": (
            "INTEGER",
            "picked up → a connection was free: backpressure, µs; null: not known apart from the total",
        ),
        "dns_us": ("INTEGER", "name resolution, µs; null: did not happen"),
        "connect_us": ("INTEGER", "TCP connect, µs; null on a reused connection"),
        "tls_us": ("INTEGER", "TLS handshake, µs; null: did not happen"),
        "ttfb_us": ("INTEGER", "started → first byte of the answer, µs; includes dns, connect, tls"),
        "after_ttfb_us": ("INTEGER", "first byte → end, µs; the whole total when there was no first byte"),
        "total_us": ("BIGINT", "started → end, µs; null when never sent"),
        "latency_us": (
            "BIGINT",
            "due → end = lag + wait + total, µs; lag + wait when never sent; start → end where no schedule is known",
        ),
        "status": ("INTEGER", "HTTP status; null without an answer"),
        "outcome": (
            "VARCHAR",
            "`answered`, `check:…`, `timeout:…`, `refused`, `reset`, … (docs/formats.md, 2)",
        ),
        "outcome_class": ("VARCHAR", "`ok`, `check`, `timeout`, `error`, `not_sent` or `interrupted`"),
        "ok": ("BOOLEAN", "answered as expected, within the timeout"),
        "in_window": ("BOOLEAN", "due in the measured window; in a run without one: after the warm-up"),
        "bytes_out": ("BIGINT", "sent"),
        "bytes_in": ("BIGINT", "received"),
        "workload": ("VARCHAR", "name of the workload"),
        "step": ("VARCHAR", "name of the step"),
        "target": ("VARCHAR", "name of the target"),
        "instance": ("VARCHAR", "the replica that answered, or that was connected to"),
        "user": ("INTEGER", "virtual user (closed) or number of the arrival (open)"),
        "iteration": ("INTEGER", "of this user, from 0"),
        "worker": ("INTEGER", "thread of the engine"),
        "attempt": ("INTEGER", "0 = the first"),
        "http_version": ("VARCHAR", "`1.1` or `2`"),
        "redirects": ("INTEGER", "redirects that were followed: the row is of all hops"),
        "reused": ("BOOLEAN", "went over a connection that had served before"),
        "warmup": ("BOOLEAN", "due before the end of the warm-up"),
        "cold": ("BOOLEAN", "waited for an instance to start; null: not known"),
        "trace_id": (
            "VARCHAR",
            "32 hex digits, recomputed: see below; null where the iteration is not known",
        ),
        "parent_id": ("VARCHAR", "16 hex digits: the span of the request itself"),
        "trace_draw": (
            "DOUBLE",
            "0 to 1: the request carried a `traceparent` where this is under the share asked for",
        ),
    },
    f"""SELECT {_RUN_SQL}, r.scheduled_us, r.lag_us, r.wait_us, r.dns_us, r.connect_us, r.tls_us, r.ttfb_us,
        r.after_ttfb_us, {_REQUEST_SQL["total_us"]} AS total_us,
        CASE WHEN r.lag_us IS NULL THEN {_REQUEST_SQL["total_us"]}
            ELSE r.lag_us::BIGINT + r.wait_us + coalesce({_REQUEST_SQL["total_us"]}, 0) END AS latency_us,
        r.status, r.outcome, {OUTCOME_CLASS_SQL} AS outcome_class, r.outcome = 'answered' AS ok,
        {_REQUEST_SQL["in_window"]} AS in_window, r.bytes_out, r.bytes_in, r.workload, r.step, r.target, r.instance,
        r."user", r.iteration, r.worker, r.attempt, r.http_version, r.redirects, r.reused,
        r.warmup, r.cold,
        {_REQUEST_SQL["trace_id"]} AS trace_id, {_REQUEST_SQL["parent_id"]} AS parent_id,
        {_REQUEST_SQL["trace_draw"]} AS trace_draw
    FROM {{files}} r JOIN store.files f ON r.filename = f.path""",  # noqa: S608 - fixed text
)

ITERATIONS = View(
    "iterations",
    "One row a journey of one virtual user: its requests taken together; none where they cannot be told apart.",
    {
        **_RUN,
        "workload": ("VARCHAR", "name of the workload"),
        "worker": ("INTEGER", "thread of the engine"),
        "user": ("INTEGER", "virtual user (closed) or number of the arrival (open)"),
        "iteration": ("INTEGER", "of this user, from 0"),
        "steps": ("BIGINT", "requests in it"),
        "scheduled_us": ("BIGINT", "when its first request was due on the run clock, µs"),
        "journey_us": ("BIGINT", "last end − first due, think time included, µs"),
        "ok": ("BOOLEAN", "every request was answered as expected"),
        "outcome": ("VARCHAR", "outcome of the first request that failed, else `answered`"),
        "in_window": ("BOOLEAN", "its first request was due in the measured window"),
    },
    """SELECT run_id, treatment_id, block, instrument, valid, workload, worker, "user", iteration, count(*) AS steps,
        min(scheduled_us) AS scheduled_us, max(scheduled_us + latency_us) - min(scheduled_us) AS journey_us,
        bool_and(ok) AS ok, coalesce(arg_min(outcome, scheduled_us) FILTER (NOT ok), 'answered') AS outcome,
        arg_min(in_window, scheduled_us) AS in_window
    FROM requests WHERE iteration IS NOT NULL
    GROUP BY run_id, treatment_id, block, instrument, valid, workload, worker, "user", iteration""",
)

SAMPLES = View(
    "samples",
    "One row a number that telemetry observed at a moment.",
    {
        **_RUN,
        "t_us": ("BIGINT", "on the run clock, µs; negative before the load starts"),
        "source": ("VARCHAR", "`host`, `process`, …"),
        "instance": ("VARCHAR", "the replica; empty for the whole machine"),
        "metric": ("VARCHAR", "its name ends in its unit: `cpu_cores`, `memory_bytes`, …"),
        "value": ("DOUBLE", "in that unit; ratios are 0–1"),
    },
    f"""SELECT {_RUN_SQL}, r.t_us, r.source, r.instance, r.metric, r.value
    FROM {{files}} r JOIN store.files f ON r.filename = f.path""",  # noqa: S608 - fixed text
)

EVENTS = View(
    "events",
    "One row something that happened at a moment.",
    {
        **_RUN,
        "t_us": ("BIGINT", "on the run clock, µs"),
        "source": ("VARCHAR", "who saw it"),
        "kind": ("VARCHAR", "`ready`, `crashed`, `oom_killed`, …"),
        "instance": ("VARCHAR", "the replica that it happened to"),
        "message": ("VARCHAR", "in words"),
        "detail": ("VARCHAR", "more, as a JSON object"),
    },
    f"""SELECT {_RUN_SQL}, r.t_us, r.source, r.kind, r.instance, r.message, r.detail
    FROM {{files}} r JOIN store.files f ON r.filename = f.path""",  # noqa: S608 - fixed text
)

SPANS = View(
    "spans",
    "One row a span that the system under test sent; joins with `requests` by `run_id` and `trace_id`.",
    {
        **_RUN,
        "trace_id": (
            "VARCHAR",
            "32 hex digits; that of its request, where the request carried a `traceparent`",
        ),
        "span_id": ("VARCHAR", "16 hex digits"),
        "parent_id": (
            "VARCHAR",
            "the span around it; of the outermost one: `parent_id` of its request; else empty",
        ),
        "service": ("VARCHAR", "`service.name` of the sender"),
        "name": ("VARCHAR", "of the span"),
        "kind": ("VARCHAR", "`server`, `client`, `internal`, `producer`, `consumer`, or `unspecified`"),
        "start_us": ("BIGINT", "on the run clock, µs, as exactly as `telemetry_detail` says"),
        "duration_us": ("BIGINT", "start → end on the sender's clock, µs"),
        "status": ("VARCHAR", "`unset`, `ok` or `error`"),
        "instance": ("VARCHAR", "the sender's pod, instance id or host"),
        "attributes": ("VARCHAR", "the span's own, as a JSON object; the first 2,000 characters' worth"),
    },
    f"""SELECT {_RUN_SQL}, r.trace_id, r.span_id, r.parent_id, r.service, r.name, r.kind, r.start_us, r.duration_us,
        r.status, r.instance, r.attributes
    FROM {{files}} r JOIN store.files f ON r.filename = f.path""",  # noqa: S608 - fixed text
)


def _inside(end_us: str) -> str:
    """Membership of a row of sums of requests due before `end_us`; the window may begin later than it was told."""
    return f"(r.in_window AND (f.window_start_us IS NULL OR {end_us} > f.window_start_us))"


COUNTS = View(
    "counts",
    "Exact count tables: how many requests had exactly this value. Only complete runs have them.",
    {
        **_RUN,
        "workload": ("VARCHAR", "name of the workload"),
        "step": ("VARCHAR", "name of the step"),
        "outcome_class": ("VARCHAR", "as in `requests`"),
        "in_window": ("BOOLEAN", "as in `requests`"),
        "bin": ("INTEGER", "⌊scheduled_us ÷ bin_us⌋"),
        "bin_us": ("BIGINT", "width of a time bin of this run, µs"),
        "variable": ("VARCHAR", "`latency`, `total`, `ttfb`, `connect`, `lag` or `wait`"),
        "value": ("BIGINT", "µs, exact"),
        "count": ("BIGINT", "requests with this value; sum it when merging"),
    },
    f"""SELECT {_RUN_SQL}, r.workload, r.step, r.outcome_class,
        {_inside("(r.bin + 1)::BIGINT * f.bin_us")} AS in_window, r.bin, f.bin_us, r.variable, r.value, r.count
    FROM {{files}} r JOIN store.files f ON r.filename = f.path""",  # noqa: S608 - fixed text
)

TOTALS = View(
    "totals",
    "Exact sums per second of arrival and of completion. Only complete runs have them.",
    {
        **_RUN,
        "workload": ("VARCHAR", "name of the workload"),
        "step": ("VARCHAR", "name of the step"),
        "outcome": ("VARCHAR", "as in `requests`"),
        "status": ("INTEGER", "as in `requests`"),
        "instance": ("VARCHAR", "as in `requests`"),
        "in_window": ("BOOLEAN", "as in `requests`"),
        "second": ("INTEGER", "⌊scheduled_us ÷ 10⁶⌋"),
        "end_second": ("INTEGER", "second in which it ended; null when never sent"),
        "count": ("BIGINT", "requests"),
        "bytes_out": ("BIGINT", "sent"),
        "bytes_in": ("BIGINT", "received"),
    },
    f"""SELECT {_RUN_SQL}, r.workload, r.step, r.outcome, r.status, r.instance,
        {_inside("(r.second + 1)::BIGINT * 1000000")} AS in_window,
        r.second, r.end_second, r.count, r.bytes_out, r.bytes_in
    FROM {{files}} r JOIN store.files f ON r.filename = f.path""",  # noqa: S608 - fixed text
)

RUNS_VIEW = View("runs", "One row an attempt of a planned run: run.json, with a column per factor.", RUNS, "")

VIEWS: dict[str, View] = {
    v.name: v for v in (RUNS_VIEW, REQUESTS, ITERATIONS, SAMPLES, EVENTS, SPANS, COUNTS, TOTALS)
}
