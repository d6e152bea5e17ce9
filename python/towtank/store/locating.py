"""Finding results: the folder that belongs to an experiment file or a study, and the run whose folder a path is."""

from __future__ import annotations

from pathlib import Path

from towtank.errors import ResultsError
from towtank.spelling import nearest_name
from towtank.store.layout import RUNS
from towtank.store.results import Results
from towtank.store.run_folder import RunFolder


def locate(path: Path | str) -> Path:
    """Find the result folder that belongs to an experiment file, a study or a result folder.

    Parameters
    ----------
    path : Path
        ``studies/x/experiment.yaml``, ``studies/x``, or ``studies/x/results/<experiment>``.

    Returns
    -------
    Path
        The result folder.

    Raises
    ------
    ResultsError
        There is none, or several are meant.
    """
    path = Path(path)
    if not path.exists():
        raise ResultsError(f"{path} does not exist", hint="give an experiment file or a result folder")
    if path.is_dir():
        if (path / "plan.json").exists() or not (path / "results").is_dir():
            return path
        return _only_results(path / "results", None)
    if (path.parent / "plan.json").exists():  # the copy of the experiment file within its results
        return path.parent
    return _only_results(path.parent / "results", _experiment_name(path))


def find_run(path: Path) -> RunFolder:
    """Find the run whose folder this is.

    Parameters
    ----------
    path : Path
        ``results/<experiment>/runs/b01-one-a1``.

    Raises
    ------
    ResultsError
        It is something else; the runs that are near are named.
    """
    path = path.absolute()
    inside = path.parent.name == RUNS and (path.parent.parent / "plan.json").is_file()
    results = Results.open(path.parent.parent if inside else locate(path))
    known = {run.run_id: run for run in results.runs("all")}
    if inside and path.name in known:
        return known[path.name]
    for damage in results.damage:
        if inside and damage.path.parent.name == path.name:
            raise ResultsError(str(damage))
    near = nearest_name(path.name, known) if inside else next(iter(known), "")
    raise ResultsError(
        f"{path} is not a run; the runs in {results.path} are {', '.join([*known][:20]) or 'none'}",
        hint=f"such as {results.path / RUNS / near}" if near else None,
    )


def _only_results(folder: Path, name: str | None) -> Path:
    found = sorted(p.parent for p in folder.glob("*/plan.json"))
    for candidate in found:
        if candidate.name == name:
            return candidate
    if name is None and len(found) == 1:
        return found[0]
    names = ", ".join(p.name for p in found) or "none"
    if name is None and found:
        raise ResultsError(
            f"{folder} holds the results of several experiments: {names}", hint="name one of these folders"
        )
    wanted = f" of the experiment {name!r}" if name else ""
    raise ResultsError(
        f"no results{wanted} in {folder}; found: {names}", hint="run it first: towtank run FILE"
    )


def _experiment_name(path: Path) -> str | None:
    """Value of the top-level key `experiment`, found without YAML: results need no valid file."""
    try:
        with path.open(encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if line.startswith("experiment:"):
                    value = line.partition(":")[2].split(" #")[0].strip().strip("\"'")
                    return value or None
    except OSError as error:
        raise ResultsError(f"{path} cannot be read: {error.strerror}") from error
    return None
