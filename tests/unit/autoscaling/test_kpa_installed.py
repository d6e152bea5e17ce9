"""Settings of an installed Knative: its ConfigMap and a revision's annotations."""

import pytest

from towtank.autoscaling.kpa.installed import installed_settings
from towtank.autoscaling.kpa.settings import KpaSettings
from towtank.errors import PlatformError

PUBLISHED = {
    "container-concurrency-target-percentage": "70",
    "container-concurrency-target-default": "100",
    "requests-per-second-target-default": "200",
    "target-burst-capacity": "211",
    "stable-window": "60s",
    "panic-window-percentage": "10.0",
    "panic-threshold-percentage": "200.0",
    "max-scale-up-rate": "1000.0",
    "max-scale-down-rate": "2.0",
    "enable-scale-to-zero": "true",
    "scale-to-zero-grace-period": "30s",
    "scale-to-zero-pod-retention-period": "0s",
    "pod-autoscaler-class": "kpa.autoscaling.knative.dev",
    "activator-capacity": "100.0",
    "initial-scale": "1",
    "allow-zero-initial-scale": "false",
    "min-scale": "0",
    "max-scale": "0",
    "scale-down-delay": "0s",
    "max-scale-limit": "0",
}
"""The example block of config/core/configmaps/autoscaler.yaml, which holds the defaults."""
G = "autoscaling.knative.dev/"


@pytest.mark.parametrize("config", [{}, PUBLISHED, {"_example": "not read"}])
def test_defaults_are_knatives_own(config):
    found = installed_settings(config)
    assert found.decider() == KpaSettings().decider()
    assert found.panic_window_s == 6


def test_the_config_map_counts():
    found = installed_settings(
        {
            "stable-window": "1m30s",
            "panic-window-percentage": "20",
            "container-concurrency-target-percentage": "0.5",
            "container-concurrency-target-default": "40",
            "scale-to-zero-grace-period": "5s",
        }
    )
    assert (found.window, found.panic_window_s, found.scale_to_zero_grace_period) == (90, 18, 5)
    assert found.resolved_target() == (20, 40)


def test_annotations_win_over_the_config_map():
    notes = {
        f"{G}window": "10s",
        f"{G}min-scale": "2",
        f"{G}max-scale": "5",
        f"{G}target": "8",
        f"{G}metric": "rps",
    }
    notes[f"{G}targetUtilizationPercentage"] = "50"  # as older releases wrote it
    found = installed_settings({"stable-window": "60s", "requests-per-second-target-default": "9"}, notes)
    assert (found.window, found.min_scale, found.max_scale, found.metric) == (10, 2, 5, "rps")
    assert found.resolved_target() == (4, 8)


def test_the_newer_spelling_of_an_annotation_wins():
    for notes in ({f"{G}minScale": "1", f"{G}min-scale": "3"}, {f"{G}min-scale": "3", f"{G}minScale": "1"}):
        assert installed_settings({}, notes).min_scale == 3


def test_container_concurrency_is_the_target_where_there_is_one():
    found = installed_settings({"container-concurrency-target-default": "50"}, container_concurrency=4)
    assert found.resolved_target() == pytest.approx((2.8, 4))


@pytest.mark.parametrize(("allowed", "expected"), [("false", 1), ("true", 0)])
def test_initial_scale_zero_needs_leave(allowed, expected):
    found = installed_settings({"allow-zero-initial-scale": allowed}, {f"{G}initial-scale": "0"})
    assert found.initial_scale == expected


WRONG = [
    ({"stable-window": "5s"}, {}, "window"),
    ({"stable-window": "sixty"}, {}, "window"),
    ({"max-scale-up-rate": "fast"}, {}, "max-scale-up-rate is 'fast'"),
    ({"enable-scale-to-zero": "maybe"}, {}, "enable-scale-to-zero is 'maybe'"),
    ({"target-burst-capacity": "-2"}, {}, "target_burst_capacity"),
    ({"target-burst-capacity": "-0.5"}, {}, "target_burst_capacity"),
    ({}, {f"{G}class": "hpa.autoscaling.knative.dev"}, "is scaled by 'hpa"),
    ({}, {f"{G}min-scale": "3", f"{G}max-scale": "2"}, "min_scale 3 is above max_scale 2"),
]


@pytest.mark.parametrize(("config", "notes", "words"), WRONG)
def test_what_cannot_be_read_is_named(config, notes, words):
    with pytest.raises(PlatformError, match=words.replace("(", r"\(")):
        installed_settings(config, notes)
