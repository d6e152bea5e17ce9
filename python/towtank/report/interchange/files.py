"""Writing the interchange formats into files: whole or not at all, and never over somebody's file unless told so."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path

from towtank.analysis.analyse import analyse
from towtank.analysis.distribution import Distribution, merge
from towtank.analysis.run_cost import cost_values
from towtank.analysis.run_values import run_values
from towtank.analysis.selection import counting_attempts, wanted_variables
from towtank.analysis.steady_state import steady_folders
from towtank.analysis.tables import LatencyCounts
from towtank.errors import ResultsError
from towtank.report.interchange import hgrm, junit, k6_summary
from towtank.store import Results, RunFolder
from towtank.store.export import Exported, make_folder, refuse_existing
from towtank.store.files import explained, write_bytes

NO_RUN = "no run is complete: there is nothing to export"
NO_SUCCESS = "no request succeeded in any run: there is nothing to export"
NO_VALID_RUN = "no run is valid, so there is nothing to export"


def write_hgrm(
    results: Results, folder: Path, *, force: bool = False, everything: bool = False
) -> list[Exported]:
    """Write latency from the intended start: of each run, and of each treatment over its runs, pooled.

    Runs in which nothing succeeded have no file.

    Parameters
    ----------
    results : Results
    folder : Path
    force : bool
        Replace files that are there.
    everything : bool
        A file also for each complete attempt that does not count; treatments are pooled over those that do.

    Raises
    ------
    ResultsError
        A file is there already, or no run can be exported.
    MachineError
        No room, no permission.
    """
    chosen = _counting(results)
    texts: dict[str, tuple[str, int]] = {}
    pooled: dict[str, list[Distribution]] = {}
    for run in _exported(results, everything=everything):
        counts = LatencyCounts.read(run.counts(["latency"]))
        latency = counts.distribution(counts.in_window)
        label = run.record.treatment_label
        if latency.values.size:
            texts[f"{run.run_id}.hgrm"] = (
                hgrm.render(latency, title=f"run {run.run_id} of {label}"),
                latency.n,
            )
        if run.run_id in chosen:
            pooled.setdefault(run.record.treatment_id, []).append(latency)
    labels = {t.id: t.label for t in results.plan.treatments}
    for treatment, parts in pooled.items():
        whole = merge(parts)
        if whole.values.size:
            title = f"{labels[treatment]}, {len(parts)} runs pooled"
            texts[f"{treatment}.hgrm"] = (hgrm.render(whole, title=title), whole.n)
    return _write("hgrm", folder, texts, force=force)


def write_k6_summaries(
    results: Results, folder: Path, *, force: bool = False, everything: bool = False
) -> list[Exported]:
    """Write a summary in k6's form for each run; parameters and errors as those of `write_hgrm`."""
    slo = _objectives(results)
    plan = results.plan
    wanted = wanted_variables(plan)
    costs = cost_values(results.runs("all"), plan)
    texts = {}
    for run in _exported(results, everything=everything):
        found = run_values(results, run, plan, costs, wanted=wanted)
        bounds = slo.get(run.record.treatment_id, {})
        made = k6_summary.summary(found, run.counts(), bounds, plan.experiment.own)
        texts[f"{run.run_id}.json"] = (json.dumps(made, indent=2, allow_nan=False) + "\n", found.due)
    return _write("k6 summary", folder, texts, force=force)


def write_junit(results: Results, file: Path, *, force: bool = False) -> list[Exported]:
    """Write the objectives as JUnit test cases.

    Raises
    ------
    ResultsError
        The file is there already, the experiment has no `slo`, or no run is complete.
    MachineError
        No room, no permission.
    """
    slo = _objectives(results)
    if not any(slo.values()):
        raise ResultsError(
            "the experiment declares no `slo`, so there is nothing to test",
            hint="declare slo: {p95: 300ms} in the experiment file",
        )
    text = junit.render(analyse(results), slo)
    cases = text.count("<testcase ")
    if not cases:  # a file without a case would be a success to whoever reads it
        raise ResultsError(NO_RUN)
    refuse_existing([file], force=force)
    with explained(file, still_good="nothing was exported; the results are untouched"):
        make_folder(file.parent)
        write_bytes(file, text.encode("utf-8"))
    return [Exported("junit", file, cases)]


def _counting(results: Results) -> set[str]:
    return counting_attempts([run.record for run in results.runs("all")])


def _exported(results: Results, *, everything: bool) -> list[RunFolder]:
    """Runs that are written one by one.

    Raises
    ------
    ResultsError
        There is none.
    """
    complete = [run for run in steady_folders(results, results.plan) if run.record.state == "complete"]
    if not complete:
        raise ResultsError(NO_RUN)
    chosen = _counting(results)
    found = [run for run in complete if everything or run.run_id in chosen]
    if not found:
        raise ResultsError(NO_VALID_RUN, hint="--all takes invalid ones in")
    return found


def _objectives(results: Results) -> Mapping[str, Mapping[str, float]]:
    return {treatment.id: treatment.spec.slo for treatment in results.plan.treatments}


def _write(what: str, folder: Path, texts: Mapping[str, tuple[str, int]], *, force: bool) -> list[Exported]:
    if not texts:
        raise ResultsError(NO_SUCCESS)
    refuse_existing([folder / name for name in texts], force=force)
    with explained(folder / "export", still_good="nothing more was exported; the results are untouched"):
        make_folder(folder)
        for name, (text, _) in texts.items():
            write_bytes(folder / name, text.encode("utf-8"))
    return [Exported(what, folder / name, requests) for name, (_, requests) in texts.items()]
