"""Where the ingress of scaled local deployments is; what it says and is told is in docs/formats.md §6."""

from __future__ import annotations

from pathlib import Path

from towtank.load.binary import Program

INGRESS = Program(
    "towtank-ingress", "the ingress of scaled local deployments", "TOWTANK_INGRESS", "ingress",
    build="`make ingress`", install="pip install towtank-ingress",
)  # fmt: skip


def find_ingress() -> Path:
    """Find the ingress' binary; see `Program.find`.

    Raises
    ------
    MachineError
        Nowhere; the hint says how to build or install it.
    """
    return INGRESS.find()
