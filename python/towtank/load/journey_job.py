"""From the journey of an experiment file to that of the engine's job (docs/job.md, 3): the same tree, times in µs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from towtank.design.model import Choose, If, Journey, Once, Pause, Repeat, Step
from towtank.design.request_model import Body, Capture, CloudEvent, Expect, Part, Request
from towtank.design.think import ExponentialThink, LognormalThink, Think, UniformThink

Resolve = Callable[[str], str]
"""A file as the experiment names it → where the engine finds it."""

EXPECTED = ("2xx", "3xx")
EXPECTED_BEHIND_REDIRECTS = ("2xx",)


def journey_job(journey: Journey, resolve: Resolve) -> dict[str, Any]:
    """The journey of a job."""
    made: dict[str, Any] = {"think": think_job(journey.think), "steps": _steps(journey.steps, resolve)}
    if not journey.cookies:
        made["cookies"] = False
    if journey.variables:
        made["variables"] = dict(journey.variables)
    return made


def think_job(think: Think | None) -> dict[str, Any] | None:
    """A wait of a job."""
    if think is None:
        return None
    if isinstance(think, UniformThink):
        return {"uniform_us": [us(think.uniform[0]), us(think.uniform[1])]}
    if isinstance(think, ExponentialThink):
        return {"exponential_us": us(think.exponential)}
    if isinstance(think, LognormalThink):
        return {"lognormal_us": [us(think.lognormal[0]), us(think.lognormal[1])]}
    return {"constant_us": us(think)}


def us(seconds: float) -> int:
    """Whole microseconds."""
    return round(seconds * 1_000_000)


def us_or_none(seconds: float | None) -> int | None:
    """Whole microseconds, if there are any."""
    return None if seconds is None else us(seconds)


def given(**entries: object) -> dict[str, Any]:
    """Entries that say something; the engine's defaults stand for the others."""
    return {key: value for key, value in entries.items() if value not in (None, {}, [], ())}


def _steps(steps: Sequence[Step], resolve: Resolve) -> list[dict[str, Any]]:
    return [_step(step, resolve) for step in steps]


def _step(step: Step, resolve: Resolve) -> dict[str, Any]:  # noqa: PLR0911 - one for each kind
    if isinstance(step, Request):
        return {"request": _request(step, resolve)}
    if isinstance(step, Choose):
        return {
            "choose": [
                {"weight": option.weight, "steps": _steps(option.steps, resolve)} for option in step.choose
            ]
        }
    if isinstance(step, Once):
        return {"once": _steps(step.once, resolve)}
    if isinstance(step, Repeat):
        least, most = step.repeat.times
        times = least if least == most else [least, most]
        return {"repeat": {"times": times, "steps": _steps(step.repeat.steps, resolve)}}
    if isinstance(step, If):
        found = {"condition": step.if_.condition, "steps": _steps(step.if_.steps, resolve)}
        if step.if_.else_:
            found["else"] = _steps(step.if_.else_, resolve)
        return {"if": found}
    if isinstance(step, Pause):
        return {"pause": think_job(step.pause)}
    return {"sequence": _steps(step.sequence, resolve)}


def _request(request: Request, resolve: Resolve) -> dict[str, Any]:
    return {
        "name": request.name,
        "method": request.method,
        "path": request.path,
        "headers": dict(request.headers),
        "body": _body(request.body, resolve),
        "timeout_us": us_or_none(request.timeout),
        "expect": _expect(request.expect, redirected=request.redirects > 0),
        "think": think_job(request.think),
        **given(
            target=request.target,
            query=dict(request.query),
            capture={name: _capture(capture) for name, capture in request.capture.items()},
            redirects=request.redirects or None,
            compression=request.compression or None,
            expect_continue=request.expect_continue or None,
            cloud_event=_cloud_event(request.cloud_event),
            traceparent=request.traceparent,
            grpc=request.grpc or None,
        ),
    }


def _body(body: str | Body | None, resolve: Resolve) -> str | dict[str, Any] | None:  # noqa: PLR0911 - one for each kind
    if body is None or isinstance(body, str):
        return body
    if body.json_ is not None:
        return {"json": body.json_}
    if body.multipart is not None:
        return {"multipart": [_part(part, resolve) for part in body.multipart]}
    if body.file is not None:
        return {"file": resolve(body.file)}
    if body.bytes is not None:
        return {"bytes": _size(body.bytes)}
    if body.form is not None:
        return {"form": dict(body.form)}
    return {"text": body.text} if body.text is not None else {"base64": body.base64}


def _part(part: Part, resolve: Resolve) -> dict[str, Any]:
    found: dict[str, Any] = {"name": part.name}
    if part.value is not None:
        found["value"] = part.value
    elif part.file is not None:
        found["file"] = resolve(part.file)
    elif part.bytes is not None:
        found["bytes"] = _size(part.bytes)
    return {**found, **given(filename=part.filename, content_type=part.content_type)}


def _size(sizes: tuple[int, int]) -> int | list[int]:
    return sizes[0] if sizes[0] == sizes[1] else list(sizes)


def _expect(expect: Expect, *, redirected: bool) -> dict[str, Any]:
    status = expect.status or (EXPECTED_BEHIND_REDIRECTS if redirected else EXPECTED)
    return {
        "status": list(status),
        "contains": expect.contains,
        **given(
            matches=expect.matches,
            json=[
                {"path": check.path, **_set(name=check.name, equals=check.equals, exists=check.exists,
                                            matches=check.matches)}
                for check in expect.json_
            ],
            header=[
                {"name": check.name, **_set(equals=check.equals, contains=check.contains, exists=check.exists)}
                for check in expect.header
            ],
            size_bytes=None if expect.size is None else list(expect.size),
        ),
    }  # fmt: skip


def _set(**entries: object) -> dict[str, Any]:
    """Entries that were given; false, 0 and the empty text are values."""
    return {key: value for key, value in entries.items() if value is not None}


def _capture(capture: Capture) -> dict[str, Any]:
    source = _set(
        json=capture.json_, header=capture.header, cookie=capture.cookie, regex=capture.regex,
        form=capture.form, body=capture.body or None,
    )  # fmt: skip
    pick = None if capture.pick == "first" else capture.pick
    return {**source, **given(pick=pick, optional=capture.optional or None)}


def _cloud_event(event: CloudEvent | None) -> dict[str, Any] | None:
    if event is None:
        return None
    return {
        "mode": event.mode, "type": event.type, "source": event.source, "id": event.id,
        **given(subject=event.subject, data_content_type=event.data_content_type, extensions=dict(event.extensions)),
    }  # fmt: skip
