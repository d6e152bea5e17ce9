"""`towtank load` over TLS, sockets and proxies, with redirects and files: the real engine, and servers that see it."""

from __future__ import annotations

from urllib.parse import urlsplit

import pyarrow.parquet as pq
import pytest

from support import servers
from support import small_study as study


class Handler(servers.Quiet):
    protocol_version = "HTTP/1.1"

    def answer(self):
        body = self.rfile.read(int(self.headers.get("content-length") or 0))
        path = urlsplit(self.path).path
        self.server.got.append((self.path, dict(self.headers.items()), body))
        if path == "/old":
            self._answer(302, location="/new")
        elif path == "/away":
            self._answer(302, location="http://elsewhere.invalid/")
        else:
            self._answer(200)

    def _answer(self, status, **headers):
        lines = [
            f"HTTP/1.1 {status} x",
            "content-length: 2",
            *(f"{n}: {v}" for n, v in headers.items()),
            "",
            "ok",
        ]
        self.wfile.write("\r\n".join(lines).encode())


@pytest.fixture
def serving():
    with servers.serving() as start:
        yield start


@pytest.fixture
def plain(serving):
    server = serving(servers.on_loopback(Handler))
    return server, f"http://127.0.0.1:{server.server_address[1]}"


def load(*words):
    done = study.towtank("load", *words)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize("words", [
    ("-n", "10", "--rate", "7000/s"),
    ("-n", "1", "--rate", "50/s"),
    ("-n", "100", "--rate", "300/s", "--arrivals", "poisson"),
    ("-n", "1", "--rate", "50/s", "--arrivals", "poisson", "--seed", "5"),
])  # fmt: skip
def test_n_of_an_open_load_is_how_many_are_due(plain, tmp_path, words):
    server, url = plain
    load(*words, "--keep", str(tmp_path / "kept"), url)
    asked = int(words[1])
    assert len(server.got) == asked
    requests = study.kept_run(tmp_path / "kept") / "requests.parquet"
    rows = pq.read_table(requests).column("user").to_pylist()
    assert sorted(rows) == list(range(asked))


def test_redirects_are_followed_on_the_same_host_only(plain):
    server, url = plain
    assert "[200]\t6 responses" in load("-n", "6", "-c", "2", f"{url}/old")
    assert [path for path, *_ in server.got].count("/new") == 6
    assert "[302]\t4 responses" in load("-n", "4", "-c", "2", "-disable-redirects", f"{url}/old")
    said = load("-n", "3", "-c", "1", f"{url}/away")
    assert "[302]\t3 responses" in said
    assert "[3]\tredirect not followed" in said


def test_without_keepalive_arrivals_connect_anew(plain):
    server, url = plain
    assert "[200]\t20 responses" in load("--rate", "40/s", "-z", "500ms", "-disable-keepalive", f"{url}/")
    assert len(server.got) == 20
    said = load("--rate", "40/s", "-z", "500ms", "-disable-keepalive", "-o", "csv", f"{url}/")
    kept = said.splitlines()[1:]
    assert kept
    assert all(float(line.split(",")[1]) > 0 for line in kept), "each has a dial-up"


def test_a_file_is_sent_byte_for_byte(plain, tmp_path):
    server, url = plain
    content = bytes(range(256)) * 100
    (tmp_path / "body.bin").write_bytes(content)
    body = tmp_path / "body.bin"
    load("-n", "2", "-c", "1", "-m", "POST", "-D", body, "-T", "application/x-thing", "-U", "me/1", url)
    assert [body for *_, body in server.got] == [content, content]
    headers = {name.lower(): value for name, value in server.got[0][1].items()}
    assert (headers["content-type"], headers["user-agent"]) == ("application/x-thing", "me/1")


def test_a_unix_socket(serving, tmp_path):
    server = serving(servers.UnixServer(str(tmp_path / "a.sock"), Handler))
    said = load("-n", "4", "-c", "2", "--unix-socket", tmp_path / "a.sock", "http://app.example/x?y=1")
    assert "[200]\t4 responses" in said
    hosts = {(path, {n.lower(): v for n, v in headers.items()}["host"]) for path, headers, _ in server.got}
    assert hosts == {("/x?y=1", "app.example")}


def test_through_a_proxy(plain):
    server, url = plain
    said = load("-n", "3", "-c", "1", "-x", url.removeprefix("http://"), "http://nowhere.invalid/path")
    assert "[200]\t3 responses" in said
    assert {path for path, *_ in server.got} == {"http://nowhere.invalid/path"}


def test_https_with_and_without_trust(serving, tmp_path):
    made = servers.make_certificate(
        tmp_path, "a", "subjectAltName=IP:127.0.0.1", "basicConstraints=critical,CA:FALSE"
    )
    server = serving(servers.with_tls(servers.on_loopback(Handler), made))
    url = f"https://127.0.0.1:{server.server_address[1]}/"
    assert "[200]\t4 responses" in load("-n", "4", "-c", "2", "--insecure", url)
    assert "TLS failed" in load("-n", "2", "-c", "1", url)
    assert "[200]\t2 responses" in load("-n", "2", "-c", "1", "--cacert", made, url)
    refused = study.towtank("load", "-n", "1", "--cert", made, url)
    assert refused.returncode == 2
    assert "a certificate and its key belong together" in refused.stderr


def test_a_folder_that_holds_a_load_is_refused_before_anything_is_sent(plain, tmp_path):
    server, url = plain
    load("-n", "3", "-c", "1", "--keep", tmp_path / "kept", url)
    again = study.towtank("load", "-n", "5", "-c", "1", "--keep", tmp_path / "kept", url)
    assert again.returncode == 3
    assert "holds results already" in again.stderr
    assert "new or empty" in again.stderr
    assert again.stdout == ""
    assert len(server.got) == 3


def test_records_that_could_not_be_put_together_are_never_printed(tmp_path):
    from towtank.cli.load import _require_records
    from towtank.errors import EngineError
    from towtank.store.layout import RunLayout

    class Engine:
        findings = ({"name": "compact_failed", "message": "no room", "advice": "make room"},)

    (tmp_path / "requests.parquet").write_bytes(b"of another run")
    with pytest.raises(EngineError, match="no room"):
        _require_records(Engine(), RunLayout(tmp_path))


def test_a_server_of_another_version_is_named_so(plain):
    _, url = plain
    said = load("-n", "2", "-c", "1", "-h2", url)
    assert "[2]\tnot HTTP/2" in said, said
