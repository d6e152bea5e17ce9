"""Quantities as Kubernetes writes them. A leaf: experiment files are checked with it, and that needs no client."""

from __future__ import annotations

import re

_QUANTITY = re.compile(r"([0-9.]+(?:[eE][-+]?[0-9]+)?)([numkKMGTPE]?i?)")
_FACTORS = {
    "": 1.0, "n": 1e-9, "u": 1e-6, "m": 1e-3, "k": 1e3, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12, "P": 1e15, "E": 1e18,
    "Ki": 2.0**10, "Mi": 2.0**20, "Gi": 2.0**30, "Ti": 2.0**40, "Pi": 2.0**50, "Ei": 2.0**60,
}  # fmt: skip


def quantity(text: object) -> float:
    """Read a quantity of Kubernetes, such as 250m, 1500000n or 64Mi.

    Raises
    ------
    ValueError
    """
    match = _QUANTITY.fullmatch(str(text).strip())
    if match is None or match.group(2) not in _FACTORS:
        raise ValueError(f"{text!r} is not a quantity of Kubernetes; allowed is such as 250m or 64Mi")
    return float(match.group(1)) * _FACTORS[match.group(2)]
