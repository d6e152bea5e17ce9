"""A program of this machine with every library it loads, as files of an image; nothing is mounted from the host."""

from __future__ import annotations

import os
import re
import sys
import sysconfig
from pathlib import Path

from testbed.errors import BuildError
from testbed.images import Recipe
from testbed.shell import find, run

_LIBRARY = re.compile(r"(?:=>\s+)?(/\S+)\s+\(0x")
ROOTS = Path("/etc/ssl/certs/ca-certificates.crt")
"""Where Debian and its kin keep root certificates in one file, and where the engine looks first."""
_INTERPRETER_WITHIN = 4096
"""A dynamic program names the one that loads it near its beginning."""
# Large parts of Python's library that no server uses.
LEFT_OUT = {
    "test",
    "idlelib",
    "tkinter",
    "turtledemo",
    "ensurepip",
    "lib2to3",
    "site-packages",
    "dist-packages",
    "__pycache__",
}


def libraries(program: Path, beside: tuple[Path, ...] = ()) -> dict[str, Path]:
    """Path in the image → file, for everything that the dynamic linker loads for a program.

    Parameters
    ----------
    program : Path
        Or a library.
    beside : tuple of Path
        Folders of libraries that are loaded before it.

    Raises
    ------
    BuildError
        When a library is missing on this machine.
    """
    first = {"LD_LIBRARY_PATH": ":".join(map(str, beside))} if beside else {}
    said = run([find("ldd"), program], environment={**os.environ, **first}, error=BuildError)
    if "not found" in said:
        raise BuildError(f"{program} cannot be packed: {said.strip()}")
    return {path: Path(path) for path in _LIBRARY.findall(said)}


def load_engine(engine: Path, version: str) -> Recipe:
    """Return an image of the load engine, whatever its file is called; as `program` does."""
    return program("towtank-engine", engine, version)


def program(name: str, file: Path, version: str) -> Recipe:
    """Return an image of one program: a static one alone, another with the libraries that it loads.

    This machine's root certificates go with it, as a scratch image has none: without them, what it does over TLS needs
    a file of its own.

    Parameters
    ----------
    name, version : str
        The image is `NAME:VERSION`, its command `/NAME`.
    file : Path
        The program on this machine.

    Raises
    ------
    BuildError
        When it, or a library, is missing.
    """
    try:
        is_dynamic = b"/ld-linux" in file.read_bytes()[:_INTERPRETER_WITHIN]
    except OSError as missing:
        raise BuildError(f"{file} cannot be read: {missing.strerror}") from missing
    files = {f"/{name}": file, **(libraries(file) if is_dynamic else {})}
    if ROOTS.is_file():
        files[str(ROOTS)] = ROOTS
    return Recipe(f"{name}:{version}", files, (f"/{name}",))


def below(folder: Path, place: str, leave_out: frozenset[str] = frozenset()) -> dict[str, Path]:
    """Path in the image → file, for every file of a folder; the image has them below `place`.

    Raises
    ------
    BuildError
        When the folder is missing.
    """
    if not folder.is_dir():
        raise BuildError(f"{folder} cannot be packed: there is no such folder")
    return {
        f"{place}/{inside}": source
        for source in sorted(folder.rglob("*"))
        if source.is_file() and not leave_out & set((inside := source.relative_to(folder)).parts)
    }


def python_application(name: str, folder: Path, command: tuple[str, ...]) -> Recipe:
    """Return an image of the running Python, its standard library and one folder of code.

    Parameters
    ----------
    name : str
        Repository and tag.
    folder : Path
        A package; it is found below `/app`.
    command : tuple of str
        Arguments of Python, such as `("-m", "catalogue")`.

    Raises
    ------
    BuildError
        When `folder` is not a package, or a library of the interpreter is missing.
    """
    if not (folder / "__init__.py").is_file():
        raise BuildError(f"{folder} is not a Python package: there is no {folder / '__init__.py'}")
    interpreter = Path(sys.executable).resolve()
    standard = Path(sysconfig.get_path("stdlib", vars={"base": sys.base_prefix})).resolve()
    files: dict[str, Path] = {str(interpreter): interpreter, **libraries(interpreter)}
    for source in standard.rglob("*"):
        inside = source.relative_to(standard)
        if source.is_file() and not LEFT_OUT & set(inside.parts) and source.suffix != ".a":
            files[str(standard / inside)] = source
            if source.suffix == ".so":
                files |= libraries(source)
    files |= below(folder, f"/app/{folder.name}", frozenset({"__pycache__"}))
    return Recipe(
        name, files, (str(interpreter), *command),
        environment={"PYTHONPATH": "/app", "PYTHONDONTWRITEBYTECODE": "1", "PYTHONHOME": str(sys.base_prefix)},
    )  # fmt: skip
