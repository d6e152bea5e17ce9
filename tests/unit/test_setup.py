"""Set-up takes minutes the first time: every step is said, with its progress, and a failure with its reason."""

from __future__ import annotations

import os
import pty
import re
import shutil
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
SHOWN = (
    'set -euo pipefail; . tools/shown.sh; slow() { for i in 1 2 3; do echo "part $i"; sleep 0.8; done; }; '
)


def bash(script: str, *, cwd: Path = ROOT, **environment: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        ["bash", "-c", script],
        cwd=cwd, env={**os.environ, **environment}, capture_output=True, text=True, timeout=60, check=False,
    )  # fmt: skip


def test_without_a_terminal_plain_lines_say_how_far_it_is():
    done = bash(SHOWN + "shown 'a long step' slow; echo after", SHOWN_EVERY_S="1")
    assert (done.returncode, done.stdout) == (0, "after\n")
    first, *between, last = done.stderr.splitlines()
    assert first == "towtank: a long step …"
    assert between, "two seconds and more, a line each"
    assert all(re.fullmatch(r"towtank:   \d+ s: part [123]", line) for line in between)
    assert re.fullmatch(r"towtank: a long step: done \(\d+ s\)", last)


def test_on_a_terminal_one_line_moves():
    ours, theirs = pty.openpty()
    try:
        started = subprocess.Popen(
            ["bash", "-c", SHOWN + "shown 'a long step' slow"],
            cwd=ROOT,
            stderr=theirs,
            stdout=subprocess.DEVNULL,
        )
        os.close(theirs)
        said = b""
        while True:
            try:
                piece = os.read(ours, 4096)
            except OSError:  # the other end is closed
                break
            if not piece:
                break
            said += piece
        assert started.wait(timeout=30) == 0
    finally:
        os.close(ours)
    text = said.decode()
    assert text.count("\n") == 2, "one for the beginning, one for the end"
    assert {"part 1", "part 2", "part 3"} <= set(re.findall(r"part \d", text))
    assert "\r\x1b[Ktowtank: a long step: done (" in text


def test_a_step_that_fails_shows_the_end_of_its_output_and_ends_the_set_up():
    done = bash(
        SHOWN + "bad() { echo before; echo why it failed >&2; return 7; }; shown 'a step' bad; echo after"
    )
    assert (done.returncode, done.stdout) == (7, "")
    assert done.stderr.splitlines()[-3:] == [
        "before",
        "why it failed",
        "towtank: a step: failed with exit code 7",
    ]


@pytest.fixture
def house(tmp_path):
    """A copy of what set-up needs, with stand-ins for what it calls."""
    shutil.copytree(ROOT / "tools", tmp_path / "tools")
    for name in ("Cargo.toml", "constraints.txt"):
        shutil.copy(ROOT / name, tmp_path / name)
    (tmp_path / "bin").mkdir()
    return tmp_path


def stand_in(path: Path, body: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{body}\n")
    path.chmod(0o755)


def test_building_the_engine_says_that_it_goes_on(house):
    stand_in(
        house / "bin/cargo", 'echo "$*" > asked; echo Compiling serde >&2; sleep 1.5; mkdir -p target/release'
    )
    stand_in(house / "bin/rustc", "echo rustc 9.0.0")
    stand_in(house / "bin/cc", "exit 0")
    path = f"{house / 'bin'}:{os.environ['PATH']}"
    done = bash("tools/setup.sh engine", cwd=house, PATH=path, SHOWN_EVERY_S="1")
    assert done.returncode == 0, done.stderr
    assert "set-up 4 of 4: the load engine" in done.stderr
    assert "s: Compiling serde" in done.stderr
    assert "--quiet" not in (house / "asked").read_text()


def test_installing_packages_says_each_step(house):
    stand_in(house / ".venv/bin/python", 'case "$*" in *pip*) echo "Collecting altair"; sleep 1.5;; esac')
    done = bash("tools/setup.sh venv", cwd=house, SHOWN_EVERY_S="1")
    assert done.returncode == 0, done.stderr
    count = len(re.findall(r"^\w[^ ]*==", (house / "constraints.txt").read_text(), re.MULTILINE))
    assert f"set-up 2 of 4: {count} pinned Python packages" in done.stderr
    assert "s: Collecting altair" in done.stderr
    assert "set-up 3 of 4: towtank itself" in done.stderr
    assert (house / ".venv/.ready").exists()
