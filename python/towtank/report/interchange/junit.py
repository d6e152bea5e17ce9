"""Service level objectives as JUnit test cases: one a run and objective, a suite a treatment.

A missed objective is a `failure`; a run that the instrument spoiled, or that has no value, is `skipped`: it
says nothing about the treatment. Continuous integration shows both.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from xml.etree import ElementTree as ET

from towtank.analysis.model import ExperimentAnalysis, RunSummary
from towtank.analysis.slo import holds
from towtank.report import values
from towtank.variables import Variable, variable

_NO_XML = re.compile("[^\t\n\r\u0020-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")


def render(analysis: ExperimentAnalysis, slo: Mapping[str, Mapping[str, float]]) -> str:
    """Write the test cases.

    Parameters
    ----------
    analysis : ExperimentAnalysis
    slo : mapping
        Treatment id → response variable → bound in its base unit.
    """
    experiment = str(analysis.meta.get("experiment", "experiment"))
    root = ET.Element("testsuites", name=xml_text(experiment))
    for treatment in analysis.treatments:
        bounds = slo.get(treatment.treatment_id, {})
        runs = [run for run in analysis.runs if run.treatment_id == treatment.treatment_id]
        if not bounds or not runs:
            continue
        suite = ET.SubElement(root, "testsuite", name=xml_text(f"{experiment}.{treatment.label}"))
        for run in runs:
            for name, bound in bounds.items():
                _case(suite, run, variable(name, analysis.own), bound)
        sum_up(suite)
    sum_up(root)
    return document(root)


def document(root: ET.Element) -> str:
    """Write a file of test cases."""
    ET.indent(root)
    return '<?xml version="1.0" encoding="UTF-8"?>\n' + ET.tostring(root, encoding="unicode") + "\n"


def _case(suite: ET.Element, run: RunSummary, described: Variable, bound: float) -> None:
    quantity = run.values[described.name]
    sign = "≤" if described.lower_is_better else "≥"
    objective = f"{described.title} {sign} {values.show(described, bound)}"
    case = ET.SubElement(
        suite, "testcase", classname=suite.get("name", ""), name=xml_text(f"{objective} in {run.run_id}"),
        time=f"{run.window_s:.3f}",
    )  # fmt: skip
    kept = holds(described, quantity, bound)
    if run.instrument in ("invalid", "incomplete"):
        why = run.reasons[0] if run.reasons else run.instrument
        ET.SubElement(case, "skipped", message=xml_text(f"the run is {run.instrument}: {why}"))
    elif kept is None:
        ET.SubElement(case, "skipped", message=xml_text(f"no value: {quantity.reason}"))
    elif not kept:
        found = f"{'above ' if quantity.above else ''}{values.show(described, quantity.value or 0.0)}"
        failure = ET.SubElement(
            case, "failure", type="slo", message=xml_text(f"{described.title} was {found}")
        )
        failure.text = xml_text(
            "\n".join((f"{objective}, found {found}", *filter(None, (quantity.reason, *run.reasons))))
        )


def sum_up(suite: ET.Element) -> None:
    """Write sums as attributes; the common schema has `skipped` of a suite, but not of all suites together."""
    for attribute, path in (("tests", ".//testcase"), ("failures", ".//failure"), ("skipped", ".//skipped")):
        if attribute != "skipped" or suite.tag == "testsuite":
            suite.set(attribute, str(len(suite.findall(path))))
    suite.set("errors", "0")
    suite.set("time", f"{sum(float(case.get('time', 0)) for case in suite.iter('testcase')):.3f}")


def xml_text(text: str) -> str:
    """Leave out what XML cannot hold."""
    return _NO_XML.sub("�", text)
