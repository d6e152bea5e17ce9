"""`towtank clean`: end what a killed Towtank left behind."""

from __future__ import annotations

from pathlib import Path

import typer


def clean(
    results: Path = typer.Argument(
        Path(),
        metavar="RESULTS",
        help="Result folder, experiment file, or a folder to look for results in.",
    ),
) -> None:
    """End what a killed Towtank left behind, and say what it was.

    Only processes, and objects in clusters, that carry the mark of their intent are touched; a folder that a running
    towtank works on is refused.
    """
    from towtank.campaign.intents import Intents
    from towtank.campaign.lock import locked
    from towtank.platforms import registry
    from towtank.platforms.base import sweep

    folders = _result_folders(results)
    ended = 0
    for folder in folders:
        with locked(folder):
            swept = Intents(folder).sweep(lambda name, *what: sweep(registry.create(name), *what))
        for left in swept:
            typer.echo(f"{folder}: {left.intent.kind} {left.intent.name}: {left.message}")
        ended += len(swept)
    if not folders:
        typer.echo(f"no results in {results}: nothing to clean")
    elif not ended:
        typer.echo("nothing was left behind")


def _result_folders(path: Path) -> list[Path]:
    """The result folders that are meant: the one named, or all below a folder."""
    from towtank.store import locate

    if path.is_file():
        return [locate(path)]
    if (path / "plan.json").exists() or (path / "intents").is_dir():
        return [path.resolve()]
    found = {plan.parent.resolve() for plan in path.glob("**/results/*/plan.json")}
    found |= {plan.parent.resolve() for plan in path.glob("*/plan.json")}
    return sorted(found)
