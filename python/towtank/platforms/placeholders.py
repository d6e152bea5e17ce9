"""`{name}` placeholders in commands, environment and headers: filled when a deployment is made.

They belong to the moment of deploying (which port, which instance), unlike `${{ … }}`, which is gone when the
plan is made, and `{{ … }}` of journeys, which is the engine's language. A literal brace is written twice.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from towtank.spelling import nearest_name

RUN_NAMES = {
    "data": "the deployment's own folder for data",
    "root": "the folder of the experiment file",
    "fixture.NAME": "the folder of a fixture",
    "python": "the Python interpreter that runs towtank",
}
"""Known wherever an experiment file names a command or a file."""

INSTANCE_NAMES = {
    "port": "the port that this instance must listen on",
    "instance": "its name, such as app-0",
    "index": "its number, from 0",
    **RUN_NAMES,
    "url.COMPONENT": "the address of an instance of another component",
    "urls.COMPONENT": "all its addresses, separated by commas",
    "env.NAME": "a variable of the environment that towtank was started in; its value is kept secret",
}
"""Known in the command, environment and working folder of a local process."""

SECRET_NAMES = {
    "env.NAME": INSTANCE_NAMES["env.NAME"],
    "file.PATH": "the text of a file in the experiment's folder, without the last line break; it is kept secret",
}
"""Known in headers and in what a deployment says of TLS and proxies."""

_TOKEN = re.compile(r"\{\{|\}\}|\{([^{}]*)\}|[{}]")


class PlaceholderError(ValueError):
    """A placeholder that does not exist, or a brace that stands alone."""


def names(template: str) -> tuple[str, ...]:
    """Placeholders of a template, in order, each once.

    Raises
    ------
    PlaceholderError
        A brace that is neither doubled nor part of a placeholder.
    """
    found: dict[str, None] = {}
    for match in _TOKEN.finditer(template):
        if match.group(1) is not None:
            found[match.group(1).strip()] = None
        elif match.group() in "{}":
            raise PlaceholderError(
                f"{template!r} has a single {match.group()!r} at character {match.start() + 1}; "
                "a literal brace is written twice: {{ or }}"
            )
    return tuple(found)


def validate(template: str, known: Mapping[str, str] = INSTANCE_NAMES) -> str:
    """Return the template unchanged if every placeholder in it is a known one.

    Parameters
    ----------
    template : str
    known : mapping
        Name → meaning; ``kind.WORD`` stands for any name after the dot.

    Raises
    ------
    PlaceholderError
        Lists the known ones, and the nearest.
    """
    for name in names(template):
        kind, dot, rest = name.partition(".")
        family = next((k for k in known if k.partition(".")[0] == kind and ("." in k) == bool(dot)), None)
        if family is None or (dot and not rest):
            raise PlaceholderError(_unknown(name, template, known))
    return template


def only_secret(value: str) -> str:
    """Let the placeholder of one secret pass, and nothing else: what is written would stand in the kept file.

    Raises
    ------
    ValueError
    """
    validate(value, SECRET_NAMES)
    found = names(value)
    if len(found) != 1 or value != f"{{{found[0]}}}":
        raise ValueError("a secret is not written here; allowed is {env.NAME} or {file.PATH}")
    return value


def render(template: str, values: Mapping[str, str]) -> str:
    """Fill a template in.

    Parameters
    ----------
    template : str
    values : mapping
        Full placeholder name, such as ``port`` or ``fixture.database``, → its value.

    Raises
    ------
    PlaceholderError
        A placeholder without a value; lists those that have one.
    """
    for name in names(template):
        if name not in values:
            raise PlaceholderError(_unknown(name, template, values))
    return _TOKEN.sub(lambda match: _fill(match, values), template)


def dotted(templates: Iterable[str], kind: str) -> tuple[str, ...]:
    """Words after the dot of all ``{kind.WORD}`` in some templates, sorted."""
    prefix = f"{kind}."
    return tuple(
        sorted({n.removeprefix(prefix) for text in templates for n in names(text) if n.startswith(prefix)})
    )


def _fill(match: re.Match[str], values: Mapping[str, str]) -> str:
    return match.group()[0] if match.group(1) is None else values[match.group(1).strip()]


def _unknown(name: str, template: str, known: Iterable[str]) -> str:
    known = list(known)
    near = nearest_name(name, known)
    hint = f"; did you mean {{{near}}}?" if near else "; a literal brace is written twice: {{ or }}"
    listed = ", ".join(f"{{{k}}}" for k in known)
    return f"unknown placeholder {{{name}}} in {template!r}; known are {listed}{hint}"
