"""Shared by the tests of the design: experiment files, and small changes of them."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from towtank.design import load_plan

DATA = Path(__file__).parents[2] / "data" / "experiments"

SMALL = """\
experiment: small
question: Which is faster?
answer: {primary: [p95], baseline: a}
repetitions: 3
seed: 1
factors: {deployment: [a, b]}
deployments:
  a: {platform: external, url: "http://127.0.0.1:1"}
  b: {platform: external, url: "http://127.0.0.1:2"}
workloads:
  w:
    timeout: 2s
    load: {model: open, rate: 10/s, duration: 10s, warmup: 1s}
    journey: {steps: [{name: home}]}
"""


@pytest.fixture
def small(tmp_path):
    """Load the small experiment with texts replaced: ``small(("repetitions: 3", "repetitions: 4"))``."""

    def load(*changes, **options):
        text = SMALL
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        path = tmp_path / "experiment.yaml"
        path.write_text(text, encoding="utf-8")
        return load_plan(path, **options)

    return load


@pytest.fixture
def full(tmp_path):
    """Load the experiment with every key, with texts replaced."""

    def load(*changes, **options):
        shutil.copytree(DATA / "full", tmp_path, dirs_exist_ok=True)
        path = tmp_path / "experiment.yaml"
        text = path.read_text("utf-8")
        for old, new in changes:
            assert old in text, old
            text = text.replace(old, new, 1)
        path.write_text(text, encoding="utf-8")
        return load_plan(path, **options)

    return load
