"""What is about to exist, written down before it does, so that whoever comes after a crash can end it.

An intent is one file `intents/<token>.json`. It appears (durably) before anything is created and goes when
everything was removed; an empty folder means that nothing is left behind.
"""

from __future__ import annotations

import contextlib
import json
import os
import secrets
import shutil
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal

from towtank.campaign import processes
from towtank.clock import boot_id

Kind = Literal["deployment", "engine", "hook", "scratch"]
_TERM_GRACE_S = 2.0
Sweep = Callable[[str, str, Path | None], int]
"""(platform, token, folder of the deployment) → number of things ended."""


@dataclass(frozen=True)
class Intent:
    """One thing that is about to exist.

    Parameters
    ----------
    token : str
        Mark in the environment of every process that belongs to it.
    kind : {"deployment", "engine", "hook", "scratch"}
    name : str
        For people: which deployment, engine of which run, which hook.
    platform : str
        For deployments: who can sweep it.
    scratch : str
        Folder to be removed with it, relative to the result folder; empty for none.
    """

    token: str
    kind: Kind
    name: str
    platform: str = ""
    scratch: str = ""
    owner_pid: int = field(default_factory=os.getpid)
    owner_start_ticks: int = field(default_factory=lambda: processes.start_ticks(os.getpid()) or 0)
    boot_id: str = field(default_factory=boot_id)
    created_utc: str = field(default_factory=lambda: datetime.now(UTC).isoformat(timespec="seconds"))


@dataclass(frozen=True)
class Swept:
    """What was left of one intent, and what became of it."""

    intent: Intent
    ended: int
    message: str


class Intents:
    """The intents of one result folder.

    Parameters
    ----------
    results : Path
        The result folder; intents lie in its `intents/`.
    """

    def __init__(self, results: Path) -> None:
        self._results = results
        self._folder = results / "intents"

    def declare(self, kind: Kind, name: str, *, platform: str = "", scratch: bool = False) -> Intent:
        """Write an intent durably and return it with a new token; with `scratch`, it has a folder of its own."""
        token = f"tt-{secrets.token_hex(8)}"
        intent = Intent(token, kind, name, platform, f"scratch/{token}" if scratch else "")
        self._folder.mkdir(parents=True, exist_ok=True)
        path = self._path(intent.token)
        temporary = path.with_suffix(".tmp")
        with temporary.open("w", encoding="utf-8") as stream:
            json.dump(asdict(intent), stream, indent=1)
            stream.flush()
            os.fsync(stream.fileno())
        temporary.rename(path)
        _sync(self._folder)
        return intent

    def fulfilled(self, intent: Intent) -> None:
        """Everything of it was removed; its scratch folder goes as well."""
        self._remove_scratch(intent)
        self._path(intent.token).unlink(missing_ok=True)

    @contextlib.contextmanager
    def during(self, kind: Kind, name: str) -> Iterator[Intent]:
        """Hold an intent while something exists; whatever is left of it is ended on leaving."""
        intent = self.declare(kind, name)
        try:
            yield intent
        finally:
            processes.end_marked(intent.token)
            self.fulfilled(intent)

    def pending(self) -> list[Intent]:
        """Intents that nobody has fulfilled, oldest first."""
        found = []
        for path in sorted(self._folder.glob("*.json")) if self._folder.is_dir() else []:
            with contextlib.suppress(ValueError, TypeError, OSError):
                content: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
                if content.get("token") == path.stem:
                    known = {key: content[key] for key in Intent.__dataclass_fields__ if key in content}
                    found.append(Intent(**known))
        return sorted(found, key=lambda intent: intent.created_utc)

    def sweep(self, sweep_platform: Sweep) -> list[Swept]:
        """End what a dead Towtank left; to be called under the folder's lock.

        Only processes that carry the intent's token are touched, so a reused pid is safe. After a reboot
        the processes are gone by themselves, and what lives elsewhere is still asked about.
        """
        found = []
        for intent in self.pending():
            ended, message = 0, ""
            try:
                if intent.kind == "deployment":
                    ended += sweep_platform(intent.platform, intent.token, self._scratch_of(intent))
                ended += processes.end_marked(intent.token, grace_s=_TERM_GRACE_S)
                self.fulfilled(intent)
                what = (
                    "process(es)" if intent.platform in ("", "local") else f"object(s) on {intent.platform}"
                )
                message = f"ended {ended} {what}" if ended else "nothing was left of it"
            except Exception as error:  # noqa: BLE001 - one failure must not keep the others from being swept
                message = f"could not be swept: {error}; its intent stays in {self._folder}"
            found.append(Swept(intent, ended, message))
        for leftover in self._folder.glob("*.tmp") if self._folder.is_dir() else []:
            leftover.unlink(missing_ok=True)
        return found

    def _path(self, token: str) -> Path:
        return self._folder / f"{token}.json"

    def _scratch_of(self, intent: Intent) -> Path | None:
        """The intent's folder; an intent that names a place elsewhere is not believed."""
        if not intent.scratch:
            return None
        path = (self._results / intent.scratch).resolve()
        allowed = (self._results / "scratch").resolve()
        return path if path != allowed and path.is_relative_to(allowed) else None

    def _remove_scratch(self, intent: Intent) -> None:
        path = self._scratch_of(intent)
        if path is not None:
            shutil.rmtree(path, ignore_errors=True)


def _sync(folder: Path) -> None:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
