"""What an experiment file is refused for, without the folder that it happens to lie in."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from towtank.errors import DesignError


def problems(folder: Path, load: Callable[[], object]) -> list[str]:
    """Every problem that loading finds, as ``file:line:column: …`` relative to the folder."""
    with pytest.raises(DesignError) as caught:
        load()
    return [str(problem).removeprefix(f"{folder}/") for problem in caught.value.problems]
