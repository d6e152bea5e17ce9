"""Which known name a misspelling was probably meant to be."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


def nearest_name(name: str, known: Iterable[str], *, cutoff: float = 0.6) -> str:
    """Find the known name that is most alike; ``""`` when none reaches the share `cutoff` (0 to 1) of likeness."""
    close = difflib.get_close_matches(name[:200], list(known), n=3, cutoff=cutoff)
    # Swapped letters are the likeliest slip, and difflib takes `prot` for `root` as soon as for `port`.
    swapped = (match for match in close if sorted(match) == sorted(name))
    return next(swapped, close[0] if close else "")
