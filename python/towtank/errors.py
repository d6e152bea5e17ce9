"""Every error that Towtank raises on purpose, as one tree.

::

    TowtankError                 something went wrong that we can explain      exit 1
    ├── DesignError              the experiment file is wrong: its author      exit 3
    ├── ResultsError             a result folder cannot be used                exit 3
    │   ├── ChangedError         file or environment differ from the stored    exit 3
    │   └── NewerVersionError    written by a newer Towtank                    exit 3
    ├── ForeignFileError         another tool's file cannot be imported        exit 3
    ├── QueryError               SQL is wrong, or asks for more than reading   exit 2
    ├── MachineError             this machine lacks what is needed             exit 4
    ├── PlatformError            the platform refused: its operator            exit 4
    │   ├── ReadinessTimeout     a deployment never became ready               exit 4
    │   └── RemovalTimeout       what was deleted does not go                  exit 4
    ├── EngineError              the load engine failed or answered nonsense   exit 1
    ├── DriverError              another load generator is missing or broken   exit 4
    ├── TelemetryError           a telemetry source cannot be read             exit 4
    └── Interrupted              the user asked to stop                        exit 130

A leaf says *who can do something about it*. The message says what happened, where, the offending value
and what is allowed; `hint` says what to do next. Exit codes of outcomes that are not errors (SLO missed,
invalid runs, undecided) stand beside these in `ExitCode`.
"""

from __future__ import annotations

from enum import IntEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from towtank.design.problems import Problem


class ExitCode(IntEnum):
    """What the process returns; documented in docs/exit-codes.md from this very class."""

    OK = 0
    UNEXPECTED = 1
    USAGE = 2
    BAD_FILE = 3
    DEPLOYMENT_FAILED = 4
    SLO_MISSED = 5
    INVALID_RUNS = 6
    UNDECIDED = 7
    REGRESSION = 8
    AUDIT_FAILED = 9
    INTERRUPTED = 130


EXIT_CODE_MEANING: dict[ExitCode, str] = {
    ExitCode.OK: "everything asked for was done",
    ExitCode.UNEXPECTED: "an error inside Towtank or its engine; please report it",
    ExitCode.USAGE: "the command line was wrong",
    ExitCode.BAD_FILE: "the experiment file or a result folder cannot be used as it is",
    ExitCode.DEPLOYMENT_FAILED: "a deployment, a platform or this machine could not do what was needed",
    ExitCode.SLO_MISSED: "the experiment ran, and a declared SLO was missed",
    ExitCode.INVALID_RUNS: "runs stayed invalid after their bounded repetitions",
    ExitCode.UNDECIDED: "the question stays undecided (only with --fail-undecided)",
    ExitCode.REGRESSION: "compare, history: the new results are worse than the old ones",
    ExitCode.AUDIT_FAILED: "audit: a published table has cells that cannot be right",
    ExitCode.INTERRUPTED: "stopped by Ctrl-C or SIGTERM; the same command resumes",
}


class TowtankError(Exception):
    """Base of all errors that end in a clear message instead of a traceback.

    Parameters
    ----------
    message : str
        What happened, where, the offending value, what is allowed.
    hint : str, optional
        What to do next.
    """

    exit_code: ExitCode = ExitCode.UNEXPECTED

    def __init__(self, message: str, *, hint: str | None = None) -> None:
        super().__init__(message)
        self.message = message
        self.hint = hint


class DesignError(TowtankError):
    """An experiment file has problems; carries all of them at once."""

    exit_code = ExitCode.BAD_FILE

    def __init__(self, problems: Sequence[Problem], *, hint: str | None = None) -> None:
        super().__init__("\n".join(str(p) for p in problems), hint=hint)
        self.problems = tuple(problems)


class ResultsError(TowtankError):
    """A result folder is missing, damaged or not what was asked for."""

    exit_code = ExitCode.BAD_FILE


class ChangedError(ResultsError):
    """The experiment or its environment is not the one whose results are stored."""


class NewerVersionError(ResultsError):
    """A result folder was written by a newer Towtank."""


class ForeignFileError(TowtankError):
    """A file of another tool is cut off, damaged or something else; nothing of it was imported."""

    exit_code = ExitCode.BAD_FILE


class QueryError(TowtankError):
    """SQL over results is wrong, or asks for more than reading them."""

    exit_code = ExitCode.USAGE


class MachineError(TowtankError):
    """This machine lacks something: a program, a permission, a port, room on a disk."""

    exit_code = ExitCode.DEPLOYMENT_FAILED


class PlatformError(TowtankError):
    """A platform could not deploy, reach or remove a deployment."""

    exit_code = ExitCode.DEPLOYMENT_FAILED


class ReadinessTimeout(PlatformError):  # noqa: N818 - the field's word
    """A deployment did not become ready in time; the message ends with its last log lines."""


class RemovalTimeout(PlatformError):  # noqa: N818 - the field's word
    """What was deleted is still there: something else holds it, and deleting it again would not help."""


class EngineError(TowtankError):
    """The load engine could not be started, died, or broke its protocol."""


class DriverError(TowtankError):
    """Another load generator, such as k6, is not there or cannot be used."""

    exit_code = ExitCode.DEPLOYMENT_FAILED


class TelemetryError(TowtankError):
    """A telemetry source cannot be read."""

    exit_code = ExitCode.DEPLOYMENT_FAILED


class Interrupted(TowtankError):  # noqa: N818 - not an error, but it ends the command
    """The user asked to stop; everything was put away."""

    exit_code = ExitCode.INTERRUPTED
