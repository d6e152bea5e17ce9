"""docs/architecture.md: the house as it stands, drawn from the tree itself."""

from __future__ import annotations

import ast
import re
from collections import defaultdict
from pathlib import Path

PAGE = "architecture.md"
ROOT = Path(__file__).resolve().parents[1]
PACKAGE = ROOT / "python" / "towtank"
ENGINE = ROOT / "engine" / "src"
INGRESS = ROOT / "ingress" / "src"

HEAD = """# Architecture

*Made by `make docs` from the tree itself: the modules, what each says it is for, and which package uses which.*

## The way of the data

```
experiment.yaml
   │ design/      read, validate, expand factors, order the runs
   ▼
  Plan ──► campaign/   for each run:  reset ► deploy ► prepare ► settle ► drive + observe ► check ► keep ► remove
               │                                │                   │         │               │
               │                           platforms/             load/   telemetry/          │
               │                                │                   │                         │
               │                 towtank-engine guard   towtank-engine run                    │
               ▼                                                                              ▼
        results/<experiment>/  run folders: Parquet + exact count tables  ◄────────────────  store/
               │
               ▼
          analysis/   exact percentiles, intervals, comparisons, findings
               ▼
          report/     one set of figures and tables ► HTML, terminal, Markdown, SVG/PNG/PDF
```

It only flows downwards. `analysis` and `report` read stored results and nothing else. The formats at the seams are in
[formats.md](formats.md); how to add a platform in [platforms.md](platforms.md), a telemetry source in [telemetry.md](telemetry.md).

Two side doors lead into the same store. A workload with a `driver` is driven by k6 or Locust instead of the engine (`drivers/` says how each is
started, `campaign/driving.py` runs it under the guard), and `towtank import` brings files of other tools in (`campaign/importing.py`); both are read by
`load/importers/` and written by `store/foreign.py`, and whoever reads results need not ask where they came from ([doors.md](doors.md)).

Three processes take part in a run: **towtank** (Python: plans, watches, keeps), **towtank-engine run** (Rust: drives
the load; its stdin is its lifeline), and, for local deployments and other load generators, **towtank-engine guard** (Rust: parent of the
application's processes; ends all of them when its stdin closes). Whichever dies, the others notice through their pipes. A local deployment that scales
has a fourth, **towtank-ingress** (Rust: stands in front of its instances, holds, limits, spreads and counts requests; [formats.md](formats.md#6-ingress-what-stands-in-front-of-local-instances)).

## The way of one request

| where | what becomes of it | look at |
|---|---|---|
| experiment file | a load model and a journey, read with positions, expanded for each treatment | `design/loading.py`, `design/treatment.py` |
| job | the same in JSON, times in µs, with the addresses of the deployment: all that the engine is told ([job.md](job.md)) | `load/job.py`, `load/journey_job.py` |
| plan of the engine | the job checked, every file in it read, templates and checks compiled | `engine/src/job/`, `engine/src/journey/compile.rs` |
| arrival | due at an instant that was certain before the run ([load-models.md](load-models.md#what-is-certain)) | `engine/src/schedule/` |
| session | a load thread picks it up (`lag`), waits for room (`wait`), goes through the steps | `engine/src/drive/` |
| request | rendered, sent on a connection of its target, a clock for every phase | `engine/src/journey/step.rs`, `engine/src/transport/` |
| answer | checked, captured from, its outcome named | `engine/src/journey/answers/` |
| row | 64 bytes in a checksummed log, then one Parquet file a run ([formats.md](formats.md)) | `engine/src/record/` |
| run | judged on both axes, beside the telemetry of the same clock ([validity.md](validity.md)) | `campaign/runner.py`, `campaign/evidence.py` |
| count tables | exact counts of every value: what percentiles are read from | `store/count_tables.py` |
| answer of the experiment | per-run values, intervals, verdicts ([statistics.md](statistics.md)) | `analysis/analyse.py` |
| page | figures and tables that measure nothing themselves ([report.md](report.md)) | `report/assemble.py` |
"""


def render() -> str:
    """Return the page as Markdown."""
    parts = [HEAD, "\n## Python: which package uses which\n\n", _uses(), "\n## Python modules\n"]
    parts.extend(_python_section(folder) for folder in [PACKAGE, *_packages()])
    parts.append("\n## The engine (Rust)\n")
    parts.extend(_rust_sections(ENGINE))
    parts.append("\n## The ingress (Rust)\n")
    parts.extend(_rust_sections(INGRESS))
    return "".join(parts)


def package_uses() -> dict[str, set[str]]:
    """Map each package of towtank to the other packages that its modules import (late imports included)."""
    uses: dict[str, set[str]] = defaultdict(set)
    for path in PACKAGE.rglob("*.py"):
        own = path.relative_to(PACKAGE).parts
        if len(own) == 1:
            continue
        for node in ast.walk(ast.parse(path.read_text("utf-8"))):
            names = []
            if isinstance(node, ast.ImportFrom) and node.module:
                names = [node.module, *(f"{node.module}.{alias.name}" for alias in node.names)]
            elif isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            for name in names:
                parts = name.split(".")
                if (
                    parts[0] == "towtank"
                    and len(parts) > 1
                    and (PACKAGE / parts[1]).is_dir()
                    and parts[1] != own[0]
                ):
                    uses[own[0]].add(parts[1])
    return uses


def _uses() -> str:
    uses = package_uses()
    rows = [
        f"| `{folder.name}/` | {', '.join(f'`{name}`' for name in sorted(uses[folder.name])) or '–'} |\n"
        for folder in _packages()
    ]
    return "| package | uses |\n|---|---|\n" + "".join(rows)


def _packages() -> list[Path]:
    order = [
        "design",
        "platforms",
        "telemetry",
        "drivers",
        "load",
        "campaign",
        "store",
        "analysis",
        "report",
        "audit",
        "cli",
    ]
    found = [p for p in PACKAGE.iterdir() if p.is_dir() and (p / "__init__.py").exists()]
    return sorted(found, key=lambda p: (order.index(p.name) if p.name in order else len(order), p.name))


def _python_section(folder: Path) -> str:
    rows = []
    for path in sorted(folder.glob("*.py")):
        text = path.read_text("utf-8")
        about = (ast.get_docstring(ast.parse(text)) or "").splitlines()
        if path.name != "__init__.py" or folder != PACKAGE:
            rows.append(_row(path, about[0] if about else ""))
    return _table(f"towtank/{folder.name}/" if folder != PACKAGE else "towtank/", rows)


def _rust_sections(source: Path) -> list[str]:
    return [_rust_section(folder) for folder in [source, *sorted(p for p in source.rglob("*") if p.is_dir())]]


def _rust_section(folder: Path) -> str:
    rows = []
    for path in sorted(p for p in folder.glob("*.rs") if not p.stem.endswith("tests")):
        text = path.read_text("utf-8")
        about = re.search(r"^//! ?(.+)$", text, re.MULTILINE)
        rows.append(_row(path, about.group(1) if about else ""))
    return _table(f"{folder.relative_to(ROOT).as_posix()}/", rows)


def _row(path: Path, about: str) -> str:
    return f"| `{path.name}` | {about.replace('|', chr(92) + '|')} |\n"


def _table(title: str, rows: list[str]) -> str:
    if not rows:
        return ""
    return f"\n### {title}\n\n| module | what it is for |\n|---|---|\n" + "".join(rows)
