"""Measure a server that stands still for a moment, and draw what users saw: docs/images/coordinated-omission.svg.

    PYTHONPATH=python python tools/plot_freeze.py docs/images/coordinated-omission.svg

Two runs of 30 s at 2,000 requests a second against a server of this script's own that stands still for 1.4 s; one with
at most 100 requests in flight, one without a bound. Prints the percentiles as a table in Markdown. A run in which the
engine was late is worthless: it is repeated, and the picture is not drawn if it stays so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import multiprocessing
import os
import select
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import altair as alt
import numpy as np
import pandas as pd
import pyarrow.parquet as pq
import vl_convert

from towtank.load import find_engine
from towtank.report.figures.save import vegalite_version
from towtank.report.style import LIGHT

PER_S, LENGTH_S, FREEZE_AT_S, FREEZE_S, BOUND = 2000, 30, 12, 1.4, 100
LATE_MS = 20.0
TICK_S = 0.01
ATTEMPTS = 5
ANSWER = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"
SHOWN = (50, 90, 95, 99, 99.9)
RUNS = {"at most 100 in flight": BOUND, "no bound": None}


def serve(listener: socket.socket, late: Any) -> None:  # noqa: ANN401 - a pipe of multiprocessing
    """Answer at once, but for one pause of the whole server; a process of its own, until the parent ends it.

    Every 10 ms it looks how late it is itself: a server that has no CPU stands still more often than it says.
    """
    os.nice(-10)
    listener.settimeout(0)
    poll = select.epoll()
    poll.register(listener, select.EPOLLIN)
    peers: dict[int, socket.socket] = {}
    began, has_frozen, lateness = 0.0, False, [0.0]
    tick = time.monotonic() + TICK_S
    while not late.poll():
        events = poll.poll(max(tick - time.monotonic(), 0.0))
        now = time.monotonic()
        if now >= tick:
            lateness.append(now - tick)
            tick = now + TICK_S
        if began and not has_frozen and now >= began + FREEZE_AT_S:
            has_frozen = True
            time.sleep(FREEZE_S)
            tick = time.monotonic() + TICK_S
        for place, _ in events:
            if place == listener.fileno():
                with contextlib.suppress(BlockingIOError):
                    while True:
                        peer, _ = listener.accept()
                        peer.settimeout(0)
                        peers[peer.fileno()] = peer
                        poll.register(peer, select.EPOLLIN)
                continue
            data = peers[place].recv(65536)
            if not data:
                poll.unregister(place)
                peers.pop(place).close()
                continue
            began = began or now
            peers[place].send(ANSWER * data.count(b"\r\n\r\n"))
    late.send(float(np.quantile(lateness, 0.99)))


def attempt(bound: int | None) -> tuple[pd.DataFrame, float]:
    """One run: its rows, and how late engine or server were in 1 % of cases, in ms."""
    stage = {"from_per_s": PER_S, "to_per_s": PER_S, "duration_us": LENGTH_S * 1_000_000}
    ours, theirs = multiprocessing.Pipe()
    with (
        socket.create_server(("127.0.0.1", 0), backlog=4096) as listener,
        tempfile.TemporaryDirectory() as folder,
    ):
        server = multiprocessing.Process(target=serve, args=(listener, theirs))
        server.start()
        try:
            output = Path(folder) / "requests"
            url = f"http://127.0.0.1:{listener.getsockname()[1]}"
            load = {"model": "open", "stages": [stage], "max_in_flight": bound, "when_full": "queue"}
            step = {"request": {"name": "get", "path": "/"}}
            workload = {"name": "w", "timeout_us": 10_000_000, "load": load, "journey": {"steps": [step]}}
            job = {
                "version": 1, "run_id": "freeze", "output": str(output), "workloads": [workload], "nice": -10,
                "targets": {"app": {"instances": [{"name": "app-0", "url": url}]}},
            }  # fmt: skip
            path = Path(folder) / "job.json"
            path.write_text(json.dumps(job), "utf-8")
            command = [str(find_engine()), "run", "--no-lifeline", str(path)]
            done = subprocess.run(
                command, check=True, capture_output=True, text=True, stdin=subprocess.DEVNULL
            )
            last = json.loads(done.stdout.splitlines()[-1])
            rows = pq.read_table(output.with_suffix(".parquet")).to_pandas()
        finally:
            ours.send(None)
            late_s = ours.recv()
            server.join()
    if last["counts"]["rows"] != PER_S * LENGTH_S or set(rows["outcome"]) != {"answered"}:
        raise SystemExit(f"not every request was answered: {last['counts']}")
    return rows, max(last["self"]["lag_p99_us"] / 1e3, late_s * 1e3)


def measured(bound: int | None) -> pd.DataFrame:
    """Latencies in ms of a run that the instrument did not spoil."""
    for _ in range(ATTEMPTS):
        rows, late_ms = attempt(bound)
        actual = rows["ttfb_us"].astype(float) + rows["after_ttfb_us"]
        if late_ms <= LATE_MS:
            intended = actual + rows["lag_us"] + rows["wait_us"]
            return pd.DataFrame(
                {"from the intended start": intended / 1e3, "from the actual start": actual / 1e3}
            )
        print(f"spoiled: engine or server were {late_ms:.1f} ms late", file=sys.stderr)
    raise SystemExit("this machine is too busy; nothing was drawn")


def picture(runs: dict[str, pd.DataFrame]) -> str:
    """Latency over the share of requests that took longer, as SVG."""
    share = np.geomspace(0.5, 1e-4, 200)
    lines = [
        {"run": run, "counted": counted, "longer": x, "ms": float(np.quantile(values, 1 - x))}
        for run, frame in runs.items()
        for counted, values in frame.items()
        for x in share
    ]
    base = alt.Chart(pd.DataFrame(lines))
    ticks = [0.5, 0.1, 0.01, 0.001, 0.0001]
    names = "datum.value == 0.5 ? 'p50' : 'p' + format((1 - datum.value) * 100, '.4~g')"
    chart = (
        base.mark_line(strokeWidth=2)
        .encode(
            x=alt.X("longer:Q", title="percentile", scale=alt.Scale(type="log", reverse=True),
                    axis=alt.Axis(values=ticks, labelExpr=names, grid=True)),
            y=alt.Y("ms:Q", title="latency, ms", scale=alt.Scale(type="log")),
            color=alt.Color("counted:N", title="counted", scale=alt.Scale(range=[LIGHT["s1"], LIGHT["s0"]])),
            strokeDash=alt.StrokeDash("counted:N", title="counted"),
            column=alt.Column("run:N", title=None, sort=list(RUNS)),
        )
        .properties(width=270, height=220)
        .configure_legend(orient="bottom")
    )  # fmt: skip
    return vl_convert.vegalite_to_svg(chart.to_json(), vl_version=vegalite_version())


def main() -> None:
    """Read the command line, measure and draw."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("picture", type=Path, help="SVG to write")
    arguments = parser.parse_args()
    runs = {name: measured(bound) for name, bound in RUNS.items()}
    print("| run | counted | " + " | ".join(f"p{q}" for q in SHOWN) + " | max |")
    print("|---|---|" + "---:|" * (len(SHOWN) + 1))
    for run, frame in runs.items():
        for counted, values in frame.items():
            cells = [f"{v:,.1f} ms" for v in (*np.percentile(values, SHOWN), values.max())]
            print(f"| {run} | {counted} | {' | '.join(cells)} |")
    arguments.picture.write_text(picture(runs), "utf-8")
    print(f"{arguments.picture}: {arguments.picture.stat().st_size / 1000:.0f} kB", file=sys.stderr)


if __name__ == "__main__":
    main()
