"""docs/platforms.md and docs/telemetry.md name what there is, all of it."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from towtank.clock import RunClock
from towtank.design import load_plan
from towtank.platforms import launch, placeholders
from towtank.platforms import registry as platforms
from towtank.telemetry import registry as telemetry
from towtank.telemetry.base import ObserveContext

DOCS = Path(__file__).parents[3] / "docs"
PAGES = ("platforms.md", "telemetry.md", "kubernetes.md", "knative.md", "openwhisk.md", "cloud-run.md")
TEXT = "\n".join((DOCS / name).read_text(encoding="utf-8") for name in PAGES)


@pytest.mark.parametrize("name", [*platforms.PLATFORMS, *telemetry.SOURCES])
def test_every_platform_and_source(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("page", ["openwhisk.md", "cloud-run.md"])
def test_the_example_of_a_page_is_an_experiment(page: str, tmp_path: Path) -> None:
    example = (DOCS / page).read_text(encoding="utf-8").partition("```yaml\n")[2].partition("```")[0]
    load = "    load: {model: open, rate: 1/s, duration: 1m}\n    journey: {steps: [{name: call, path: /}]}\n"
    if "workloads:" not in example:
        example += f"workloads:\n  calls:\n{load}"
    (tmp_path / "hello.js").write_text("function main() { return {body: 'hello'}; }\n")
    path = tmp_path / "experiment.yaml"
    path.write_text(f"experiment: example\nquestion: Is it one?\nrepetitions: 3\n{example}")
    assert len(load_plan(path).treatments) == 2


@pytest.mark.parametrize("name", placeholders.INSTANCE_NAMES)
def test_every_placeholder(name: str) -> None:
    assert f"`{{{name}}}`" in TEXT


@pytest.mark.parametrize("name", launch.INHERITED_VARIABLES)
def test_every_inherited_variable(name: str) -> None:
    assert f"`{name}`" in TEXT


@pytest.mark.parametrize("source", telemetry.SOURCES.values(), ids=telemetry.SOURCES)
def test_every_option(source: telemetry.SourceKind) -> None:
    for option in source.config.model_fields:
        assert f"`{option}: " in TEXT


def test_every_metric_of_the_host() -> None:
    source = telemetry.create("host")
    source.start(ObserveContext(RunClock(0), 1.0, []))
    time.sleep(0.05)
    for sample in source.sample(0):
        if not sample.metric.endswith("_full_ratio"):
            assert f"`{sample.metric}`" in TEXT
    source.close()
