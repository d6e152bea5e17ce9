"""docs/notebook.ipynb runs from its first cell to its last, in a kernel, and says what its text promises."""

from __future__ import annotations

import re
from pathlib import Path

import nbformat
import pytest
from nbclient import NotebookClient
from traitlets.config import Config

from support.make_results import TreatmentModel, make_results

PAGE = Path(__file__).resolve().parents[2] / "docs" / "notebook.ipynb"


@pytest.fixture(scope="module")
def executed(tmp_path_factory):
    home = tmp_path_factory.mktemp("notebook")
    make_results(
        home / "studies" / "quickstart" / "results" / "quickstart",
        treatments={
            "one-process": TreatmentModel(median_ms=10),
            "two-processes": TreatmentModel(median_ms=5, timeouts=0.01),
        },
        blocks=4, rate_per_s=20.0, duration_s=3.0,
    )  # fmt: skip
    (home / "docs").mkdir()
    notebook = nbformat.read(PAGE, as_version=4)
    with pytest.MonkeyPatch.context() as patch:
        for name in ("JUPYTER_RUNTIME_DIR", "JUPYTER_DATA_DIR", "JUPYTER_CONFIG_DIR", "IPYTHONDIR"):
            patch.setenv(name, str(home / name))
        client = NotebookClient(
            notebook,
            timeout=100,
            kernel_name="python3",
            resources={"metadata": {"path": str(home / "docs")}},
            config=Config({"KernelManager": {"transport": "ipc", "ip": str(home / "kernel")}}),  # no port
        )
        client.execute()
    return notebook, home


def shown(notebook, source):
    cell = next(c for c in notebook.cells if c.cell_type == "code" and source in c.source)
    return "".join(str(o.get("text", "")) + str(o.get("data", "")) for o in cell.outputs)


def test_every_cell_does_what_the_text_says(executed):
    notebook, home = executed
    assert "two-processes" in shown(notebook, "e.summary(")
    assert "better" in shown(notebook, "e.compare(")
    assert "image/svg+xml" in shown(notebook, 'e.figure("ecdf")\n'.strip())
    assert (home / "docs" / "ecdf.svg").read_text().startswith("<svg")
    assert "did you mean 'ecdf'?" in shown(notebook, "TowtankError")
    assert re.search(r"\b8\b", shown(notebook, "reload"))
    said = [
        o for c in notebook.cells if c.cell_type == "code" for o in c.outputs if o.get("name") == "stderr"
    ]
    assert said == []


def test_it_is_kept_without_outputs():
    cells = [c for c in nbformat.read(PAGE, as_version=4).cells if c.cell_type == "code"]
    assert all(not c.outputs and c.execution_count is None for c in cells)
