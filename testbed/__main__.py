"""The command line: `python -m testbed up`, `down`, `functions`, `push` and others; `--help` lists them."""

from __future__ import annotations

import argparse
import dataclasses
import sys
from pathlib import Path

from testbed import binaries, closure, cluster, components, functions, images, knative_parts, possible
from testbed.errors import NotPossibleError, TestbedError
from testbed.settings import DEFAULT_LIMIT, INGRESS_LIMITS, REGISTRY, Folders, Options

NOT_POSSIBLE = 3
"""Exit code when this machine cannot carry a testbed."""


def main(words: list[str] | None = None) -> int:
    """Run one command; return its exit code (0 done, 1 failed or not up, 3 not possible on this machine)."""
    given = _parser().parse_args(words)
    folders = Folders.from_environment()
    try:
        return _run(given, folders)
    except NotPossibleError as impossible:
        print(f"testbed: not possible here: {impossible}", file=sys.stderr)
        return NOT_POSSIBLE
    except TestbedError as problem:
        print(f"testbed: {problem}", file=sys.stderr)
        return 1


def _run(given: argparse.Namespace, folders: Folders) -> int:
    match given.command:
        case "up":
            chosen = {
                field.name: value
                for field in dataclasses.fields(Options)
                if (value := getattr(given, field.name)) is not None
            }
            cluster.up(folders, Options(**chosen) if chosen else None, print)
            print("\n".join(cluster.status(folders)[1]))
        case "down":
            cluster.down(folders, print)
        case "status":
            is_up, lines = cluster.status(folders)
            print("\n".join(lines))
            return 0 if is_up else 1
        case "restart":
            cluster.restart(folders, given.node, given.component, print)
        case "check" | "build":
            _build(given, folders)
        case "pack-engine":
            given.folder.mkdir(parents=True, exist_ok=True)
            print(_archived(closure.load_engine(given.engine, given.tag), folders, given.folder))
        case "pack":
            binaries.build(folders, print)
            given.folder.mkdir(parents=True, exist_ok=True)
            for recipe in binaries.recipes(folders):
                print(_archived(recipe, folders, given.folder))
        case "functions":
            print(_functions(given, folders))
        case "push":
            print(_pushed(given.what, given.tag, folders))
    return 0


def _build(given: argparse.Namespace, folders: Folders) -> None:
    possible.check(folders)
    if given.command == "build":
        binaries.build(folders, print)
        if given.knative:
            knative_parts.build(folders, print)


def _functions(given: argparse.Namespace, folders: Folders) -> str:
    """Pack functions, archive or push them as asked; return a table of their sizes."""
    if given.push:
        _need_registry(folders)
    rows = [("image", "compressed_bytes", "unpacked_bytes")]
    for runtime in given.runtimes or functions.RUNTIMES:
        functions.build(runtime)
        recipe = functions.recipe(runtime, given.tag)
        image = images.pack(recipe, folders.images)
        rows.append((f"{REGISTRY}/{recipe.name}", str(image.compressed_bytes), str(image.unpacked_bytes)))
        if given.push:
            images.push(image, components.REGISTRY_ADDRESS)
        if given.archives:
            given.archives.mkdir(parents=True, exist_ok=True)
            _archived(recipe, folders, given.archives)
    return "\n".join("\t".join(row) for row in rows)


def _need_registry(folders: Folders) -> None:
    if not cluster.status(folders)[0]:
        raise TestbedError(
            "the testbed is not up, so there is no registry to push to; `make testbed-up` first"
        )


def _pushed(what: Path, tag: str, folders: Folders) -> str:
    _need_registry(folders)
    if what.is_file():
        recipe = closure.program(what.name, what, tag)
    else:
        recipe = closure.python_application(f"{what.name}:{tag}", what, ("-m",))
    images.push(images.pack(recipe, folders.images), components.REGISTRY_ADDRESS)
    return f"{REGISTRY}/{recipe.name}"


def _archived(recipe: images.Recipe, folders: Folders, folder: Path) -> Path:
    target = folder / f"{recipe.name.replace(':', '_')}.tar"
    images.archive(images.pack(recipe, folders.images), REGISTRY, target)
    return target


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="testbed", description="A real Kubernetes in namespaces of its own."
    )
    commands = parser.add_subparsers(dest="command", required=True)
    up = commands.add_parser("up", help="bring it up; repeat it at will")
    up.add_argument("--nodes", type=int, help="1 to 8 (default 1)")
    up.add_argument(
        "--hpa-sync", type=int, metavar="S", dest="hpa_sync_s", help="autoscaler's period (default 15 s)"
    )
    up.add_argument(
        "--metrics", type=int, metavar="S", dest="metrics_s", help="metrics-server's period (default 15 s)"
    )
    up.add_argument(
        "--kwok", action="store_true", default=None, help="with KWOK: nodes and pods without machines"
    )
    up.add_argument(
        "--knative", action="store_true", default=None, help="with Knative Serving behind an Envoy"
    )
    for limit in INGRESS_LIMITS:
        of = limit.removeprefix("ingress_")
        up.add_argument(
            f"--{limit.replace('_', '-')}", type=int, metavar="N",
            help=f"Envoy's limit of {of} to a revision (default {DEFAULT_LIMIT})",
        )  # fmt: skip
    commands.add_parser("down", help="end it and remove everything it made but programs, images and logs")
    commands.add_parser("status", help="exit code 0 when everything runs")
    restart = commands.add_parser("restart", help="kill one component and start it again")
    restart.add_argument("node", help="such as node1")
    restart.add_argument("component", help="such as kubelet")
    commands.add_parser("check", help="whether this machine can carry it (exit code 3: no, and why)")
    build = commands.add_parser("build", help="build programs only")
    build.add_argument("--knative", action="store_true", help="those of Knative and its ingress too")
    pack = commands.add_parser(
        "pack", help="write image archives for other clusters (kind load, k3s ctr import)"
    )
    pack.add_argument("folder", type=Path)
    engine = commands.add_parser("pack-engine", help="the same for the image of the load engine alone")
    engine.add_argument("engine", type=Path, help="such as target/release/towtank-engine")
    engine.add_argument("folder", type=Path)
    engine.add_argument("--tag", default="dev", help="of the image (default dev)")
    function = commands.add_parser(
        "functions", help="build and pack apps/functions; prints a table of image sizes, separated by tabs"
    )
    function.add_argument("runtimes", nargs="*", metavar="RUNTIME", help="such as go (default: all)")
    function.add_argument("--tag", default="1", help="default 1")
    function.add_argument("--push", action="store_true", help="push them to the testbed's registry")
    function.add_argument("--archives", type=Path, metavar="FOLDER", help="write archives for other clusters")
    push = commands.add_parser(
        "push",
        help="pack a Python package with this interpreter (its arguments are those of `python -m`), or a program such "
        "as the load engine, and push it",
    )
    push.add_argument("what", type=Path, help="apps/catalogue/catalogue, apps/boutique/build/boutique …")
    push.add_argument("--tag", default="1", help="default 1")
    return parser


if __name__ == "__main__":
    sys.exit(main())
