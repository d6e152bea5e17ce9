"""The named reasons why a run is not valid or not intact: one table with their thresholds, words and advice.

docs/validity.md is generated from `REASONS` (tools/docs_validity.py, `make docs`).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Axis = Literal["instrument", "system"]
Severity = Literal[0, 1, 2]
"""0 is valid/intact, 1 is suspect/degraded, 2 is invalid/collapsed."""


@dataclass(frozen=True)
class ReasonKind:
    """One named reason.

    Parameters
    ----------
    name : str
    axis : {"instrument", "system"}
    mild, severe : float, optional
        From which value on the run is suspect or degraded, and invalid or collapsed; 0 means anything above 0,
        None never. A reason that is `low_is_bad` counts below its thresholds.
    unit : str
        Of value and thresholds; ``ratio`` is 0–1 and shown as a percentage, ``count`` counts.
    measures : str
        What the value is.
    message : str
        What happened; ``{value}`` and ``{threshold}`` are filled in, with their unit.
    advice : str
        What to do.
    low_is_bad : bool
        The value is bad when it is *below* the threshold.
    hides : tuple of str
        System reasons of which nothing can be said when this one makes a run invalid: what they would show may
        be the instrument's own doing.
    """

    name: str
    axis: Axis
    mild: float | None
    severe: float | None
    unit: Literal["ratio", "ms", "cores", "count", "flag"]
    measures: str
    message: str
    advice: str
    low_is_bad: bool = False
    hides: tuple[str, ...] = ()

    def judge(self, value: float) -> tuple[Severity, float | None]:
        """How bad a value is, and the threshold that it passed."""
        if self.severe is not None and self._beyond(value, self.severe):
            return 2, self.severe
        if self.mild is not None and self._beyond(value, self.mild):
            return 1, self.mild
        return 0, None

    def _beyond(self, value: float, threshold: float) -> bool:
        """Reaching a threshold passes it, except 0: there, anything above counts."""
        if self.low_is_bad:
            return value < threshold
        return value >= threshold if threshold > 0 else value > 0


def _kinds(*kinds: ReasonKind) -> dict[str, ReasonKind]:
    return {kind.name: kind for kind in kinds}


EVENT_KINDS = (
    "oom_killed", "crashed", "exited", "restarted", "evicted", "unready", "node_not_ready", "unreachable"
)  # fmt: skip
"""Kinds of `SystemEvent` that platforms may report; each is a reason on the system axis."""
_GOODPUT = ("goodput_low",)
_ALL_OF_SYSTEM = (*EVENT_KINDS, "never_answered", "server_errors", *_GOODPUT)

REASONS: dict[str, ReasonKind] = _kinds(
    # --- instrument: the load engine ---------------------------------------------------------------------
    ReasonKind(
        "engine_late", "instrument", 10.0, 50.0, "ms",
        "99th percentile of lag: from when a request was due until the engine picked it up",
        "the engine picked requests up late: lag p99 {value} (limit {threshold})",
        "give the engine a core of its own (generator: {cpus: [...]}) or priority (nice: -10), or lower the rate",
    ),
    ReasonKind(
        "engine_stalled", "instrument", 0.0, 0.01, "ratio",
        "share of the load's time in which the engine stood still (woke 100 ms or more late); what was under way then "
        "seems to have taken so much longer",
        "the engine stood still for {value} of the load's time (limit {threshold})",
        "find what stopped or froze it: a signal, a CPU limit of its container, a machine that was suspended",
    ),
    ReasonKind(
        "engine_short_of_cpu", "instrument", 0.05, 0.20, "ratio",
        "share of the load's time in which the engine's busiest thread was runnable but waited for a CPU",
        "the engine waited for a CPU for {value} of the time (limit {threshold})",
        "free a core: pin the engine and the deployment apart (generator.cpus, deployment cpus), or use nice: -10",
    ),
    ReasonKind(
        "engine_cpu_bound", "instrument", 0.80, 0.95, "ratio",
        "share of a core that the engine's busiest thread used in its busiest second",
        "the engine used {value} of a core in its busiest second (limit {threshold}): it was the bottleneck",
        "raise generator.threads if there are cores, or lower the load",
    ),
    ReasonKind(
        "engine_out_of_resources", "instrument", None, 0.0, "count",
        "kinds of what the engine ran out of: descriptors, ports, connections, source addresses; not all was sent",
        "the engine ran out of descriptors, local ports or connections",
        "raise `ulimit -n` or widen net.ipv4.ip_local_port_range (see `towtank doctor`), or set max_in_flight",
        hides=_GOODPUT,
    ),
    ReasonKind(
        "template_failed", "instrument", None, 0.0, "flag",
        "a template of the journey is wrong in itself: it could not be filled in, and its requests were not sent. "
        "Where it only lacks what an earlier answer should have given, its requests are `capture_missing` instead: "
        "they lower the goodput",
        "a template of the journey failed, and its requests were not sent",
        "correct the template; `towtank plan` checks what can be known before",
        hides=_GOODPUT,
    ),
    ReasonKind(
        "nothing_measured", "instrument", None, 0.0, "flag",
        "no request was due in the measured window: the load was over before its warm-up",
        "no request was due in the measured window",
        "shorten the warm-up, or let the load last longer than it",
    ),
    ReasonKind(
        "load_stopped", "instrument", None, 0.0, "flag",
        "a load of `towtank load --keep` was stopped before its end; what was under way was cut off",
        "the load was stopped before its end",
        "let it end, or ask for a shorter one",
        hides=_GOODPUT,
    ),
    ReasonKind(
        "arrivals_unaccounted", "instrument", None, 0.0, "count",
        "difference between arrivals that were due and arrivals that have a row",
        "{value} arrivals have no row, or rows too many: the record does not account for every arrival",
        "a fault in the engine: please report it with run.json and job.json",
    ),
    ReasonKind(
        "records_lost", "instrument", None, 0.0, "count",
        "rows that the engine counted but that are not in its files, or the reverse",
        "{value} records are missing from disk",
        "look for a full or failing disk; the run is repeated",
    ),
    ReasonKind(
        "engine_lost", "instrument", None, 0.0, "flag",
        "the engine died or broke its protocol before it had finished",
        "the engine was lost during the run",
        "its last words are in the run's logs/engine.log; was it killed, or the machine out of memory?",
    ),
    ReasonKind(
        "worker_lost", "instrument", None, 0.0, "flag",
        "one of several workers was lost or failed before the load was over; what the others did is no whole load",
        "a worker was lost during the run",
        "look at the worker's last words in the message and in the run's logs; was its machine or node lost?",
    ),
    ReasonKind(
        "workers_not_ready", "instrument", None, 0.0, "flag",
        "not all workers were ready, or knew of the start in time: no load was sent, or only its first moment",
        "the workers did not begin together",
        "see the message: is there room for all of them, can they be reached, is the image there?",
    ),
    ReasonKind(
        "worker_clock_unsure", "instrument", 10.0, 100.0, "ms",
        "how well the clock of a worker is known: half the shortest round trip to it, the worst of all workers",
        "when requests of a worker were sent is known to ± {value} only (limit {threshold})",
        "bring orchestrator and workers closer together; times within one worker are exact all the same",
    ),
    ReasonKind(
        "platform_lost", "instrument", None, 0.0, "flag",
        "the platform itself was lost, such as the guard of local processes or a cluster's API server; nothing can be "
        "said of the deployment",
        "the platform was lost during the run",
        "the message says how: a guard that was killed, an API server that was away, credentials that expired, a Lease "
        "that was deleted; mend that, and repeat the command",
        hides=_ALL_OF_SYSTEM,
    ),
    ReasonKind(
        "debug_build", "instrument", None, 0.0, "flag",
        "the engine is not a release build",
        "the engine is a debug build",
        "build it with `cargo build --release`",
    ),
    # --- instrument: another tool's load ------------------------------------------------------------------
    ReasonKind(
        "tool_left_out", "instrument", 0.0, None, "flag",
        "another tool made the load and leaves requests out of what it writes",
        "what the other tool wrote is not the whole load",
        "use an output of it that holds every request, or let Towtank's engine drive the load",
    ),
    ReasonKind(
        "driver_cpu_bound", "instrument", 0.80, 0.95, "ratio",
        "share of the cores that the tool driving the load can use, in its busiest second",
        "the tool that drives the load used {value} of its cores in its busiest second (limit {threshold})",
        "lower the load, give it more cores (generator.cpus), or let Towtank's engine drive it",
    ),
    ReasonKind(
        "driver_failed", "instrument", None, 0.0, "flag",
        "the tool that drives the load ended with an error before it had carried it out",
        "the tool that drives the load failed",
        "its own words are in the run's logs; try the script by hand",
    ),
    # --- instrument: telemetry and clocks ----------------------------------------------------------------
    ReasonKind(
        "telemetry_gap", "instrument", 0.05, 0.25, "ratio",
        "share of the measured window that some source left unobserved",
        "telemetry has gaps over {value} of the measured window (limit {threshold})",
        "observe less often, or free CPU for the orchestrator",
    ),
    ReasonKind(
        "telemetry_failed", "instrument", 0.0, None, "count",
        "telemetry sources that failed during the run",
        "{value} telemetry source(s) failed",
        "see the events of the run; the load's own numbers are not touched by this",
    ),
    ReasonKind(
        "wall_clock_step", "instrument", 50.0, 1000.0, "ms",
        "how far CLOCK_REALTIME moved against CLOCK_MONOTONIC during the run",
        "the wall clock was moved by {value} during the run (limit {threshold})",
        "let the clock settle (chronyc tracking) before measuring; timestamps in logs are off by that much",
    ),
    ReasonKind(
        "machine_suspended", "instrument", None, 10.0, "ms",
        "time that the machine slept during the run (CLOCK_BOOTTIME against CLOCK_MONOTONIC)",
        "the machine was suspended for {value} during the run",
        "keep it awake while measuring",
    ),
    # --- instrument: the machine -------------------------------------------------------------------------
    ReasonKind(
        "cpu_stolen", "instrument", 0.02, 0.10, "ratio",
        "share of the machine's CPU time that the hypervisor gave to others during the load (steal)",
        "the hypervisor took {value} of the CPU away (limit {threshold})",
        "use a machine with dedicated cores, or measure when the host is quieter",
    ),
    ReasonKind(
        "busy_before", "instrument", 0.15, 0.50, "ratio",
        "share of the machine that others than Towtank and the deployment used just before the load",
        "something else used {value} of the machine before the load started (limit {threshold})",
        "end it (see `top`), or wait for it with settle: {until: {cpu_below: 10%}}",
    ),
    ReasonKind(
        "busy_before_untold", "instrument", 0.50, None, "ratio",
        "the same, where a server on this machine that Towtank did not start may be part of it",
        "{value} of the machine was in use before the load started (limit {threshold}); whether by other programs or "
        "by the server, which Towtank did not start, cannot be told, nor what others did during the load",
        "look with `top`; a deployment on platform local, or on another machine, can be told from other programs",
    ),
    ReasonKind(
        "foreign_load", "instrument", 0.15, 0.40, "ratio",
        "share of the machine that others than Towtank and the deployment used during the load",
        "something else used {value} of the machine during the load (limit {threshold})",
        "end it (see `top`) and run again; nothing else should run beside a measurement",
    ),
    # --- instrument: the state before the start ----------------------------------------------------------
    ReasonKind(
        "wrong_baseline", "instrument", None, 0.0, "flag",
        "the deployment did not come back to its baseline within the settle timeout",
        "the deployment did not settle before the load started",
        "raise settle.timeout, loosen settle.until, or look for what keeps the machine busy",
    ),
    ReasonKind(
        "wrong_data_state", "instrument", None, 0.0, "flag",
        "reset failed, or its result is not what `verify` promises",
        "the data were not in the state that reset promises",
        "run the reset by hand and compare with reset.verify; its output is in the run's logs",
    ),
    # --- instrument: faults ------------------------------------------------------------------------------
    ReasonKind(
        "fault_failed", "instrument", None, 0.0, "flag",
        "a fault of the treatment could not be made, or not be undone; the run is none of this treatment",
        "a fault could not be made or undone",
        "docs/faults.md says what each fault needs; the events of the run say when it failed",
    ),
    ReasonKind(
        "fault_late", "instrument", 100.0, 1000.0, "ms",
        "how much later than planned a fault began",
        "a fault began {value} late (limit {threshold})",
        "free CPU for the orchestrator; a fault that takes long to make or undo keeps the next one waiting",
    ),
    # --- system ------------------------------------------------------------------------------------------
    ReasonKind(
        "oom_killed", "system", 0.0, 1.0, "ratio",
        "largest share of a target's instances that were killed for want of memory",
        "{value} of a target's instances were killed for want of memory",
        "a result of this treatment: give it more memory, or less load",
    ),
    ReasonKind(
        "crashed", "system", 0.0, 1.0, "ratio",
        "largest share of a target's instances that crashed (non-zero exit code or signal)",
        "{value} of a target's instances crashed under load",
        "a result of this treatment: its log is kept with the run",
    ),
    ReasonKind(
        "exited", "system", 0.0, 1.0, "ratio",
        "largest share of a target's instances that ended by themselves with exit code 0",
        "{value} of a target's instances ended by themselves",
        "a result of this treatment: its log is kept with the run",
    ),
    ReasonKind(
        "restarted", "system", 0.0, None, "count",
        "restarts of instances during the run",
        "{value} restart(s) during the run",
        "a result of this treatment: look at its log for the cause",
    ),
    ReasonKind(
        "evicted", "system", 0.0, None, "count",
        "pods that the cluster evicted during the run",
        "{value} pod(s) were evicted during the run",
        "a result of this treatment, if nothing else filled the node: give it requests that fit, or less load",
    ),
    ReasonKind(
        "unready", "system", 0.0, None, "count",
        "times that a pod stopped being ready during the run, though its containers went on",
        "pods stopped being ready {value} time(s) during the run",
        "a result of this treatment: its readiness probe failed under load",
    ),
    ReasonKind(
        "node_not_ready", "system", 0.0, None, "count",
        "times that a node with pods of the deployment was lost during the run",
        "{value} node(s) with pods of the deployment were lost during the run",
        "a result of this treatment, if its load did it; else look at the node",
    ),
    ReasonKind(
        "unreachable", "system", 0.0, None, "count",
        "targets that did not answer a probe after the load",
        "{value} target(s) did not answer after the load",
        "a result of this treatment, if nothing else cut the way to it",
    ),
    ReasonKind(
        "never_answered", "system", None, 0.0, "flag",
        "requests were sent in the measured window and not one was answered",
        "not a single request was answered",
        "a result of this treatment; was the address right?",
    ),
    ReasonKind(
        "server_errors", "system", 0.01, 0.50, "ratio",
        "share of requests sent in the measured window that were answered with a 5xx status",
        "{value} of the requests were answered with a server error (limit {threshold})",
        "a result of this treatment: look at its log for the cause",
    ),
    ReasonKind(
        "goodput_low", "system", 0.95, 0.50, "ratio",
        "goodput: expected answers within the timeout ÷ requests due in the measured window",
        "goodput fell to {value} (limit {threshold})",
        "a result of this treatment: it could not serve the load",
        low_is_bad=True,
    ),
)  # fmt: skip
"""Every reason there is. Order is that of the documentation."""


def show_value(kind: ReasonKind, value: float | None) -> str:
    """Show a value or threshold of a reason with its unit."""
    if value is None:
        return "–"
    match kind.unit:
        case "ratio":
            return f"{value * 100:.3g} %"
        case "ms":
            return f"{value:.3g} ms" if value < 1000 else f"{value / 1000:.3g} s"
        case "cores":
            return f"{value:.3g} cores"
        case _:
            return f"{value:.10g}"
