"""Regressions as annotations of GitHub's workflows: lines that the log of a job is searched for."""

from __future__ import annotations

from collections.abc import Sequence

from towtank.analysis.versions import Regressions


def render(found: Regressions, *, file: str | None = None) -> Sequence[str]:
    """Write an annotation for each claim that became worse (error) or stays undecided (warning).

    Parameters
    ----------
    found : Regressions
    file : str, optional
        Experiment file, relative to the repository, that annotations are shown at.

    References
    ----------
    Workflow commands for GitHub Actions, "Setting an error message": ``::error file={name},title={title}::{message}``;
    percent signs, line ends and, in properties, colons and commas are escaped.
    """
    lines = []
    for claim in found.claims:
        level = {"worse": "error", "undecided": "warning"}.get(claim.verdict or "")
        if level is None:
            continue
        at = f"file={_property(file)}," if file else ""
        title = _property(f"{found.labels[claim.treatment_id]}: {claim.variable} {claim.verdict}")
        lines.append(f"::{level} {at}title={title}::{_message(claim.sentence)}")
    return lines


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
