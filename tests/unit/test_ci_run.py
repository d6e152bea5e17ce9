""".ci/run: which tiers it has made, which it leaves out and says so; `make` is a stand-in that notes its targets."""

from __future__ import annotations

import datetime as dt
import os
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
FILES = ("engine/src/lib.rs", "python/towtank/analysis/power.py", "docs/statistics.md", ".gitignore")
ALWAYS = ["lint built", "test"]


@dataclass
class Folder:
    """A repository whose only commit is two days old, and what is called in it."""

    path: Path
    tools: Path

    def write(self, name: str, text: str) -> None:
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def stand_in(self, name: str, body: str) -> None:
        path = self.tools / name
        path.write_text(f"#!/bin/sh\n{body}\n")
        path.chmod(0o755)

    def call(self, *words: str, **more: str) -> subprocess.CompletedProcess[str]:
        then = (dt.datetime.now(dt.UTC) - dt.timedelta(days=2)).isoformat()
        who = {
            f"GIT_{role}_{part}": "nobody" for role in ("AUTHOR", "COMMITTER") for part in ("NAME", "EMAIL")
        }
        environment = {
            **{name: value for name, value in os.environ.items() if not name.startswith(("GIT_", "TOWTANK_"))},
            **who,
            "PATH": f"{self.tools}:{os.environ['PATH']}", "GIT_COMMITTER_DATE": then,
            "GIT_CONFIG_GLOBAL": os.devnull, **more,
        }  # fmt: skip
        return subprocess.run(
            words, cwd=self.path, env=environment, capture_output=True, text=True, timeout=60, check=False
        )

    def ci(self, **more: str) -> tuple[list[str], subprocess.CompletedProcess[str]]:
        """Targets that were made, without options, and how it ended."""
        made = self.tools / "made"
        made.write_text("")
        done = self.call(".ci/run", **more)
        return made.read_text().splitlines(), done


@pytest.fixture
def folder(tmp_path):
    made = Folder(tmp_path / "house", tmp_path / "tools")
    made.tools.mkdir()
    made.stand_in("rustc", "echo rustc 1")
    made.stand_in("go", "echo go 1")
    notes = made.tools / "made"
    made.stand_in(
        "make",
        f'echo "$*" | sed "s/ -.*//" >>{notes}\ncase "$*" in "$FAILS") exit 2;; esac',
    )
    for name in FILES:
        made.write(name, "target\n")
    made.write("tools/system-packages.sh", "#!/bin/sh\n")
    (made.path / "tools/system-packages.sh").chmod(0o755)
    (made.path / ".ci").mkdir()
    shutil.copy(ROOT / ".ci" / "run", made.path / ".ci" / "run")
    for words in (("init", "-q"), ("add", "-A"), ("commit", "-q", "-m", "begin")):
        done = made.call("git", *words)
        assert done.returncode == 0, done.stderr
    return made


def said_of(done: subprocess.CompletedProcess[str], tier: str) -> str:
    (line,) = [line for line in done.stdout.splitlines() if line.startswith(f"skipped: {tier} ")]
    return line


def test_without_a_change_only_what_is_always_made(folder):
    folder.write("docs/statistics.md", "another page\n")
    made, done = folder.ci()
    assert done.returncode == 0, done.stderr
    assert made == ALWAYS
    for tier in ("test-stat", "test-kill", "test-slow"):
        assert "(nothing under ^(" in said_of(done, tier)
    assert "on a testbed, by hand" in said_of(done, "test-cluster")


def test_a_tier_that_has_passed_is_repeated_only_when_its_files_change(folder):
    folder.write("engine/src/lib.rs", "new\n")
    made, done = folder.ci()
    assert made == [*ALWAYS, "test-kill", "test-slow"], done.stderr
    assert "nothing under" in said_of(done, "test-stat")
    made, done = folder.ci()
    assert made == ALWAYS
    for tier in ("test-kill", "test-slow"):
        assert "it passed here on " in said_of(done, tier)
    folder.write("engine/src/new.rs", "new\n")  # not known to git yet
    assert folder.ci()[0] == [*ALWAYS, "test-kill", "test-slow"]
    folder.write("python/towtank/analysis/power.py", "new\n")
    made, done = folder.ci()
    assert made == [*ALWAYS, "test-stat", "test-slow"]
    assert "it passed here on " in said_of(done, "test-kill")


def test_another_compiler_is_a_change(folder):
    folder.write("engine/src/lib.rs", "new\n")
    folder.ci()
    folder.stand_in("rustc", "echo rustc 2")
    assert folder.ci()[0] == [*ALWAYS, "test-kill", "test-slow"]


def test_what_failed_has_not_passed(folder):
    folder.write("engine/src/lib.rs", "new\n")
    made, done = folder.ci(FAILS="test-slow")
    assert (made, done.returncode) == ([*ALWAYS, "test-kill", "test-slow"], 2)
    made, done = folder.ci()
    assert (made, done.returncode) == ([*ALWAYS, "test-slow"], 0)
    assert "it passed here on " in said_of(done, "test-kill")
