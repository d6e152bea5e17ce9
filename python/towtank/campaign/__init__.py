"""Carrying a plan out: lifetimes, settling, one run after another, validity, resuming, cleaning up.

`run_campaign` is the whole of it; what it leaves is a result folder (docs/formats.md §4) that `analysis` and
`report` read. `validity` is the table of reasons why a run is not valid or a system not intact.
"""

from towtank.campaign.campaign import Outcome, run_campaign
from towtank.campaign.progress import Display, Plain, Quiet, Rich, choose_display
from towtank.campaign.reasons import REASONS
from towtank.campaign.stopping import StopRequest
from towtank.campaign.validity import Observation, judge

__all__ = [
    "REASONS",
    "Display",
    "Observation",
    "Outcome",
    "Plain",
    "Quiet",
    "Rich",
    "StopRequest",
    "choose_display",
    "judge",
    "run_campaign",
]
