"""From the analysis to the report model: what is said, in which order.

Question and answer first, then the evidence, then what threatens it, then everything needed to repeat it.
"""

from __future__ import annotations

import shlex
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from towtank.analysis.model import Comparison, ExperimentAnalysis
from towtank.report import tables
from towtank.report.model import (
    NO_FIGURES,
    Answer,
    Block,
    Chip,
    Document,
    Facts,
    Figures,
    Notice,
    ReportModel,
    Section,
)
from towtank.report.naming import COUNTED, Names
from towtank.report.text import MAX_DOCUMENT, clean
from towtank.report.values import (
    confidence,
    count,
    known,
    size,
    verdict,
)
from towtank.sensitive import mask_yaml
from towtank.units import format_bytes

SENTENCE = 1000
"""Longest sentence, in characters."""
RUNS = 5
"""Runs that a finding lists; the others are counted."""


def build(
    analysis: ExperimentAnalysis,
    *,
    figures: bool = True,
    wide_px: int | None = None,
    pareto: Sequence[tuple[str, str]] = (),
) -> ReportModel:
    """Assemble the report of an experiment; measures and computes nothing new.

    Parameters
    ----------
    analysis : ExperimentAnalysis
    figures : bool, default True
        Without them, altair is not loaded: enough for the terminal.
    wide_px : int, optional
        Width of the wide figures; that of a page on a screen if left out.
    pareto : sequence of (str, str)
        Pairs of response variables whose Pareto fronts are drawn; without any, cost (else CPU) against p95.

    Returns
    -------
    ReportModel
        All text in it is free of control characters.

    Raises
    ------
    TowtankError
        `pareto` names a variable that these results do not have.
    """
    names, meta = Names(analysis), analysis.meta
    declared = _mapping(meta.get("answer"))
    drawn = _figures(analysis, names, declared, wide_px, pareto) if figures else NO_FIGURES
    sections = (
        _answer(analysis, names, drawn),
        _evidence(analysis, names, drawn),
        _threats(analysis),
        _exploratory(analysis, names, drawn),
        _described(analysis, names),
        _repeat(analysis, meta),
        Section("runs-section", "All runs", "Runs", "", (tables.runs(analysis, names),)),
    )
    return ReportModel(
        experiment=clean(meta.get("experiment", "experiment")),
        question=clean(meta.get("question") or "What was measured?", limit=SENTENCE),
        headline=clean(analysis.headline, limit=SENTENCE),
        decided=analysis.decided,
        answers=tuple(_verdict(c, names) for c in analysis.comparisons if c.confirmatory),
        chips=tuple(_chips(analysis)),
        legend=names.legend,
        sections=tuple(s for s in sections if s.blocks),
        dated=_dated(meta),
        digest=clean(meta.get("digest") or ""),
        versions={clean(k): clean(v) for k, v in _mapping(meta.get("versions")).items()},
        caution=clean(analysis.caution, limit=SENTENCE),
    )


def _figures(
    analysis: ExperimentAnalysis,
    names: Names,
    declared: Mapping[str, Any],
    wide_px: int | None,
    pareto: Sequence[tuple[str, str]],
) -> Figures:
    from towtank.report.figures.collect import collect  # noqa: PLC0415 - altair takes half a second to load

    return collect(
        analysis,
        names,
        primary=tuple(str(v) for v in declared.get("primary", ())),
        matters=declared.get("matters"),
        timeout_s=_timeout_s(analysis),
        wide_px=wide_px,
        pareto=pareto,
    )


# --- the answer ------------------------------------------------------------------------------------------


def _verdict(c: Comparison, names: Names) -> Answer:
    word = verdict(c.verdict or "undecided", fragile=bool(c.fragile))
    claim = f"{clean(known(c.variable).title)}, {names.label(c.treatment_id)} against {names.label(c.baseline_id)}"
    if size(c):
        claim += f": {size(c)}"
    return Answer(
        word.text,
        word.tone,
        claim,
        clean(c.sentence, limit=SENTENCE),
        names[c.treatment_id].style,
    )


def _chips(analysis: ExperimentAnalysis) -> list[Chip]:
    counted = [r for r in analysis.runs if r.instrument in COUNTED]
    valid, others = len(counted), Counter(r.instrument for r in analysis.runs if r.instrument not in COUNTED)
    suspect = sum(r.instrument == "suspect" for r in analysis.runs)
    collapsed = sum(r.system == "collapsed" for r in counted)
    claims = [c for c in analysis.comparisons if c.confirmatory]
    chips = []
    if claims:
        chips.append(Chip("decided", "good") if analysis.decided else Chip("undecided", "unsure"))
    if not analysis.slo.empty and not analysis.capacities:  # a search is looking for loads that fail
        chips.append(_slo_chip(analysis))
    chips.append(Chip(f"{valid} valid {'run' if valid == 1 else 'runs'}"))
    if suspect:
        chips.append(Chip(f"{suspect} of them suspect", "unsure"))
    for word, n in others.items():
        chips.append(Chip(f"{n} {clean(word)} {'run' if n == 1 else 'runs'}, not counted", "unsure"))
    if collapsed:
        chips.append(Chip(f"{collapsed} {'run' if collapsed == 1 else 'runs'} collapsed", "bad"))
    due = sum(r.due for r in counted)
    chips.append(Chip(f"{count(due)} requests"))
    return chips


def _slo_chip(analysis: ExperimentAnalysis) -> Chip:
    if analysis.slo_held is None:
        return Chip("SLO unknown", "unsure")
    return Chip("SLO held", "good") if analysis.slo_held else Chip("SLO missed", "bad")


def _answer(analysis: ExperimentAnalysis, names: Names, figures: Figures) -> Section:
    found: list[Block | None] = [
        tables.capacities(analysis),
        figures.load_line if analysis.capacities else None,
        figures.forest,
        tables.claims(analysis.comparisons, names, confirmatory=True),
        None if analysis.capacities else tables.service_levels(analysis, names),
    ]
    return Section("answer-section", "The answer in numbers", "Answer", "", _only(found))


def _evidence(analysis: ExperimentAnalysis, names: Names, figures: Figures) -> Section:
    found: list[Block | None] = [
        tables.treatments(analysis, names),
        tables.latency(analysis, names),
        tables.service_levels(analysis, names) if analysis.capacities else figures.load_line,
        tables.costs(analysis, names),
        tables.cost_items(analysis, names),
        figures.break_even,
        tables.break_even(analysis),
        tables.faults(analysis, names),
        *figures.timeseries,
        *figures.observed,
        tables.pods(analysis, names),
        figures.pod_starts,
        tables.pod_starts(analysis, names),
        tables.cold_starts(analysis, names),
        figures.cold_starts,
        tables.cold_phases(analysis, names),
        figures.supply,
        tables.elasticity(analysis, names),
        figures.predicted_scaling,
        tables.predicted_scaling(analysis, names),
        tables.usage(analysis, names),
        *figures.each,
        tables.logs(analysis, names),
        figures.percentiles,
        figures.ecdf,
        *figures.request_phases,
        *tables.request_phases(analysis, names),
        figures.violins,
        *figures.heat,
        figures.intervals,
        figures.interactions,
        *figures.paretos,
        figures.outcomes,
        tables.outcomes(analysis, names),
        tables.who_answered(analysis, names),
        tables.steps(analysis.steps, names),
        figures.instances,
        tables.instances(analysis, names),
        figures.hops,
        tables.hops(analysis, names),
        tables.generators(analysis),
    ]
    return Section("evidence", "Evidence", "Evidence", "", _only(found))


def _exploratory(analysis: ExperimentAnalysis, names: Names, figures: Figures) -> Section:
    found: list[Block | None] = [
        figures.exploratory,
        tables.claims(analysis.comparisons, names, confirmatory=False),
        tables.factorial(analysis),
        tables.turning_points(analysis, names),
        tables.scaling_laws(analysis),
    ]
    intro = "Read this for ideas, not for answers: none of it was declared before the experiment ran."
    return Section("exploratory-section", "Exploratory", "Exploratory", intro, _only(found))


def _described(analysis: ExperimentAnalysis, names: Names) -> Section:
    found: list[Block | None] = [
        tables.latencies(analysis, names),
        tables.volumes(analysis, names),
        tables.statuses(analysis, names),
        tables.spreads(analysis, names),
        tables.normality(analysis, names),
    ]
    intro = "The same runs in the forms that studies publish. They describe; what can be claimed is above."
    return Section("descriptive", "Descriptive tables", "Tables", intro, _only(found))


def _only(found: Sequence[Block | None]) -> tuple[Block, ...]:
    return tuple(b for b in found if b is not None)


# --- what threatens it -----------------------------------------------------------------------------------

_SEVERITY = {"serious": 0, "warning": 1, "info": 2}


def _threats(analysis: ExperimentAnalysis) -> Section:
    """What the results rest on, then what was found, the most serious first."""
    ordered = sorted(analysis.findings, key=lambda f: _SEVERITY.get(f.severity, 1))
    notices = [
        Notice(
            f.severity,
            clean(f.name).replace("_", " "),
            _prose(f.message),
            _prose(f.advice),
            tuple(clean(r) for r in f.runs[:RUNS]),
            max(0, len(f.runs) - RUNS),
        )
        for f in ordered
    ]
    intro = "" if notices else "Nothing was found that speaks against these results."
    told: list[Block] = [*notices] or [Notice("info", "none", intro, "", ())]
    blocks = _only([tables.conditions(analysis), *told])
    return Section("threats", "Findings and threats to validity", "Threats", "", blocks)


def _prose(text: str) -> str:
    """Sentences of findings quote commands as in Markdown; here the words stand for themselves."""
    return clean(text.replace("`", ""), limit=SENTENCE)


# --- how to repeat it ------------------------------------------------------------------------------------


def _repeat(analysis: ExperimentAnalysis, meta: Mapping[str, Any]) -> Section:
    blocks: list[Block] = [
        Document("Command", clean(_command(meta), limit=SENTENCE), folded=False),
        Facts("Design", tuple(_design(meta))),
    ]
    blocks += [
        Facts(f"Prices of {clean(name)}", _items(facts))
        for name, facts in _mapping(meta.get("prices")).items()
    ]
    versions = _items(meta.get("versions"))
    if versions:
        blocks.append(Facts("Versions", versions))
    blocks += _made_of(_mapping(meta.get("environment")))
    for number, host in enumerate(_hosts(meta.get("hosts")), start=1):
        blocks.append(Facts(f"Machine {number}" if number > 1 else "Machine", host))
    blocks.append(Document("Order of runs", _order(analysis)))
    for name, text in _mapping(meta.get("files")).items():
        shown = mask_yaml(str(text))  # masked when it was kept, but for folders of earlier versions
        blocks.append(Document(clean(name), clean(shown, limit=MAX_DOCUMENT, lines=True)))
    intro = "With these files, versions and this seed, the same runs are planned in the same order."
    return Section("repeat", "Repeat this experiment", "Repeat", intro, tuple(blocks))


def _made_of(environment: Mapping[str, Any]) -> list[Block]:
    """The engine's build, what was deployed and where to, and the files of the applications with their digests."""
    build = _mapping(environment.get("engine")).get("build")
    found: list[Block] = [Facts("Load engine", (("build", clean(build, limit=SENTENCE)),))] if build else []
    for title, key in (("Applications", "applications"), ("Places", "places")):
        items = tuple((clean(k), clean(v, limit=SENTENCE)) for k, v in _mapping(environment.get(key)).items())
        if items:
            found.append(Facts(title, items))
    files = _mapping(environment.get("application_files"))
    if files:
        listed = "\n".join(f"{clean(digest)}  {clean(name)}" for name, digest in sorted(files.items()))
        found.append(Document("Files of the applications, with the start of their SHA-256", listed))
    return found


def _design(meta: Mapping[str, Any]) -> list[tuple[str, str]]:
    answer = _mapping(meta.get("answer"))
    primary = answer.get("primary", ())
    found = {
        "primary variables": ", ".join(str(v) for v in primary)
        if isinstance(primary, list | tuple)
        else primary,
        "baseline": answer.get("baseline"),
        "contrasts": answer.get("contrasts"),
        "matters": f"{answer['matters'] * 100:g} %"
        if isinstance(answer.get("matters"), float)
        else answer.get("matters"),
        "confidence": confidence(answer["confidence"])
        if isinstance(answer.get("confidence"), float)
        else None,
        "order": meta.get("order"),
        "seed": meta.get("seed"),
        "profile": meta.get("profile"),
        "repetitions": meta.get("repetitions"),
        "started": meta.get("started_utc"),
        "finished": meta.get("finished_utc"),
        "digest": meta.get("digest"),
    }
    return [(key, clean(value)) for key, value in found.items() if value not in (None, "")]


def _order(analysis: ExperimentAnalysis) -> str:
    ordered = sorted(analysis.runs, key=lambda r: (r.block, r.attempt, r.position))
    blocks: dict[int, list[str]] = {}
    for run in ordered:
        blocks.setdefault(run.block, []).append(clean(run.run_id))
    return "\n".join(f"block {block:>3}:  {'  '.join(runs)}" for block, runs in blocks.items())


def _command(meta: Mapping[str, Any]) -> str:
    given = meta.get("command")
    if given:
        return shlex.join(str(c) for c in given) if isinstance(given, list | tuple) else str(given)
    files = list(_mapping(meta.get("files")))
    return f"towtank run {files[0] if files else 'experiment.yaml'}"


def _hosts(found: object) -> list[tuple[tuple[str, str], ...]]:
    """Machines, whether given as one mapping, several, or by name."""
    if isinstance(found, Mapping):
        values = list(found.values())
        nested = values and all(isinstance(v, Mapping) for v in values)
        entries = [{"host": k, **v} for k, v in found.items()] if nested else [found]
    elif isinstance(found, list | tuple):
        entries = [h if isinstance(h, Mapping) else {"host": h} for h in found]
    else:
        entries = []
    return [items for e in entries if (items := _items(e))]


def _items(found: object) -> tuple[tuple[str, str], ...]:
    return tuple(
        (_words(str(k)), _value(str(k), v)) for k, v in _mapping(found).items() if v not in (None, "", {}, [])
    )


def _words(key: str) -> str:
    for unit in ("_bytes", "_s", "_cores"):
        key = key.removesuffix(unit)
    return clean(key.replace("_", " "))


def _value(key: str, value: object) -> str:
    if key.endswith("_bytes") and isinstance(value, int | float):
        return format_bytes(value)
    if isinstance(value, Mapping):
        return clean(", ".join(f"{k} {v}" for k, v in value.items()), limit=SENTENCE)
    if isinstance(value, list | tuple):
        return clean(", ".join(str(v) for v in value), limit=SENTENCE)
    return clean(value, limit=SENTENCE)


def _mapping(found: object) -> Mapping[str, Any]:
    if isinstance(found, Mapping):
        return found
    dump = getattr(found, "model_dump", None)
    return dump() if callable(dump) else {}


def _dated(meta: Mapping[str, Any]) -> str:
    started = str(meta.get("started_utc") or "")
    return clean(started[:16].replace("T", " ") + " UTC") if len(started) >= 16 else clean(started)


def _timeout_s(analysis: ExperimentAnalysis) -> float | None:
    """Return the bound that censored values carry; the widest when treatments differ."""
    stated = analysis.meta.get("timeout_s")
    if isinstance(stated, int | float):
        return float(stated)
    found = [
        q.value for t in analysis.treatments for q in t.pooled.values() if q.above and q.value is not None
    ]
    found += [q.value for r in analysis.runs for q in r.values.values() if q.above and q.value is not None]
    return max(found, default=None)
