"""The example of docs/serverless.md: it is a plan as it stands there, and it runs, from zero to several and back."""

from __future__ import annotations

import re
import shutil
from pathlib import Path

from towtank.design import load_plan

ROOT = Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "serverless.md"


def write_example(folder: Path) -> Path:
    """The page's first block of YAML, with a service beside it."""
    block = re.search(r"```yaml\n(.+?)```", PAGE.read_text("utf-8"), re.DOTALL)
    assert block is not None
    path = folder / "experiment.yaml"
    path.write_text(block.group(1), "utf-8")
    shutil.copy(ROOT / "tests" / "support" / "http_app.py", folder / "service.py")
    return path


def test_the_page_is_a_plan(tmp_path):
    plan = load_plan(write_example(tmp_path))
    kinds = [t.spec.deployment.resolved()["app"].scaling.kind for t in plan.treatments]
    assert kinds == ["kpa", "openwhisk", "fixed"]
