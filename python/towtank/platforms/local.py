"""The `local` platform: processes on this machine, under the guard."""

from __future__ import annotations

import os
import secrets
from collections.abc import Sequence
from pathlib import Path

from towtank.errors import MachineError
from towtank.load.binary import find_engine
from towtank.platforms import edge_proxy, guard, ports
from towtank.platforms.base import DeployContext
from towtank.platforms.ingress import find_ingress
from towtank.platforms.local_config import Component, LocalConfig
from towtank.platforms.local_deployment import LocalDeployment
from towtank.platforms.masking import Secrets, missing_secrets

EDGE_FAULTS = frozenset({"delay", "drop", "abort", "partition"})
"""What Toxiproxy does."""


class LocalPlatform:
    """Runs every instance as a process with a port, a log and limits of its own.

    Nothing it starts survives: the guard ends whole process trees when Towtank ends, however it ends, and
    `sweep` ends what a killed guard has left.
    """

    name = "local"

    def check(self, config: LocalConfig, root: Path | None = None) -> Sequence[str]:
        """Missing engine or program, ports in use, CPUs that are not there, variables that are not set."""
        found: list[str] = []
        try:
            find_engine()
        except MachineError as error:
            found.append(error.message)
        if any(component.scaling is not None for component in config.resolved().values()):
            try:
                find_ingress()
            except MachineError as error:
                found.append(error.message)
        found.extend(missing_secrets(config.secret_names(), config.secret_files(), root))
        for name, component in config.resolved().items():
            found.extend(f"component {name!r}: {problem}" for problem in _problems(component, root))
        return found

    def deploy(self, config: LocalConfig, context: DeployContext) -> LocalDeployment:
        """Start every instance; see `Platform.deploy`."""
        secrets = Secrets(config.secret_names(), files=config.secret_files(), root=context.root)
        deployment = LocalDeployment(find_engine(), config, context, secrets)
        deployment.launch()
        return deployment

    def check_faults(self, kinds: Sequence[str]) -> Sequence[str]:
        """Whether there is what takes CPU away, and what disturbs edges."""
        found = []
        if EDGE_FAULTS & set(kinds) and edge_proxy.find_program() is None:
            found.append(
                f"the program {edge_proxy.PROGRAM!r}, which disturbs edges, is not there: {edge_proxy.HOW_TO_GET}"
            )
        if "cpu" in kinds:
            found += _missing_groups()
        return found

    def sweep(self, token: str) -> int:
        """End what a dead guard left of the deployment with this token."""
        return guard.sweep(find_engine(), token)


def _missing_groups() -> list[str]:
    """Why CPU cannot be taken away here; empty when it can."""
    trial = guard.Guard(find_engine(), f"tt-{secrets.token_hex(8)}")
    try:
        ready = trial.start()
    finally:
        trial.close(grace_s=0)
    if ready.cgroup != "none":
        return []
    return [
        f"the fault 'cpu' needs control groups, which cannot be had here: {ready.note or 'no reason is known'}"
    ]


def _problems(component: Component, root: Path | None) -> Sequence[str]:
    # Its script and its working folder are made by a command that runs before, perhaps.
    found = [one.words for one in component.missing(root) if one.keys == ("command", 0)]
    for port in component.ports():
        problem = ports.fixed_port_problem(port)
        if problem:
            found.append(problem)
    missing = sorted(set(component.cpus or ()) - os.sched_getaffinity(0))
    if missing:
        found.append(f"this machine has no CPU {', '.join(map(str, missing))} that we may use")
    return found
