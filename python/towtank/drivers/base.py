"""What a driver is: three methods, and no life of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Protocol

from pydantic import Field

from towtank.fields import Duration, Model, Whole
from towtank.platforms.base import Target

URL_VARIABLE = "TOWTANK_URL"
"""Address of the only target, or of the first; with ``_<TARGET>`` that of a target."""

Word = Annotated[str, Field(max_length=10_000)]


class ScriptConfig(Model):
    """What all drivers of a script have in common."""

    script: str = Field(min_length=1, description="its path in the experiment's folder")
    duration: Duration = Field(gt=0, description="length of the load, warm-up included")
    warmup: Duration = Field(0.0, description="beginning of the load that is kept and flagged, not evaluated")
    timeout: Duration = Field(
        60.0, gt=0, description="the script's own: above it nothing is known of a latency"
    )
    users: Whole | None = Field(
        None, ge=1, le=1_000_000, description="virtual users; without it, as the script says"
    )
    args: tuple[Word, ...] = Field((), description="further arguments of the program")
    env: dict[str, str] = Field({}, description="environment variables besides those of Towtank")


@dataclass(frozen=True)
class DriveContext:
    """What a driver is told of a run.

    Parameters
    ----------
    root : Path
        Folder of the experiment file.
    output : Path
        An existing folder of the run, for the driver's own files.
    targets : mapping
        As the deployment has them.
    """

    root: Path
    output: Path
    targets: Mapping[str, Target]


@dataclass(frozen=True)
class Launch:
    """A process that makes a load, and where its requests will be.

    Parameters
    ----------
    argv : sequence of str
    env : mapping
        Besides the environment of Towtank itself.
    requests : Path
        The file that it writes, in the format `tool` of `load.importers`.
    tool : str
    success : frozenset of int
        Exit codes of a load that was carried out, whatever the target answered.
    cores : int, optional
        Most cores that it can use; None is all that it may.
    silenced : frozenset of str
        Notes of the reader that do not hold for what this driver writes.
    """

    argv: Sequence[str]
    env: Mapping[str, str]
    requests: Path
    tool: str
    success: frozenset[int] = frozenset({0})
    cores: int | None = None
    silenced: frozenset[str] = field(default_factory=frozenset)


class Driver(Protocol):
    """Another load generator."""

    @property
    def name(self) -> str:
        """As in experiment files."""

    def check(self, config: Any, root: Path) -> Sequence[str]:  # noqa: ANN401 - its own config model
        """Say everything that can be known to fail before anything is started, each with what to do."""

    def version(self, config: Any) -> str:  # noqa: ANN401 - its own config model
        """Say which version would run; empty when it does not say."""

    def launch(self, config: Any, context: DriveContext) -> Launch:  # noqa: ANN401 - its own config model
        """Say which process makes the load; starts nothing."""


def address_variables(targets: Mapping[str, Target]) -> dict[str, str]:
    """Environment variables with the addresses: `TOWTANK_URL`, and one with the name of each target.

    A target with several instances is spread by whoever stands before them; a script has one address of each,
    that of the first instance, and all of them with commas between in ``TOWTANK_URLS_<TARGET>``. Headers that the
    deployment wants to be sent are in ``TOWTANK_HEADERS_<TARGET>``, as a JSON object.
    """
    found: dict[str, str] = {}
    for name, target in targets.items():
        urls = [instance.url for instance in target.instances]
        suffix = "".join(sign if sign.isalnum() else "_" for sign in name.upper())
        found.setdefault(URL_VARIABLE, urls[0])
        found[f"{URL_VARIABLE}_{suffix}"] = urls[0]
        found[f"{URL_VARIABLE}S_{suffix}"] = ",".join(urls)
        if target.headers:
            found[f"TOWTANK_HEADERS_{suffix}"] = json.dumps(dict(target.headers))
    return found
