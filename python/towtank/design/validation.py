"""From pydantic's errors to problems that name file, line, column, what was found and what is allowed."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any, TypeVar, get_args

from pydantic import BaseModel, ValidationError
from pydantic_core import ErrorDetails

from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.design.tree import Mapping, Node, Scalar, Sequence, has_unknown, plain

M = TypeVar("M", bound=BaseModel)
Path = tuple[str | int, ...]

_QUOTED = re.compile(r"'([^']*)'")
_TEXT_WANTED = frozenset({"string_type", "string_sub_type"})
_WANTED = {
    "string_type": "text",
    "int_type": "a whole number",
    "int_parsing": "a whole number",
    "int_parsing_size": "a whole number of at most 4300 digits",
    "int_from_float": "a whole number",
    "float_type": "a number",
    "float_parsing": "a number",
    "finite_number": "a finite number",
    "bool_type": "true or false",
    "bool_parsing": "true or false",
    "tuple_type": "a list",
    "list_type": "a list",
    "dict_type": "a mapping",
    "mapping_type": "a mapping",
    "none_required": "nothing",
}
_BOUND = {
    "greater_than": ("gt", "more than"),
    "greater_than_equal": ("ge", "at least"),
    "less_than": ("lt", "less than"),
    "less_than_equal": ("le", "at most"),
}


def joined(path: Iterable[str | int]) -> str:
    """Write a key path: ``workloads.shop.load.stages[1].rate``."""
    text = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in path)
    return text.removeprefix(".")


def lies_in(problem: str, path: Iterable[str | int]) -> bool:
    """Whether the key path of a problem is that of a part, or of something in it."""
    here = joined(path)
    return problem == here or problem.startswith((f"{here}.", f"{here}["))


def validated(  # noqa: PLR0917 - every part is checked with the same five
    model: type[M], node: Node, path: Path, holder: Place, problems: Problems, also_known: Iterable[str] = ()
) -> M | None:
    """Validate a tree with a model; None when it has problems, which are then said.

    A plain scalar that stands where text is wanted is taken as the text that the file says: ``PORT: 8080`` and
    ``version: 1.10`` mean what they look like.

    Parameters
    ----------
    model : type of BaseModel
    node : Node
    path : tuple
        Key path of the node in the experiment.
    holder : Place
        The key that the node belongs to: where a missing key is reported.
    problems : Problems
    also_known : iterable of str
        Keys that are allowed beside those of the model, for messages.
    """
    as_text: frozenset[Path] = frozenset()
    for _ in range(3):
        try:
            return model.model_validate(plain(node, as_text))
        except ValidationError as error:
            errors = error.errors(include_url=False, include_input=False)
        wanted = frozenset(_text_wanted(node, errors)) - as_text
        if not wanted:
            break
        as_text |= wanted
    for found in errors:
        spot = _locate(model, node, found["loc"], path, holder)
        if found["type"] not in ("missing", "extra_forbidden") and has_unknown(spot.node):
            continue  # what cannot be worked out has been said where it stands
        beside = tuple(also_known) if len(spot.path) == len(path) + 1 else ()
        _say(found, spot, problems, beside)
    return None


def _text_wanted(node: Node, errors: Iterable[ErrorDetails]) -> Iterable[Path]:
    """Paths of plain numbers and booleans where the model wants text."""
    for error in errors:
        if error["type"] not in _TEXT_WANTED:
            continue
        at = node
        path: list[str | int] = []
        for part in error["loc"]:
            below = _child(at, part)
            if below is not None:
                at = below
                path.append(part)
        if isinstance(at, Scalar) and at.value is not None and not isinstance(at.value, str):
            yield tuple(path)


def _child(node: Node, part: str | int) -> Node | None:
    if isinstance(node, Mapping) and isinstance(part, str):
        return node.get(part)
    if isinstance(node, Sequence) and isinstance(part, int) and part < len(node.items):
        return node.items[part]
    return None


@dataclass(frozen=True)
class _Spot:
    """Where an error is, and what is known there."""

    node: Node
    holder: Place
    path: Path
    models: frozenset[type[BaseModel]]
    missing: str = ""
    is_key: bool = False

    def found(self) -> tuple[str, Place]:
        """What was found, and where it stands: the key, or its value."""
        if self.is_key and self.path:
            return shown(self.path[-1]), self.holder
        return shown(plain(self.node)), self.node.place


def _locate(model: type[BaseModel], node: Node, loc: Path, path: Path, holder: Place) -> _Spot:
    """Follow pydantic's location; elements that only name an alternative of a union are stepped over."""
    spot = _Spot(node, holder, path, frozenset({model}))
    for index, part in enumerate(loc):
        is_last = index == len(loc) - 1
        chosen = str(part).removeprefix("@")
        named = frozenset(m for m in spot.models if m.__name__ == chosen)
        below = None if str(part).startswith("@") else _child(spot.node, part)
        if below is not None:
            key_holder = spot.node.key_place(str(part)) if isinstance(spot.node, Mapping) else below.place
            spot = _Spot(below, key_holder, (*spot.path, part), _models_below(spot.models, part))
        elif named:
            spot = replace(spot, models=named)
        elif part == "[key]":
            spot = replace(spot, is_key=True)
        elif is_last and isinstance(part, str) and isinstance(spot.node, Mapping):
            spot = replace(spot, missing=part)
    return spot


def _models_below(models: frozenset[type[BaseModel]], part: str | int) -> frozenset[type[BaseModel]]:
    """Models that may stand behind a key; behind a list index or a free key, those of the container."""
    if isinstance(part, int):
        return models
    behind: set[type[BaseModel]] = set()
    is_field = False
    for model in models:
        for name, info in model.model_fields.items():
            if part in (name, info.alias):
                is_field = True
                behind |= models_in(info.annotation)
    return frozenset(behind) if is_field else models


def models_in(annotation: object) -> set[type[BaseModel]]:
    """Every model class that an annotation mentions."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return {annotation}
    found: set[type[BaseModel]] = set()
    for argument in get_args(annotation):
        found |= models_in(argument)
    return found


def known_keys(models: Iterable[type[BaseModel]]) -> tuple[str, ...]:
    """Keys that models allow, as they are written in a file."""
    names: dict[str, None] = {}
    for model in models:
        for name, info in model.model_fields.items():
            names[info.alias or name] = None
    return tuple(names)


def _say(error: ErrorDetails, spot: _Spot, problems: Problems, also_known: tuple[str, ...]) -> None:
    kind: str = error["type"]
    context: dict[str, Any] = error.get("ctx", {})
    found, place = spot.found()
    path = joined(spot.path)
    hint = ""
    if kind == "extra_forbidden":
        return _say_unknown_key(error, spot, problems, also_known)
    if kind == "missing":
        key = str(error["loc"][-1])
        return problems.add(spot.holder, joined((*spot.path, key)), f"the key {key!r} is missing here")
    if kind in ("literal_error", "enum"):
        names = _QUOTED.findall(str(context.get("expected", ""))) or [str(context.get("expected", ""))]
        message = f"found {found}; allowed {'is' if len(names) == 1 else 'are'} {listing(names)}"
        hint = nearest(found.strip("'"), names)
    elif kind == "load_model":
        return _say_load_model(spot, problems)
    elif kind == "think_kind":
        message, place = error["msg"], spot.holder
    elif kind == "value_error":
        message = str(context.get("error", error["msg"]))
        place = spot.holder if isinstance(spot.node, Mapping) else place
    elif kind in _WANTED:
        message = f"found {found}; allowed is {_WANTED[kind]}"
    elif kind in ("model_type", "model_attributes_type", "dataclass_type"):
        message = f"found {found}; allowed is a mapping with {listing(known_keys(spot.models))}"
    elif kind in _BOUND:
        key, words = _BOUND[kind]
        message = f"found {found}; allowed is {words} {context[key]:g}"
    elif kind in ("too_short", "string_too_short", "too_long", "string_too_long"):
        return _say_length(kind, context, spot, problems)
    elif kind == "string_pattern_mismatch":
        message = f"found {found}; allowed is {_pattern_words(str(context.get('pattern', '')))}"
    else:
        message = f"found {found}; {error['msg']}"
    problems.add(place, path, message, hint)
    return None


def _say_unknown_key(
    error: ErrorDetails, spot: _Spot, problems: Problems, also_known: tuple[str, ...]
) -> None:
    key = str(error["loc"][-1])
    known = (*known_keys(spot.models), *also_known)
    place = (
        spot.holder
    )  # the last step of `_locate` was into the unknown key: its place, and its parent's models
    problems.add(
        place, joined(spot.path), f"unknown key {key!r}; allowed are {listing(known)}", nearest(key, known)
    )


def _say_load_model(spot: _Spot, problems: Problems) -> None:
    model = spot.node.get("model") if isinstance(spot.node, Mapping) else None
    if isinstance(model, Scalar):
        text = shown(model.value)
        hint = nearest(model.text, ("open", "closed"))
        problems.add(
            model.place, joined((*spot.path, "model")), f"found {text}; allowed are open, closed", hint
        )
    elif isinstance(spot.node, Mapping):
        problems.add(spot.holder, joined(spot.path), "a load needs the key 'model'; allowed are open, closed")
    else:
        problems.add(
            spot.node.place, joined(spot.path), "allowed is a mapping with model: open or model: closed"
        )


def _say_length(kind: str, context: dict[str, Any], spot: _Spot, problems: Problems) -> None:
    least, most = context.get("min_length", 0), context.get("max_length", 0)
    length = len(spot.node.items) if isinstance(spot.node, Sequence) else -1
    if kind == "too_short" and length >= least:
        return  # pydantic counts valid items only; what is wrong with the others is said at each
    if kind == "too_short" and isinstance(spot.node, Scalar):
        return  # one value that stands for a list of one, and what is wrong with it is said
    if kind.endswith("short"):
        message = "must not be empty" if least == 1 else f"needs at least {least} entries"
    else:
        message = f"must have at most {most} {'characters' if kind.startswith('string') else 'entries'}"
    problems.add(spot.node.place, joined(spot.path), message)


def _pattern_words(pattern: str) -> str:
    words = {
        r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$": "a name of letters, digits, _ . - (at most 63, the first no sign)",
        r"^[A-Za-z_][A-Za-z0-9_]{0,62}$": "a name of letters, digits and _ (at most 63, the first no digit)",
        r"^[1-5](\d\d|xx)$": "a status code such as 204 or a class such as 2xx",
    }
    return words.get(pattern, f"text of the form {pattern}")
