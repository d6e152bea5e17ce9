"""What all runs of a campaign share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from towtank.campaign.images import KnownImages
from towtank.campaign.intents import Intents
from towtank.campaign.lifetimes import Lifetimes
from towtank.campaign.progress import Display
from towtank.campaign.stopping import StopRequest
from towtank.load.binary import EngineBuild


@dataclass(frozen=True)
class Frame:
    """What all runs of a campaign share.

    Parameters
    ----------
    experiment : str
    results, root : Path
        Result folder; folder of the experiment file.
    engine : EngineBuild
    environment_digest : str
    versions : mapping
    intents : Intents
    lifetimes : Lifetimes
    stop : StopRequest
    display : Display
    images : KnownImages
    """

    experiment: str
    results: Path
    root: Path
    engine: EngineBuild
    environment_digest: str
    versions: Mapping[str, str]
    intents: Intents
    lifetimes: Lifetimes
    stop: StopRequest
    display: Display
    images: KnownImages
