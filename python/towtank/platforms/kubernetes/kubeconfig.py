"""Finding a context: which file, which cluster, which user. Nothing is taken by default but the file."""

from __future__ import annotations

import os
from pathlib import Path

import msgspec
import yaml
from lightkube import ConfigError, KubeConfig
from lightkube.config.kubeconfig import SingleConfig

from towtank.errors import PlatformError
from towtank.spelling import nearest_name

DEFAULT_FILE = "~/.kube/config"
_MOST_NAMED = 12


def find_context(context: str, kubeconfig: str | None = None, root: Path | None = None) -> SingleConfig:
    """Look a context up by its name.

    Parameters
    ----------
    context : str
    kubeconfig : str, optional
        File that has it; without it the files of $KUBECONFIG, then ~/.kube/config.
    root : Path, optional
        Folder of the experiment file, where a relative `kubeconfig` starts.

    Raises
    ------
    PlatformError
        No such file or context, or one that cannot be used; names the contexts that there are.
    """
    files = _files(kubeconfig, root)
    known: list[str] = []
    for path in files:
        if not path.is_file():
            continue
        config = _read(path)
        if context in config.contexts:
            return _chosen(config, context, path)
        known += config.contexts
    shown = ", ".join(str(path) for path in files)
    if not known:
        missing = [path for path in files if not path.is_file()]
        raise PlatformError(
            f"there is no context {context!r}: "
            + (f"there is no file {shown}" if missing else f"{shown} has no contexts"),
            hint="name the file in `kubeconfig`, or export KUBECONFIG",
        )
    near = nearest_name(context, known)
    raise PlatformError(
        f"there is no context {context!r} in {shown}; known are {', '.join(sorted(known)[:_MOST_NAMED])}",
        hint=f"did you mean {near!r}?" if near else "see `kubectl config get-contexts`",
    )


def _files(kubeconfig: str | None, root: Path | None) -> list[Path]:
    if kubeconfig is not None:
        path = Path(kubeconfig).expanduser()
        return [path if path.is_absolute() else ((root or Path()) / path).resolve()]
    named = [Path(part).expanduser() for part in os.environ.get("KUBECONFIG", "").split(os.pathsep) if part]
    return named or [Path(DEFAULT_FILE).expanduser()]


def _read(path: Path) -> KubeConfig:
    try:
        return KubeConfig.from_file(path)
    except (
        ConfigError, OSError, yaml.YAMLError, msgspec.ValidationError, KeyError, TypeError, ValueError, AttributeError
    ) as error:  # fmt: skip
        words = " ".join(str(error).split())[:300]
        raise PlatformError(
            f"{path} cannot be read as a kubeconfig: {type(error).__name__}: {words}",
            hint="`kubectl --kubeconfig FILE config view` shows what it holds",
        ) from error


def _chosen(config: KubeConfig, context: str, path: Path) -> SingleConfig:
    found = config.contexts[context]
    for kind, name, table in (
        ("cluster", found.cluster, config.clusters),
        ("user", found.user, config.users),
    ):
        if name not in table:
            raise PlatformError(
                f"the context {context!r} in {path} names the {kind} {name!r}, which is not there",
                hint=f"known are {', '.join(sorted(table)) or 'none'}",
            )
    chosen = config.get(context_name=context)
    if chosen is None:  # only without a name, which was given
        raise PlatformError(f"the context {context!r} in {path} cannot be used")
    return chosen
