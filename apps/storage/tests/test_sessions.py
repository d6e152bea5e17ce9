"""Sessions of the plain directory, which needs nothing to be installed: up, enter, run, down, crashes, and refusals."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).resolve().parents[1]
needs_root = pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root")


def storage(*words, check=True, **options):
    done = subprocess.run(
        [sys.executable, "-m", "storage", *map(str, words)],
        cwd=HERE, capture_output=True, text=True, timeout=110, check=False, **options,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stderr
    return done


def wait_until(condition, timeout_s=30):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it did not happen in time"
        time.sleep(0.05)


def processes_of(folder):
    """Processes that name the folder in their command."""
    running = psutil.process_iter(["cmdline"])
    return [p for p in running if any(str(folder) in word for word in p.info["cmdline"] or [])]


def mounts_of(folder):
    return [line for line in Path("/proc/self/mounts").read_text("utf-8").splitlines() if str(folder) in line]


def assert_nothing_left(folder):
    wait_until(lambda: not processes_of(folder))
    assert mounts_of(folder) == []
    assert not folder.exists()
    assert not folder.with_name(f"{folder.name}.log").exists()


@pytest.fixture
def folder(tmp_path):
    path = tmp_path / "session"
    yield path
    storage("down", path)
    assert_nothing_left(path)


@needs_root
def test_files_of_a_session_are_seen_by_those_who_enter_it_and_by_nobody_else(folder):
    storage("up", "directory", folder)
    storage("enter", folder, "sh", "-c", f"echo towed > {folder}/mount/file")
    assert storage("enter", folder, "cat", f"{folder}/mount/file").stdout == "towed\n"
    assert list((folder / "mount").iterdir()) == [], "outside, the mount point is an empty folder"
    assert mounts_of(folder) == []
    assert storage("enter", folder, "sh", "-c", "exit 7", check=False).returncode == 7
    assert storage("enter", folder, "pwd").stdout == f"{HERE}\n", "in the folder that it was called from"


@needs_root
def test_a_folder_in_use_is_refused_and_goes_on_undisturbed(folder):
    storage("up", "directory", folder)
    second = storage("up", "directory", folder, check=False)
    assert second.returncode == 1
    assert "held by a directory backend" in second.stderr
    assert f"storage down {folder}" in second.stderr
    storage("enter", folder, "test", "-d", f"{folder}/mount")


@needs_root
@pytest.mark.parametrize("victim", ["session", "holder"])
def test_whatever_is_killed_nothing_lives_on_and_the_next_one_can_start(folder, victim):
    storage("up", "directory", folder)
    note = json.loads((folder / "note.json").read_text("utf-8"))
    holder = psutil.Process(note["apart"]["pid"]).children()[0].pid
    os.kill(note["session"]["pid"] if victim == "session" else holder, signal.SIGKILL)
    wait_until(lambda: not processes_of(folder))
    storage("up", "directory", folder)
    storage("enter", folder, "test", "-d", f"{folder}/mount")


@needs_root
def test_an_application_runs_on_the_mount_and_in_the_machines_own_network(folder):
    page = f"{folder}/mount/page"
    script = f"""
import http.server, pathlib, sys
pathlib.Path({page!r}).write_text("from the mount")
class Page(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200); self.end_headers(); self.wfile.write(pathlib.Path({page!r}).read_bytes())
    def log_message(self, *_): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Page)
print(server.server_port, flush=True)
server.serve_forever()
"""
    application = subprocess.Popen(
        [sys.executable, "-m", "storage", "run", "directory", folder, sys.executable, "-c", script],
        cwd=HERE, stdout=subprocess.PIPE, text=True,
    )  # fmt: skip
    address = f"http://127.0.0.1:{application.stdout.readline().strip()}/"
    with urllib.request.urlopen(address, timeout=20) as answer:
        assert answer.read() == b"from the mount"
    application.terminate()
    application.wait(30)
    application.stdout.close()
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=5)
    assert not folder.exists(), "a session that ends removes its files itself"


@needs_root
def test_who_comes_early_waits_for_the_mount(folder):
    late = subprocess.Popen(
        [sys.executable, "-m", "storage", "enter", "--wait", "60", folder, "touch", f"{folder}/mount/late"],
        cwd=HERE,
    )
    storage("up", "directory", folder)
    assert late.wait(60) == 0
    storage("enter", folder, "test", "-e", f"{folder}/mount/late")


@needs_root
def test_an_application_that_ends_gives_its_exit_code(folder):
    assert storage("run", "directory", folder, "sh", "-c", "exit 9", check=False).returncode == 9
    assert not folder.exists()


def test_what_belongs_to_somebody_else_is_left_alone(tmp_path):
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    refused = storage("down", tmp_path, check=False)
    assert refused.returncode == 1
    assert "holds something else (precious.txt)" in refused.stderr
    assert precious.read_text() == "mine"
    assert [path.name for path in tmp_path.iterdir()] == ["precious.txt"]


def test_down_where_nothing_is_does_nothing(tmp_path):
    storage("down", tmp_path / "never")
    assert list(tmp_path.iterdir()) == []


def test_entering_where_nothing_is_says_how_to_start(tmp_path):
    refused = storage("enter", tmp_path / "never", "true", check=False)
    assert refused.returncode == 1
    assert "python -m storage up" in refused.stderr


@needs_root
@pytest.mark.parametrize(("kind", "lacking"), [("nfs", "pkg-config"), ("ceph", "ceph-osd")])
def test_what_is_not_installed_is_named_with_the_way_to_get_it(tmp_path, kind, lacking):
    refused = storage("up", kind, tmp_path / "session", check=False, env={"PATH": "/nowhere"})
    assert refused.returncode == 1
    assert lacking in refused.stderr
    assert "tools/system-packages.sh storage" in refused.stderr
    assert "use the backend `directory`" in refused.stderr
    assert list(tmp_path.iterdir()) == []


@needs_root
def test_a_check_says_which_part_can_run(tmp_path):
    programs = tmp_path / "bin"
    programs.mkdir()
    for name in ("unshare", "nsenter", "mount", "umount"):
        (programs / name).symlink_to(shutil.which(name))
    (programs / "ip").symlink_to(shutil.which("ip", path=f"{os.environ['PATH']}:/usr/sbin:/sbin"))
    said = storage("check", check=False, env={"PATH": str(programs)})
    assert said.returncode == 1
    nfs, ceph = (
        next(x for x in said.stdout.splitlines() if f"backend {kind} cannot" in x) for kind in ("nfs", "ceph")
    )
    assert "pkg-config" in nfs
    assert "ceph-osd" in ceph
    assert "backend directory can run here" in said.stdout


def test_more_copies_than_stores_are_refused(tmp_path):
    refused = storage("up", "ceph", "--size", "4", tmp_path / "session", check=False)
    assert refused.returncode == 2
    assert "1, 2, 3" in refused.stderr


def test_a_pid_of_another_time_is_another_process(monkeypatch):
    monkeypatch.syspath_prepend(str(HERE))
    from storage.note import Known  # noqa: PLC0415

    now = Known.of(os.getpid())
    assert now.process().pid == os.getpid()
    assert Known(now.pid, now.started_s - 1).process() is None
