"""Logs of pods: every line once, in order and at its instant, through breaks, lives and refusals; and bounded."""

from __future__ import annotations

import contextlib
import errno
import os
import threading
import time
from collections.abc import Callable, Iterator
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from support.fake_cluster import FakeCluster, FakeLog, FakeServer, Refusal, meta, ready_status
from towtank.campaign.logs import LogMarks
from towtank.clock import boot_id
from towtank.platforms.base import LogFile, WritesLogs
from towtank.platforms.kubernetes import log_following, pod_logs
from towtank.platforms.kubernetes.client import ApiClient, Json
from towtank.platforms.kubernetes.kubeconfig import find_context
from towtank.platforms.kubernetes.log_file import ContainerLog
from towtank.platforms.kubernetes.log_following import Budget
from towtank.platforms.kubernetes.node_clocks import DATE, FASTEST, OWN, NodeClocks
from towtank.platforms.kubernetes.platform import KubernetesPlatform
from towtank.platforms.kubernetes.pod_logs import PodLogs
from towtank.platforms.masking import Secrets
from towtank.store.log_lines import TimedLog

LIMIT = 1 << 20


@pytest.fixture(autouse=True)
def this_machine(cluster: FakeCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    """The node is this machine, and nobody waits long for what does not come."""
    cluster.change("nodes", "", "n1", lambda node: node["status"]["nodeInfo"].update(bootID=boot_id()))
    for name, value in (("_FIRST_PAUSE_S", 0.01), ("_LONGEST_PAUSE_S", 0.05), ("_MOST_TRIALS_S", 0.3)):
        monkeypatch.setattr(log_following, name, value)
    for name, value in (("FLUSH_EVERY_S", 0.02), ("_END_S", 0.2), ("_QUIET_S", 0.1)):
        monkeypatch.setattr(pod_logs, name, value)


@pytest.fixture
def api(server: FakeServer, tmp_path: Path) -> ApiClient:
    return ApiClient(find_context("fake", str(server.write_kubeconfig(tmp_path / "k"))))


class Listening:
    """Pod logs at work, and the pods that they are told of."""

    def __init__(self, cluster: FakeCluster, api: ApiClient, folder: Path, **keys: Any) -> None:
        given = {"labels": {}, "limit": LIMIT, "secrets": Secrets(), **keys}
        self.cluster = cluster
        self.logs = PodLogs(api, folder, given["labels"], given["limit"], given["secrets"])
        self.folder = folder

    def pod(self, name: str = "a", *, restarts: int = 0, running: bool = True, labels: Any = None) -> FakeLog:
        """Tell of a pod as it is now; its log."""
        thing = meta("v1", "Pod", name, "default", labels)
        thing["metadata"]["uid"] = f"uid-{name}"
        thing["spec"] = {"containers": [{"name": "app"}], "nodeName": "n1"}
        thing["status"] = ready_status(thing)
        (one,) = thing["status"]["containerStatuses"]
        one["restartCount"] = restarts
        if not running:
            one["state"] = {"terminated": {"exitCode": 0, "containerID": "x"}}
        self.thing = thing
        log = self.cluster.pod_logs.setdefault((name, "app"), FakeLog())
        self.logs.on_pod("MODIFIED", thing, None, 0)
        return log

    def gone(self) -> None:
        self.logs.on_pod("DELETED", self.thing, None, 0)

    def ended(self) -> tuple[LogFile, ...]:
        """Logs at the end, when everything was read that there is."""
        eventually(lambda: all(one.done for one in self.logs._followers.values()))
        return tuple(self.logs.close())

    def kept(self, name: str = "a") -> bytes:
        return (self.folder / f"{name}.app.log").read_bytes()

    def wait_for(self, content: bytes, name: str = "a") -> None:
        eventually(lambda: self.kept(name) == content, lambda: self.kept(name)[-300:])


def eventually(holds: Callable[[], Any], said: Callable[[], Any] = str, within_s: float = 20.0) -> None:
    until = time.monotonic() + within_s
    while True:
        try:
            if holds():
                return
        except FileNotFoundError:
            pass
        assert time.monotonic() < until, said()
        time.sleep(0.01)


@pytest.fixture
def listener(cluster: FakeCluster, api: ApiClient, tmp_path: Path, monkeypatch: Any) -> Iterator[Listening]:
    found = Listening(cluster, api, tmp_path / "logs")
    yield found
    found.logs.close()


def numbered(begin: int, end: int) -> list[bytes]:
    return [b"line %d\n" % number for number in range(begin, end)]


def test_every_line_once_and_in_order_though_streams_break(listener: Listening) -> None:
    """Streams break after a few lines, within one, and before any; the server refuses now and then."""
    log = listener.pod()
    log.breaks = [100, 0, 333, 4000, 17, 9999]
    log.refusals = [Refusal(500, "InternalError", "no")] * 3
    for begin in range(0, 1000, 100):
        log.write(*numbered(begin, begin + 100))
        time.sleep(0.01)
    wanted = b"".join(numbered(0, 1000))
    listener.wait_for(wanted)
    (file,) = listener.logs.up_to_now()
    assert (file.instance, file.bytes_written, file.bytes_kept) == ("a.app", len(wanted), len(wanted))
    assert file.incomplete == ""
    assert file.facts == {"pod": "a", "container": "app"}
    assert all(request["timestamps"] == request["follow"] == "true" for request in log.requests)
    assert any("sinceTime" in request for request in log.requests)


def test_what_a_container_said_before_it_was_started_again_is_kept(listener: Listening) -> None:
    """Its stream breaks, it goes on writing, ends and is started again before anybody has read that."""
    log = listener.pod()
    log.breaks = [60]
    with listener.cluster.lock:  # nobody is answered meanwhile
        log.write(*numbered(0, 3))
    eventually(lambda: not log.breaks or listener.kept())
    log.refusals = [Refusal(500, "InternalError", "no")] * 2
    log.write(*numbered(3, 6), b"its last words")
    log.lives.append([])
    log.write(*numbered(6, 9))
    listener.pod(restarts=1)
    listener.wait_for(b"".join([*numbered(0, 6), b"its last words\n", *numbered(6, 9)]))
    assert any("previous" in request for request in log.requests)
    assert listener.logs.up_to_now()[0].incomplete == ""


def test_a_container_that_had_ended_before_anybody_listened_has_a_log(listener: Listening) -> None:
    log = listener.pod("init", running=False)
    log.write(*numbered(0, 5))
    log.ended = True
    listener.wait_for(b"".join(numbered(0, 5)), "init")


def test_a_container_without_a_word_has_an_empty_log(listener: Listening) -> None:
    listener.pod()
    eventually(lambda: listener.kept() == b"")
    assert [(f.bytes_written, f.incomplete) for f in listener.logs.close()] == [
        (0, "it was not read to its end when it was let go of")
    ]


def test_what_is_no_text_is_kept_as_it_is(listener: Listening) -> None:
    log = listener.pod()
    content = bytes(range(256)).replace(b"\n", b"") + b"\n"
    log.write(content, b"\n", b"x" * 1_000_000 + b"\n", b"no end")
    log.ended = True
    listener.pod(running=False)
    listener.gone()
    eventually(lambda: len(listener.kept()) == 257 - 1 + 1 + 1_000_001 + 6)
    (file,) = listener.ended()
    assert listener.kept() == content + b"\n" + b"x" * 1_000_000 + b"\nno end"
    assert file.incomplete == ""


def test_beyond_the_bound_bytes_are_counted(
    cluster: FakeCluster, api: ApiClient, tmp_path: Path, monkeypatch: Any
) -> None:
    listener = Listening(cluster, api, tmp_path / "logs", limit=1000)
    log = listener.pod()
    for begin in range(0, 100_000, 10_000):
        log.write(*numbered(begin, begin + 10_000))
        time.sleep(0.002)
    log.ended = True
    listener.pod(running=False)
    wanted = sum(map(len, numbered(0, 100_000)))
    eventually(lambda: listener.logs.up_to_now()[0].bytes_written == wanted)
    listener.gone()
    (file,) = listener.ended()
    assert (file.bytes_written, file.bytes_kept, file.incomplete) == (wanted, 1000, "")
    assert f"{wanted - 1000} more bytes of output were cut at 1000 bytes" in listener.kept().decode()
    assert TimedLog.read(listener.folder / "a.app.log").noted[-1].bytes == wanted


def test_lines_stand_at_the_instants_at_which_they_were_written(listener: Listening) -> None:
    """They come later, all at once: the node's stamp counts, and not the receipt."""
    log = listener.pod()
    now_ns, mono_ns = time.time_ns(), time.monotonic_ns()
    for number in range(20):
        log.write(b"line %d\n" % number, t_ns=now_ns - (20 - number) * 200_000_000)
    eventually(lambda: listener.kept().count(b"\n") == 20)
    listener.logs.up_to_now()
    lines = list(TimedLog.read(listener.folder / "a.app.log").lines(mono_ns, -1e9, 1e9))
    for number, line in enumerate(lines):
        assert line.t_us == pytest.approx(-(20 - number) * 200_000, abs=20_000)
    assert listener.logs.facts()["clocks"]["n1"]["method"] == OWN
    assert listener.logs.facts()["clocks"]["n1"]["uncertainty_s"] < 0.01


def test_only_pods_with_the_labels_are_listened_to(
    cluster: FakeCluster, api: ApiClient, tmp_path: Path
) -> None:
    listener = Listening(cluster, api, tmp_path / "logs", labels={"tier": "web"})
    listener.pod("other", labels={"tier": "store"})
    listener.pod("mine", labels={"tier": "web", "x": "y"})
    assert [file.instance for file in listener.logs.close()] == ["mine.app"]


def test_a_right_that_is_missing_is_said(listener: Listening) -> None:
    log = FakeLog()
    log.refusals = [Refusal(403, "Forbidden", "pods/log is forbidden")]
    listener.cluster.pod_logs["a", "app"] = log
    listener.pod()
    eventually(lambda: "pods/log is forbidden" in listener.logs.up_to_now()[0].incomplete)


def test_a_log_that_is_refused_to_the_end_is_not_whole(listener: Listening) -> None:
    log = FakeLog()
    log.refusals = [Refusal(500, "InternalError", "no space left")] * 1000
    listener.cluster.pod_logs["a", "app"] = log
    listener.pod()
    listener.gone()
    eventually(lambda: "no space left" in listener.logs.up_to_now()[0].incomplete)


def test_lives_that_nobody_saw_are_said(listener: Listening) -> None:
    log = listener.pod()
    log.write(b"first\n")
    listener.wait_for(b"first\n")
    log.lives += [[], []]
    log.write(b"third\n")
    listener.pod(restarts=2)
    listener.wait_for(b"first\nthird\n")
    assert "started again twice" in listener.logs.up_to_now()[0].incomplete


def test_more_containers_than_streams_wait_their_turn(listener: Listening, monkeypatch: Any) -> None:
    monkeypatch.setattr(pod_logs, "MOST_STREAMS", 2)
    for name in "abc":
        listener.pod(name).write(*numbered(0, 3))
    eventually(lambda: len(listener.logs.up_to_now()) == 3)
    assert (
        "it was never followed: 2 others"
        in {f.instance: f.incomplete for f in listener.logs.up_to_now()}["c.app"]
    )
    assert listener.logs.facts()["waited"] == 1
    for name in "ab":
        listener.cluster.pod_logs[name, "app"].ended = True
        listener.pod(name, running=False)
        listener.gone()
    listener.wait_for(b"".join(numbered(0, 3)), "c")
    assert not any(f.incomplete for f in listener.logs.up_to_now())


def test_a_pod_that_comes_back_under_its_name_goes_on_in_its_log(listener: Listening) -> None:
    first = listener.pod("store-0")
    first.write(b"one\n")
    listener.wait_for(b"one\n", "store-0")
    first.ended = True
    listener.pod("store-0", running=False)
    listener.gone()
    second = listener.cluster.pod_logs["store-0", "app"] = FakeLog()
    thing = {**listener.thing, "metadata": {**listener.thing["metadata"], "uid": "another"}}
    thing["status"] = ready_status(thing)
    listener.logs.on_pod("ADDED", thing, None, 0)
    second.write(b"two\n")
    listener.wait_for(b"one\ntwo\n", "store-0")
    (file,) = listener.logs.up_to_now()
    assert file.bytes_written == 8


def test_reading_is_held_to_its_budget() -> None:
    budget, ending, begun = Budget(1e6), threading.Event(), time.monotonic()
    for _ in range(20):
        budget.spend(100_000, ending)
    assert time.monotonic() - begun > 0.7, "two seconds' worth, of which one may be spent at once"


# --- clocks of nodes -----------------------------------------------------------------------------------------------


def test_the_clock_of_another_machine_is_asked_of_its_kubelet(cluster: FakeCluster, api: ApiClient) -> None:
    """A node that is 100 s ahead says so in the Date of its answers."""
    cluster.change("nodes", "", "n1", lambda node: node["status"]["nodeInfo"].update(bootID="other"))
    cluster.dates["/api/v1/nodes/n1/proxy/healthz"] = lambda: formatdate(time.time() + 100, usegmt=True)
    clocks = NodeClocks(api)
    try:
        clock = clocks.of("n1")
        assert clock.known.wait(30)
        assert clock.method == DATE
        here_ns = time.monotonic_ns()
        assert clock.here_ns(time.time_ns() + 100 * 10**9) == pytest.approx(here_ns, abs=0.6e9)
        assert clock.facts()["ahead_s"] == pytest.approx(100, abs=0.6)
    finally:
        clocks.close()
        api.close()


def test_a_node_that_may_not_be_asked_has_the_clock_of_its_fastest_line(
    cluster: FakeCluster, api: ApiClient
) -> None:
    cluster.change("nodes", "", "n1", lambda node: node["status"]["nodeInfo"].update(bootID="other"))
    cluster.answers = lambda path: (
        Refusal(403, "Forbidden", "nodes/proxy") if path.endswith("healthz") else None
    )
    clocks = NodeClocks(api)
    try:
        clock = clocks.of("n1")
        assert clock.known.wait(30)
        clock.came(5_000, 1_000)
        clock.came(7_000, 2_000)
        clock.came(8_000, 4_000)
        assert clock.here_ns(7_000) == 2_000
        assert clock.here_ns(8_000) == 3_000, "never later than it came, and never too early"
        facts = clock.facts()
        assert (facts["method"], facts["uncertainty_s"]) == (FASTEST, None)
        assert "nodes/proxy" in facts["reason"]
    finally:
        clocks.close()
        api.close()


# --- as a deployment has them --------------------------------------------------------------------------------------


def test_a_deployment_gives_its_logs_while_it_lives_and_at_its_end(
    cluster: FakeCluster, make: Callable[..., Any], context: Any
) -> None:
    cluster.pod_logs["app-1", "app"] = log = FakeLog()
    log.write(*numbered(0, 10))
    deployment = KubernetesPlatform().deploy(make(), context)
    try:
        deployment.wait_ready(cancelled=lambda: None)
        assert isinstance(deployment, WritesLogs)
        files: list[LogFile] = []
        eventually(lambda: files.extend(deployment.logs()) or any(f.bytes_written for f in files))
        assert files[-1].path == context.log_dir / "app-1.app.log"
        assert deployment.describe()["logs"]["streams"] >= 1
        log.write(*numbered(10, 20))
        log.ended = True
    finally:
        at_end = deployment.remove()
    assert (context.log_dir / "app-1.app.log").read_bytes() == b"".join(numbered(0, 20))
    assert [file.bytes_written for file in at_end] == [sum(map(len, numbered(0, 20)))]
    assert deployment.remove() == at_end


def test_no_logs_are_read_where_none_are_wanted(
    cluster: FakeCluster, make: Callable[..., Any], context: Any
) -> None:
    cluster.denied.add(("get", "pods/log"))
    deployment = KubernetesPlatform().deploy(make(logs=False), context)
    assert deployment.logs() == ()
    assert list(deployment.remove()) == []
    assert not any(path.endswith("/log") for path in cluster.log)


def test_the_json_of_a_pod_may_say_nothing_of_containers(listener: Listening) -> None:
    thing: Json = {"metadata": {"name": "a", "uid": "u", "namespace": "default"}, "spec": {}}
    listener.logs.on_pod("ADDED", thing, None, 0)
    assert listener.logs.up_to_now() == []


def test_a_log_that_cannot_be_written_here_is_said(listener: Listening) -> None:
    listener.folder.parent.mkdir(exist_ok=True)
    listener.folder.write_text("no folder")
    listener.pod()
    (file,) = listener.logs.up_to_now()
    assert "it could not be written here" in file.incomplete


# --- what is not whole says so -------------------------------------------------------------------------------------


def test_a_pod_that_is_gone_before_its_first_stream_is_not_whole(listener: Listening) -> None:
    log = FakeLog()
    log.refusals = [Refusal(404, "NotFound", 'pods "a" not found')] * 1000
    listener.cluster.pod_logs["a", "app"] = log
    listener.pod()
    (file,) = listener.ended()
    assert (file.bytes_written, file.incomplete) == (0, log_following._NOT_TO_ITS_END)


def test_a_pod_that_is_gone_while_its_stream_was_broken_is_not_whole(
    listener: Listening, monkeypatch: Any
) -> None:
    log = FakeLog()
    log.breaks = [60]
    log.write(*numbered(0, 10))
    listener.cluster.pod_logs["a", "app"] = log
    asked = log.asked

    def asked_once(query: Any) -> Any:
        log.refusals = [Refusal(404, "NotFound", 'pods "a" not found')] * 1000
        return asked(query)

    monkeypatch.setattr(log, "asked", asked_once)
    listener.pod()
    (file,) = listener.ended()
    assert file.incomplete == log_following._NOT_TO_ITS_END


def test_a_pod_that_is_gone_after_its_last_line_is_whole(listener: Listening) -> None:
    log = listener.pod()
    log.write(*numbered(0, 10))
    listener.wait_for(b"".join(numbered(0, 10)))
    log.refusals = [Refusal(404, "NotFound", 'pods "a" not found')] * 1000
    log.ended = True
    (file,) = listener.ended()
    assert (file.bytes_written, file.incomplete) == (len(b"".join(numbered(0, 10))), "")


def test_a_pod_that_nobody_could_follow_is_told_when_it_is_gone(
    listener: Listening, monkeypatch: Any
) -> None:
    monkeypatch.setattr(pod_logs, "MOST_STREAMS", 0)
    listener.pod()
    listener.gone()
    assert [file.incomplete for file in listener.logs.up_to_now()] == ["it was gone before it was followed"]


def test_files_of_pods_that_are_gone_are_let_go_of(listener: Listening) -> None:
    """Thousands of pods may come and go while a deployment lives."""

    def held() -> int:
        found = 0
        for link in Path("/proc/self/fd").iterdir():
            with contextlib.suppress(OSError):  # it was closed meanwhile
                found += link.readlink().is_relative_to(listener.folder)
        return found

    for name in ("a", "b", "c"):
        log = listener.pod(name)
        log.write(b"one\n")
        log.ended = True
        listener.pod(name, running=False)
        listener.wait_for(b"one\n", name)
        assert held() == 2
        listener.gone()
        eventually(lambda: held() == 0)


def test_a_disk_that_is_full_is_told_as_that(listener: Listening, monkeypatch: Any) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(ContainerLog, "take", full)
    listener.pod().write(b"one\n")
    eventually(lambda: "No space left" in listener.logs.up_to_now()[0].incomplete)
    (file,) = listener.logs.close()
    assert file.incomplete == "it could not be written here: No space left on device"


def test_a_disk_that_is_full_ends_neither_the_keeper_nor_the_removal(
    listener: Listening, monkeypatch: Any
) -> None:
    def full(*_: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    listener.pod().write(b"one\n")
    listener.wait_for(b"one\n")
    for name in ("flush", "close"):
        monkeypatch.setattr(ContainerLog, name, full)
    eventually(lambda: "No space left" in listener.logs.up_to_now()[0].incomplete)
    assert listener.logs._keeper.is_alive()
    (file,) = listener.logs.close()
    assert "No space left" in file.incomplete


def test_what_was_missed_before_a_run_is_no_matter_of_it(listener: Listening, tmp_path: Path) -> None:
    """A pod that was gone unread spoils the run in which that was, and no later one."""
    log = FakeLog()
    log.refusals = [Refusal(404, "NotFound", 'pods "a" not found')] * 1000
    listener.cluster.pod_logs["a", "app"] = log
    marks = LogMarks.take(listener.folder)
    listener.pod()
    listener.gone()
    eventually(lambda: all(one.done for one in listener.logs._followers.values()))
    target = tmp_path / "run"
    target.mkdir()
    (facts,) = marks.copy_new(listener.folder, target, listener.logs.up_to_now())
    assert facts["incomplete"] == log_following._NOT_TO_ITS_END
    marks = LogMarks.take(listener.folder)
    assert marks.copy_new(listener.folder, target, listener.logs.up_to_now()) == []


def test_a_log_that_is_refused_spoils_every_run_as_long_as_its_pod_lives(
    listener: Listening, tmp_path: Path
) -> None:
    log = FakeLog()
    log.refusals = [Refusal(403, "Forbidden", "pods/log is forbidden")]
    listener.cluster.pod_logs["a", "app"] = log
    listener.pod()
    eventually(lambda: all(one.done for one in listener.logs._followers.values()))
    marks = LogMarks.take(listener.folder)
    (facts,) = marks.copy_new(listener.folder, tmp_path, listener.logs.up_to_now())
    assert "pods/log is forbidden" in facts["incomplete"]
