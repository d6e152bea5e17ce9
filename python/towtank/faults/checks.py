"""What can be known of faults before a run: whether this machine lets the platform make them."""

from __future__ import annotations

from collections.abc import Sequence

from towtank.errors import TowtankError
from towtank.faults.model import Fault
from towtank.platforms.base import ChecksFaults, Platform


def problems_here(platform: Platform, faults: Sequence[Fault]) -> list[str]:
    """Why faults of a treatment could not be made here; empty when they can."""
    kinds = sorted({fault.kind for fault in faults if fault.is_active})
    if not kinds or not isinstance(platform, ChecksFaults):
        return []
    try:
        return list(platform.check_faults(kinds))
    except TowtankError as error:
        return [error.message]
