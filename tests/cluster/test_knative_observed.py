"""A function on the testbed's Knative under load from zero: what its parts published, who answered, what was cold.

One run for all tests: 3/s wait for the first pod, 40/s are more than the ingress lets through to the revision.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path

import pandas as pd
import pytest

from support.cli import towtank
from support.cluster import Cluster
from towtank import report
from towtank.analysis import analyse
from towtank.analysis.cold_starts import FORCED
from towtank.analysis.model import ExperimentAnalysis
from towtank.analysis.who_answered import PARTS
from towtank.store import Results, RunFolder

pytestmark = [pytest.mark.cluster, pytest.mark.knative, pytest.mark.timeout(900)]
MOST_UNDER_WAY = 8
"""Requests that Envoy lets through to the revision at a time."""
FEWEST_EQUAL, LARGEST_DIFFERENCE = 0.7, 2
"""Stated error of the prediction from averages: a reading may fall between two ticks, which a change needs both of."""
# No multiple of a tick: whether panic that may end after 6.000 s does so at that tick or at the next is chance.
SCALING = {"window": "7s", "retention": "0s", "max_scale": 4, "target": 2}


@dataclass(frozen=True)
class Seen:
    """The run, and what became of it."""

    folder: RunFolder
    samples: pd.DataFrame
    analysis: ExperimentAnalysis

    def values(self, metric: str) -> pd.Series:
        return self.samples[self.samples.metric == metric]["value"]


def experiment(cluster: Cluster) -> dict[str, object]:
    """The experiment file."""
    function = {
        "image": cluster.image, "port": 8080, "probe": "/healthz", "timeout": "30s", "scaling": SCALING,
        "container_concurrency": 4, "ingress": {"requests": MOST_UNDER_WAY, "pending": 1},
        "requests": {"cpu": "20m"},
    }  # fmt: skip
    return {
        "experiment": "knative-observed", "question": "Who answered what, and what was cold?", "repetitions": 1,
        "seed": 3, "max_invalid_repeats": 3,
        "deployments": {"fn": {
            "platform": "knative", "context": cluster.context,
            "kubeconfig": str(Path(cluster.kubeconfig).resolve()),
            "ready": {"http": "/healthz", "timeout": "120s"}, "functions": {"fn": function},
        }},
        "workloads": {"calls": {
            "timeout": "20s", "connections": "new",
            "load": {"model": "open", "stages": [{"rate": "3/s", "hold": "12s"}, {"rate": "40/s", "hold": "12s"}]},
            "journey": {"steps": [{"name": "call", "path": "/?ms=20"}]},
        }},
        "settle": {"timeout": "240s", "until": {"replicas": "zero"}},
        "observe": [{"kubernetes": {"interval": "500ms"}}, {"knative": {"interval": "500ms"}}],
        "generator": {"instance_header": "X-Instance"},
    }  # fmt: skip


@pytest.fixture(scope="module")
def seen(with_knative: Cluster, tmp_path_factory: pytest.TempPathFactory) -> Seen:
    folder = tmp_path_factory.mktemp("knative-observed")
    path = folder / "experiment.yaml"
    path.write_text(json.dumps(experiment(with_knative)))
    done = towtank("run", path, "--plain", "--no-report", timeout=800)
    assert done.returncode in (0, 6), done.stderr  # 6: somebody else kept the machine busy
    results = Results.open(folder / "results" / "knative-observed")
    run = results.runs("all")[-1]
    return Seen(run, run.samples().to_pandas(), analyse(results))


def test_every_part_was_read_under_the_names_of_the_local_source(seen):
    for metric in (
        "autoscaler_desired", "autoscaler_stable", "autoscaler_panic", "autoscaler_target", "autoscaler_panic_mode",
        "autoscaler_excess_burst_capacity", "autoscaler_actual", "activator_concurrency", "queue_depth",
        "queue_proxy_answered_200", "instances_answered_200", "ingress_in_flight", "ingress_answered_200",
    ):  # fmt: skip
        assert not seen.values(metric).empty, metric
    assert seen.values("autoscaler_desired").max() >= 2
    assert seen.values("autoscaler_target").max() == pytest.approx(2 * 0.7)
    (facts,) = [one for one in seen.folder.record.telemetry["sources"] if one["source"] == "knative"]
    assert set(facts["control"]) == {"autoscaler", "activator", "queue-proxy", "envoy"}


def test_what_was_refused_is_attributed_and_adds_up(seen):
    (row,) = seen.analysis.who_answered[seen.analysis.who_answered.status == "503"].to_dict("records")
    assert row["total"] > 0
    assert row["ingress"] > 0, "8 under way are fewer than 40/s make while pods start"
    parts = sum(row[part] for part in PARTS)
    assert parts + row["unattributed"] == row["total"] + row["beyond"]
    assert row["unattributed"] + row["beyond"] <= 0.1 * row["total"]
    assert row["function"] == 0, "hello answers nothing with 503"


def test_the_first_requests_were_cold_and_their_phases_add_up(seen):
    spreads = seen.analysis.cold_spreads
    forced = spreads[spreads.kind == FORCED]
    assert forced["n"].sum() >= 1
    assert (forced["joined"] == forced["n"]).all()
    assert 0.3 < forced["max_s"].max() < 20, "the first waits for a whole start, those that follow for less"
    phases = seen.analysis.cold_phases[seen.analysis.cold_phases.kind == FORCED]
    assert len(phases) >= 2, "a pod that starts takes longer than a message of it is late"
    assert (phases["mean_s"] >= phases["within_s"]).all()
    assert phases["begin"].tolist()[1:] == phases["end"].tolist()[:-1]


def test_what_the_autoscaler_decided_is_predicted_within_the_stated_error(seen):
    (row,) = seen.analysis.predictions.to_dict("records")
    assert (row["algorithm"], row["reason"]) == ("KPA", "")
    assert row["ticks"] >= 10, "24 s of load are 12 ticks"
    assert row["equal"] >= FEWEST_EQUAL
    assert row["largest"] <= LARGEST_DIFFERENCE


def test_all_of_it_is_in_the_report(seen):
    model = report.build(seen.analysis)
    found = {block.id for section in model.sections for block in section.blocks if hasattr(block, "id")}
    wanted = {"who-answered", "cold-starts", "cold-phases", "cold-starts-figure", "predicted-scaling",
              "predicted-scaling-figure"}  # fmt: skip
    assert wanted <= found
