"""Ask the engine whether a job is good, without running it."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from towtank.errors import EngineError
from towtank.load.binary import find_engine

_TIMEOUT_S = 20.0
_BAD_JOB = 3


def check_job(job: Mapping[str, Any]) -> list[str]:
    """Validate a job with ``towtank-engine check``.

    Returns
    -------
    list of str
        All problems, each with its JSON path; empty when the job is good.

    Raises
    ------
    MachineError
        There is no engine.
    EngineError
        The engine failed for another reason than the job.
    """
    engine = find_engine()
    with tempfile.TemporaryDirectory(prefix="towtank-check-") as folder:
        path = Path(folder) / "job.json"
        path.touch(mode=0o600)
        # Records of an earlier run are no problem of a job that is only looked at.
        asked = {**job, "output": str(Path(folder) / "requests")}
        path.write_text(json.dumps(asked), encoding="utf-8")
        try:
            answer = subprocess.run(
                [str(engine), "check", str(path)],
                capture_output=True,
                text=True,
                timeout=_TIMEOUT_S,
                check=False,
                stdin=subprocess.DEVNULL,
            )
        except (OSError, subprocess.TimeoutExpired) as error:
            raise EngineError(f"`{engine} check` failed: {error}") from error
    if answer.returncode == 0:
        return []
    problems = [_readable(line) for line in (answer.stdout + answer.stderr).splitlines() if line.strip()]
    if answer.returncode != _BAD_JOB:
        raise EngineError(
            f"`{engine} check` ended with exit code {answer.returncode}: {'; '.join(problems[-5:])}"
        )
    return problems or ["the engine refuses the job and does not say why"]


def _readable(line: str) -> str:
    """Turn an error event into text; other lines stay as they are."""
    try:
        event = json.loads(line)
    except ValueError:
        return line.strip()
    if not isinstance(event, dict) or "message" not in event:
        return line.strip()
    path = event.get("path")
    return f"{path}: {event['message']}" if path else str(event["message"])
