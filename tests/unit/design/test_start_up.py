"""What reading an experiment file does not need is not loaded for it."""

from __future__ import annotations

import json
import subprocess
import sys

HEAVY = ("lightkube", "httpx", "pyarrow", "duckdb", "scipy", "altair")


def test_a_plan_loads_no_client_and_no_analysis():
    code = f"import sys, json, towtank.design; print(json.dumps([m for m in {HEAVY} if m in sys.modules]))"
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True
    )
    assert json.loads(done.stdout) == []
