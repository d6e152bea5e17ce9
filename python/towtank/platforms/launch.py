"""From a component's config to the processes that the guard is asked to start: names, ports, commands, environment."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from towtank.errors import PlatformError
from towtank.platforms import placeholders
from towtank.platforms.base import DeployContext
from towtank.platforms.guard import Guard
from towtank.platforms.guard_messages import Spawned, SpawnRequest
from towtank.platforms.local_config import Component
from towtank.platforms.masking import Secrets
from towtank.platforms.ports import LOOPBACK, Reservation, reserve_fixed, reserve_free

INHERITED_VARIABLES = (
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "LC_ALL",
    "LC_CTYPE",
    "TZ",
    "TMPDIR",
    "LD_LIBRARY_PATH",
)
"""All that an instance sees of the environment in which towtank was started: a result must not hang on the rest."""


@dataclass(frozen=True)
class Planned:
    """An instance before it is started; its port is held.

    Parameters
    ----------
    name : str
        ``app-0``.
    component_name : str
    component : Component
    index : int
        From 0, within the component.
    reservation : Reservation
    """

    name: str
    component_name: str
    component: Component
    index: int
    reservation: Reservation

    @property
    def port(self) -> int:
        """Where it must listen."""
        return self.reservation.port

    @property
    def url(self) -> str:
        """Address that reaches exactly this instance."""
        scheme = "https" if self.component.tls is not None else "http"
        return f"{scheme}://{LOOPBACK}:{self.port}"


@dataclass(frozen=True)
class Launch:
    """An instance with everything that is needed to start it, and with what may be shown of that."""

    planned: Planned
    request: SpawnRequest
    shown_command: tuple[str, ...]
    shown_env: Mapping[str, str]


def plan_instances(components: Mapping[str, Component]) -> list[Planned]:
    """Name all instances and take a port for each; of a component that is scaled, for its ingress.

    Raises
    ------
    PlatformError
        A port is in use; what was taken is released.
    """
    planned: list[Planned] = []
    try:
        for name, component in components.items():
            if component.scaling is not None:
                held = reserve_free() if component.port is None else reserve_fixed(component.port)
                planned.append(Planned(name, name, component, 0, held))
                continue
            for index in range(component.replicas):
                port = None if component.port is None else component.port + index
                held = reserve_free() if port is None else reserve_fixed(port)
                planned.append(Planned(f"{name}-{index}", name, component, index, held))
    except PlatformError:
        release(planned)
        raise
    return planned


def release(planned: Sequence[Planned]) -> None:
    """Let go of all ports; harmless when repeated."""
    for item in planned:
        item.reservation.release()


def prepare(
    planned: Sequence[Planned],
    context: DeployContext,
    secrets: Secrets,
    ways: Mapping[tuple[str, str], str] | None = None,
    *,
    everyone: Sequence[Planned] | None = None,
) -> list[Launch]:
    """Fill placeholders in and set the environment up, for every instance.

    Parameters
    ----------
    planned : sequence of Planned
    context : DeployContext
    secrets : Secrets
    ways : mapping, optional
        (Component, instance that it calls) → address to use instead of the instance's own.
    everyone : sequence of Planned, optional
        Whose addresses they may be given; without it, only theirs.

    Raises
    ------
    PlatformError
        An unknown fixture, or a working folder that is not there.
    """
    known = planned if everyone is None else everyone
    return [_prepare(item, known, context, secrets, ways or {}) for item in planned]


def _prepare(
    item: Planned,
    everyone: Sequence[Planned],
    context: DeployContext,
    secrets: Secrets,
    ways: Mapping[tuple[str, str], str],
) -> Launch:
    component = item.component
    known = {**run_values(context), **_instance_values(item, everyone, ways)}
    try:
        real = _Rendered.of(component, {**known, **secrets.placeholders})
        shown = _Rendered.of(component, {**known, **secrets.masked_placeholders})
    except placeholders.PlaceholderError as error:
        raise PlatformError(f"deployment {context.name!r}, instance {item.name}: {error}") from error
    cwd = (context.root / real.cwd).resolve()
    if not cwd.is_dir():
        raise PlatformError(
            f"deployment {context.name!r}: the working folder {shown.cwd!r} of {item.name} is not there "
            f"(looked at {context.root / shown.cwd})",
            hint="`cwd` is relative to the folder of the experiment file",
        )
    limits = component.limits
    request = SpawnRequest(
        id=item.name,
        argv=real.command,
        env={**inherited(), "PORT": str(item.port), "INSTANCE": item.name, **real.env},
        cwd=cwd,
        log=context.log_dir.absolute() / f"{item.name}.log",
        log_limit_bytes=component.log_limit,
        grace_ms=round(component.stop.grace * 1000),
        cpu_cores=limits.cpu,
        memory_bytes=limits.memory,
        cpus=component.cpus,
        nice=component.nice,
    )
    return Launch(item, request, tuple(shown.command), shown.env)


@dataclass(frozen=True)
class _Rendered:
    """A component's texts with their placeholders filled in."""

    command: Sequence[str]
    env: Mapping[str, str]
    cwd: str

    @classmethod
    def of(cls, component: Component, values: Mapping[str, str]) -> _Rendered:
        command = [placeholders.render(word, values) for word in component.command]
        if command[0] == "python":
            # A machine may have no `python`, or another one than the environment that towtank was installed in.
            command[0] = sys.executable
        env = {name: placeholders.render(value, values) for name, value in component.env.items()}
        return cls(command, env, placeholders.render(component.cwd, values))


def spawn(launch: Launch, guard: Guard, context: DeployContext, secrets: Secrets) -> Spawned:
    """Have an instance started.

    Raises
    ------
    PlatformError
        The guard could not; the message names the deployment and shows no secret.
    """
    try:
        return guard.spawn(launch.request)
    except PlatformError as error:
        raise PlatformError(
            f"deployment {context.name!r}: {secrets.mask(error.message)}",
            hint=error.hint or f"the command is {list(launch.shown_command)}",
        ) from None


def run_values(context: DeployContext) -> dict[str, str]:
    """Values of the placeholders that do not hang on an instance; also for hooks and resets of the same run."""
    return {
        "data": str(context.data_dir.absolute()),
        "root": str(context.root.absolute()),
        "python": sys.executable,
        **{f"fixture.{name}": str(path.absolute()) for name, path in context.fixtures.items()},
    }


def _instance_values(
    item: Planned, everyone: Sequence[Planned], ways: Mapping[tuple[str, str], str]
) -> dict[str, str]:
    values = {"port": str(item.port), "instance": item.name, "index": str(item.index)}
    urls: dict[str, list[str]] = {}
    for other in everyone:
        urls.setdefault(other.component_name, []).append(
            ways.get((item.component_name, other.name), other.url)
        )
    for name, addresses in urls.items():
        # Pairs the n-th instance with the n-th of the other component; more than there are start over.
        values[f"url.{name}"] = addresses[item.index % len(addresses)]
        values[f"urls.{name}"] = ",".join(addresses)
    return values


def inherited() -> dict[str, str]:
    """The part of our own environment that instances get."""
    return {name: os.environ[name] for name in INHERITED_VARIABLES if name in os.environ}
