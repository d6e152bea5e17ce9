"""Running a program to its end, with an error that says which, why, and what it wrote."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from testbed.errors import NotPossibleError, TestbedError

SEARCH_PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def find(program: str) -> str:
    """Return the path of a program of this machine, `sbin` included."""
    found = shutil.which(program) or shutil.which(program, path=SEARCH_PATH)
    if found is None:
        raise NotPossibleError(
            f"the program {program} is missing; `tools/system-packages.sh testbed` installs it on Debian"
        )
    return found


def run(
    command: Sequence[str | Path],
    *,
    text: str | None = None,
    folder: Path | None = None,
    environment: Mapping[str, str] | None = None,
    timeout_s: float = 60,
    error: type[TestbedError] = TestbedError,
) -> str:
    """Run a program; return its standard output.

    Raises
    ------
    TestbedError
        (or `error`) when it fails or takes too long, with the end of what it wrote.
    """
    words = [str(word) for word in command]
    try:
        done = subprocess.run(
            words, input=text, cwd=folder, env=environment, timeout=timeout_s,
            capture_output=True, text=True, check=False,
        )  # fmt: skip
    except FileNotFoundError as missing:
        raise NotPossibleError(f"the program {words[0]} is missing") from missing
    except subprocess.TimeoutExpired as late:
        raise error(f"`{' '.join(words)}` took longer than {timeout_s:g} s") from late
    if done.returncode != 0:
        said = (done.stderr or done.stdout).strip()[-2000:]
        raise error(f"`{' '.join(words)}` failed with exit code {done.returncode}: {said}")
    return done.stdout
