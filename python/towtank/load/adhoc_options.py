"""What models and the engine refuse of an ad-hoc load, said as the options that its user wrote."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from towtank.load.adhoc_url import AdhocError

_OPTION_OF = (
    (re.compile(r"\.headers\.(.+)"), r"the header \1"),
    (re.compile(r"\.proxy\b.*"), "-x"),
    (re.compile(r"\.ca_file"), "--cacert"),
    (re.compile(r"\.cert_file"), "--cert"),
    (re.compile(r"\.key_file"), "--key"),
    (re.compile(r"\.protocol"), "-h2"),
    (re.compile(r"\.(?:url|path)"), "the URL"),
    (re.compile(r"\.body"), "the body"),
    (re.compile(r"\.load\b.*"), "the load that -n, -c, -q, -z and --rate ask for"),
    (re.compile(r"\.threads"), "-cpus"),
    (re.compile(r"\.timeout_us"), "-t"),
)
"""End of a path in the job → what the user wrote it as."""
_OPTION_OF_FIELD = {
    "users": "-c", "max_in_flight": "-c", "iterations": "-n", "max_arrivals": "-n", "max_rate_per_user": "-q",
    "rate": "--rate", "duration": "-z", "threads": "-cpus", "timeout": "-t", "graceful": "-t", "path": "the URL",
    "headers": "-H", "body": "the body", "method": "-m", "proxy": "-x", "host": "the host of the URL", "tls": "TLS",
}  # fmt: skip
"""Field of the experiment's model → what the user wrote it as."""

Part = TypeVar("Part", bound=BaseModel)


def made(model: type[Part], /, **values: object) -> Part:
    """Make a part of the job; what its model refuses is said as the option that it came from.

    Raises
    ------
    AdhocError
    """
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors()[0]
        field = next((str(key) for key in first["loc"] if str(key) in _OPTION_OF_FIELD), "")
        words = first["msg"].removeprefix("Value error, ")
        given = "" if isinstance(first["input"], dict) else f" {str(first['input'])[:80]!r}"
        raise AdhocError(
            f"{_OPTION_OF_FIELD.get(field, 'this load')}{given} cannot be used: {words}"
        ) from error


def refusal(problems: Sequence[str]) -> AdhocError:
    """Say why the engine refuses a job in the words of who asked for the load, who never saw the job."""
    for problem in problems:
        path, colon, words = problem.partition(": ")
        if colon and path.startswith("$"):
            for pattern, option in _OPTION_OF:
                if match := pattern.search(path):
                    return AdhocError(f"{match.expand(option)} cannot be used: {words}")
            return AdhocError(f"this load cannot be driven: {words}")
    return AdhocError(f"this load cannot be driven: {'; '.join(problems) or 'the engine does not say why'}")
