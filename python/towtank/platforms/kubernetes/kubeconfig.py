"""Finding a context: which file, which cluster, which user. Nothing is taken by default but the file."""

from __future__ import annotations

import json
import os
from pathlib import Path

import msgspec
import yaml
from lightkube import ConfigError, KubeConfig
from lightkube.config.kubeconfig import SingleConfig
from lightkube.config.models import NameValue, User

from towtank.errors import PlatformError
from towtank.spelling import nearest_name

DEFAULT_FILE = "~/.kube/config"
_EXEC_NOW, _EXEC_KNOWN = (f"client.authentication.k8s.io/{version}" for version in ("v1", "v1beta1"))
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
        words = f"{type(error).__name__}: {' '.join(str(error).split())[:300]}"
        if isinstance(error, AttributeError):  # of a text, a number or nothing, where keys are looked up
            words = "it is empty, or a part of it is no mapping"
        raise PlatformError(
            f"{path} cannot be read as a kubeconfig: {words}",
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
    if not _names_server(path, found.cluster):  # lightkube would go to localhost:8080
        raise PlatformError(
            f"the cluster {found.cluster!r} of the context {context!r} in {path} has no `server`",
            hint="write the address of its API server there, such as `server: https://10.0.0.1:6443`",
        )
    chosen = config.get(context_name=context)
    if chosen is None:  # only without a name, which was given
        raise PlatformError(f"the context {context!r} in {path} cannot be used")
    return chosen._replace(user=_as_kubectl_reads_it(chosen.user, path.absolute().parent))


def _names_server(path: Path, cluster: str) -> bool:
    """Whether a cluster's address is written in a kubeconfig that could be read."""
    content = yaml.safe_load(path.read_text("utf-8"))
    entries = [one.get("cluster") or {} for one in content["clusters"] if one.get("name") == cluster]
    return any(one.get("server") for one in entries)


def _as_kubectl_reads_it(user: User | None, folder: Path) -> User | None:
    """What lightkube leaves out: relative paths begin at the kubeconfig, and programs that give tokens speak `v1`.

    Such a program is told its version in $KUBERNETES_EXEC_INFO. Of its answer only the token is read, which is in
    `v1` and `v1beta1` at the same place.
    """
    if user is None:
        return None
    if user.token_file is not None:
        user = msgspec.structs.replace(user, token_file=str(folder / Path(user.token_file).expanduser()))
    if user.exec is None:
        return user
    said, command = user.exec.apiVersion, user.exec.command
    info = {"apiVersion": said, "kind": "ExecCredential", "spec": {"interactive": False}}
    told = NameValue(name="KUBERNETES_EXEC_INFO", value=json.dumps(info))
    program = msgspec.structs.replace(
        user.exec,
        apiVersion=_EXEC_KNOWN if said == _EXEC_NOW else said,
        command=str(folder / command) if "/" in command else command,
        env=[*(user.exec.env or []), told],
    )
    return msgspec.structs.replace(user, exec=program)
