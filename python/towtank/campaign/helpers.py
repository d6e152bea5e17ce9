"""What telemetry starts for a run: an intent for each, so that whoever comes after a crash ends it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from towtank.campaign import processes
from towtank.platforms.base import DeployContext
from towtank.telemetry.base import Helper

if TYPE_CHECKING:
    from towtank.campaign.frame import Frame


class Helpers:
    """Declares helpers of one run; see `telemetry.base.Helpers`.

    Parameters
    ----------
    frame : Frame
    run_id : str
    logs : Path
        Folder of the run's logs.
    """

    def __init__(self, frame: Frame, run_id: str, logs: Path) -> None:
        self._frame = frame
        self._run_id = run_id
        self._logs = logs

    def declare(self, name: str, *, platform: str = "") -> Helper:
        """Write an intent durably."""
        frame = self._frame
        intent = frame.intents.declare(
            "deployment" if platform else "engine",
            f"{name} of {self._run_id}",
            platform=platform,
            scratch=True,
        )
        context = DeployContext(
            name,
            intent.token,
            frame.results / intent.scratch,
            self._logs,
            frame.root,
            experiment=frame.experiment,
        )

        def over() -> None:
            if not platform:
                processes.end_marked(intent.token)
            frame.intents.fulfilled(intent)

        return Helper(context, frame.engine.path, over)
