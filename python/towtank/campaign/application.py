"""Which application it was: a fingerprint of what a local deployment executes.

A changed application between two blocks would be a changed treatment under an old name, so the fingerprint is
part of the environment that resume compares. Digests of single files are kept beside it, to name what changed.
"""

from __future__ import annotations

import hashlib
import itertools
import os
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from towtank.design.plan import Plan
from towtank.platforms.local_config import Component, LocalConfig

MOST_FILES = 5_000
"""Of a folder, in order of their names; what is beyond does not count, and the fingerprint says so."""
MOST_BYTES = 256 * 2**20
"""Of a folder, smallest files first; what is beyond counts by name and size, and the fingerprint says so."""
MOST_NAMED = 1_000
"""Files whose digests are kept one by one, over all deployments."""
_DIGITS = 16
_YAML_HEAD = 2**20
_EXPERIMENT = re.compile(rb"^(experiment|'experiment'|\"experiment\")[ \t]*:", re.MULTILINE)
_NOT_CODE = {"__pycache__", "node_modules", "results", "target"}
"""Besides everything that is hidden."""
_SCRIPTS = {".py", ".js", ".mjs", ".cjs", ".ts", ".rb", ".pl", ".php", ".lua", ".sh"}
"""Interpreters look for more code beside such a file."""
_WRITTEN = {
    ".bak", ".csv", ".db", ".db-journal", ".db-shm", ".db-wal", ".lock", ".log", ".md", ".out", ".parquet", ".pid",
    ".png", ".pyc", ".rst", ".sock", ".sqlite", ".sqlite3", ".sqlite-shm", ".sqlite-wal", ".swp", ".tmp", ".txt",
}  # fmt: skip
"""Data, logs and notes: what a server writes beside itself while it runs is its state, not its code."""


@dataclass(frozen=True)
class Fingerprints:
    """What the applications of a plan are made of.

    Parameters
    ----------
    applications : dict
        Deployment name (with its treatment where factors change it) → fingerprint. Deployments that are not
        processes of this machine have none here: their platform describes images.
    files : dict
        File or program → its digest, or its size where only that counts; the first `MOST_NAMED`.
    """

    applications: dict[str, str]
    files: dict[str, str]


def fingerprints(plan: Plan, root: Path, results: Path | None = None) -> Fingerprints:
    """Take the fingerprint of every application that a plan deploys on this machine.

    Parameters
    ----------
    plan : Plan
    root : Path
        Folder of the experiment file.
    results : Path, optional
        Result folder; it is no part of an application, wherever it is.

    Returns
    -------
    Fingerprints
    """
    # The experiment's own files are compared as the plan, where a comment is no change.
    own = {(root / name).resolve() for name in plan.files}
    own |= {(root / name).resolve() for t in plan.treatments for name in t.spec.files}
    applications = _Applications(
        root, frozenset(own | ({results.resolve()} if results is not None else set()))
    )
    found: dict[str, str] = {}
    for treatment in plan.treatments:
        value = applications.fingerprint(treatment.spec.deployment)
        if value is not None:
            name = treatment.spec.deployment_name
            if found.get(name, value) != value:
                name = f"{name} ({treatment.id})"
            found[name] = value
    return Fingerprints(found, applications.files)


class _Applications:
    """Reads every file and folder once, however many deployments share it."""

    def __init__(self, root: Path, left_out: frozenset[Path]) -> None:
        self._root = root.resolve()
        self._left_out = left_out
        self._known: dict[Path, str] = {}
        self._notes: dict[Path, str] = {}
        self.files: dict[str, str] = {}

    def fingerprint(self, deployment: object) -> str | None:
        """Digest of everything that a local deployment's processes are made of, and what it leaves out."""
        if not isinstance(deployment, LocalConfig):
            return None
        sha, notes = hashlib.sha256(), dict[str, None]()
        for name, component in deployment.resolved().items():
            for part, path in self._parts(component):
                digest = self._digest(path)
                sha.update(f"{name}:{part} {digest}\n".encode())
                if not path.is_dir():
                    by_path = f"program {component.command[0]}, {path}" if part == "program" else None
                    self._keep(by_path or self._named(path), digest)
                if path in self._notes:
                    notes[self._notes[path]] = None
        return sha.hexdigest()[:16] + (f" ({'; '.join(notes)})" if notes else "")

    def _parts(self, component: Component) -> Iterator[tuple[str, Path]]:
        """The program, files that its command names, its working folder, and folders of its scripts.

        Their names are those of the experiment file: the same study in another place is the same.
        """
        cwd = self._filled(component.cwd)
        folder = (self._root / cwd).resolve() if "{" not in cwd else self._root
        yield "folder", folder
        program = shutil.which(component.command[0], path=f"{os.environ.get('PATH', '')}:{folder}")
        if program is not None:
            yield "program", Path(program).resolve()
        for word in component.command:
            filled = self._filled(word)
            path = (folder / filled).resolve()
            if not word.startswith("-") and "{" not in filled and path.is_file():
                yield word, path
                if path.suffix in _SCRIPTS and not path.is_relative_to(folder):
                    yield f"{word}:folder", path.parent

    def _filled(self, word: str) -> str:
        return word.replace("{root}", str(self._root))

    def _digest(self, path: Path) -> str:
        if path not in self._known:
            self._known[path] = self._folder(path) if path.is_dir() else _file(path)
        return self._known[path]

    def _folder(self, folder: Path) -> str:
        """Digest of a folder's files: names and contents; names and sizes beyond the bounds."""
        files = [(_size(path), path) for path in itertools.islice(self._files(folder), MOST_FILES + 1)]
        more = len(files) > MOST_FILES
        sha, read, by_size = hashlib.sha256(), 0, 0
        for size, path in sorted(files[:MOST_FILES]):
            read += size
            by_size += read > MOST_BYTES
            shown = _file(path) if read <= MOST_BYTES else str(size)
            self._keep(self._named(path), shown)
            sha.update(f"{path.relative_to(folder)}\0{shown}\n".encode("utf-8", "surrogateescape"))
        notes = [f"only its first {MOST_FILES} files"] if more else []
        notes += [f"{by_size} large files by size only"] if by_size else []
        if notes:
            self._notes[folder] = f"{folder.name}: {', '.join(notes)}"
        return sha.hexdigest()

    def _keep(self, name: str, digest: str) -> None:
        if len(self.files) < MOST_NAMED:
            self.files[name] = digest[:_DIGITS]

    def _named(self, path: Path) -> str:
        """Path from the experiment's folder, so that a study that was moved keeps its names."""
        return os.path.relpath(path, self._root).encode("utf-8", "backslashreplace").decode()

    def _files(self, folder: Path) -> Iterator[Path]:
        """Regular files below a folder that may be code, by name."""
        for here, folders, names in os.walk(folder):
            folders[:] = sorted(name for name in folders if self._may_be_code(Path(here) / name))
            for name in sorted(names):
                path = Path(here) / name
                if name.startswith(".") or path.suffix in _WRITTEN or not path.is_file():
                    continue
                if path.resolve() not in self._left_out and not _is_experiment(path):
                    yield path

    def _may_be_code(self, folder: Path) -> bool:
        if folder.name in _NOT_CODE or folder.name.startswith(".") or folder.resolve() in self._left_out:
            return False
        return not (folder / "plan.json").exists()  # results of any experiment


def _is_experiment(path: Path) -> bool:
    """Whether a file is an experiment of its own: several often share a folder, and none is the application."""
    if path.suffix not in (".yaml", ".yml"):
        return False
    try:
        with path.open("rb") as stream:
            return _EXPERIMENT.search(stream.read(_YAML_HEAD)) is not None
    except OSError:
        return False


def _size(path: Path) -> int:
    try:
        return path.stat().st_size
    except OSError:
        return 0


def _file(path: Path) -> str:
    sha = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                sha.update(chunk)
    except OSError:
        return "unreadable"
    return sha.hexdigest()
