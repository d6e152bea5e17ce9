"""The real backends: nfs-ganesha and Ceph, each used as an application would, and gone without a trace."""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil
import pytest

HERE = Path(__file__).resolve().parents[1]
MEMORY_BYTES = 3 << 30
PROGRAMS = {"nfs": "ganesha.nfsd", "ceph": "ceph-osd"}
pytestmark = [
    pytest.mark.storage,
    pytest.mark.timeout(300),
    pytest.mark.skipif(os.geteuid() != 0, reason="namespaces and mounts need root"),
]
# What an application does with files; any step that fails ends it.
USE = """
set -eu
cd {mount}
mkdir -p pages/deep
echo one > pages/a
echo two >> pages/a
mv pages/a pages/deep/b
[ "$(cat pages/deep/b)" = "one
two" ]
ln -s deep/b pages/link && [ "$(cat pages/link)" = "$(cat pages/deep/b)" ]
chmod 640 pages/deep/b && [ "$(stat -c %a pages/deep/b)" = 640 ]
chmod 750 pages/deep && [ "$(stat -c %a pages/deep)" = 750 ]
touch -d 2020-01-02T03:04:05Z pages/deep/b && [ "$(stat -c %Y pages/deep/b)" = 1577934245 ]
truncate -s 3 pages/deep/b && [ "$(cat pages/deep/b)" = one ]
chown -R www-data:www-data pages
setpriv --reuid=www-data --regid=www-data --clear-groups sh -c 'mkdir pages/own && echo mine > pages/own/c'
[ "$(stat -c %U pages/own/c)" = www-data ]
! setpriv --reuid=www-data --regid=www-data --clear-groups sh -c 'echo no > forbidden' 2>/dev/null
[ ! -e forbidden ]
head -c 20000000 /dev/urandom > big
[ "$(stat -c %s big)" = 20000000 ]
[ "$(sha256sum < big)" = "$(cat big | sha256sum)" ]
exec 3> gone; rm gone; echo still >&3; exec 3>&-
rm -r pages big
[ -z "$(ls)" ]
"""


def storage(*words, check=True):
    done = subprocess.run(
        [sys.executable, "-m", "storage", *map(str, words)],
        cwd=HERE, capture_output=True, text=True, timeout=280, check=False,
    )  # fmt: skip
    assert not check or done.returncode == 0, done.stdout + done.stderr
    return done


def tree(folder):
    note = json.loads((folder / "note.json").read_text("utf-8"))
    session = psutil.Process(note["session"]["pid"])
    return [session, *session.children(recursive=True)]


def gone(processes, timeout_s=60):
    deadline = time.monotonic() + timeout_s
    while any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes):
        assert time.monotonic() < deadline, [p.cmdline() for p in processes if p.is_running()]
        time.sleep(0.1)


@pytest.fixture
def session(tmp_path, request):
    kind, *size = request.param
    if not shutil.which(PROGRAMS[kind], path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        pytest.skip(f"{PROGRAMS[kind]} is missing; `tools/system-packages.sh storage` installs it")
    folder = tmp_path / "session"
    storage("up", kind, *(["--size", *size] if size else []), folder)
    processes = tree(folder)
    yield folder
    storage("down", folder)
    gone(processes)
    assert list(tmp_path.iterdir()) == []
    assert str(folder) not in Path("/proc/self/mounts").read_text("utf-8")


@pytest.mark.parametrize("session", [("nfs",), ("ceph", "2")], indirect=True, ids=["nfs", "ceph"])
def test_a_backend_does_what_applications_ask_of_a_file_system(session):
    storage("enter", session, "sh", "-c", USE.format(mount=session / "mount"))
    resident = sum(process.memory_info().rss for process in tree(session))
    assert resident < MEMORY_BYTES


@pytest.mark.parametrize("session", [("nfs",)], indirect=True)
def test_many_writers_at_once_find_what_each_wrote(session):
    script = """
import os, sys, threading
def write(number):
    for i in range(30):
        path = f"{sys.argv[1]}/{number}-{i}"
        content = os.urandom(20_000)
        with open(path, "wb") as file: file.write(content)
        with open(path, "rb") as file: found.append(file.read() == content)
found, threads = [], [threading.Thread(target=write, args=(n,)) for n in range(12)]
for thread in threads: thread.start()
for thread in threads: thread.join()
assert len(found) == 360 and all(found)
"""
    storage("enter", session, sys.executable, "-c", script, session / "mount")


@pytest.mark.parametrize(
    ("session", "copies"), [(("ceph", "1"), 1), (("ceph", "3"), 3)], indirect=["session"], ids=["1", "3"]
)
def test_ceph_keeps_as_many_copies_as_are_wanted(session, copies):
    ask = ("enter", "--network", session, "ceph", "-c", session / "work" / "ceph.conf")
    for pool in ("data", "metadata"):
        assert storage(*ask, "osd", "pool", "get", pool, "size").stdout == f"size: {copies}\n"
    status = json.loads(storage(*ask, "status", "--format", "json").stdout)
    assert status["osdmap"]["num_up_osds"] == 3
    # Everything is written at least once to each of `copies` stores.
    storage("enter", session, "sh", "-c", f"head -c 30000000 /dev/urandom > {session}/mount/file; sync")
    kept = json.loads(storage(*ask, "df", "--format", "json").stdout)
    data = next(pool["stats"] for pool in kept["pools"] if pool["name"] == "data")
    assert data["stored"] <= data["bytes_used"]
    deadline = time.monotonic() + 60  # statistics come every few seconds
    while data["bytes_used"] < copies * 30_000_000:
        assert time.monotonic() < deadline, data
        time.sleep(1)
        kept = json.loads(storage(*ask, "df", "--format", "json").stdout)
        data = next(pool["stats"] for pool in kept["pools"] if pool["name"] == "data")
    assert data["bytes_used"] < (copies + 1) * 30_000_000


@pytest.mark.parametrize("session", [("nfs",)], indirect=True)
def test_two_backends_live_side_by_side(session, tmp_path_factory):
    other = tmp_path_factory.mktemp("other") / "session"
    storage("up", "nfs", other)
    try:
        for number, folder in enumerate((session, other)):
            storage("enter", folder, "sh", "-c", f"echo {number} > {folder}/mount/who")
        assert storage("enter", session, "cat", session / "mount" / "who").stdout == "0\n"
        assert storage("enter", other, "cat", other / "mount" / "who").stdout == "1\n"
    finally:
        storage("down", other)


@pytest.mark.parametrize("session", [("nfs",)], indirect=True)
@pytest.mark.parametrize("victim", ["session", "holder", "ganesha.nfsd", "nfs_mount"])
def test_whatever_is_killed_takes_all_with_it_and_the_folder_serves_again(session, victim):
    processes = tree(session)
    note = json.loads((session / "note.json").read_text("utf-8"))
    named = {
        "session": processes[0],
        "holder": psutil.Process(note["apart"]["pid"]).children()[0],
        **{Path(p.cmdline()[0]).name: p for p in processes if p.cmdline()},
    }
    os.kill(named[victim].pid, signal.SIGKILL)
    gone(processes)
    storage("up", "nfs", session)
    storage("enter", session, "sh", "-c", f"echo again > {session}/mount/file")
