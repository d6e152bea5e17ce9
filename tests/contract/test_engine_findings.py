"""Everything that the engine can find has a severity, advice and a place in the documents; nothing else has."""

from __future__ import annotations

import re
from pathlib import Path

from towtank.analysis.engine_findings import ENGINE_SEVERITY

ROOT = Path(__file__).parents[2]
ADVICE = ROOT / "engine" / "src" / "drive" / "findings.rs"
SOURCES = [
    path
    for path in sorted((ROOT / "engine" / "src").rglob("*.rs"))
    if path != ADVICE and "test" not in path.stem
]
NEAR = 6
"""Lines around a use of advice among which the name of the finding stands."""


def with_advice():
    """Name → constant of its advice, from the comments over the constants."""
    pattern = re.compile(r"/// (`[a-z_`, ]+`)\n\s+pub const ([A-Z_]+): &str")
    found = {}
    for names, constant in pattern.findall(ADVICE.read_text(encoding="utf-8")):
        found |= dict.fromkeys(re.findall(r"`([a-z_]+)`", names), constant)
    return found


def emitted():
    """Names near which the engine's code uses advice, and uses of advice that have none."""
    found, nameless = set(), []
    for path in SOURCES:
        lines = path.read_text(encoding="utf-8").splitlines()
        for number, line in enumerate(lines):
            for constant in re.findall(r"\badvice::([A-Z_]+)", line):
                near = "\n".join(lines[max(number - NEAR, 0) : number + NEAR + 1])
                names = {
                    name
                    for name in re.findall(r'"([a-z]+(?:_[a-z]+)*)"', near)
                    if with_advice().get(name) == constant
                }
                found |= names
                if not names:
                    nameless.append(f"{path.name}:{number + 1} {constant}")
    return found, nameless


def test_every_finding_of_the_engine_has_a_severity_and_none_is_left_over():
    assert set(with_advice()) == set(ENGINE_SEVERITY)


def test_every_finding_is_emitted_somewhere_with_its_advice():
    found, nameless = emitted()
    assert not nameless
    assert found == set(ENGINE_SEVERITY)


def test_every_finding_is_documented():
    row = next(
        line for line in (ROOT / "docs" / "formats.md").read_text(encoding="utf-8").splitlines()
        if line.startswith("| `finding` |")
    )  # fmt: skip
    fields = {"name", "t_us", "value", "message", "advice"}
    assert set(re.findall(r"`([a-z_]+)`", row)) - fields - {"finding"} == set(ENGINE_SEVERITY)
