"""Colours are measured, not believed: contrast (WCAG 2.2) and distance under simulated colour blindness."""

from itertools import combinations

import numpy as np
import pytest

from towtank.report import style
from towtank.report.naming import style_of

# Machado, Oliveira and Fernandes 2009, severity 1.0, on linear RGB
BLINDNESS = {
    "none": np.eye(3),
    "protan": [
        [0.152286, 1.052583, -0.204868],
        [0.114503, 0.786281, 0.099216],
        [-0.003882, -0.048116, 1.051998],
    ],
    "deutan": [
        [0.367322, 0.860646, -0.227968],
        [0.280085, 0.672501, 0.047413],
        [-0.011820, 0.042940, 0.968881],
    ],
    "tritan": [
        [1.255528, -0.076749, -0.178779],
        [-0.078411, 0.930809, 0.147602],
        [0.004733, 0.691367, 0.303900],
    ],
}
THEMES = {"light": style.LIGHT, "dark": style.DARK}


def linear(color):
    channels = np.array([int(color[i : i + 2], 16) for i in (1, 3, 5)]) / 255
    return np.where(channels <= 0.04045, channels / 12.92, ((channels + 0.055) / 1.055) ** 2.4)


def contrast(a, b):
    light, dark = sorted((float(linear(c) @ [0.2126, 0.7152, 0.0722]) for c in (a, b)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def lab(rgb):
    to_xyz = [[0.4124, 0.3576, 0.1805], [0.2126, 0.7152, 0.0722], [0.0193, 0.1192, 0.9505]]
    xyz = np.array(to_xyz) @ np.clip(rgb, 0, 1) / [0.9505, 1, 1.089]
    f = np.where(xyz > 0.008856, np.cbrt(xyz), 7.787 * xyz + 16 / 116)
    return np.array([116 * f[1] - 16, 500 * (f[0] - f[1]), 200 * (f[1] - f[2])])


@pytest.mark.parametrize("theme", THEMES)
def test_text_and_series_contrast(theme):
    colors = THEMES[theme]
    for role in ("ink", "muted", "fail"):
        assert contrast(colors[role], colors["paper"]) >= 4.5, role
    for role in (r for r in colors if r[0] == "s" and r[1:].isdigit()):
        assert contrast(colors[role], colors["paper"]) >= 3.0, role
        assert contrast(colors[role], colors["shade"]) >= 3.0, role


@pytest.mark.parametrize("theme", THEMES)
@pytest.mark.parametrize("kind", BLINDNESS)
def test_series_stay_apart_for_colour_blind_readers(theme, kind):
    matrix = np.array(BLINDNESS[kind])
    series = [THEMES[theme][f"s{i}"] for i in range(len(style.SERIES_LIGHT))]
    nearest = min(
        np.linalg.norm(lab(matrix @ linear(a)) - lab(matrix @ linear(b))) for a, b in combinations(series, 2)
    )
    assert nearest > 11  # CIE76 ΔE; 2.3 is just noticeable


def test_every_colour_can_be_traced_back_to_its_role():
    assert len(set(style.LIGHT.values())) == len(style.LIGHT)
    assert set(style.LIGHT) == set(style.DARK)
    assert (
        style.themed('<path fill="#0072B2" stroke="#ffffff"/>')
        == '<path fill="var(--s0)" stroke="var(--paper)"/>'
    )


def test_looks_do_not_repeat_before_36_deployments():
    looks = [style_of(i) for i in range(36)]
    assert len(set(looks)) == 36
    assert len({look.dash for look in looks[:6]}) == 6  # black and white: the first six differ without colour
