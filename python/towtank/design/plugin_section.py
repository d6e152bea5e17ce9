"""Parts of the file that are validated by the model of the plug-in they name: a platform, a driver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, TypeVar

from towtank.design.context import FileContext
from towtank.design.problems import Place, listing, nearest, shown
from towtank.design.tree import Node, Scalar, plain
from towtank.errors import TowtankError
from towtank.fields import Model

ConfigT_co = TypeVar("ConfigT_co", bound=Model, covariant=True)


class Plugins(Protocol[ConfigT_co]):
    """The table of one kind of plug-ins."""

    def names(self) -> Sequence[str]:
        """All names."""

    def config_model(self, name: str) -> type[ConfigT_co]:
        """Find the model of one of them."""


def named_model(
    plugins: Plugins[ConfigT_co],
    kind: str,
    name: Node | None,
    *,
    place: Place,
    where: str,
    context: FileContext,
) -> type[ConfigT_co] | None:
    """Find the model of the plug-in that a part of the file names; None when there is no such plug-in.

    Parameters
    ----------
    kind : str
        What it is, for people: ``platform``, ``driver``.
    name : Node or None
        The value of the key that names it.
    place : Place
        Where a name that nobody knows is told.
    where : str
        Path of the key.
    """
    known = plugins.names()
    if not isinstance(name, Scalar) or name.value not in known:
        hint = nearest(name.text, known) if isinstance(name, Scalar) else ""
        found = shown(plain(name)) if name is not None else "nothing"
        context.problems.add(place, where, f"there is no {kind} {found}; allowed are {listing(known)}", hint)
        return None
    try:
        return plugins.config_model(name.text)
    except TowtankError as error:
        context.problems.add(name.place, where, error.message, error.hint or "")
        return None
