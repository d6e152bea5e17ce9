"""Write every page of docs/ that is made from code: `make docs`. Each generator is also checked by a test.

A generator is a module `tools/docs_*.py` with `PAGE` (a path under docs/) and `render() -> str`.
"""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).resolve().parents[1]


def generators() -> list[ModuleType]:
    """All generator modules, by name."""
    modules = []
    for path in sorted((ROOT / "tools").glob("docs_*.py")):
        spec = importlib.util.spec_from_file_location(path.stem, path)
        if spec is None or spec.loader is None:
            raise ImportError(path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        modules.append(module)
    return modules


def stale() -> list[str]:
    """Pages that are not what their generator would write now."""
    return [
        module.PAGE
        for module in generators()
        if not (ROOT / "docs" / module.PAGE).exists()
        or (ROOT / "docs" / module.PAGE).read_text("utf-8") != module.render()
    ]


if __name__ == "__main__":
    for module in generators():
        (ROOT / "docs" / module.PAGE).write_text(module.render(), encoding="utf-8")
        sys.stdout.write(f"docs/{module.PAGE}\n")
