"""`capacity: FILE` in an experiment: loads that are taken from a search made before, such as ``${{ 1.5 * capacity }}``.

The file is kept with the results like everything that an experiment includes, so a plan says where its loads came from.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from towtank.design.capacity_file import Capacity, read_capacities
from towtank.design.factors import Levels
from towtank.design.include import Library
from towtank.design.problems import Place, Problems, listing
from towtank.design.tree import Mapping, Scalar
from towtank.errors import TowtankError

NAME = "capacity"
"""The key, and the name in expressions."""
_CHOSEN = frozenset({"deployment", "workload"})
_STAND_IN = 1
"""For what has no capacity: that has been said, and the rest can still be checked."""


@dataclass(frozen=True)
class KnownCapacity:
    """Capacities that expressions of one file may use.

    Parameters
    ----------
    capacities : tuple of Capacity or None
        None: the file names none, and there is no such name.
    place : Place
        Of the key.
    problems : Problems
    """

    capacities: tuple[Capacity, ...] | None
    place: Place
    problems: Problems

    def names(self, deployment: str, levels: Levels, *, is_survey: bool = False) -> Levels:
        """What an expression of a treatment finds under the name `capacity`; nothing where the file names none.

        A survey puts levels together that may be no treatment: what has no capacity then is no problem.
        """
        if self.capacities is None:
            return {}
        if not self.capacities:
            return {NAME: _STAND_IN}
        fitting = [one for one in self.capacities if one.deployment == deployment and _agrees(one, levels)]
        if is_survey and (len(fitting) != 1 or fitting[0].holds is None):
            return {NAME: _STAND_IN}
        if len(fitting) != 1:
            known = listing(one.label for one in self.capacities)
            found = f"{len(fitting)} capacities fit" if fitting else "no capacity fits"
            self.problems.add(
                self.place, NAME, f"{found} deployment {deployment!r} with its levels; known are those of {known}",
                "search with the same deployments and factors" if not fitting else "leave one of them in the file",
            )  # fmt: skip
            return {NAME: _STAND_IN}
        held = fitting[0].holds
        if held is None:
            self.problems.add(
                self.place, NAME, f"the search confirmed no load of {fitting[0].label}: it has no capacity",
                "search again with a lower --at-least",
            )  # fmt: skip
            return {NAME: _STAND_IN}
        return {NAME: int(held) if held == int(held) else held}


def read_known(root: Mapping, library: Library, factors: Iterable[str], problems: Problems) -> KnownCapacity:
    """Read the file that `capacity` names; what is wrong with it is said once."""
    node = root.get(NAME)
    if node is None:
        return KnownCapacity(None, root.place, problems)
    place = node.place
    if NAME in factors:
        problems.add(
            place, NAME, "there is a factor of that name, too; expressions could mean either", "rename it"
        )
    if not isinstance(node, Scalar) or not isinstance(node.value, str):
        problems.add(place, NAME, "allowed is the path of a capacity.json inside of the experiment's folder")
        return KnownCapacity((), place, problems)
    found = read_named(node.text, place, NAME, library, problems)
    if found is not None and not found:
        problems.add(place, NAME, f"{node.text} has no capacity in it: its search found none")
    return KnownCapacity(found or (), place, problems)


def read_named(
    name: str, place: Place, path: str, library: Library, problems: Problems
) -> tuple[Capacity, ...] | None:
    """Read the capacities of a file that an experiment names, and keep it; None when it cannot be used, which is said.

    Parameters
    ----------
    name : str
    place, path
        Where the experiment names it.
    library : Library
    problems : Problems
    """
    real = library.find(name, place, path)
    if real is None:
        return None
    try:
        found = read_capacities(real).capacities
        library.files[library.inside(real)] = real.read_text("utf-8")
    except TowtankError as error:
        problems.add(place, path, error.message, error.hint or "")
        return None
    except ValueError as error:  # JSON may be written in UTF-16, which is not kept
        problems.add(place, path, str(error))
        return None
    return found


def _agrees(one: Capacity, levels: Levels) -> bool:
    """Whether factors that both have are at the same level; the name of a deployment is compared by itself."""
    shared = (one.levels.keys() & levels.keys()) - _CHOSEN
    return all(one.levels[name] == levels[name] for name in shared)
