"""Programs that tests use besides the project's own: those of this machine, or those that tools/peers.sh installs."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

PEERS = Path(os.environ.get("TOWTANK_PEERS", Path(__file__).parents[2] / ".peers")) / "bin"


def found_or_skipped(tool: str) -> str:
    """Path of a program; without it the test is skipped, and says where it comes from."""
    found = shutil.which(tool) or shutil.which(tool, path=str(PEERS))
    if not found:
        pytest.skip(f"{tool} is neither in PATH nor in {PEERS}: `tools/peers.sh` installs it")
    return found
