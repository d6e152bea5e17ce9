"""What a fault is: it begins, and gives back what undoes it.

A kind knows nothing of platforms; it asks the deployment for a power (`platforms.base`: KillsInstances, StopsInstances
and others) and uses it. `tests/contract/test_faults.py` runs against every kind on every platform that says it can.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol

from towtank.errors import PlatformError
from towtank.platforms.base import Deployment, Undo


@dataclass(frozen=True)
class Order:
    """One stroke of a fault.

    Parameters
    ----------
    kind : str
    target : str
    instances : tuple of str
        Names of what is hit.
    options : Model
        The kind's own, validated.
    lasts_s : float, optional
        How long, where it has an end before the run's: what it did is then undone.
    facts : dict
        What really was done, for the event; filled by the action. Keys name their units.
    """

    kind: str
    target: str
    instances: tuple[str, ...]
    options: Any
    lasts_s: float | None
    facts: dict[str, Any] = field(default_factory=dict)


class Action(Protocol):
    """A kind of fault at work."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """Do it, and return what undoes it; a failure half-way undoes what was done.

        Raises
        ------
        PlatformError
        """


def cannot(deployment: Deployment, order: Order) -> NoReturn:
    """Say that a deployment lacks the power that a fault needs: the plan should have said so.

    Raises
    ------
    PlatformError
    """
    raise PlatformError(
        f"fault {order.kind!r}: a {type(deployment).__name__} cannot do that",
        hint="docs/faults.md says which platform can do what",
    )


def together(undos: list[Undo]) -> Undo:
    """Undo several things, the last first; goes on after a failure and raises the first one."""

    def undo() -> None:
        failed: PlatformError | None = None
        while undos:
            try:
                undos.pop()()
            except PlatformError as error:
                failed = failed or error
        if failed is not None:
            raise failed

    return undo


def each(order: Order, begin: Callable[[str], Undo]) -> Undo:
    """Hit every instance; when one cannot be, the others are let go again."""
    undos: list[Undo] = []
    undo = together(undos)
    try:
        undos.extend(begin(name) for name in order.instances)
    except BaseException:
        undo()
        raise
    return undo
