"""Logs of pods in a real cluster, and spans from inside a pod."""

from __future__ import annotations

import resource
import secrets
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from testbed import closure, components, images
from testbed.settings import HOST_ADDRESS, NAME, REGISTRY

from support.cluster import Cluster, eventually
from support.cluster_app import SUPPORT, config_for, deployed
from support.sharing import once
from towtank.clock import RunClock
from towtank.platforms.base import DeployContext
from towtank.platforms.kubernetes.client import ApiClient
from towtank.platforms.kubernetes.config import KubernetesConfig
from towtank.platforms.kubernetes.deployment import KubernetesDeployment
from towtank.platforms.kubernetes.kinds import POD
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.pod_logs import MOST_READ_BYTES_PER_S
from towtank.store.log_lines import TimedLog
from towtank.telemetry import registry
from towtank.telemetry.base import ObserveContext
from towtank.telemetry.sampler import Sampler

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(300)]
STAMP_BYTES = len("2026-01-01T00:00:00.123456789Z ")
ARGUMENTS = "Deployment/program:spec.template.spec.containers[program].args"


@pytest.fixture
def program(cluster: Cluster, tmp_path_factory: pytest.TempPathFactory) -> str:
    """An image of Python and the program that writes; packed once."""
    if cluster.context != NAME:
        pytest.skip("the image of the writing program is pushed to the testbed's registry only")

    def push() -> str:
        name = f"pod-program:{secrets.token_hex(4)}"
        recipe = closure.python_application(name, SUPPORT / "pod_program", ("-m", "pod_program"))
        images.push(images.pack(recipe, tmp_path_factory.mktemp("image")), components.REGISTRY_ADDRESS)
        return f"{REGISTRY}/{name}"

    return once(tmp_path_factory, "pod-program-image", push)


@pytest.fixture
def writing(cluster: Any, program: str) -> Callable[..., KubernetesConfig]:
    """The small application, and a pod that does what its arguments say."""

    def made(*arguments: str, **keys: Any) -> KubernetesConfig:
        fields = {
            "Deployment/program:spec.template.spec.containers[program].image": program,
            ARGUMENTS: list(arguments),
        }
        manifests = ["manifests/app.yaml", "manifests/program.yaml"]
        return config_for(cluster, manifests=manifests, set=fields, **keys)

    return made


def log_of(context: DeployContext, container: str = "program") -> Path:
    (found,) = context.log_dir.glob(f"*.{container}.log")
    return found


def numbered(path: Path) -> list[tuple[int, int, int]]:
    """Number of each line, when it was written and when the log has it, ns of CLOCK_MONOTONIC."""
    offset_ns = time.time_ns() - time.monotonic_ns()
    found = []
    for line in TimedLog.read(path).lines(0, 0, 1e18):
        word, number, wrote_ns = line.text.split()
        assert word == "line"
        found.append((int(number), int(wrote_ns) - offset_ns, line.t_us * 1000))
    return found


@pytest.mark.alone  # measures
def test_all_lines_once_in_order_at_their_instants(writing: Any, context: DeployContext) -> None:
    with deployed(writing("numbers", "--count", "2000", "--pause-s", "0.002"), context) as deployment:
        eventually(lambda: sum(f.bytes_written for f in deployment.logs()) > 0, 30, "lines")
        eventually(
            lambda: b"line 1999 " in log_of(context).read_bytes() or not deployment.logs(),
            60,
            "the last line",
        )
        time.sleep(0.6)
        files = {file.facts["container"]: file for file in deployment.logs()}
        clocks = deployment.describe()["logs"]["clocks"]
        found = numbered(log_of(context))
    assert [number for number, _, _ in found] == list(range(2000))
    assert not files["program"].incomplete
    assert files["program"].bytes_written == log_of(context).stat().st_size
    known_to_ns = max(clock["uncertainty_s"] for clock in clocks.values()) * 1e9
    late = sorted(at_ns - wrote_ns for _, wrote_ns, at_ns in found)
    assert late[0] > -known_to_ns - 1e6, "no line is there before it was written"
    # Noted every 50 ms; that the runtime stamps a line when it reads it, and not when it was written, is not ours.
    assert late[len(late) // 2] < 50e6 + known_to_ns + 20e6, f"late by ns: {late[::200]}"


def test_both_lives_of_a_container_are_kept(writing: Any, context: DeployContext) -> None:
    config = writing("numbers", "--count", "400", "--pause-s", "0.002", "--crash-at", "150")
    with deployed(config, context, ready=False) as deployment:
        eventually(
            lambda: context.log_dir.is_dir()
            and deployment.logs() is not None
            and any(context.log_dir.glob("*.program.log"))
            and log_of(context).read_bytes().count(b"line 150 ") >= 2,
            90, "two lives",
        )  # fmt: skip
        time.sleep(1.0)
        (file,) = [file for file in deployment.logs() if file.facts["container"] == "program"]
        found = [number for number, _, _ in numbered(log_of(context))]
    lives = found.count(0)
    assert found[: 151 * lives] == list(range(151)) * lives
    assert lives >= 2
    assert not file.incomplete


def test_output_that_is_no_text_is_kept_as_it_is(writing: Any, context: DeployContext) -> None:
    with deployed(writing("strange"), context) as deployment:
        eventually(lambda: sum(file.bytes_written for file in deployment.logs()) >= 1_000_257, 60, "1 MB")
    wanted = bytes(range(256)).replace(b"\n", b"") + b"\n" + b"x" * 1_000_000 + b"\n"
    content = log_of(context).read_bytes()
    assert content.startswith(wanted)
    assert content[len(wanted) :] in (b"", b"no end", b"no end\n"), (
        "a runtime may keep an unfinished line to itself"
    )


@pytest.mark.alone  # measures
def test_a_pod_that_floods_is_bounded_in_memory_disk_and_cpu(
    writing: Any, context: DeployContext, cluster: Cluster
) -> None:
    """50 MB/s for 4 s: the first MiB is kept, all is counted or said not to be, and reading takes little.

    Little: so many bytes a second at most, each at less than three times what it takes to receive it.
    """
    config = writing("flood", "--seconds", "4", "--bytes-per-s", "50e6", log_limit="1MiB")
    with deployed(config, context, ready=False) as deployment:
        eventually(lambda: any(file.bytes_written for file in deployment.logs()), 60, "the flood")
        before, counted, begun = (
            resource.getrusage(resource.RUSAGE_SELF),
            _counted(deployment),
            time.monotonic(),
        )
        received, receiving_s = _receive(deployment, cluster, 20_000_000)
        time.sleep(max(0.0, begun + 15 - time.monotonic()))
        spent, read = resource.getrusage(resource.RUSAGE_SELF), _counted(deployment) - counted
        bytes_per_s = read / (time.monotonic() - begun)
        cpu_s = spent.ru_utime + spent.ru_stime - before.ru_utime - before.ru_stime - receiving_s
        grown_kib = spent.ru_maxrss - before.ru_maxrss
        ratio = (cpu_s / read) / (receiving_s / received)
    (file,) = [file for file in deployment.remove() if file.facts["container"] == "program"]
    said = (
        f"{file.bytes_written} bytes counted, {read} of them with {cpu_s:.2f} s of CPU, {ratio:.2f} times "
        f"what it takes to receive them; {grown_kib} KiB more, {file.incomplete}"
    )
    assert file.bytes_kept == 1 << 20
    assert log_of(context).stat().st_size < (1 << 20) + 200
    assert bytes_per_s < 1.5 * MOST_READ_BYTES_PER_S, (
        said
    )  # stamps are not counted, bursts of a second are let through
    assert ratio < 3, said
    assert grown_kib < 64 * 1024, said
    assert file.bytes_written > 20e6
    assert file.incomplete or file.bytes_written > 100e6


def _counted(deployment: KubernetesDeployment) -> int:
    return max(file.bytes_written for file in deployment.logs())


def _receive(deployment: KubernetesDeployment, cluster: Cluster, most: int) -> tuple[int, float]:
    """Follow the same log with a client that only receives: bytes of output, and CPU seconds of this thread."""
    facts = deployment.describe()
    (pod,) = [one["name"] for one in facts["pods"] if one["name"].startswith("program-")]
    api = ApiClient(find_context(cluster.context, cluster.kubeconfig))
    params = {"container": "program", "timestamps": "true", "follow": "true"}
    begun, received = time.thread_time(), 0
    try:
        with api.stream(
            POD.path(facts["namespace"]["name"], pod) + "/log", params, read_timeout_s=30
        ) as stream:
            for piece in stream.pieces():
                received += len(piece) - piece.count(b"\n") * STAMP_BYTES
                if received > most:
                    break
        return received, time.thread_time() - begun
    finally:
        api.close()


def test_logs_go_on_when_the_api_server_was_away(writing: Any, context: DeployContext, cluster: Any) -> None:
    """A stream that is cut goes on where it was: the log of the kubelet's side is asked for anew."""
    with deployed(writing("numbers", "--count", "3000", "--pause-s", "0.002"), context) as deployment:
        pod_logs = deployment._logs
        for _ in range(8):
            time.sleep(0.7)
            for follower in list(pod_logs._followers.values()):
                stream = follower._stream
                if stream is not None:
                    stream.end()
        eventually(
            lambda: deployment.logs() is not None and b"line 2999 " in log_of(context).read_bytes(),
            60,
            "the last line",
        )
        streams = deployment.describe()["logs"]["streams"]
        found = [number for number, _, _ in numbered(log_of(context))]
    assert found == list(range(3000))
    assert streams >= 8


def test_spans_from_a_pod_reach_the_receiver(writing: Any, context: DeployContext) -> None:
    port = 4318
    options = {"listen": f"{HOST_ADDRESS}:{port}", "linger": 0}
    config = writing("spans", f"http://{HOST_ADDRESS}:{port}")
    source = registry.create("otlp")
    (refused,) = source.look_ahead_at({"listen": f"127.0.0.1:{port}"}, [config], SUPPORT)
    assert f"{HOST_ADDRESS}:{port}" in refused
    assert list(source.look_ahead_at(options, [config], SUPPORT)) == []
    with deployed(config, context) as deployment:
        clock = RunClock(time.monotonic_ns())
        sampler = Sampler([(source, ObserveContext(clock, 0.5, [], options=options, deployment=deployment))])
        sampler.start()
        time.sleep(3)
        ended_us = clock.now_us()
        sampler.stop()
    spans = source.spans()
    assert len(spans) >= 5
    assert {span.service for span in spans} == {"in-a-pod"}
    assert all(-1_000_000 <= span.start_us <= ended_us for span in spans)
