"""The applications over real HTTP, on a plain folder and on a backend; what they write lies where it should."""

import os
import re
import shutil
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

import pytest

HERE = Path(__file__).resolve().parents[1]
pytestmark = [
    pytest.mark.storage,
    pytest.mark.skipif(os.geteuid() != 0, reason="they run as root, as on their backends"),
]
PROGRAMS = {"wiki": "php-fpm8.2", "files": "rclone", "video": "nginx"}


def ask(address, method="GET", body=None, headers=None):
    request = urllib.request.Request(address, data=body, method=method, headers=headers or {})
    try:
        with urllib.request.urlopen(request, timeout=20) as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as refused:
        with refused:
            return refused.code, refused.read()


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@pytest.fixture
def application(tmp_path, request):
    name, backend = request.param
    if not shutil.which(PROGRAMS[name], path=f"{os.environ['PATH']}:/usr/sbin:/sbin"):
        pytest.skip(f"{PROGRAMS[name]} is missing; `tools/system-packages.sh storage` installs it")
    port, folder = free_port(), tmp_path / "files"
    words = [sys.executable, "-m", "applications", name, "--port", str(port)]
    if backend:
        words = [sys.executable, "-m", "storage", "run", backend, str(folder), *words, str(folder / "mount")]
    else:
        words.append(str(folder))
    process = subprocess.Popen(words, cwd=HERE)
    deadline = time.monotonic() + 100
    while True:
        assert process.poll() is None, "it ended before it answered"
        with socket.socket() as probe:
            if probe.connect_ex(("127.0.0.1", port)) == 0:
                break
        assert time.monotonic() < deadline
        time.sleep(0.1)
    yield f"http://127.0.0.1:{port}", folder / name
    process.terminate()
    assert process.wait(60) == 0
    assert backend is None or list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    "application", [("wiki", None), ("wiki", "nfs")], indirect=True, ids=["plain", "nfs"]
)
def test_a_page_of_the_wiki_is_read_edited_and_read_again(application):
    address, folder = application
    status, page = ask(f"{address}/doku.php?id=page:7")
    assert status == 200
    assert b"Page 7" in page
    form = ask(f"{address}/doku.php?id=user:me&do=edit")[1].decode()
    hidden = dict(re.findall(r'name="(sectok|date|changecheck)" value="([^"]*)"', form))
    fields = {**hidden, "id": "user:me", "wikitext": "towed through still water", "do[save]": "Save"}
    status, page = ask(f"{address}/doku.php", "POST", urllib.parse.urlencode(fields).encode())
    assert status == 200
    assert b"towed through still water" in page
    assert b"towed through still water" in ask(f"{address}/doku.php?id=user:me")[1]
    if folder.exists():
        assert (folder / "data" / "pages" / "user" / "me.txt").read_text() == "towed through still water"


@pytest.mark.parametrize(
    "application", [("files", None), ("files", "nfs")], indirect=True, ids=["plain", "nfs"]
)
def test_a_file_is_put_listed_fetched_and_deleted(application):
    address, _ = application
    content = os.urandom(300_000)
    assert ask(f"{address}/mine.bin", "PUT", content)[0] == 201
    assert ask(f"{address}/mine.bin") == (200, content)
    status, listed = ask(f"{address}/", "PROPFIND", headers={"depth": "1"})
    assert status == 207
    assert b"mine.bin" in listed
    assert b"99.bin" in listed
    assert ask(f"{address}/mine.bin", "DELETE")[0] == 204
    assert ask(f"{address}/mine.bin")[0] == 404


@pytest.mark.parametrize(
    "application", [("video", None), ("video", "nfs")], indirect=True, ids=["plain", "nfs"]
)
def test_a_part_of_a_video_is_what_was_asked_for(application):
    address, _ = application
    whole = ask(f"{address}/3.mp4")[1]
    assert len(whole) == 16 << 20
    status, part = ask(f"{address}/3.mp4", headers={"range": "bytes=1048576-2097151"})
    assert status == 206
    assert part == whole[1 << 20 : 2 << 20]
    upload = os.urandom(2_000_000)
    assert ask(f"{address}/new/mine.mp4", "PUT", upload)[0] == 201
    assert ask(f"{address}/new/mine.mp4")[1] == upload
