"""Copies of the files that an experiment names, kept beside its results: the engine reads what is kept.

So a feed that somebody edits while runs go on changes none of them; the next command finds that the experiment is not
the one whose results are there.
"""

from __future__ import annotations

import hashlib
import shutil
from pathlib import Path

from towtank.design import Plan
from towtank.errors import ResultsError
from towtank.store.files import explained


def keep_files(plan: Plan, root: Path, folder: Path) -> None:
    """Copy what is not there yet.

    Parameters
    ----------
    plan : Plan
    root : Path
        Folder of the experiment file.
    folder : Path
        Where the copies go: ``results/<experiment>/files``.

    Raises
    ------
    ResultsError
        A file is not the one that the plan was made with.
    MachineError
        The folder cannot be written.
    """
    wanted = {name: digest for t in plan.treatments for name, digest in t.spec.kept_files.items()}
    with explained(folder, still_good="nothing was started"):
        for name, digest in wanted.items():
            kept = folder / name
            if kept.is_file() and _digest(kept) == digest:
                continue
            kept.parent.mkdir(parents=True, exist_ok=True)
            temporary = kept.with_name(f".{kept.name}.tmp")
            shutil.copyfile(root / name, temporary)
            if _digest(temporary) != digest:
                temporary.unlink()
                raise ResultsError(
                    f"{root / name} was changed since the plan was made",
                    hint="run the command again; a file that changes by itself cannot be part of an experiment",
                )
            temporary.replace(kept)


def _digest(path: Path) -> str:
    with path.open("rb") as stream:
        return hashlib.file_digest(stream, "sha256").hexdigest()
