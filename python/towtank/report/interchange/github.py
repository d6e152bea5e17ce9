"""Regressions, and changes over time, as annotations of GitHub's workflows: lines that a job's log is searched for."""

from __future__ import annotations

from collections.abc import Sequence

from towtank.analysis.history import History
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
        title = f"{found.labels[claim.treatment_id]}: {claim.variable} {claim.verdict}"
        lines.append(_annotation(level, title, claim.sentence, file))
    return lines


def render_changes(found: History, *, newest: int) -> Sequence[str]:
    """Write an error for each change for the worse within the newest results, and a notice for each other change there.

    What cannot be said of the newest result is an error too.

    Parameters
    ----------
    found : History
    newest : int
        How many results are new.
    """
    lines = []
    for change in found.changes:
        if change.at >= len(found.points) - newest:
            title = f"{found.labels[change.treatment_id]}: {change.variable} {change.word or 'changed'}"
            level = "error" if change.word == "worse" else "notice"
            lines.append(_annotation(level, title, change.sentence, None))
    lines += [_annotation("error", "the newest result", line, None) for line in found.unsaid]
    return lines


def _annotation(level: str, title: str, message: str, file: str | None) -> str:
    at = f"file={_property(file)}," if file else ""
    return f"::{level} {at}title={_property(title)}::{_message(message)}"


def _message(text: str) -> str:
    return text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")


def _property(text: str) -> str:
    return _message(text).replace(":", "%3A").replace(",", "%2C")
