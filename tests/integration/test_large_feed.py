"""A feed of a million rows: read once, kept small, and handed out in its order."""

from __future__ import annotations

import json

import psutil
import pytest

from support import servers
from towtank.load import find_engine
from towtank.load.engine import EngineProcess

ROWS = 1_000_000
ROW_BYTES = 24
"""Of the file; in memory a row may take three times that, and nothing else grows with it."""


class Handler(servers.Quiet):
    protocol_version = "HTTP/1.1"

    def answer(self):
        self.server.got.append(self.path)
        self.send_response(200)
        self.send_header("content-length", "0")
        self.end_headers()


@pytest.fixture
def server():
    with servers.serving() as start:
        yield start(servers.on_loopback(Handler))


def job_of(folder, url, *, feed):
    path = "/{{ people.id }}/{{ people.name }}" if feed else "/"
    return {
        "version": 1, "run_id": "large", "seed": 1, "output": str(folder / "requests"),
        "targets": {"app": {"instances": [{"name": "app-0", "url": url}]}},
        "feeds": {"people": {"file": "people.csv", "order": "sequential"}} if feed else {},
        "workloads": [
            {"name": "w", "warmup_us": 0, "timeout_us": 20_000_000,
             "load": {"model": "closed", "iterations": 30,
                      "stages": [{"name": "all", "from_users": 1, "to_users": 1, "duration_us": 60_000_000}]},
             "journey": {"steps": [{"request": {"name": "visit", "path": path}}]}}
        ],
    }  # fmt: skip


def memory_of(folder, url, *, feed):
    """Memory of the engine when it is ready, in bytes; then the load is carried out."""
    path = folder / "job.json"
    path.write_text(json.dumps(job_of(folder, url, feed=feed)), "utf-8")
    with EngineProcess(find_engine(), path, log_path=folder / "engine.log", token="tt-large") as engine:
        engine.wait_ready(cancelled=lambda: None)
        used = psutil.Process(engine.pid).memory_info().rss
        engine.start_at(None)
        engine.wait_started(cancelled=lambda: None)
        engine.wait_done(timeout_s=90, cancelled=lambda: None)
    return used


def test_a_million_rows_are_kept_small_and_in_order(server, tmp_path):
    url = f"http://127.0.0.1:{server.server_address[1]}"
    for name in ("with", "without"):
        (tmp_path / name).mkdir()
    with (tmp_path / "with" / "people.csv").open("w", encoding="utf-8") as file:
        file.write("id,name\n")
        file.writelines(f"{n:07d},user-{n:010d}\n" for n in range(ROWS))
    without = memory_of(tmp_path / "without", url, feed=False)
    server.got.clear()
    used = memory_of(tmp_path / "with", url, feed=True) - without
    assert server.got == [f"/{n:07d}/user-{n:010d}" for n in range(30)]
    assert used < 3 * ROWS * ROW_BYTES, f"{used / ROWS:.0f} bytes a row"
