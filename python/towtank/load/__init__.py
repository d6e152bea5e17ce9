"""The Python face of the load engine: finds it, tells it what to do, listens to what it says.

The engine is a process of its own (docs/formats.md §1): a job in a file, control on its stdin, events on
its stdout. Nothing here measures anything.
"""

from towtank.load.binary import EngineBuild, engine_build, find_engine
from towtank.load.check import check_job
from towtank.load.engine import EngineProcess
from towtank.load.events import Done, Progress, Ready
from towtank.load.job import JobRequest, Stage, build_job, masked, stages

__all__ = [
    "Done",
    "EngineBuild",
    "EngineProcess",
    "JobRequest",
    "Progress",
    "Ready",
    "Stage",
    "build_job",
    "check_job",
    "engine_build",
    "find_engine",
    "masked",
    "stages",
]
