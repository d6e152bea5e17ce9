"""What a search for capacities found of one deployment; tests name what matters to them."""

from __future__ import annotations

from typing import Any

from towtank.design.capacity_file import Capacity

_KNOWN = {
    "treatment": "gke", "label": "gke", "deployment": "gke", "workload": "shop", "levels": {}, "model": "open",
    "end": "found", "holds": 410.0, "fails": 430.0, "lowest": 1.0, "highest": 1000.0, "step": 0.05,
    "confirmations": 5, "runs": 20, "slo": {"p95": 0.3},
}  # fmt: skip


def record(**changes: Any) -> dict[str, Any]:
    """As the file has it."""
    return {**_KNOWN, **changes}


def capacity(**changes: Any) -> Capacity:
    """As it is read from the file."""
    return Capacity.model_validate(record(**changes))
