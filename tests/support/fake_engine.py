#!/usr/bin/env python3
"""An engine that speaks the protocol of docs/formats.md §1 and sends nothing, for tests of the campaign.

`TOWTANK_FAKE` names a JSON file: run id (or "*") → what goes wrong in that run:
`lag_p99_us`, `lose_rows`, `finding` (its name), `die` ("ready" | "started" | "late"), `refuse`,
`deaf` (never ready), `garbage`, `outcome` (of all requests), `duration_s` (instead of the schedule's), `status`,
`p95_us`, `warmup_us`, `above` ([rate, what else goes wrong at a higher one], …).
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import sys
import threading
import time
from pathlib import Path


def say(event: str, **fields: object) -> None:
    sys.stdout.write(json.dumps({"event": event, **fields}) + "\n")
    sys.stdout.flush()


def main() -> int:
    if "--version" in sys.argv:
        profile = os.environ.get("TOWTANK_FAKE_PROFILE", "release")
        sys.stdout.write(f"towtank-engine 0.0.0 ({profile}, fake, none, rustc, commit none)\n")
        return 0
    command, path = sys.argv[1], Path(sys.argv[2])
    job = json.loads(path.read_text("utf-8"))
    script = (
        json.loads(Path(os.environ["TOWTANK_FAKE"]).read_text("utf-8"))
        if "TOWTANK_FAKE" in os.environ
        else {}
    )
    behaviour = {**script.get("*", {}), **script.get(job["run_id"], {})}
    if command == "check" or behaviour.get("refuse"):
        if behaviour.get("refuse"):
            say("error", message=behaviour["refuse"], path="workloads[0].load")
            return 3
        return 0
    return run(job, behaviour)


def run(job: dict, behaviour: dict) -> int:
    if behaviour.get("garbage"):
        sys.stdout.write("this is not an event\n")
    if behaviour.get("deaf"):
        time.sleep(3600)
    if behaviour.get("die") == "ready":
        sys.stderr.write("out of luck\n")
        sys.stderr.flush()
        os._exit(9)
    load = job["workloads"][0]["load"]
    duration_us = sum(stage["duration_us"] for stage in load["stages"])
    rate = load["stages"][0].get("to_per_s", 50.0)
    for least, more in behaviour.pop("above", ()):
        behaviour |= more if rate > least else {}
    rows = max(1, round(rate * duration_us / 1e6))
    build = {"profile": "release", "rustc": "", "target": "", "commit": ""}
    say("ready", version=1, engine="0.0.0", build=build, backend="fake", threads=1, pid=os.getpid(), due=rows)
    stopped = threading.Event()
    order = json.loads(sys.stdin.readline() or "null")
    if order is None:
        return 1
    start_ns = order.get("start_at_ns") or time.monotonic_ns()
    threading.Thread(target=listen, args=(stopped,), daemon=True).start()
    time.sleep(max(0.0, (start_ns - time.monotonic_ns()) / 1e9))
    say("started", start_ns=start_ns)
    if behaviour.get("die") == "started":
        os._exit(9)
    say(
        "progress",
        t_us=1,
        due=1,
        sent=1,
        done=1,
        failed=0,
        in_flight=0,
        queued=0,
        users=0,
        p50_us=900,
        p95_us=1000,
    )
    stopped.wait(behaviour.get("duration_s", duration_us / 1e6))
    if behaviour.get("die") == "late":
        os._exit(9)
    kept = rows - behaviour.get("lose_rows", 0)
    write_rows(job, kept, duration_us, behaviour)
    if "finding" in behaviour:
        say("finding", name=behaviour["finding"], t_us=duration_us, value=1, message="so it said", advice="")
    warmup_us = behaviour.get("warmup_us", job["workloads"][0]["warmup_us"])
    window = {"start_us": warmup_us, "end_us": duration_us, "drained_us": duration_us + 1000,
              "last_us": duration_us}  # fmt: skip
    own = {
        "lag_p99_us": behaviour.get("lag_p99_us", 50),
        "run_queue_wait_ratio": 0.0,
        "cpu_cores_max_1s": 0.02,
    }
    counts = {"due": rows, "rows": rows, "sent": rows, "dropped": 0, "by_outcome": {"answered": rows}}
    files = [{"path": job["output"] + ".parquet", "rows": kept, "bytes": 1, "crc32": 0}]
    stopped_by = "stop" if stopped.is_set() else "schedule"
    say("done", counts=counts, window=window, self=own, files=files, stopped_by=stopped_by)
    return 0


def listen(stopped: threading.Event) -> None:
    for _line in sys.stdin:
        break
    stopped.set()  # an order to stop, or the end of the lifeline


def write_rows(job: dict, rows: int, duration_us: int, behaviour: dict) -> None:
    """Copy the table when an earlier run wrote the same one: importing pyarrow costs more than a whole run."""
    key = repr((rows, duration_us, job["targets"], job["workloads"], sorted(behaviour.items())))
    known = Path(os.environ["TOWTANK_FAKE_TABLES"]) / hashlib.sha256(key.encode()).hexdigest()
    if not known.exists():
        sys.path[:] = json.loads(os.environ["TOWTANK_FAKE_PATH"])  # started without site-packages
        make_table(job, rows, duration_us, behaviour, known)
    shutil.copy(known, job["output"] + ".parquet")


def make_table(job: dict, rows: int, duration_us: int, behaviour: dict, path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    latency = behaviour.get("p95_us", 1000)
    target = next(iter(job["targets"]))
    instances = [instance["name"] for instance in job["targets"][target]["instances"]]
    step = duration_us // max(1, rows)
    none, ints = [None] * rows, pa.int32()
    columns = {
        "scheduled_us": pa.array([i * step for i in range(rows)], pa.int64()),
        "lag_us": pa.array([10] * rows, ints),
        "wait_us": pa.array([0] * rows, ints),
        "dns_us": pa.array(none, ints),
        "connect_us": pa.array(none, ints),
        "tls_us": pa.array(none, ints),
        "ttfb_us": pa.array([latency + i % 50 for i in range(rows)], ints),
        "after_ttfb_us": pa.array([5] * rows, ints),
        "status": pa.array([behaviour.get("status", 200)] * rows, ints),
        "outcome": pa.array([behaviour.get("outcome", "answered")] * rows).dictionary_encode(),
        "bytes_out": pa.array([100] * rows, pa.int64()),
        "bytes_in": pa.array([200] * rows, pa.int64()),
        "workload": pa.array([job["workloads"][0]["name"]] * rows).dictionary_encode(),
        "step": pa.array(["read"] * rows).dictionary_encode(),
        "target": pa.array([target] * rows).dictionary_encode(),
        "instance": pa.array([instances[i % len(instances)] for i in range(rows)]).dictionary_encode(),
        "user": pa.array(range(rows), ints),
        "iteration": pa.array([0] * rows, ints),
        "worker": pa.array([0] * rows, ints),
        "attempt": pa.array([0] * rows, ints),
        "http_version": pa.array(["1.1"] * rows).dictionary_encode(),
        "redirects": pa.array([0] * rows, ints),
        "reused": pa.array([True] * rows),
        "warmup": pa.array([False] * rows),
        "cold": pa.array(none, pa.bool_()),
    }
    pq.write_table(pa.table(columns), path, compression="zstd")


if __name__ == "__main__":
    sys.exit(main())
