"""Loads and journeys that are well written and still impossible."""

from __future__ import annotations

import math
import resource
from collections.abc import Callable

from towtank.design.journey import requests_of
from towtank.design.journey_shape import connections_held, longest_timeout_s
from towtank.design.load_shape import LONGEST_S, duration_s, ends_in_warmup, peak, stops_by_count
from towtank.design.model import ClosedLoad, ClosedStage, OpenLoad, OpenStage, Workload
from towtank.design.problems import Place, Problems
from towtank.design.tree import Mapping, Scalar, Sequence, has_unknown
from towtank.design.validation import Path, joined
from towtank.units import format_duration

EPHEMERAL_PORTS = 28_000
"""Linux's default range 32768–60999 holds 28,232 local ports towards one address."""
RESERVED_DESCRIPTORS = 200
"""Files that the engine needs besides its connections."""
MOST_ARRIVALS = 10**10


def check_load(
    node: Mapping, load: OpenLoad | ClosedLoad, path: Path, holder: Place, problems: Problems
) -> bool:
    """Say what is impossible about one expanded and valid load.

    Parameters
    ----------
    node : Mapping
        The load as it is written.
    holder : Place
        Of the key `load`.

    Returns
    -------
    bool
        Whether it has one form, an end and a height, so that `check_room` can go by them.
    """
    if not _check_extent(node, load, path, holder, problems):
        return False
    total = duration_s(load)
    if load.warmup >= total > 0:
        problems.add(
            node.key_place("warmup"),
            joined((*path, "warmup")),
            f"a warm-up of {format_duration(load.warmup)} leaves nothing of a load of {format_duration(total)}",
        )
    elif ends_in_warmup(load):
        problems.add(
            node.key_place("warmup"),
            joined((*path, "warmup")),
            f"all of `max_arrivals` are due within a warm-up of {format_duration(load.warmup)}: nothing is measured",
            "shorten the warm-up, or raise `max_arrivals`",
        )
    if total > LONGEST_S:
        problems.add(
            holder,
            joined(path),
            f"the load lasts {format_duration(total)}; at most {LONGEST_S / 86400:g} days are allowed",
        )
    return True


def check_room(node: Mapping, workload: Workload, path: Path, problems: Problems) -> None:
    """Say when a workload may need more connections or descriptors than there are; `node` and `path` are its load's."""
    if isinstance(workload.load, OpenLoad):
        _check_in_flight(node, workload.load, workload, path, problems)
    else:
        _check_population(node, workload.load, workload, path, problems)


def _check_extent(
    node: Mapping, load: OpenLoad | ClosedLoad, path: Path, holder: Place, problems: Problems
) -> bool:
    """Check that a load has one form, an end, and a height; False when it has not."""
    height = "rate" if isinstance(load, OpenLoad) else "users"
    if isinstance(load, OpenLoad) and load.trace is not None:
        return _check_trace(node, load, path, problems)
    if isinstance(load, ClosedLoad):
        _check_users(node, load, path, problems)
    start = "start_rate" if isinstance(load, OpenLoad) else "start_users"
    if load.stages is None and start in node.entries:
        problems.add(
            node.key_place(start), joined((*path, start)), f"`{start}` is where the first of `stages` begins"
        )
        return False
    if load.stages is not None:
        return _check_stages(node, load, (*path, "stages"), height, problems)
    count = "`max_arrivals`" if isinstance(load, OpenLoad) else "`iterations`, `iterations_per_user`"
    if height not in node.entries:
        other = ", or `stages`, or `trace`" if isinstance(load, OpenLoad) else ", or `stages`"
        problems.add(holder, joined(path), f"a load needs `{height}` and `duration`{other}")
    elif load.duration is None and not stops_by_count(load):
        message = f"the load has no end: `{height}` needs `duration`"
        problems.add(holder, joined(path), message, f"or a stop by count: {count}")
    elif load.duration is not None and load.duration <= 0:
        problems.add(node.key_place("duration"), joined((*path, "duration")), "must be more than 0")
    elif peak(load) <= 0:
        message = "must be more than 0: nothing would be sent"
        problems.add(node.key_place(height), joined((*path, height)), message)
    else:
        return True
    return False


def _check_trace(node: Mapping, load: OpenLoad, path: Path, problems: Problems) -> bool:
    """A trace says all about arrivals; `duration` may only add to timestamps."""
    assert load.trace is not None  # noqa: S101 - only then it is called
    timestamps = load.trace.format == "timestamps"
    excluded = ["rate", "stages", "start_rate", "arrivals", *([] if timestamps else ["duration"])]
    for key in (key for key in excluded if key in node.entries):
        hint = {"arrivals": "write `spacing` in the trace", "duration": "write `length` in the trace"}
        message = f"`{key}` and `trace` exclude each other"
        problems.add(
            node.key_place(key), joined((*path, key)), message, "" if timestamps else hint.get(key, "")
        )
        return False
    return True


def _check_users(node: Mapping, load: ClosedLoad, path: Path, problems: Problems) -> None:
    """What only makes sense beside something else."""
    if load.catch_up and load.pacing is None and load.max_rate_per_user is None:
        message = "without `pacing` or `max_rate_per_user` there is nothing to catch up with"
        problems.add(node.key_place("catch_up"), joined((*path, "catch_up")), message)
    total = duration_s(load)
    if 0 < total <= load.start_spread:
        message = f"{format_duration(load.start_spread)} must be less than the load, {format_duration(total)}"
        problems.add(node.key_place("start_spread"), joined((*path, "start_spread")), message)


def _check_stages(
    node: Mapping, load: OpenLoad | ClosedLoad, path: Path, height: str, problems: Problems
) -> bool:
    place = node.key_place("stages")
    single = [key for key in (height, "duration", "spawn_per_s") if key in node.entries]
    if single:
        message = f"`{single[0]}` and `stages` exclude each other"
        problems.add(node.key_place(single[0]), joined((*path[:-1], single[0])), message)
        return False
    stages: tuple[OpenStage | ClosedStage, ...] = load.stages or ()
    if not stages:
        problems.add(place, joined(path), "the list of stages is empty")
        return False
    items = node.get("stages")
    timeless = [i for i, stage in enumerate(stages) if stage.ramp == 0 and stage.hold == 0]
    for index in timeless:
        at = items.items[index].place if isinstance(items, Sequence) else place
        message = "the stage takes no time: it needs `hold` or `ramp`"
        problems.add(at, joined((*path, index)), message)
    if not timeless and peak(load) <= 0:
        problems.add(place, joined(path), f"no stage has a {height} above 0: nothing would be sent")
    return not timeless and peak(load) > 0


def _check_in_flight(
    node: Mapping, load: OpenLoad, workload: Workload, path: Path, problems: Problems
) -> None:
    """An open load against a dead server must fit into ports and descriptors, unless a bound is set."""
    arrivals = peak(load) * duration_s(load)
    place = node.key_place(next(key for key in ("trace", "stages", "rate") if key in node.entries))
    if arrivals > MOST_ARRIVALS and load.max_arrivals is None:
        problems.add(
            place,
            joined(path),
            f"up to {arrivals:.2g} arrivals in one run; at most {MOST_ARRIVALS:.0e} are allowed",
        )
    held = connections_held(workload)
    if load.max_in_flight is not None:
        needed = load.max_in_flight * held
        if needed > _descriptors():
            message = f"{load.max_in_flight:,} arrivals in flight with {held} connections each; {_room(_descriptors())}"
            problems.add(node.key_place("max_in_flight"), joined((*path, "max_in_flight")), message, _RAISE)
        return
    timeout = longest_timeout_s(workload)
    in_flight = min(
        math.ceil(peak(load) * min(timeout, duration_s(load))), load.max_arrivals or MOST_ARRIVALS
    )
    # ports are counted for each target, descriptors for all together
    limit, what = min((EPHEMERAL_PORTS, "ports"), (_descriptors() / held, "file descriptors"))
    if in_flight > limit:
        connections = f" with {held} connections each" if held > 1 else ""
        problems.add(
            place,
            joined(path),
            f"{peak(load):g}/s × a timeout of {format_duration(timeout)} "
            f"can be {in_flight:,} requests in flight{connections}; "
            f"this machine has {what} for {limit:,.0f}",
            "set `max_in_flight`, with `when_full: queue` or `drop`",
        )


def _check_population(
    node: Mapping, load: ClosedLoad, workload: Workload, path: Path, problems: Problems
) -> None:
    """Users keep their connections: all of them together must fit into descriptors."""
    users, held = math.ceil(peak(load)), connections_held(workload)
    if users * held > _descriptors():
        place = node.key_place(next(key for key in ("stages", "users") if key in node.entries))
        each = "a connection" if held == 1 else f"{held} connections"
        problems.add(
            place, joined(path), f"{users:,} users with {each} each; {_room(_descriptors())}", _RAISE
        )


_RAISE = "raise the hard limit of open files (`ulimit -Hn`)"


def _descriptors() -> float:
    """File descriptors that the engine has for connections: it raises its own soft limit up to the hard one."""
    hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    return math.inf if hard == resource.RLIM_INFINITY else hard - RESERVED_DESCRIPTORS


def _room(limit: float) -> str:
    return f"this machine has file descriptors for {limit:,.0f} connections"


def check_requests(
    journey: Mapping, path: Path, problems: Problems, is_sound: Callable[[Path], bool]
) -> None:
    """Names of steps are unique, and paths are paths.

    Parameters
    ----------
    journey : Mapping
        As it is written.
    is_sound : callable
        Whether the form of a part is right.
    """
    seen: dict[str, Place] = {}
    requests = list(requests_of(journey, path))
    if not requests and journey.get("steps") is not None and is_sound(path) and not has_unknown(journey):
        problems.add(
            journey.key_place("steps"),
            joined((*path, "steps")),
            "no step is a request: nothing would be sent",
        )
    for request, here in requests:
        name, address = request.get("name"), request.get("path")
        if isinstance(name, Scalar) and is_sound((*here, "name")):
            if name.text in seen:
                line = seen[name.text].line
                problems.add(
                    name.place,
                    joined((*here, "name")),
                    f"the step name {name.text!r} is used twice, first in line {line}",
                )
            seen.setdefault(name.text, name.place)
        if (
            isinstance(address, Scalar)
            and is_sound((*here, "path"))
            and not address.text.strip().startswith(("/", "{{"))
        ):
            problems.add(
                address.place, joined((*here, "path")), f"the path {address.text[:60]!r} must begin with /"
            )
