"""Which application it was: a fingerprint of what a local deployment executes.

A changed application between two blocks would be a changed treatment under an old name, so the fingerprint is
part of the environment that resume compares.
"""

from __future__ import annotations

import hashlib
import os
import shutil
from collections.abc import Iterator
from pathlib import Path

from towtank.design.plan import Plan
from towtank.platforms.local_config import LocalConfig

MOST_FILES = 5_000
MOST_BYTES = 256 * 2**20
"""Beyond these bounds a folder counts by names and sizes, and the fingerprint says so."""
_NOT_CODE = {
    "__pycache__",
    "node_modules",
    "results",
    ".git",
    ".venv",
    "target",
    ".mypy_cache",
    ".ruff_cache",
}


def fingerprints(plan: Plan, root: Path) -> dict[str, str]:
    """Deployment name (with its treatment where factors change it) → fingerprint of its application.

    Deployments that are not processes of this machine have none here: their platform describes images.
    """
    found: dict[str, str] = {}
    for treatment in plan.treatments:
        deployment = treatment.spec.deployment
        files = dict(_described(deployment, root))
        if files:
            name = treatment.spec.deployment_name
            text = "\n".join(f"{key} {value}" for key, value in sorted(files.items()))
            value = hashlib.sha256(text.encode()).hexdigest()[:16]
            if found.get(name, value) != value:
                name = f"{name} ({treatment.id})"
            found[name] = value
    return found


def _described(deployment: object, root: Path) -> Iterator[tuple[str, str]]:
    """Everything that a local deployment's processes are made of."""
    if not isinstance(deployment, LocalConfig):
        return
    for name, component in deployment.resolved().items():
        folder = (root / component.cwd).resolve() if "{" not in component.cwd else root
        program = shutil.which(component.command[0], path=f"{os.environ.get('PATH', '')}:{folder}")
        if program is not None:
            yield f"{name}:program", _file(Path(program).resolve())
        for word in component.command[1:]:
            path = folder / word
            if not word.startswith("-") and "{" not in word and path.is_file():
                yield f"{name}:{word}", _file(path)
        if not root.resolve().is_relative_to(folder):  # the experiment's own folder is compared with the plan
            yield f"{name}:folder", _folder(folder)


def _folder(folder: Path) -> str:
    """Digest of a folder's files: names and contents, or names and sizes beyond the bounds."""
    files = sorted(_files(folder))[: MOST_FILES + 1]
    sizes = [path.stat().st_size for path in files]
    by_content = len(files) <= MOST_FILES and sum(sizes) <= MOST_BYTES
    sha = hashlib.sha256()
    for path, size in zip(files, sizes, strict=True):
        sha.update(f"{path.relative_to(folder)}\0{_file(path) if by_content else size}\n".encode())
    return ("" if by_content else "names-and-sizes:") + sha.hexdigest()


def _files(folder: Path) -> Iterator[Path]:
    for here, folders, names in os.walk(folder):
        folders[:] = sorted(name for name in folders if name not in _NOT_CODE and not name.startswith("."))
        for name in names:
            path = Path(here) / name
            if not name.startswith(".") and not name.endswith(".pyc") and path.is_file():
                yield path


def _file(path: Path) -> str:
    sha = hashlib.sha256()
    try:
        with path.open("rb") as stream:
            while chunk := stream.read(1 << 20):
                sha.update(chunk)
    except OSError:
        return "unreadable"
    return sha.hexdigest()
