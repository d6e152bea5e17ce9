"""Helpers for sources that start something: what was declared, and what is over."""

from __future__ import annotations

import secrets
from pathlib import Path

from towtank.load import find_engine
from towtank.platforms.base import DeployContext
from towtank.telemetry.base import Helper


class DeclaredHelpers:
    """As the campaign's, in a folder of a test.

    Attributes
    ----------
    open : list of str
        Tokens of what is not over yet.
    """

    def __init__(self, folder: Path, token: str = "") -> None:
        self._folder = folder
        self._token = token
        self.open: list[str] = []

    def declare(self, name: str, *, platform: str = "") -> Helper:
        """Note it."""
        del platform
        token = self._token or f"tt-{secrets.token_hex(4)}"
        self.open.append(token)
        context = DeployContext(
            name, token, self._folder / token, self._folder, self._folder, experiment="tests"
        )
        return Helper(context, find_engine(), lambda: self.open.remove(token))
