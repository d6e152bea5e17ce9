"""Images of the functions in apps/functions: each with its runtime, every library that loads, and nothing else."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

from testbed.closure import below, libraries, python_application
from testbed.errors import BuildError
from testbed.images import Recipe
from testbed.shell import find

FUNCTIONS = Path(__file__).resolve().parents[1] / "apps" / "functions"
NO_BYTECODE = frozenset({"__pycache__"})
# Parts of Java's desktop module for screens and sound, which a server never loads: they need libraries of X11.
NOT_ON_SERVERS = ("libawt_xawt", "libjawt", "libsplashscreen", "libjsound")


def build(runtime: str) -> None:
    """Build one function, and the Java runtime for its image, unless they are there.

    Raises
    ------
    BuildError
        When a tool is missing or a build fails; what was said is quoted.
    """
    wanted = [runtime, *(["jre"] if runtime in JAVA else [])]
    done = subprocess.run(
        ["env", f"PYTHON={sys.executable}", FUNCTIONS / "build.sh", *wanted],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise BuildError(f"apps/functions/build.sh {' '.join(wanted)} failed: {done.stdout.strip()[-2000:]}")


def recipe(runtime: str, tag: str) -> Recipe:
    """Return the image of a function that is built.

    Parameters
    ----------
    runtime : str
        One of `RUNTIMES`.
    tag : str
        Of the image, `function-<runtime>:<tag>`.

    Raises
    ------
    BuildError
        When the runtime is not known, or something that it needs is not there.
    """
    if runtime not in RUNTIMES:
        raise BuildError(f"there is no function for {runtime!r}; known are {', '.join(RUNTIMES)}")
    return RUNTIMES[runtime](f"function-{runtime}:{tag}", FUNCTIONS / runtime)


def _go(name: str, folder: Path) -> Recipe:
    return Recipe(name, {"/function": folder / "build" / "function"}, ("/function",))


def _rust(name: str, folder: Path) -> Recipe:
    program = folder / "build" / "function"
    return Recipe(name, {"/function": program, **libraries(program)}, ("/function",))


def _python(name: str, folder: Path) -> Recipe:
    made = python_application(name, folder / "function", ("-m", "function"))
    return replace(made, files={**made.files, **below(folder / "build" / "site", "/app", NO_BYTECODE)})


def _typescript(name: str, folder: Path) -> Recipe:
    node = Path(find("node")).resolve()
    files = {"/usr/bin/node": node, **libraries(node), "/app/package.json": folder / "package.json"}
    files |= {f"/app/build/{path.name}": path for path in sorted((folder / "build").glob("*.js"))}
    locked = json.loads((folder / "package-lock.json").read_text("utf-8"))["packages"]
    for place, package in locked.items():
        if place and not package.get("dev"):
            # those that lie within another one come with an entry of their own
            files |= below(folder / place, f"/app/{place}", frozenset({"node_modules"}))
    return Recipe(
        name, files, ("/usr/bin/node", "/app/build/main.js"), environment={"NODE_ENV": "production"}
    )


def _quarkus(name: str, folder: Path) -> Recipe:
    return _java(name, folder / "build" / "quarkus-app", "quarkus-run.jar")


def _springboot(name: str, folder: Path) -> Recipe:
    return _java(name, folder / "build" / "unpacked", "function.jar")


def _java(name: str, application: Path, jar: str) -> Recipe:
    runtime = FUNCTIONS / "jre" / "build" / "runtime"
    files = {path: source for path, source in below(runtime, "/jre").items() if not _is_for_screens(source)}
    beside = (runtime / "lib" / "server", runtime / "lib")  # java loads these itself, before all others
    loaded = [source for source in files.values() if source.suffix == ".so" or source.parent.name == "bin"]
    for source in loaded:
        # what lies in the runtime itself is there under its own path already
        files |= {
            path: found for path, found in libraries(source, beside).items() if runtime not in found.parents
        }
    files |= below(application, "/app")
    return Recipe(name, files, ("/jre/bin/java", "-jar", f"/app/{jar}"))


def _is_for_screens(source: Path) -> bool:
    return source.name.startswith(NOT_ON_SERVERS)


RUNTIMES: dict[str, Callable[[str, Path], Recipe]] = {
    "go": _go,
    "python": _python,
    "typescript": _typescript,
    "rust": _rust,
    "quarkus": _quarkus,
    "springboot": _springboot,
}
JAVA = frozenset({"quarkus", "springboot"})
