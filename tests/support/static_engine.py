"""The engine without libraries, as images have it."""

from __future__ import annotations

import os
from pathlib import Path

from towtank.load import find_engine

BUILD_IT = "`tools/setup.sh static-engine` builds it (minutes)"
_TARGET = Path(os.environ.get("CARGO_TARGET_DIR", Path(__file__).parents[2] / "target"))


def static_engine() -> Path | None:
    """The static engine; None where there is none, or where it is older than the ordinary one."""
    built = max(
        _TARGET.glob("*-linux-gnu/release/towtank-engine"),
        key=lambda path: path.stat().st_mtime,
        default=None,
    )
    return built if built and built.stat().st_mtime >= find_engine().stat().st_mtime else None
