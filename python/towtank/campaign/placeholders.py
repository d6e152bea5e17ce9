"""Placeholders in hooks and copies: `{data}`, `{root}`, `{python}`, `{fixture.NAME}`, `{url.TARGET}`."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from towtank.errors import PlatformError
from towtank.spelling import nearest_name

_PLACEHOLDER = re.compile(r"\{\{|\}\}|\{([a-z_]+(?:\.[A-Za-z0-9_.-]+)?)\}")


@dataclass(frozen=True)
class Places:
    """What placeholders stand for in one run.

    Parameters
    ----------
    root : Path
        Folder of the experiment file.
    data : Path, optional
        The deployment's own folder; None for the hooks of fixtures.
    fixtures : mapping
        Fixture name → its folder.
    urls : mapping
        Target name → address of its first instance; known once the deployment exists.
    """

    root: Path
    data: Path | None = None
    fixtures: Mapping[str, Path] = field(default_factory=dict)
    urls: Mapping[str, str] = field(default_factory=dict)

    def table(self) -> dict[str, str]:
        """Placeholder → value."""
        known = {"root": str(self.root), "python": sys.executable}
        if self.data is not None:
            known["data"] = str(self.data)
        known |= {f"fixture.{name}": str(path) for name, path in self.fixtures.items()}
        known |= {f"url.{name}": url for name, url in self.urls.items()}
        return known

    def fill(self, text: str, *, quote: Callable[[str], str] = str) -> str:
        """Fill in all placeholders; literal braces are doubled, and what is no placeholder stays.

        Parameters
        ----------
        quote : callable
            Applied to each value, such as `shlex.quote` inside a shell command.

        Raises
        ------
        PlatformError
            An unknown placeholder; lists the known ones.
        """
        known = self.table()

        def value(match: re.Match[str]) -> str:
            if match.group(0) in ("{{", "}}"):
                return match.group(0)[0]
            name = match.group(1)
            if name not in known:
                near = nearest_name(name, known)
                raise PlatformError(
                    f"{text!r} uses the placeholder {{{name}}}, which is not known here; known are "
                    + ", ".join(f"{{{key}}}" for key in sorted(known)),
                    hint=f"did you mean {{{near}}}?" if near else "double the braces to mean them literally",
                )
            return quote(known[name])

        return _PLACEHOLDER.sub(value, text)
