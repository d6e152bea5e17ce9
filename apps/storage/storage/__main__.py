"""The command line: `python -m storage up ceph --size 2 DIR`, `down DIR`, `run`, `enter`; `--help` lists them."""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from storage import session
from storage.backends import NAMES, Wish
from storage.errors import StorageError
from storage.holder import hold


def main(words: list[str] | None = None) -> int:
    """Run one command; return its exit code (0 done, 1 failed, 2 a wrong call, else the application's own)."""
    given = _parser().parse_args(words)
    try:
        return _run(given)
    except StorageError as problem:
        print(f"storage: {problem}", file=sys.stderr)
        return 1


def _run(given: argparse.Namespace) -> int:
    if given.command == "check":
        return _check()
    folder: Path = given.folder.absolute()
    match given.command:
        case "up":
            session.up(Wish(given.kind, given.size), folder)
            print(f"{given.kind} is mounted at {folder}/mount for `python -m storage enter {folder} COMMAND`")
        case "down":
            session.down(folder)
        case "enter":
            return session.enter(folder, given.words, network=given.network, wait_s=given.wait)
        case "run":
            return session.serve(Wish(given.kind, given.size), folder, given.words)
        case "hold":
            return hold(Wish(given.kind, given.size), folder, given.network, given.words)
    return 0


def _check() -> int:
    """Say of each backend whether it can run here; 1 if one cannot."""
    lacking = 0
    for kind in NAMES:
        try:
            Wish(kind).check()
        except StorageError as problem:
            print(problem)
            lacking = 1
        else:
            print(f"backend {kind} can run here")
    return lacking


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="storage", description="Storage backends on one machine.")
    commands = parser.add_subparsers(dest="command", required=True)
    texts = {
        "up": "start a backend in the background",
        "run": "start a backend, run a command that sees it at DIR/mount, and end both",
        "hold": argparse.SUPPRESS,
    }
    for name, text in texts.items():
        command = commands.add_parser(name, help=text)
        command.add_argument("kind", choices=NAMES)
        command.add_argument("--size", type=int, choices=(1, 2, 3), default=3, help="copies that Ceph keeps")
        command.add_argument("folder", type=Path, metavar="DIR", help="a new folder; all its files lie there")
        if name == "hold":
            command.add_argument("network", type=int)
        if name != "up":
            command.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    commands.add_parser("check", help="say which backends can run on this machine, and what the others need")
    ending = commands.add_parser("down", help="end a backend and remove its files, also after a crash")
    ending.add_argument("folder", type=Path, metavar="DIR")
    entering = commands.add_parser("enter", help="run a command that sees a backend's files at DIR/mount")
    entering.add_argument(
        "--wait", type=float, default=0, metavar="SECONDS", help="for a backend that still starts"
    )
    entering.add_argument("--network", action="store_true", help="also in the network of its daemons")
    entering.add_argument("folder", type=Path, metavar="DIR")
    entering.add_argument("words", nargs=argparse.REMAINDER, metavar="COMMAND")
    return parser


if __name__ == "__main__":
    sys.exit(main())
