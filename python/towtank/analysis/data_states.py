"""In which state data are when a run starts, by the plan: told apart once, for findings and for conditions."""

from __future__ import annotations

from typing import Literal

from towtank.analysis.deployments import was_there_already
from towtank.design.foreign import is_imported
from towtank.design.model import TreatmentSpec

DataState = Literal["imported", "fresh", "carried", "there", "copied", "verified", "unverified"]
"""Not known of imported runs; as a new deployment brings it; as the run before left it, in a deployment of ours or in
one that was there before; files copied anew; reset by a command, with proof and without."""


def data_state(spec: TreatmentSpec) -> DataState:
    """Say what a run of a treatment starts from."""
    reset = spec.reset
    if is_imported(spec.workload):
        return "imported"
    if reset is not None:
        if reset.run is None:
            return "copied"
        return "verified" if reset.verify else "unverified"
    if was_there_already(spec):
        return "there"
    return "fresh" if spec.deploy == "per-run" else "carried"
