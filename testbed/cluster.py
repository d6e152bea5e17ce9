"""Up, down, status, restart: the life of the testbed. Everything here may be repeated, and interrupted anywhere."""

from __future__ import annotations

import fcntl
import os
import shutil
import socket
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path

from testbed import (
    binaries,
    certificates,
    cgroups,
    components,
    images,
    knative,
    knative_parts,
    kubectl,
    launch,
    network,
    node_files,
    nodes,
    possible,
)
from testbed.errors import InTheWayError, NotReadyError, TestbedError
from testbed.record import Record
from testbed.settings import CONTAINERD_SOCKET, NAME, Folders, Node, Options

LOCKED = Path("/sys/fs/cgroup")
"""Locked (flock) while the testbed changes: one for the whole machine, and no file is left by it."""
LOCK_TIMEOUT_S = 600
API_TIMEOUT_S = 120
NODE_TIMEOUT_S = 120
LOG_LINES = 15

Say = Callable[[str], None]


def up(folders: Folders, wanted: Options | None, say: Say) -> None:
    """Bring the cluster up, or what of it is not running; do nothing when it is up.

    Parameters
    ----------
    wanted : Options or None
        None is what is there already, or else the defaults.

    Raises
    ------
    NotPossibleError, InTheWayError
        Before anything was changed.
    NotReadyError
        When a component does not start; what runs is left for a look, `down` ends it.
    """
    possible.check(folders)
    binaries.build(folders, say)
    there = Record.load(folders.record)
    if (wanted or (there.options if there else Options())).knative:
        knative_parts.build(folders, say)
    with _alone():
        record = Record.load(folders.record)
        options = wanted or (record.options if record else Options())
        if record is not None and not _whole(record):
            say("a testbed that is dead or half made is there: taking it down first")
            _take_down(folders, record)
            record = None
        if record is None:
            _check_the_way(folders, say)
            record = _lay_ground(folders, options)
        elif record.options != options:
            raise InTheWayError(
                f"a testbed with {record.options} is up, and {options} was asked for; `python -m testbed down` first"
            )
        _start_components(folders, record, say)


def down(folders: Folders, say: Say) -> None:
    """End the testbed's processes and remove everything it made on this machine but programs, images and logs."""
    with _alone():
        record = Record.load(folders.record)
        if record is None:
            say("no testbed is up")
            return
        _take_down(folders, record)
        say("down")


def restart(folders: Folders, node: str, name: str, say: Say) -> None:
    """End one component (SIGKILL) and start it again."""
    with _alone():
        record = Record.load(folders.record)
        process = None if record is None else record.processes.get(f"{node}/{name}")
        if record is None or process is None or name == "init":
            known = [] if record is None else [key for key in record.processes if not key.endswith("/init")]
            raise TestbedError(f"no component {node}/{name}; there are: {', '.join(known) or 'none'}")
        process.end()
        _start_components(folders, record, say)


def status(folders: Folders) -> tuple[bool, list[str]]:
    """Whether the testbed is up, and a line for every process."""
    record = Record.load(folders.record)
    if record is None:
        return False, ["no testbed is up"]
    lines = [f"options: {record.options}"]
    whole = record.complete
    for key, process in record.processes.items():
        alive = record.of_this_boot and process.alive()
        whole &= alive
        lines.append(f"{key:<32} {process.pid if alive else 'ended'}")
    if whole:
        lines += [f"kubeconfig: {folders.kubeconfig}", f"context: {NAME}"]
    return whole, lines


def _whole(record: Record) -> bool:
    """Whether what is there can serve: nothing half made, the namespaces of every node alive."""
    held = all(record.get(node.name, "init") for node in record.options.all_nodes())
    return record.of_this_boot and record.ground and held


def _check_the_way(folders: Folders, say: Say) -> None:
    """Refuse what another testbed lives in; what one left behind when it was killed is removed."""
    existing = cgroups.exist()
    if existing and cgroups.inhabited():
        raise InTheWayError(
            f"processes run in the control group {existing[0]} and {folders.record} knows nothing of them. A testbed "
            "of another folder is up: end it from there, or use it (TOWTANK_TESTBED=<folder>/.testbed)"
        )
    if existing:
        say(
            f"removing {existing[0]} and its like, which a testbed left that was killed: no process is in them"
        )
        network.remove()
        cgroups.remove()
    network.check()


def _lay_ground(folders: Folders, options: Options) -> Record:
    """Namespaces and networks of all nodes. The record is on disk before the first of them."""
    shutil.rmtree(folders.state, ignore_errors=True)
    shutil.rmtree(folders.logs, ignore_errors=True)
    record = Record.new(folders.record, options)
    try:
        cgroups.create("")
        record.trees = cgroups.identities()
        record.save()
        certificates.make(folders, options)
        first = None
        for node in options.all_nodes():
            (folders.logs / node.name).mkdir(parents=True)
            node_files.write(folders.node(node) / "etc", node, options)
            init = nodes.start(record, folders, node)
            network.prepare(init, node)
            if first is None:
                first = init
                network.connect_host(init)
            else:
                network.connect_nodes(first, init, node, options.all_nodes())
    except BaseException:
        _take_down(folders, record)
        raise
    record.ground = True
    record.save()
    return record


def _start_components(folders: Folders, record: Record, say: Say) -> None:
    """Start what does not run, in order, and wait until the cluster serves."""
    begun = time.monotonic()
    started: dict[tuple[str, str], float] = {}
    record.forget_the_dead()
    for node in record.options.all_nodes():
        for component in components.of_node(node, record.options):
            if record.get(node.name, component.name):
                continue
            started[node.name, component.name] = time.time()
            log = folders.logs / node.name / f"{component.name}.log"
            launch.start(
                record,
                launch.Daemon(component.name, node.name, component.command, components.ENVIRONMENT, log),
            )
            if component.name == "kube-apiserver":
                _wait(folders, record, "the API server", lambda: kubectl.api_answers(folders), API_TIMEOUT_S)
                say(f"API server ready after {time.monotonic() - begun:.1f} s")
            if component.name == "containerd":  # a kubelet that finds none gives up
                _wait(
                    folders, record, "containerd", partial(_containerd_listens, record, node), NODE_TIMEOUT_S
                )
            if component.name == "registry":
                _wait(
                    folders, record, "the registry",
                    lambda: _push_images(folders, record.options), NODE_TIMEOUT_S,
                )  # fmt: skip
    if not started and record.complete:
        say("already up")
        return
    _wait(
        folders, record, "DNS and metrics-server created",
        lambda: kubectl.apply_addons(folders, record.options), API_TIMEOUT_S,
    )  # fmt: skip
    kubelets = {node: at for (node, name), at in started.items() if name == "kubelet"}
    _wait(
        folders, record, "every node Ready",
        lambda: kubectl.nodes_ready(folders, record.options, kubelets), NODE_TIMEOUT_S,
    )  # fmt: skip
    say(f"nodes Ready after {time.monotonic() - begun:.1f} s")
    _wait(
        folders, record, "cluster DNS",
        lambda: kubectl.deployment_ready(folders, "kube-system", "coredns"), NODE_TIMEOUT_S,
    )  # fmt: skip
    say(f"DNS ready after {time.monotonic() - begun:.1f} s; metrics follow after the first intervals")
    if record.options.knative:
        for what, holds in knative.steps(folders, record.options):
            _wait(folders, record, what, holds, knative.TIMEOUT_S)
        say(f"Knative ready after {time.monotonic() - begun:.1f} s")
    record.complete = True
    record.save()


def _containerd_listens(record: Record, node: Node) -> bool:
    """Whether containerd takes connections, seen through the node's own root."""
    init = record.get(node.name, "init")
    with socket.socket(socket.AF_UNIX) as trial:
        trial.connect(f"/proc/{init.pid if init else 0}/root{CONTAINERD_SOCKET}")
    return True


def _push_images(folders: Folders, options: Options) -> bool:
    """Whether all images are in the registry, which takes connections a moment after its start."""
    of_knative = knative_parts.pack(folders) if options.knative else []
    for image in [*binaries.pack(folders), *of_knative]:
        images.push(image, components.REGISTRY_ADDRESS)
    return True


def _wait(folders: Folders, record: Record, what: str, holds: Callable[[], bool], timeout_s: float) -> None:
    """Wait, but not for what has already died."""

    def still_holds() -> bool:
        dead = _dead(folders, record)
        if dead:
            raise NotReadyError(dead)
        return holds()

    kubectl.wait_for(what, still_holds, timeout_s, lambda: _dead(folders, record))


def _dead(folders: Folders, record: Record) -> str:
    """What has ended by itself, with the end of its log; empty when everything runs."""
    for process in record.processes.values():
        if not process.alive():
            log = folders.logs / process.node / f"{process.name}.log"
            lines = log.read_text("utf-8", errors="replace").splitlines() if log.exists() else []
            return f"{process.name} on {process.node} has ended; the end of {log}:\n" + "\n".join(
                lines[-LOG_LINES:]
            )
    return ""


def _take_down(folders: Folders, record: Record) -> None:
    """End processes, then remove groups, network and files; what is gone already is no error.

    When this testbed was killed, one of another folder may stand in its place: that is left alone.
    """
    if record.of_this_boot and (
        not cgroups.inhabited() or record.trees.items() & cgroups.identities().items()
    ):
        for process in reversed(record.processes.values()):
            if process.name == "init":  # the kernel ends everything in its pid namespace with it
                process.end()
        for process in record.processes.values():
            process.end()
        cgroups.end_members()
        network.remove()
        cgroups.remove()
    _remove_state(folders)


def _remove_state(folders: Folders) -> None:
    """Delete the state, the record last: until then `down` can be repeated."""
    mounted = [line.split()[4] for line in cgroups.MOUNTS.read_text("utf-8").splitlines()]
    for place in mounted:
        if Path(place).is_relative_to(folders.state):
            raise InTheWayError(
                f"{place} is mounted on this machine, and not by the testbed; unmount it first"
            )
    for path in folders.state.iterdir():
        if path != folders.record:
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    folders.kubeconfig.unlink(missing_ok=True)
    folders.record.unlink(missing_ok=True)
    folders.state.rmdir()


@contextmanager
def _alone() -> Iterator[None]:
    """One change at a time on this machine; a second caller waits for the first."""
    descriptor = os.open(LOCKED, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        deadline = time.monotonic() + LOCK_TIMEOUT_S
        while True:
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except BlockingIOError as busy:
                if time.monotonic() > deadline:
                    raise TestbedError(
                        f"another call has held the testbed for {LOCK_TIMEOUT_S} s ({LOCKED})"
                    ) from busy
                time.sleep(0.1)
        yield
    finally:
        os.close(descriptor)
