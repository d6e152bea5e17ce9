"""A sink for CloudEvents 1.0 over HTTP: binary and structured; each event comes once."""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from service import Answer, Request, Service, serve

NEEDED = ("id", "source", "specversion", "type")


class Sink(Service):
    """Takes events."""

    def __init__(self) -> None:
        super().__init__()
        self.ids: set[str] = set()

    def answer(self, request: Request) -> Answer:
        """Take one event."""
        kind = request.headers.get("content-type", "").partition(";")[0]
        is_structured = kind == "application/cloudevents+json"
        try:
            if is_structured:
                event = json.loads(request.body)
                data = event.pop("data", None)
            else:
                event = {n.removeprefix("ce-"): v for n, v in request.headers.items() if n.startswith("ce-")}
                data = json.loads(request.body)
        except ValueError:
            return self.refuse("event that is no JSON")
        missing = [name for name in NEEDED if not event.get(name)]
        if missing or event["specversion"] != "1.0":
            return self.refuse(f"event without {', '.join(missing) or 'version 1.0'}")
        if not isinstance(data, dict) or not isinstance(data.get("celsius"), int | float):
            return self.refuse("event without a temperature")
        with self.lock:
            is_new = event["id"] not in self.ids
            self.ids.add(event["id"])
        if not is_new:
            return self.refuse("event that came twice")
        self.count("structured" if is_structured else "binary")
        self.count(f"type {event['type']}")
        if "traceparent" in request.headers:
            self.count("traced")
            self.count(f"traceparent {request.headers['traceparent']}")
        return Answer(status=202)


def make(_: argparse.Namespace) -> Service:
    """Make the sink."""
    return Sink()


if __name__ == "__main__":
    serve(make)
