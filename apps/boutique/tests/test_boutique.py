"""The shop as a program: its Go tests, processes of a placement, objects of Kubernetes, spans, and mistakes."""

import contextlib
import http.client
import http.server
import os
import re
import shutil
import signal
import subprocess
import tempfile
import threading
import urllib.request
from pathlib import Path

import psutil
import pytest
from ruamel.yaml import YAML

from support.waiting import eventually

HERE = Path(__file__).resolve().parents[1]
PLACEMENTS = sorted((HERE / "placements").glob("*.toml"))
TRACE = "0af7651916cd43dd8448eb211c80319c"

pytestmark = pytest.mark.timeout(600)  # the first test builds


def go(*words):
    return subprocess.run(
        ["go", *words], cwd=HERE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False,
        env={**os.environ, "CGO_ENABLED": "0", "GOFLAGS": "-buildvcs=false -trimpath"},  # as build.sh has it
    )  # fmt: skip


@pytest.fixture(scope="module")
def program():
    if shutil.which("go") is None:
        pytest.skip("go is missing: tools/system-packages.sh functions")
    done = subprocess.run([HERE / "build.sh"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return HERE / "build" / "boutique"


def call(program, *words):
    return subprocess.run([program, *map(str, words)], capture_output=True, text=True, check=False)


def get(port, path, **headers):
    request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return answer.status, answer.read().decode()


def is_alive(process):
    try:
        return process.status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


@contextlib.contextmanager
def running(program, placement, *flags, **environment):
    """All processes of a placement; yields the port of the frontend and `run` itself."""
    with tempfile.NamedTemporaryFile("w+") as log:
        process = subprocess.Popen(
            [program, "run", HERE / "placements" / f"{placement}.toml", "-port", "0", *flags],
            stdout=log, stderr=subprocess.STDOUT, env={**os.environ, **environment},
        )  # fmt: skip

        def is_ready():
            said = Path(log.name).read_text("utf-8")
            assert process.poll() is None, said
            return re.search(r"http://127.0.0.1:(\d+)/ \(", said)

        try:
            port = int(eventually(is_ready, within_s=30)[1])
            yield port, psutil.Process(process.pid)
        finally:
            process.send_signal(signal.SIGTERM)
            process.wait(20)


def test_the_go_tests_hold(program):
    assert subprocess.run(["gofmt", "-l", "."], cwd=HERE, capture_output=True, check=True).stdout == b""
    done = go("test", "-vet=off", "./...")  # vet reads all that is imported, too: most of the time
    assert done.returncode == 0, done.stdout


@pytest.mark.slow
def test_go_vet_finds_nothing(program):
    done = go("vet", "./...")
    assert done.returncode == 0, done.stdout


def test_what_is_generated_is_current(program, tmp_path):
    if shutil.which("protoc") is None:
        pytest.skip("protoc is missing (Debian: protobuf-compiler)")
    subprocess.run([HERE / "generate.sh", tmp_path], check=True, capture_output=True)

    def written(folder):
        # the version of protoc stands in a comment
        return {
            path.relative_to(folder): re.sub(r"//.*protoc +\(?v.*", "", path.read_text("utf-8"))
            for path in (folder / "internal" / "shop").rglob("*.go")
        }

    assert written(tmp_path) == written(HERE), "run apps/boutique/generate.sh"


def test_processes_of_a_placement_count_their_calls_and_end_together(program):
    with running(program, "two-groups") as (port, run):
        children = run.children()
        assert len(children) == 2
        status, page = get(port, "/")
        assert status == 200
        assert 'id="product-mug"' in page
        _, metrics = get(port, "/metrics")
        near = 'boutique_edge_calls_total{from="frontend",to="catalogue",where="local"} 1'
        far = 'boutique_edge_calls_total{from="frontend",to="cart",where="remote"} 1'
        assert near in metrics
        assert far in metrics
    assert not any(map(is_alive, [run, *children]))


def test_no_process_outlives_run(program):
    with running(program, "frontend-others") as (_, run):
        children = run.children()
        run.kill()
        eventually(lambda: not any(map(is_alive, children)))


def test_run_ends_when_one_of_its_processes_does(program):
    with running(program, "frontend-others") as (_, run):
        run.children()[0].kill()
        assert run.wait(20) == 1


def test_spans_tell_a_requests_way_through_processes(program):
    received = []

    class Collector(http.server.BaseHTTPRequestHandler):
        def do_POST(self):
            received.append(self.rfile.read(int(self.headers["content-length"])))
            self.send_response(200)
            self.end_headers()

        def log_message(self, *_):
            pass

    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        variables = {
            "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://127.0.0.1:{server.server_port}",
            "OTEL_TRACES_SAMPLER": "parentbased_always_off",
            "OTEL_BSP_SCHEDULE_DELAY": "50",
        }
        with running(program, "two-groups", **variables) as (port, _):
            get(port, "/product/mug")  # not asked to be traced
            get(port, "/cart", traceparent=f"00-{TRACE}-b7ad6b7169203331-01")
        spans = b"".join(received)  # what was left was sent at the end
    finally:
        server.shutdown()
        server.server_close()
    assert bytes.fromhex(TRACE) in spans
    for name in (b"frontend.ShowCart", b"cart.GetCart", b"shop.v1.Cart/GetCart", b"cartcache.Get"):
        assert name in spans, name
    assert b"frontend.Product" not in spans


@pytest.mark.parametrize("path", PLACEMENTS, ids=lambda p: p.stem)
def test_a_placement_as_objects_of_kubernetes(program, path):
    nodes = ["-node", "1=left"]
    if path.stem.startswith("two-machines"):
        nodes += ["-node", "2=right"]
    done = call(program, "manifests", path, "-image", "shop:7", "-replicas", "2", *nodes)
    assert done.returncode == 0, done.stderr
    objects = list(YAML(typ="safe").load_all(done.stdout))
    sets = {o["metadata"]["name"]: o["spec"] for o in objects if o["kind"] == "StatefulSet"}
    shown = {line.split()[0]: line.split()[1] for line in call(program, "show", path).stdout.splitlines()[2:]}
    assert sets.keys() == shown.keys()
    for name, spec in sets.items():
        pod = spec["template"]["spec"]
        assert spec["replicas"] == 2
        assert pod["nodeSelector"] == {"kubernetes.io/hostname": {"1": "left", "2": "right"}[shown[name]]}
        addresses = next(e["value"] for e in pod["containers"][0]["env"] if e["name"] == "BOUTIQUE_ADDRESSES")
        assert f"{name}=http://{name}-0.{name}:8080,http://{name}-1.{name}:8080" in addresses.split()
    placement = next(o for o in objects if o["kind"] == "ConfigMap")["data"]["placement.toml"]
    assert placement == path.read_text("utf-8")
    front = next(o for o in objects if o["metadata"]["name"] == "boutique")
    assert front["spec"]["selector"]["process"] in sets


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["serve", "none.toml"], "the placement cannot be read: open none.toml"),
        (["serve", "two-groups"], '-process "": there is no process ""; there are checkout, frontend'),
        (
            ["serve", "two-groups", "-process", "frontend"],
            'no address of component "cart", which "frontend" calls',
        ),
        (
            ["serve", "one-process", "-addresses", "frnt=http://a"],
            'an address is given, but there is no process "frnt"',
        ),
        (["serve", "one-process", "-addresses", "frontend=a:80"], '"frontend=a:80" is no PROCESS=URL'),
        (
            ["serve", "one-process", "-index", "2", "-addresses", "frontend=http://a"],
            "-index 2: process frontend has 1 addresses",
        ),
        (["serve", "one-process", "-breaker", "maybe"], '-breaker "maybe": allowed are on and off'),
        (["serve", "one-process", "-retries", "some"], '-retries "some": allowed are 0 to 10'),
        (["serve", "one-process", "-retries", "11"], "retries: 11; allowed are 0 to 10"),
        (["serve", "one-process", "-fault", "cart=0.1"], '-fault "cart=0.1": allowed is FROM>TO=SHARE'),
        (["serve", "one-process", "-fault", "*=2"], "fault: 2; allowed is a share from 0 to 1"),
        (["serve", "one-process", "more"], '"more" is not understood'),
        (["run", "one-process", "-port", "70000"], "-port 70000 with -replicas 1: allowed are"),
        (["manifests", "one-process", "-replicas", "0"], "-replicas 0: allowed are 1 to 100"),
        (["manifests", "one-process", "-node", "2=b"], "the placement has no machine 2"),
        (["manifests", "one-process", "-node", "b"], '-node "b": allowed is MACHINE=NODE'),
    ],
)
def test_a_mistake_is_named_with_what_is_allowed(program, words, said):
    command, placement, *flags = words
    placement = placement if placement.endswith(".toml") else HERE / "placements" / f"{placement}.toml"
    done = call(program, command, placement, *flags)
    assert done.returncode == 1
    assert said in done.stderr
    assert "goroutine" not in done.stderr


def test_an_address_that_is_taken_is_named(program):
    with running(program, "one-process") as (port, _):
        done = call(program, "serve", HERE / "placements/one-process.toml", "-listen", f"127.0.0.1:{port}")
    assert done.returncode == 1
    assert f"cannot answer at 127.0.0.1:{port}" in done.stderr


def test_a_form_that_is_too_large_is_refused(program):
    with running(program, "one-process") as (port, _):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request(
            "POST",
            "/cart",
            "product_id=" + "x" * 100_000,
            {"content-type": "application/x-www-form-urlencoded"},
        )
        answer = connection.getresponse()
        answer.read()
        connection.close()
    assert answer.status == 400
