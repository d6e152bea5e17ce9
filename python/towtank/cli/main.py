"""`towtank`: finds the command, calls it, turns errors into clear messages and documented exit codes."""

from __future__ import annotations

import errno
import os
import re
import sys
import tempfile
import traceback
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any, NoReturn

import typer
from typer.core import TyperArgument, TyperCommand

from towtank import __version__
from towtank.cli.go_flags import spelled_out
from towtank.errors import ExitCode, TowtankError


@dataclass(frozen=True)
class Command:
    """A command's place and what `towtank --help` says of it, so that help imports no command."""

    module: str
    summary: str
    panel: str
    function: str = ""
    """In `module`; named like the command unless that is a word of Python."""


COMMANDS: dict[str, Command] = {
    "run": Command("towtank.cli.run", "Carry out an experiment, or resume it.", "Experiments"),
    "plan": Command("towtank.cli.plan", "Show what an experiment would do; touches nothing.", "Experiments"),
    "capacity": Command(
        "towtank.cli.capacity", "Find the highest load that each deployment carries.", "Experiments"
    ),
    "report": Command("towtank.cli.report", "Write the report of stored results.", "Experiments"),
    "load": Command("towtank.cli.load", "Drive an ad-hoc load at a URL, with hey's flags.", "Ad hoc"),
    "sql": Command("towtank.cli.sql", "Ask stored results a question in SQL.", "Results"),
    "export": Command("towtank.cli.export", "Write stored results for other tools.", "Results"),
    "logs": Command("towtank.cli.logs", "Show what instances wrote, by the run's time.", "Results"),
    "import": Command(
        "towtank.cli.import_",
        "Turn results of k6, Locust, hey, vegeta or oha into runs.",
        "Results",
        "import_",
    ),
    "history": Command("towtank.cli.history", "Say where results over time took another level.", "Results"),
    "compare": Command("towtank.cli.compare", "Say what became worse between two results.", "Results"),
    "audit": Command(
        "towtank.cli.audit", "List the cells of published tables that cannot be right.", "Results"
    ),
    "schema": Command("towtank.cli.schema", "Print the JSON Schema of experiment files.", "Around"),
    "clean": Command("towtank.cli.clean", "End what a killed Towtank left behind.", "Around"),
    "doctor": Command("towtank.cli.doctor", "Say what this machine can and cannot do.", "Around"),
}


_METAVARS = {"path": "FILE", "int": "N", "int range": "N", "float": "X", "float range": "X", "str": "TEXT"}
"""What stands for the value of an option that names nothing itself."""
_TYPE = re.compile(r"<(?:list\[)?([^<>\[\]]+)\]?>")


class Described(TyperCommand):
    """A command whose help names what goes where as manuals do: FILE and [DIR], no types of Python."""

    def collect_usage_pieces(self, ctx: Any) -> list[str]:  # noqa: ANN401 - typer's own context
        """Say in one line what is to be given; what may be left away stands in brackets."""
        arguments = [p for p in self.get_params(ctx) if isinstance(p, TyperArgument)]
        return ["[OPTIONS]", *(_argument(p) if p.required else f"[{_argument(p)}]" for p in arguments)]

    def format_options(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401 - typer's own context and formatter
        """List what can be given."""
        arguments, options = [], []
        for parameter in self.get_params(ctx):
            record = parameter.get_help_record(ctx)
            if record is None:
                continue
            if isinstance(parameter, TyperArgument):
                arguments.append((_argument(parameter), record[1]))
            else:
                value = _TYPE.sub(lambda found: _METAVARS.get(found.group(1), found.group(1)), record[0])
                options.append((value, record[1]))
        for title, records in (("Arguments", arguments), ("Options", options)):
            if records:
                with formatter.section(title):
                    formatter.write_dl(records)


def _argument(parameter: TyperArgument) -> str:
    return parameter.metavar or str(parameter.name).upper()


def build_app(argv: list[str]) -> typer.Typer:
    """Make the application for one command line.

    Only the command that `argv` names is imported; the others are there by name and summary.
    """
    app = typer.Typer(
        name="towtank",
        help="A towing tank for cloud deployments: one experiment file in, one defensible answer out.",
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        rich_markup_mode=None,
        context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
    )
    app.callback(help=app.info.help)(_root)
    wanted = next((word for word in argv if not word.startswith("-")), "")
    everything = "_TOWTANK_COMPLETE" in os.environ  # shell completion knows every command's options
    for name, command in COMMANDS.items():
        if everything or name == wanted:
            function = getattr(import_module(command.module), command.function or name)
            app.command(name, cls=Described)(function)
        else:
            app.command(name, help=command.summary)(_elsewhere)
    return app


def main(argv: list[str] | None = None) -> NoReturn:
    """Entry point of the console script."""
    arguments = spelled_out(sys.argv[1:] if argv is None else argv)
    try:
        build_app(arguments)(args=arguments, prog_name="towtank")
    except TowtankError as error:
        _debug()
        say_error(error.message, error.hint)
        for note in getattr(error, "__notes__", ()):
            sys.stderr.write(f"note: {note}\n")
        sys.exit(int(error.exit_code))
    except KeyboardInterrupt:
        say_error("stopped by Ctrl-C", None)
        sys.exit(int(ExitCode.INTERRUPTED))
    except BrokenPipeError:
        # the reader of our output (head, less) went away: not an error, and nothing more can be said
        _drop_output()
        sys.exit(int(ExitCode.OK))
    except Exception as error:  # noqa: BLE001 - the last resort: a crash report instead of a traceback
        _debug()
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            say_error(f"no room for what was to be written: {error}", "make room there, or write elsewhere")
            _drop_output()
            sys.exit(int(ExitCode.DEPLOYMENT_FAILED))
        path = _crash_report(arguments)
        say_error(
            f"unexpected {type(error).__name__}: {error}",
            f"this is a fault in Towtank: please report it with the crash report {path}; TOWTANK_DEBUG=1 shows it here",
        )
        sys.exit(int(ExitCode.UNEXPECTED))
    sys.exit(int(ExitCode.OK))


def say_error(message: str, hint: str | None) -> None:
    """Print an error once, to stderr, with what to do next."""
    sys.stderr.write(f"error: {message}\n")
    if hint:
        sys.stderr.write(f"hint: {hint}\n")
    sys.stderr.flush()


def _drop_output() -> None:
    """Have what is still to be printed go nowhere: the end of the process would fail with it."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _debug() -> None:
    if os.environ.get("TOWTANK_DEBUG") == "1":
        traceback.print_exc()


def _crash_report(argv: list[str]) -> Path:
    descriptor, name = tempfile.mkstemp(prefix="towtank-crash-", suffix=".txt")
    with os.fdopen(descriptor, "w", encoding="utf-8") as report:
        report.write(f"towtank {__version__}, Python {sys.version}\n")
        report.write(f"command: {argv[0] if argv else ''}\n\n")
        report.write(traceback.format_exc())
    return Path(name)


def _root(
    _version: bool = typer.Option(
        False,
        "--version",
        help="Print the versions of Towtank and its engine, and exit.",
        callback=lambda wanted: _version_and_exit(wanted=wanted),
        is_eager=True,
    ),
) -> None:
    """Hold what stands before the command."""


def _version_and_exit(*, wanted: bool) -> None:
    if wanted:
        print_version()
        raise typer.Exit


def print_version() -> None:
    """Say what this is, and which engine it would use."""
    from towtank.errors import MachineError
    from towtank.load.binary import engine_build, find_engine

    typer.echo(f"towtank {__version__}")
    try:
        typer.echo(engine_build(find_engine()).line)
    except MachineError as error:
        typer.echo(f"towtank-engine: {error.message}")


def _elsewhere() -> None:
    """Stand for a command in the list of commands; the real one is imported when it is called."""
    raise AssertionError


if __name__ == "__main__":
    main()
