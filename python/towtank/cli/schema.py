"""`towtank schema`: the JSON Schema of experiment files, for editors."""

from __future__ import annotations

import json
from pathlib import Path

import typer


def schema(
    output: Path | None = typer.Option(
        None, "--output", "-o", metavar="FILE", help="Write it to a file instead of the terminal."
    ),
) -> None:
    """Print the JSON Schema (draft 2020-12) of experiment files.

    Editors complete and check a file whose first line is, for most of them:
    # yaml-language-server: $schema=experiment.schema.json
    """
    from towtank.design import json_schema
    from towtank.errors import MachineError

    text = json.dumps(json_schema(), indent=2, ensure_ascii=False) + "\n"
    if output is None:
        typer.echo(text, nl=False)
        return
    try:
        output.write_text(text, encoding="utf-8")
    except OSError as error:
        raise MachineError(
            f"the schema cannot be written to {output}: {error.strerror or error}",
            hint="choose a file in a folder that exists and may be written to",
        ) from error
    typer.echo(str(output))
