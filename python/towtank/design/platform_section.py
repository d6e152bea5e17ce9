"""Deployments and fixtures: parts of the file that a platform's own model validates."""

from __future__ import annotations

from collections.abc import Sequence as SequenceType
from dataclasses import dataclass, field, replace

from towtank.design.context import FileContext
from towtank.design.experiment_file import DeployFile, FixtureFile
from towtank.design.model import Deploy, Fixture
from towtank.design.plugin_section import named_model
from towtank.design.problems import Problems, listing
from towtank.design.tree import Entry, Mapping, Node, has_unknown
from towtank.design.validation import Path, joined, lies_in, validated
from towtank.fields import Model
from towtank.platforms import registry
from towtank.spelling import nearest_name


@dataclass(frozen=True)
class Deployed:
    """A deployment of the file: the platform's model, and how long it lives.

    Parameters
    ----------
    model : Model
    deploy : str or None
        None when what the file says of it is wrong.
    is_exact : bool
        The model holds all that is written; else only the parts of it whose form is right.
    files : dict or None
        Files that it is made of, with their SHA-256; None when something is wrong with them.
    """

    model: Model
    deploy: Deploy | None
    is_exact: bool = True
    files: dict[str, str] | None = field(default_factory=dict)

    def target_names(self) -> tuple[str, ...]:
        """Targets that steps can name; every platform's model says them."""
        names: tuple[str, ...] = self.model.target_names()  # type: ignore[attr-defined]  # the platforms' contract
        return names

    def fixture_names(self) -> tuple[str, ...]:
        """Fixtures that the deployment uses; a platform without placeholders has none."""
        if not hasattr(self.model, "fixture_names"):
            return ()
        names: tuple[str, ...] = self.model.fixture_names()
        return names


def read_deployment(node: Node, path: Path, context: FileContext) -> Deployed | None:
    """Validate one expanded deployment; None when too much is wrong to say anything more of it."""
    if not isinstance(node, Mapping):
        context.problems.add(node.place, joined(path), "allowed is a mapping that begins with `platform:`")
        return None
    own = tuple(DeployFile.model_fields)
    beside = validated(DeployFile, node.only(set(own)), path, context.holder(path), context.problems)
    deploy = None if beside is None else beside.deploy
    part = node.without(*own)
    found = Problems()
    model = _platform_model(part, path, own, replace(context, problems=found))
    context.problems.take(found)
    if model is not None:
        return Deployed(model, deploy)
    rest = _sound_part(part, path, [problem.path for problem in found.sorted()])
    model = None if rest is None else _platform_model(rest, path, own, replace(context, problems=Problems()))
    return None if model is None else Deployed(model, deploy, is_exact=False)


def _sound_part(node: Mapping, path: Path, doubtful: SequenceType[str]) -> Mapping | None:
    """A deployment without what is wrong in it: keys, or single entries of them such as one of several components.

    None where all of it is wrong, or nothing is left out.
    """
    entries: dict[str, Entry] = {}
    for key, entry in node.entries.items():
        inner = entry.node
        if isinstance(inner, Mapping) and joined((*path, key)) not in doubtful:
            kept = {
                name: one
                for name, one in inner.entries.items()
                if not _is_wrong(doubtful, (*path, key, name)) and not has_unknown(one.node)
            }
            inner = inner if len(kept) == len(inner.entries) else replace(inner, entries=kept)
        elif _is_wrong(doubtful, (*path, key)) or has_unknown(inner):
            continue
        entries[key] = entry if inner is entry.node else replace(entry, node=inner)
    return replace(node, entries=entries) if entries != node.entries else None


def _is_wrong(doubtful: SequenceType[str], path: Path) -> bool:
    return any(lies_in(one, path) for one in doubtful)


def read_fixture(node: Node, path: Path, context: FileContext) -> Fixture | None:
    """Validate one expanded fixture: prepared by a command, deployed on a platform, or both."""
    own = frozenset(FixtureFile.model_fields)
    holder = context.holder(path)
    on_platform = isinstance(node, Mapping) and "platform" in node.entries
    part = node.only(own) if isinstance(node, Mapping) and on_platform else node
    context.check_placeholders(part, path)
    checked = validated(FixtureFile, part, path, holder, context.problems, ("platform",))
    model: Model | None = None
    if isinstance(node, Mapping) and on_platform:
        model = _platform_model(node.without(*own), path, tuple(own), context)
        if model is None:
            return None
    elif checked is not None and checked.prepare is None:
        context.problems.add(
            holder, joined(path), "the fixture does nothing: it needs `prepare`, or a `platform`"
        )
        return None
    if checked is None:
        return None
    return Fixture(lifetime=checked.lifetime, prepare=checked.prepare, deployment=model)


def _platform_model(
    node: Mapping, path: Path, also_known: tuple[str, ...], context: FileContext
) -> Model | None:
    """Validate a mapping with the model of the platform that it names."""
    name = node.get("platform")
    here = joined((*path, "platform"))
    if name is None:
        misspelled = nearest_name("platform", node.entries)
        context.problems.add(
            node.key_place(misspelled) if misspelled else context.holder(path),
            joined((*path, misspelled)) if misspelled else here,
            f"the key 'platform' is missing here; allowed are {listing(registry.names())}",
            f"{misspelled!r} was probably meant to be it" if misspelled else "",
        )
        return None
    model = named_model(registry, "platform", name, place=name.place, where=here, context=context)
    if model is None:
        return None
    return validated(model, node, path, context.holder(path), context.problems, also_known)
