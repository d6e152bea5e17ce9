"""A job of the engine, carried out from its file to its records."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from towtank.load import find_engine
from towtank.load.engine import EngineProcess
from towtank.load.events import Done, Ready


def carried_out(
    job: dict[str, Any], folder: Path, token: str, *, timeout_s: float = 90
) -> tuple[Ready, Done]:
    """What the engine said when it was ready, and when it was done; its records are where the job has them."""
    path = folder / "job.json"
    path.write_text(json.dumps(job), "utf-8")
    with EngineProcess(find_engine(), path, log_path=folder / "engine.log", token=token) as engine:
        ready = engine.wait_ready(cancelled=lambda: None)
        engine.start_at(None)
        engine.wait_started(cancelled=lambda: None)
        return ready, engine.wait_done(timeout_s=timeout_s, cancelled=lambda: None)
