"""In which order the runs happen.

*listed*: in each repetition, treatments in the order of the file. *randomized-blocks*: each block is one run of every
treatment, in an independent random order. A deployment that outlives a run makes the order split-plot: runs of one
deployment are contiguous within the block (``deploy: per-block``) or over the whole experiment (``once``), the plots in
random order, and the runs within a plot in random order.

Random orders do not come from a library's generator, whose algorithm may change between versions: each item is ranked
by SHA-256 over (seed, purpose, block, name). Independent uniform keys make every permutation equally likely, adding
blocks never changes earlier ones, and anybody can check an order with ``sha256sum``.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence

from towtank.design.designed import Designed
from towtank.design.plan import PlannedRun, Treatment


def digest_of(*parts: object) -> bytes:
    """SHA-256 over parts, each with its length before it so that no two lists of parts collide."""
    text = "".join(f"{len(str(part))}:{part}" for part in parts)
    return hashlib.sha256(text.encode()).digest()


def run_seed(seed: int, block: int, treatment_id: str) -> int:
    """Seed of one run: 63 bits that depend on the experiment's seed, the block and the treatment."""
    return int.from_bytes(digest_of(seed, "run", block, treatment_id)[:8], "big") >> 1


def ordered_runs(
    treatments: Sequence[Treatment], *, order: str, seed: int, blocks: Iterable[int]
) -> tuple[PlannedRun, ...]:
    """Put one run of every treatment into each block, and the blocks in order.

    Parameters
    ----------
    treatments : sequence of Treatment
        In the order of the file.
    order : {"randomized-blocks", "listed"}
    seed : int
    blocks : iterable of int
        Numbers of the blocks, from 1.

    Returns
    -------
    tuple of PlannedRun
        In order of execution.
    """
    numbers = list(blocks)
    whole_plots: dict[str, list[Treatment]] = {}
    for treatment in treatments:
        plot = plot_key(treatment) if treatment.spec.deploy == "once" else ""
        whole_plots.setdefault(plot, []).append(treatment)
    runs: list[PlannedRun] = []
    positions = dict.fromkeys(numbers, 0)
    for plot in _arranged(list(whole_plots), order, seed, "whole-plot", 0):
        for block in numbers:
            for treatment in _block_order(whole_plots[plot], order, seed, block):
                positions[block] += 1
                runs.append(
                    PlannedRun(
                        id=f"b{block:02d}-{treatment.id}",
                        block=block,
                        position=positions[block],
                        treatment_id=treatment.id,
                        seed=run_seed(seed, block, treatment.id),
                    )
                )
    return tuple(runs)


def plot_key(treatment: Designed) -> str:
    """Name what stays deployed: the deployment with the levels filled into it."""
    return f"{treatment.spec.deployment_name} {treatment.spec.deployment.model_dump_json()}"


def _block_order(treatments: Sequence[Treatment], order: str, seed: int, block: int) -> list[Treatment]:
    """Order the treatments of one block; those that share a deployment for the block stay together."""
    by_id = {t.id: t for t in treatments}
    plots: dict[str, list[str]] = {}
    for treatment in treatments:
        plot = plot_key(treatment) if treatment.spec.deploy == "per-block" else treatment.id
        plots.setdefault(plot, []).append(treatment.id)
    return [
        by_id[name]
        for plot in _arranged(list(plots), order, seed, "plot", block)
        for name in _arranged(plots[plot], order, seed, "run", block)
    ]


def _arranged(names: list[str], order: str, seed: int, purpose: str, block: int) -> list[str]:
    if order == "listed":
        return names
    return sorted(names, key=lambda name: digest_of(seed, purpose, block, name))
