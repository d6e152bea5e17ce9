"""Files that an experiment names are kept beside its results, as they were when the plan was made."""

from __future__ import annotations

import hashlib

import pytest

from support.plans import make_plan
from towtank.campaign.kept_files import keep_files
from towtank.design.plan import Plan
from towtank.errors import ResultsError


def plan_with(files):
    """A plan whose treatments name some files."""
    plan = make_plan()
    digests = {name: hashlib.sha256(text.encode()).hexdigest() for name, text in files.items()}
    data = Plan.from_json(plan.to_json())
    treatments = tuple(
        type(t)(t.id, t.index, t.levels, t.spec.model_copy(update={"files": digests}))
        for t in data.treatments
    )
    return Plan(plan.experiment, treatments, plan.runs, plan.digest, plan.files)


def test_files_are_copied_once(tmp_path):
    (tmp_path / "feeds").mkdir()
    (tmp_path / "feeds" / "a.csv").write_text("a\n1\n")
    plan, kept = plan_with({"feeds/a.csv": "a\n1\n"}), tmp_path / "results" / "files"
    keep_files(plan, tmp_path, kept)
    assert (kept / "feeds" / "a.csv").read_text() == "a\n1\n"
    (tmp_path / "feeds" / "a.csv").unlink()
    keep_files(plan, tmp_path, kept)  # it is there already
    (kept / "feeds" / "a.csv").write_text("damaged")
    (tmp_path / "feeds" / "a.csv").write_text("a\n1\n")
    keep_files(plan, tmp_path, kept)
    assert (kept / "feeds" / "a.csv").read_text() == "a\n1\n"


def test_a_file_that_changed_since_is_refused(tmp_path):
    (tmp_path / "a.csv").write_text("a\n2\n")
    with pytest.raises(ResultsError, match="was changed since the plan was made"):
        keep_files(plan_with({"a.csv": "a\n1\n"}), tmp_path, tmp_path / "kept")
    assert list((tmp_path / "kept").iterdir()) == []
