"""`--set KEY.PATH=VALUE`: single values of an experiment file given on the command line."""

from __future__ import annotations

from collections.abc import Sequence

import typer

OVERRIDES = typer.Option(
    [],
    "--set",
    metavar="KEY=VALUE",
    help="Another value for one key of the file, such as repetitions=2 or workloads.w.load.users=5; may be repeated.",
)


def read_overrides(texts: Sequence[str]) -> dict[str, str]:
    """Key path → YAML text of each option.

    Raises
    ------
    typer.BadParameter
        One has no ``=``, or a key is given twice.
    """
    found: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise typer.BadParameter(f"{text!r} is not KEY=VALUE", param_hint="--set")
        if key.strip() in found:
            raise typer.BadParameter(f"{key.strip()!r} is given twice", param_hint="--set")
        found[key.strip()] = value
    return found
