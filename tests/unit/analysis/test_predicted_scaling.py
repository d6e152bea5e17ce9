"""What an autoscaler should have done: its emulation is predicted exactly, what did otherwise is told by how much."""

from __future__ import annotations

import pyarrow as pa
import pytest

from support.run_tables import FakeRun
from towtank.analysis import predicted_scaling
from towtank.analysis.scaling_agreement import AVERAGES, DESIRED, LOAD, METRICS, PREDICTED, READY
from towtank.autoscaling.hpa.settings import HpaSettings
from towtank.autoscaling.kpa.settings import KpaSettings
from towtank.platforms.scaling.hpa import HpaPolicy
from towtank.platforms.scaling.kpa import KpaPolicy
from towtank.platforms.scaling.lives import Life
from towtank.platforms.scaling.policy import Seen, Shortage
from towtank.platforms.scaling.seam import InstanceStats, Stats
from towtank.store.schemas import SAMPLES

S_NS, S_US = 1_000_000_000, 1_000_000
KPA = {"container_concurrency": 2, "initial_scale": 0, "window": "6s", "scale_to_zero_grace_period": "1s"}
HPA = {"cpu": "50%", "max_replicas": 8, "sync_period": "5s", "metrics_resolution": "5s",
       "downscale_stabilization": "20s", "cpu_initialization_period": "0s"}  # fmt: skip


class Emulated:
    """A policy at work: instances are ready a while after they were wanted; what telemetry would have kept of it."""

    def __init__(self, policy, *, starts_in_s=2):
        self.policy, self.starts_in_s = policy, starts_in_s
        self.samples: list[tuple] = []
        self.lives: list[Life] = []
        self.made = 0

    def keep(self, t_s, values):
        self.samples += [
            (round(t_s * S_US), "scaling", "app", name, float(value)) for name, value in values.items()
        ]

    def want(self, t_s, wanted):
        self.keep(t_s, wanted.values)
        while len(self.lives) > wanted.replicas:
            self.policy.gone(self.lives.pop().name)
        while len(self.lives) < wanted.replicas:
            self.made += 1
            started = round(t_s * S_NS)
            self.lives.append(Life(f"app-{self.made}", self.made, started, pid=self.made, started_ns=started))

    def second(self, t_s, load, *, first=None):
        """One second with so many requests at a time; `first`: when, within it, a request found nobody."""
        if first is not None:
            decided = self.policy.short(Shortage(first, 1, self.ready(first), 0))
            if decided is not None:
                self.want(first, decided)
        for life in self.lives:
            life.answers = t_s - life.created_ns / S_NS >= self.starts_in_s
            life.changed_ns = life.created_ns + self.starts_in_s * S_NS
        ready = self.ready(t_s)
        self.keep(
            t_s,
            {
                "replicas_ready": ready, "replicas_current": len(self.lives), "ingress_concurrency": load,
                "ingress_requests_per_s": load * 10,
            },
        )  # fmt: skip
        each = {life.name: InstanceStats(0, load / max(1, ready), 0) for life in self.lives if life.answers}
        stats = Stats(round((t_s - 1) * S_NS), round(t_s * S_NS), round(load * 10), 0, 0, ready, load, 0.0,
                      instances=each)  # fmt: skip
        self.want(t_s, self.policy.look(Seen(stats, self.lives)))

    def ready(self, t_s):
        return sum(life.answers for life in self.lives)


def record_of(*, deployment=None, sources=()):
    return FakeRun(()).record.model_copy(
        update={"deployment": deployment or {}, "telemetry": {"sources": list(sources)}}
    )


def predicted(samples, **record):
    table = pa.Table.from_pylist(
        [dict(zip(SAMPLES.names, row, strict=True)) for row in samples], schema=SAMPLES
    )
    found = predicted_scaling.of_run(record_of(**record), table)
    return found.found if found is not None else ()


def local(settings):
    return {"platform": "local", "scaling": {"app": {"settings": settings}}}


@pytest.fixture(scope="module", params=[0, 1], ids=["even ticks", "odd ticks"])
def kpa(request):
    """From zero: nothing, then a load that rises twice, a burst, and nothing again; and when its ticks are, s."""
    settings = KpaSettings.model_validate(KPA)
    life = Emulated(KpaPolicy(settings, float(-11 + request.param)))
    loads = [0.0] * 10 + [1.5] * 12 + [6.3] * 15 + [40.0] * 3 + [6.3] * 10 + [0.0] * 20
    for number, load in enumerate(loads):
        t_s = float(number - 9)
        life.second(t_s, load, first=t_s - 0.7 if load and not loads[number - 1] else None)
    ticks = [float(t_s) for t_s in range(-9 + request.param, len(loads) - 9, 2)]
    return settings, life.samples, ticks


def stored(settings):
    return settings.model_dump(mode="json", exclude_none=True)


def test_what_the_emulation_decided_is_predicted_from_the_load_alone(kpa):
    settings, samples, _ = kpa
    (one,) = predicted(samples, deployment=local({"kpa": stored(settings)}))
    assert (one.autoscaler, one.algorithm, one.by, one.reason) == ("app", "KPA", LOAD, "")
    assert one.ticks in (30, 31)
    assert (one.equal, one.largest) == (1.0, 0)
    highest = one.series[one.series["metric"] == PREDICTED]["value"].max()
    assert highest > 15, "the burst was seen"
    assert set(one.series["metric"]) == {PREDICTED, DESIRED, READY}
    assert one.series["t_s"].min() >= 0


def test_what_did_otherwise_is_told_by_how_often_and_how_much(kpa):
    settings, samples, _ = kpa
    capped = [
        (t, source, name, metric, min(value, 9.0) if metric == "autoscaler_desired" else value)
        for t, source, name, metric, value in samples
    ]
    (one,) = predicted(capped, deployment=local({"kpa": stored(settings)}))
    assert 0.5 < one.equal < 1
    assert one.largest > 5


def test_from_the_averages_that_an_autoscaler_publishes(kpa):
    """As Knative's own does: all at its tick, every 2 s, and ready pods as they come; read each second, a bit later."""
    _, samples, ticks = kpa
    at = {}
    for t, _, _, metric, value in samples:
        at.setdefault(t, {})[metric] = value
    published = ("autoscaler_stable", "autoscaler_panic", "autoscaler_panic_mode", "autoscaler_desired")
    read = []
    for tick in ticks:
        for late_s in (0.0, 1.0):
            now, told = at.get(round((tick + late_s) * S_US)), at[round(tick * S_US)]
            if now is not None:
                values = {name: told.get(name) for name in published} | {
                    "autoscaler_actual": now["replicas_ready"]
                }
                read += [(round((tick + late_s + 0.3) * S_US), "knative", "fn-00001", name, value)
                         for name, value in values.items() if value is not None]  # fmt: skip
    config = {"stable-window": "6s", "scale-to-zero-grace-period": "1s"}
    revision = {"name": "fn-00001", "annotations": {}, "container_concurrency": 2}
    about = {"knative": {"settings": {"config-autoscaler": config}, "revisions": [revision]}}
    (one,) = predicted(read, deployment=about)
    assert (one.autoscaler, one.by) == ("fn-00001", AVERAGES)
    assert one.ticks > 15
    assert (one.equal, one.largest) == (1.0, 0)


def test_a_revision_of_another_class_says_why_there_is_none():
    revision = {"name": "fn", "annotations": {"autoscaling.knative.dev/class": "hpa.autoscaling.knative.dev"}}
    (one,) = predicted([], deployment={"knative": {"settings": {}, "revisions": [revision]}})
    assert (one.algorithm, one.equal) == ("HPA", None)
    assert "not kept" in one.reason


def test_the_hpa_of_this_machine_is_predicted_from_what_it_measured():
    settings = HpaSettings.model_validate(HPA)
    spent: dict[int, float] = {}
    policy = HpaPolicy(settings, cpu_request=1.0, t_s=0.0, cpu_of=lambda pid: spent.get(pid, 0.0))
    life = Emulated(policy, starts_in_s=1)
    life.want(0.0, policy.look(Seen(Stats(0, 0, 0, 0, 0, 0, 0.0, 0.0), ())))
    for number in range(90):
        load = 0.4 if number < 20 else 3.1 if number < 50 else 0.2
        life.second(float(number + 1), load)
        for one in life.lives:
            spent[one.pid] = spent.get(one.pid, 0.0) + load / len(life.lives)
    (one,) = predicted(life.samples, deployment=local({"hpa": stored(settings)}))
    assert (one.algorithm, one.by) == ("HPA", METRICS)
    assert one.ticks >= 15
    assert (one.equal, one.largest) == (1.0, 0)
    assert one.series[one.series["metric"] == PREDICTED]["value"].max() > 4


def test_the_hpa_of_a_cluster_is_predicted_from_its_status():
    spec = {"minReplicas": 1, "maxReplicas": 10, "metrics": [
        {"type": "Resource", "resource": {"name": "cpu", "target": {"type": "Utilization", "averageUtilization": 50}}},
    ]}  # fmt: skip
    name = "HorizontalPodAutoscaler/app"
    told = [(0, 1, 0.4, 1), (15, 1, 1.6, 4), (30, 4, 0.9, 8), (45, 8, 0.5, 8), (60, 8, 0.5, 7)]
    samples = []
    for t_s, current, ratio, desired in told:
        for extra in (0, 5, 10):
            at = (t_s + extra) * S_US
            samples += [(at, "kubernetes", name, "replicas_current", float(current)),
                        (at, "kubernetes", name, "replicas_desired", float(desired)),
                        (at, "kubernetes", f"{name}/cpu", "seen_ratio", ratio)]  # fmt: skip
    (one,) = predicted(samples, sources=[{"source": "kubernetes", "autoscalers": {"app": spec}}])
    assert (one.autoscaler, one.ticks, one.largest) == ("app", 5, 1)
    assert one.equal == pytest.approx(0.8), "at 60 s it did what the algorithm does not: 50 % is the target"


@pytest.mark.parametrize("settings", [{"kpa": {"window": "6s"}}, {"hpa": {"cpu": 50, "max_replicas": 3}}])
def test_what_was_not_observed_has_no_prediction_and_says_what_to_do(settings):
    (one,) = predicted([], deployment=local(settings))
    assert "add `scaling` to `observe`" in one.reason


def test_settings_that_cannot_be_read_are_a_reason():
    (one,) = predicted([], deployment=local({"kpa": {"no_such": 1}}))
    assert "another version" in one.reason


def test_without_an_autoscaler_there_is_nothing():
    assert predicted([], deployment=local({"fixed": 2})) == ()
    assert predicted_scaling.table([]).empty
    assert predicted_scaling.series([]).empty
