"""Regressions as JUnit test cases: one a claim, a suite a treatment."""

from __future__ import annotations

from xml.etree import ElementTree as ET

from towtank.analysis.versions import Regressions
from towtank.report.interchange.junit import document, sum_up, xml_text


def render(found: Regressions) -> str:
    """Write the test cases: *worse* is a failure, *undecided* is skipped, everything else passes."""
    root = ET.Element("testsuites", name=xml_text(f"{found.experiment}: new against old"))
    for treatment, label in found.labels.items():
        claims = [claim for claim in found.claims if claim.treatment_id == treatment]
        if not claims:
            continue
        suite = ET.SubElement(root, "testsuite", name=xml_text(f"{found.experiment}.{label}"))
        for claim in claims:
            case = ET.SubElement(
                suite, "testcase", classname=suite.get("name", ""), name=xml_text(f"{claim.variable} is not worse"),
                time="0",
            )  # fmt: skip
            if claim.verdict == "worse":
                failure = ET.SubElement(case, "failure", type="regression", message=xml_text(claim.sentence))
                failure.text = xml_text(f"{claim.sentence}\n{found.caution}")
            elif claim.verdict == "undecided":
                ET.SubElement(case, "skipped", message=xml_text(claim.sentence))
        sum_up(suite)
    sum_up(root)
    return document(root)
