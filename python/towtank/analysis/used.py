"""Quantities that a price list multiplies, in the drive phase of a run and in its billing window."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from towtank.analysis.counted import NextRun, continued, held_us
from towtank.analysis.paid import BYTES, CORES, NODES, PENDING, READY, TERMINATING, Paid, Series
from towtank.analysis.pods import SOURCE
from towtank.cost.billing import Billing, billing
from towtank.cost.busy import US
from towtank.cost.price_list import (
    AnyPriceList,
    OwnHardware,
    PerInstance,
    PerRequest,
    PodRequests,
    Reserved,
    rounded_up,
)
from towtank.cost.rules import Usage
from towtank.cost.spec import Instance
from towtank.store.run_record import RunRecord, Window

GIB = 2**30


@dataclass(frozen=True)
class Used:
    """What a run used.

    Parameters
    ----------
    drive, whole : Usage
        In the drive phase (from the start of the load to the end of the measured window), and in the billing window.
    at_least : str
        Why `whole` is less than what is billed; empty where it is all.
    approximation : str
        How busy time was approximated; empty where it was not.
    billed_s : float, optional
        Seconds of instances that are billed, where they are paid by their work.
    uncounted_s : float
        For how long in the drive phase nobody counted what is billed; the count before holds until the next.
    """

    drive: Usage
    whole: Usage
    at_least: str = ""
    approximation: str = ""
    billed_s: float | None = None
    uncounted_s: float = 0.0


@dataclass(frozen=True)
class After:
    """What is known of the time after a run: the next one on its cluster, and what that had."""

    next_run: NextRun
    paid: Paid


def used(  # noqa: PLR0917 - a run, its prices, and what came after it
    record: RunRecord, window: Window, paid: Paid, prices: AnyPriceList, instance: Instance, after: After | None,
    kept: tuple[float, float] = (0.0, 0.0),
) -> Used:  # fmt: skip
    """Put together what a price list asks for.

    Parameters
    ----------
    record : RunRecord
    window : Window
        The measured one.
    paid : Paid
    prices : AnyPriceList
    instance : Instance
        What the experiment file says of the deployment's instances.
    after : After, optional
    kept : (float, float)
        CPU cores and GiB of instances that are kept without load, where their waiting has a price.
    """
    drive_s, whole_s = window.end_us / US, max(window.end_us, window.drained_us) / US
    at_least = approximation = ""
    seconds: float | None = None
    uncounted_s = 0.0
    run = _Run(record, window, paid, after)
    match prices:
        case Reserved():
            nodes = run.nodes(instance)
            drive = whole = Usage(drive_s)
            if nodes is not None:
                drive = replace(drive, node_seconds=nodes.drive_node_seconds)
                whole = replace(whole, node_seconds=nodes.node_seconds)
                at_least = "" if nodes.is_back else _STAYED.format("nodes")
                uncounted_s = run.uncounted_s() if instance.nodes is None else 0.0
        case OwnHardware():
            drive, whole = (
                Usage(length_s, machine_seconds=instance.machines * length_s, busy_ratio=paid.busy_ratio)
                for length_s in (drive_s, whole_s)
            )
        case PodRequests() | PerInstance():
            drive, whole, at_least = run.pods(prices, instance)
            uncounted_s = run.uncounted_s()
        case PerRequest():
            seconds = None if paid.work is None else paid.work.seconds
            approximation = "" if paid.work is None else paid.work.approximation
            drive = whole = _sized(Usage(drive_s, requests=paid.sent), instance.vcpu, instance, seconds)
            if any(kept):
                drive = whole = _with_waiting(drive, kept)
                approximation = approximation or _WAITING
    drive, whole = (
        replace(usage, logged_bytes=paid.logged.value, egress_bytes=paid.egress_bytes)
        for usage in (drive, whole)
    )
    return Used(drive, whole, at_least, approximation, seconds, uncounted_s)


_STAYED = (
    "{} that came with the run were not seen to go: settle on the baseline, and let another run of the same deployment "
    "follow (`deploy: per-block`), which tells when they went"
)


@dataclass(frozen=True)
class _Run:
    """Counts of one run, and of the time after it."""

    record: RunRecord
    window: Window
    paid: Paid
    after: After | None

    def nodes(self, instance: Instance) -> Billing | None:
        """Node-seconds; None where nodes were not counted."""
        if instance.nodes is not None:
            seconds = instance.nodes * self.window.end_us / US
            return Billing(self.window.end_us, seconds, seconds, is_back=True)
        return self._billed(self._series(NODES, any_deployment=True))

    def pods(self, prices: PodRequests | PerInstance, instance: Instance) -> tuple[Usage, Usage, str]:
        """What pods had or requested in the drive phase and in the billing window, and why the latter is more."""
        length = Usage(self.window.end_us / US)
        vcpu = instance.vcpu
        if isinstance(prices, PodRequests):
            vcpu = vcpu if vcpu is None or prices.vcpu_step is None else rounded_up(vcpu, prices.vcpu_step)
        pods = self._billed(self._pods())
        cores = pods if vcpu is not None else self._billed(self._series(CORES))
        memory = pods if instance.memory is not None else self._billed(self._series(BYTES))
        each = 1.0 if vcpu is None else vcpu, (instance.memory or 1.0) / GIB
        drive, whole = (
            replace(
                length,
                vcpu_seconds=None if cores is None else _seconds(cores, drive_only=part) * each[0],
                gib_seconds=None if memory is None else _seconds(memory, drive_only=part) * each[1],
            )
            for part in (True, False)
        )
        is_back = all(one is None or one.is_back for one in (cores, memory))
        return drive, whole, "" if is_back else _STAYED.format("pods")

    def _billed(self, series: Series) -> Billing | None:
        telemetry = self.record.telemetry
        if not len(series.t_us) or telemetry.get("gap_count", 0) > len(telemetry.get("gaps", ())):
            return None
        window = self.window
        return billing(
            series.t_us.tolist(), series.values.tolist(), drive_end_us=window.end_us,
            holds_us=held_us(self.record, window),
        )  # fmt: skip

    def uncounted_s(self) -> float:
        """How long the gaps of the count are together in the drive phase; gaps of a source do not overlap."""
        gaps = [gap for gap in self.record.telemetry.get("gaps", ()) if gap.get("source") == SOURCE]
        end_us = self.window.end_us
        spans = [(max(0, int(gap["from_us"])), min(int(gap["to_us"]), end_us)) for gap in gaps]
        return sum(max(0, until - since) for since, until in spans) / US

    def _series(self, metric: str, *, any_deployment: bool = False) -> Series:
        mine = self.paid.counts.get(metric) or Series()
        after = self.after
        if after is None or not (any_deployment or after.next_run.same_deployment):
            return mine
        return continued(mine, metric, after.paid, after.next_run.later_us)

    def _pods(self) -> Series:
        """Pods that are there: ready, not yet or no more ready, and those that are ending."""
        ready = self._series(READY)
        others = [self._series(metric) for metric in (PENDING, TERMINATING)]
        whole = ready.values.copy()
        for one in others:
            at = np.searchsorted(one.t_us, ready.t_us, side="right") - 1
            whole += np.where(at >= 0, one.values[np.maximum(at, 0)], 0.0) if len(one.t_us) else 0.0
        return Series(ready.t_us, whole)


_WAITING = (
    "kept instances waited for what is left of their time: too little where more of them worked at a time"
)


def _with_waiting(usage: Usage, kept: tuple[float, float]) -> Usage:
    """What is left of the time of instances that are kept, when all work is taken off."""
    cores, gib = kept
    return replace(
        usage,
        waiting_vcpu_seconds=max(0.0, cores * usage.length_s - (usage.vcpu_seconds or 0.0)),
        waiting_gib_seconds=max(0.0, gib * usage.length_s - (usage.gib_seconds or 0.0)),
    )


def _seconds(counted: Billing, *, drive_only: bool) -> float:
    return counted.drive_node_seconds if drive_only else counted.node_seconds


def _sized(usage: Usage, vcpu: float | None, instance: Instance, seconds: float | None) -> Usage:
    """Seconds of instances as vCPU-seconds and GiB-seconds."""
    return replace(
        usage,
        vcpu_seconds=None if seconds is None or vcpu is None else seconds * vcpu,
        gib_seconds=None if seconds is None or instance.memory is None else seconds * instance.memory / GIB,
    )
