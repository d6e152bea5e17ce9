"""The HPA's arithmetic: cases of Kubernetes' own replica_calculator_test.go, and what must always hold."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from towtank.autoscaling.hpa.metrics import Pod, Sample, Tolerance, by_average, by_utilisation, group
from towtank.errors import PlatformError

NOW = 10_000.0
HOT, COOL = NOW - 10, NOW - 180
"""Starts within and beyond the two minutes of CPU initialisation that Kubernetes' tests go by; a window is 60 s."""
R, N = True, False  # ready, not ready


def replicas(
    current,
    levels,
    *,
    target,
    requests=(),
    ready=(),
    phases=(),
    deleted=(),
    started=(),
    tolerance=None,
    plain=False,
):
    """As runTest there: a pod per replica, or as many as readiness is named of; levels in thousandths."""
    count = max(current, len(ready), len(phases))
    pods = [
        Pod(
            f"pod-{i}",
            phases[i] if phases else "Running",
            deleted=bool(deleted and deleted[i]),
            started_s=started[i] if started else NOW - 60,
            ready=ready[i] if ready else True,
            ready_changed_s=started[i] if started else NOW - 60,
            request_milli=(requests[i] if i < len(requests) else 1000),
        )
        for i in range(count)
    ]
    samples = {f"pod-{i}": Sample(level, t_s=NOW, window_s=60) for i, level in enumerate(levels)}
    groups = group(pods, samples, by_cpu=not plain, t_s=NOW, initialization_s=120, readiness_s=10)
    tolerance = tolerance or Tolerance()
    if plain:
        return by_average(current, samples, groups, target_milli=target, tolerance=tolerance)
    return by_utilisation(current, pods, samples, groups, target_percent=target, tolerance=tolerance)


P, F, W = "Running", "Failed", "Pending"
UTILISATION = {
    "scale up": (3, (300, 500, 700), {"target": 30}, 5),
    "unready: less": (3, (300, 500, 700), {"target": 30, "ready": (N, R, R)}, 4),
    "hot CPU: less": (3, (300, 500, 700), {"target": 30, "started": (HOT, COOL, COOL)}, 4),
    "unready: none": (3, (400, 500, 700), {"target": 30, "ready": (R, N, N)}, 3),
    "failed are ignored": (2, (500, 700), {"target": 30, "ready": (R, R, N, N), "phases": (P, P, F, F)}, 4),
    "deleted are ignored": (2, (500, 700), {"target": 30, "ready": (R, R, N, N), "deleted": (0, 0, 1, 1)}, 4),
    "scale down, unready left out": (
        5,
        (100, 300, 500, 250, 250),
        {"target": 50, "ready": (R, R, R, N, N)},
        2,
    ),
    "scale down, unscheduled left out": (5, (100,), {"target": 50, "phases": (P, W, W, W, W)}, 1),
    "tolerance": (3, (1010, 1030, 1020), {"target": 100, "requests": (900, 1000, 1100)}, 3),
    "0 % tolerance": (
        3,
        (909, 1010, 1111),
        {"target": 100, "requests": (900, 1000, 1100), "tolerance": Tolerance(0, 0)},
        4,
    ),
    "200 % tolerance up": (
        3,
        (1890, 1910, 1900),
        {"target": 100, "requests": (900, 1000, 1100), "tolerance": Tolerance(0.1, 2)},
        3,
    ),
    "outside of 8 % up": (
        3,
        (1100, 1080, 1090),
        {"target": 100, "requests": (900, 1000, 1100), "tolerance": Tolerance(2, 0.08)},
        4,
    ),
    "within 36 % down": (
        3,
        (660, 640, 650),
        {"target": 100, "requests": (900, 1000, 1100), "tolerance": Tolerance(0.36, 0.1)},
        3,
    ),
    "outside of 34 % down": (
        3,
        (660, 640, 650),
        {"target": 100, "requests": (900, 1000, 1100), "tolerance": Tolerance(0.34, 0.1)},
        2,
    ),
    "metrics of nobody": (4, (4000, 9500, 3000, 7000, 3200, 2000), {"target": 100}, 24),
    "missing": (4, (400, 95), {"target": 100}, 3),
    "missing, on target": (2, (1000,), {"target": 100}, 2),
    "missing, above": (2, (1900,), {"target": 100}, 2),
    "missing, below": (2, (600,), {"target": 100}, 2),
    "missing and unready": (3, (100, 450), {"target": 50, "ready": (N, R, R)}, 3),
    "missing and unready, up": (3, (100, 2000), {"target": 50, "ready": (N, R, R)}, 4),
    "missing and unready, down": (4, (100, 100, 100), {"target": 50, "ready": (N, R, R, R)}, 3),
    "missing, target above 100 %": (
        4,
        (200, 100, 100),
        {"target": 300, "ready": (N, R, R, R), "requests": (1000, 1000, 2000, 2000)},
        2,
    ),
    "surge of an update": (2, (100, 100), {"target": 50, "phases": (P, P, P)}, 2),
}


@pytest.mark.parametrize(("current", "levels", "more", "expected"), UTILISATION.values(), ids=UTILISATION)
def test_utilisation(current, levels, more, expected):
    assert replicas(current, levels, **more) == expected


AVERAGE = {
    "scale up": (3, (20000, 10000, 30000), {"target": 15000}, 4),
    "unready counts": (3, (50000, 10000, 30000), {"target": 15000, "ready": (R, R, N)}, 6),
    "unready counts, hot": (3, (50000, 15000, 30000), {"target": 15000, "ready": (N, R, N)}, 7),
    "missing, on target": (5, (20000, 19000, 21000), {"target": 20000}, 5),
    "scale down": (5, (12000, 12000, 12000, 12000, 12000), {"target": 20000}, 3),
    "surge of an update": (2, (10000, 10000), {"target": 17000, "phases": (P, P, P)}, 2),
    "of the documentation": (4, (200, 200, 200, 200), {"target": 100}, 8),
}


@pytest.mark.parametrize(("current", "levels", "more", "expected"), AVERAGE.values(), ids=AVERAGE)
def test_average(current, levels, more, expected):
    assert replicas(current, levels, plain=True, **more) == expected


@pytest.mark.parametrize(
    ("levels", "more", "words"),
    [
        ((), {}, "nothing was measured"),
        ((100, 100), {"ready": (N, N)}, "nothing was measured"),
        ((100, 100), {"requests": (0, 0)}, "requests no CPU"),
    ],
)
def test_what_cannot_be_said(levels, more, words):
    with pytest.raises(PlatformError, match=words):
        replicas(2, levels, target=50, **more)


STARTING = [
    # started, ready, ready since, measured up to: whether its CPU counts
    (NOW - 60, True, NOW - 50, NOW, False),  # no whole window since it became ready
    (NOW - 60, True, NOW - 60, NOW, True),
    (NOW - 60, False, NOW - 60, NOW, False),
    (NOW - 500, False, NOW - 495, NOW, False),  # never ready
    (NOW - 500, False, NOW - 100, NOW, True),  # was ready, is not now
    (NOW - 500, True, NOW - 10, NOW, True),
    (None, True, NOW, NOW, False),
]


@pytest.mark.parametrize(("started", "ready", "since", "measured", "counts"), STARTING)
def test_cpu_of_an_instance_that_starts_does_not_count(started, ready, since, measured, counts):
    pod = Pod("a", started_s=started, ready=ready, ready_changed_s=since)
    sample = {"a": Sample(1, t_s=measured, window_s=60)}
    found = group([pod], sample, by_cpu=True, t_s=NOW, initialization_s=120, readiness_s=10)
    assert (found.ready, found.unready) == ((1, frozenset()) if counts else (0, {"a"}))
    assert group([pod], sample, by_cpu=False, t_s=NOW, initialization_s=120, readiness_s=10).ready == 1


@given(st.lists(st.integers(0, 10_000), min_size=1, max_size=20), st.integers(1, 300))
def test_without_gaps_it_is_the_ratio(levels, target):
    """Desired = ceil(ready × usage ÷ target), unless the ratio is within the tolerance."""
    ratio = sum(levels) * 100 // (1000 * len(levels)) / target
    expected = len(levels) if 0.9 <= ratio <= 1.1 else math.ceil(ratio * len(levels))
    assert replicas(len(levels), levels, target=target, started=(COOL,) * len(levels)) == expected


@given(st.lists(st.integers(1, 10_000), min_size=1, max_size=8), st.integers(1, 8), st.integers(10, 200))
def test_what_is_missing_never_turns_the_direction(levels, missing, target):
    count = len(levels) + missing
    known = replicas(len(levels), levels, target=target, started=(COOL,) * len(levels))
    found = replicas(count, levels, target=target, started=(COOL,) * count)
    if known > len(levels):
        assert found >= count
    elif known < len(levels):
        assert found <= count
