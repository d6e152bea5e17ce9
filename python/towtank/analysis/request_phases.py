"""Phases of requests that a file asks for (`answer.phases`): how their times are spread, and how they are distributed.

Looked at are answers as expected within the measured window, without cold starts, which have tables of their own. A
phase that did not happen is no time: a connection that stood already has none for its name or for its opening.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from towtank.analysis.distribution import Distribution, Pool
from towtank.analysis.ecdf import ecdf
from towtank.store.run_folder import RunFolder

SPREAD_COLUMNS = (
    "treatment_id", "phase", "n", "min_s", "p25_s", "median_s", "p75_s", "max_s", "std_s",
)  # fmt: skip
CURVE_COLUMNS = ("treatment_id", "phase", "latency_s", "share")
_PERCENTILES = (0, 25, 50, 75, 100)
Pools = Mapping[tuple[str, str], Pool]
"""(treatment id, phase) → the times of its requests."""


def of_run(folder: RunFolder, phases: Sequence[str]) -> dict[str, Distribution]:
    """Count the times of some phases of a run's warm answers; requests are scanned once, and streamed.

    Parameters
    ----------
    folder : RunFolder
    phases : sequence of str
        Columns of requests without their unit, such as ``ttfb``.

    Returns
    -------
    dict of str to Distribution
        Phase → its times; empty without any phase.
    """
    if not phases:
        return {}
    pools = {phase: Pool() for phase in phases}
    columns = [f"{phase}_us" for phase in phases]
    for batch in folder.requests().to_batches(columns=["outcome", "warmup", "cold", *columns]):
        rows = pa.Table.from_batches([batch])
        warm = rows.filter(_is_warm_answer(rows))
        for phase, column in zip(phases, columns, strict=True):
            values, counts = np.unique(warm[column].drop_null().to_numpy(), return_counts=True)
            pools[phase].add(Distribution.of(values, counts))
    return {phase: pool.all() for phase, pool in pools.items()}


def _is_warm_answer(rows: pa.Table) -> pa.ChunkedArray:
    answered = pc.equal(rows["outcome"].cast(pa.string()), "answered")
    left_out = pc.or_(
        pc.fill_null(rows["warmup"], fill_value=False), pc.fill_null(rows["cold"], fill_value=False)
    )
    return pc.fill_null(pc.and_(answered, pc.invert(left_out)), fill_value=False)


def spreads(pools: Pools, treatments: Iterable[str]) -> pd.DataFrame:
    """Order statistics of each phase, pooled over the runs of each treatment: a description, no estimate.

    Parameters
    ----------
    pools : mapping
    treatments : iterable of str
        Ids, in the order of the rows.

    Returns
    -------
    DataFrame
        `SPREAD_COLUMNS`, seconds; quantiles of type 7, standard deviation of a sample (nan of one request).
    """
    order = list(treatments)
    rows = []
    for phase in _phases(pools):
        for treatment in order:
            found = _found(pools, treatment, phase)
            if found is not None:
                deviation = found.deviation()
                quantiles = [found.percentile(percentile) for percentile in _PERCENTILES]
                rows.append(
                    (treatment, phase, found.n, *quantiles, np.nan if deviation is None else deviation)
                )
    return pd.DataFrame(rows, columns=list(SPREAD_COLUMNS))


def curves(pools: Pools, treatments: Iterable[str]) -> pd.DataFrame:
    """Distribution of each phase as a line: `CURVE_COLUMNS`, thinned as `ecdf` does it."""
    order = list(treatments)
    parts = [
        ecdf(found).assign(treatment_id=treatment, phase=phase)
        for phase in _phases(pools)
        for treatment in order
        if (found := _found(pools, treatment, phase)) is not None
    ]
    if not parts:
        return pd.DataFrame(columns=list(CURVE_COLUMNS))
    return pd.concat(parts, ignore_index=True)[list(CURVE_COLUMNS)]


def _phases(pools: Pools) -> list[str]:
    return list(dict.fromkeys(phase for _, phase in pools))


def _found(pools: Pools, treatment: str, phase: str) -> Distribution | None:
    """Times of a phase; None where it never happened."""
    pool = pools.get((treatment, phase))
    found = pool.all() if pool is not None else None
    return found if found is not None and found.n else None
