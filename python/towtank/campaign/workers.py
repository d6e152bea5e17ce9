"""Workers of a run: where they are, what is left of them after a crash, and what they mean for the run's validity."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from towtank.campaign.validity import Observation
from towtank.design.generator_model import GeneratorCluster
from towtank.design.model import Generator
from towtank.errors import EngineError
from towtank.load.workers import Place, WorkerLost, WorkersNotReady
from towtank.load.workers.places import Local
from towtank.load.workers.ssh import Ssh
from towtank.platforms.base import DeployContext

if TYPE_CHECKING:
    from towtank.campaign.frame import Frame
    from towtank.load.workers.outlook import Outlook
    from towtank.store import RunWriter


@contextlib.contextmanager
def place_of(
    generator: Generator, frame: Frame, writer: RunWriter, logs: Path
) -> Iterator[tuple[Place | None, str]]:
    """Where the load of a run is made, with an intent for whatever comes to be there.

    Yields
    ------
    tuple
        The place of its workers, None for one engine of this machine; the mark of processes on this machine.
    """
    if generator.cluster is not None:
        with _in_cluster(generator, generator.cluster, frame, writer, logs) as found:
            yield found
        return
    with frame.intents.during("engine", writer.record.run_id) as intent:
        yield _here_or_by_ssh(generator, frame.engine.path, logs, intent.token), intent.token


def _here_or_by_ssh(generator: Generator, engine: Path, logs: Path, mark: str) -> Place | None:
    if not generator.is_shared:
        return None
    if isinstance(generator.where, tuple):
        return Ssh(generator.where, engine, remote_engine=generator.engine, logs=logs, mark=mark)
    return Local(engine, logs=logs, mark=mark)


@contextlib.contextmanager
def _in_cluster(
    generator: Generator, config: GeneratorCluster, frame: Frame, writer: RunWriter, logs: Path
) -> Iterator[tuple[Place, str]]:
    """As for a deployment: a note says what was created, and whoever comes after a crash removes it."""
    from towtank.load.workers.cluster import Cluster  # noqa: PLC0415 - a Kubernetes client, which few experiments need here

    name = f"workers of {writer.record.run_id}"
    intent = frame.intents.declare("deployment", name, platform="kubernetes", scratch=True)
    context = DeployContext(
        "workers", intent.token, frame.results / intent.scratch, logs, frame.root, experiment=frame.experiment
    )
    place = Cluster(config, context, threads=generator.threads)
    try:
        yield place, intent.token
    finally:
        place.close()
        frame.intents.fulfilled(intent)


def outlooks(generators: Iterable[Generator], root: Path) -> Iterator[Outlook]:
    """What can be known before of workers in clusters; equal generators are asked for once."""
    asked = {one.model_dump_json(): one for one in generators if one.cluster is not None}
    if not asked:
        return
    from towtank.load.workers.outlook import look_ahead  # noqa: PLC0415 - a Kubernetes client, which few experiments need here

    for generator in asked.values():
        yield look_ahead(generator, root)


def reason_of(error: EngineError) -> str:
    """What an error of the generator means for the run: a key of `reasons.REASONS`."""
    if isinstance(error, WorkersNotReady):
        return "workers_not_ready"
    return "worker_lost" if isinstance(error, WorkerLost) else "engine_lost"


def observations(facts: Mapping[str, Any]) -> Iterator[Observation]:
    """What the whereabouts of the workers mean for the run's validity."""
    unsure = [
        (float(one["clock"]["uncertainty_us"]) / 1000, f"worker {one['worker']} on {one['where']}")
        for one in facts.get("generators") or ()
        if one.get("clock")
    ]
    if unsure:
        worst, who = max(unsure)
        yield Observation("worker_clock_unsure", worst, who)


def with_distances(facts: Mapping[str, Any], requests: Path) -> dict[str, Any]:
    """Add the round trip from each worker to each target: the shortest time in which a connection was opened."""
    generators = facts.get("generators")
    if not generators or not requests.exists():
        return dict(facts)
    columns = ["worker", "target", "connect_us"]
    shortest: dict[int, dict[str, int]] = {}
    for batch in ds.dataset(requests, format="parquet").to_batches(
        columns=columns, filter=pc.field("connect_us").is_valid()
    ):
        opened = pa.Table.from_batches([batch]).group_by(["worker", "target"])
        for row in opened.aggregate([("connect_us", "min")]).to_pylist():
            # A row's worker is its lane: thread by thread, one of each worker in turn.
            known = shortest.setdefault(row["worker"] % len(generators), {})
            known[row["target"]] = min(row["connect_us_min"], known.get(row["target"], row["connect_us_min"]))
    return {
        **facts,
        "generators": [{**one, "connect_us": shortest.get(one["worker"], {})} for one in generators],
    }
