"""Price lists that an experiment names: shipped ones by name, one's own by file; the own file goes first."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path
from typing import Any

from towtank.cost.price_list import MODELS, AnyPriceList
from towtank.design.document import read_document
from towtank.design.include import Library
from towtank.design.problems import Place, Problems, listing, nearest, shown
from towtank.design.tree import Mapping, Node, Scalar
from towtank.design.validation import validated

SHIPPED = Path(str(files("towtank.cost"))) / "prices"


def shipped_names() -> tuple[str, ...]:
    """Names of the price lists that come with Towtank."""
    return tuple(sorted(path.stem for path in SHIPPED.glob("*.yaml")))


def read_price_list(
    name: str, place: Place, path: str, library: Library, problems: Problems
) -> AnyPriceList | None:
    """Read the price list that an experiment names; None when there is a problem, which is said where it stands.

    A file of that name in the experiment's folder, with or without ``.yaml``, overrides a shipped list.
    """
    own = next((n for n in (name, f"{name}.yaml") if _is_file(library, n)), None)
    shipped = shipped_names()
    if own is None and name not in shipped:
        if name.endswith((".yaml", ".yml")):
            library.find(name, place, path)  # says that it is not there
        else:
            problems.add(
                place,
                path,
                f"there is no price list {shown(name)}; shipped are {listing(shipped)}, and a file beside the "
                "experiment may be named",
                nearest(name, shipped),
            )
        return None
    if own is not None:
        root = library.include(own, place, path)
        shown_as = own
    else:
        shown_as = f"{name}.yaml of Towtank"
        root, _ = read_document(SHIPPED / f"{name}.yaml", shown_as, problems)
    return None if root is None else _validated(root, problems)


def _is_file(library: Library, name: str) -> bool:
    try:
        return bool(name.strip()) and (library.root / name).is_file()
    except (OSError, ValueError):
        return False


def _validated(root: Node, problems: Problems) -> AnyPriceList | None:
    if not isinstance(root, Mapping):
        problems.add(root.place, "", "allowed is a mapping that begins with `prices:`")
        return None
    node = root.get("model")
    if not isinstance(node, Scalar) or node.value not in MODELS:
        found = (
            f"found {shown(node.value)}" if isinstance(node, Scalar) else "the key 'model' is missing here"
        )
        place = node.place if node is not None else root.place
        hint = nearest(node.text, MODELS) if isinstance(node, Scalar) else ""
        problems.add(place, "model", f"{found}; allowed are {listing(MODELS)}", hint)
        return None
    model: Any = MODELS[str(node.value)]
    found_list: AnyPriceList | None = validated(model, root, (), root.place, problems)
    return found_list
