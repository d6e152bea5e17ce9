"""Watching while the load is driven: numbers and happenings, each at its moment of the run clock.

`base` is the seam, `registry` the table of sources, `sampler` reads them all on one clock and notices its own
gaps. docs/telemetry.md says what each source offers and how to write another.
"""

from towtank.telemetry.base import Event, ObserveContext, Sample, Source, YieldsEvents
from towtank.telemetry.registry import SOURCES, SourceKind, create, names, options_model

__all__ = [
    "SOURCES",
    "Event",
    "ObserveContext",
    "Sample",
    "Source",
    "SourceKind",
    "YieldsEvents",
    "create",
    "names",
    "options_model",
]
