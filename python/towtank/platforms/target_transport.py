"""How requests reach each target of a deployment that is written target by target: `external`, `kubernetes`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from towtank.platforms import placeholders
from towtank.platforms.transport import Tls, Transport

DEFAULT_TARGET = "app"
"""Name of the only target of a deployment that names none."""


class OwnTransport(Transport):
    """One of several targets; what it does not say is as for the deployment. Each has a field `headers`."""

    if TYPE_CHECKING:  # declared where its place among the other keys is decided
        headers: dict[str, str] | None


class TargetsTransport(Transport):
    """A deployment's own words, and those of its targets. Each has the fields `headers` and `targets`."""

    if TYPE_CHECKING:
        headers: dict[str, str]
        targets: Mapping[str, OwnTransport] | None

    def transport_of(self, target: str) -> Transport:
        """How requests reach a target: what it says itself, then what the deployment says."""
        own = (self.targets or {}).get(target)
        return self.transport() if own is None else self.transport().replaced_by(own)

    def headers_of(self, target: str) -> dict[str, str]:
        """Headers of every request to a target."""
        own = (self.targets or {}).get(target)
        return self.headers if own is None or own.headers is None else own.headers

    def tls_sections(self) -> Iterator[tuple[tuple[str, ...], Tls]]:
        """Every `tls` that is written, with its key path in the deployment."""
        if self.tls is not None:
            yield ("tls",), self.tls
        for name, target in (self.targets or {}).items():
            if target.tls is not None:
                yield ("targets", name, "tls"), target.tls

    def never_empty(self, root: Path) -> str:
        """See `base.KnowsItIsNeverEmpty`: what nobody can see is never known to be without an instance."""
        del root
        return "nobody tells how many instances it has; `deploy: per-run` begins every run anew"

    def fixture_names(self) -> tuple[str, ...]:
        """None: what does not run as a process of ours uses no folder of ours."""
        return ()

    def secret_names(self) -> tuple[str, ...]:
        """Environment variables whose values are used, and masked in everything written."""
        return placeholders.dotted(self._secrets(), "env")

    def secret_files(self) -> tuple[str, ...]:
        """Files whose texts are used, and masked in everything written."""
        return placeholders.dotted(self._secrets(), "file")

    def _secrets(self) -> Iterator[str]:
        yield from self.headers.values()
        yield from self.templates()
        for target in (self.targets or {}).values():
            yield from (target.headers or {}).values()
            yield from target.templates()
