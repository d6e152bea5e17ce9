"""Images: the same files give the same digests, a registry takes them, and a program brings its libraries along."""

from __future__ import annotations

import gzip
import hashlib
import http.server
import io
import json
import os
import shutil
import subprocess
import sys
import tarfile
import threading
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import pytest
from testbed import closure, images
from testbed.errors import BuildError

CATALOGUE = Path(__file__).resolve().parents[3] / "apps" / "catalogue" / "catalogue"


def recipe(tmp_path: Path, content: str = "#!/bin/true\n") -> images.Recipe:
    program = tmp_path / "program"
    if not program.exists() or program.read_text("utf-8") != content:
        program.write_text(content, "utf-8")
    program.chmod(0o755)
    return images.Recipe("trial:1", {"/bin/program": program}, ("/bin/program", "--flag"))


def layer_of(image: images.Image) -> tarfile.TarFile:
    return tarfile.open(fileobj=io.BytesIO(gzip.decompress(image.blob(image.blobs()[1]))))


def test_what_is_packed_can_be_unpacked(tmp_path):
    image = images.pack(recipe(tmp_path), tmp_path / "images")
    layer = layer_of(image)
    assert layer.extractfile("bin/program").read() == b"#!/bin/true\n"
    assert layer.getmember("bin/program").mode == 0o755
    config = json.loads(image.blob(image.blobs()[0]))
    assert config["config"]["Entrypoint"] == ["/bin/program", "--flag"]
    assert config["config"]["User"] == images.NOBODY
    plain = gzip.decompress(image.blob(image.blobs()[1]))
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]


def test_same_files_same_digest_and_other_files_another(tmp_path):
    one = images.pack(recipe(tmp_path), tmp_path / "a").digest
    os.utime(tmp_path / "program", (1, 1))
    assert images.pack(recipe(tmp_path), tmp_path / "b").digest == one
    assert images.pack(recipe(tmp_path, "#!/bin/false\n"), tmp_path / "a").digest != one


def test_an_image_that_is_there_is_not_packed_again(tmp_path):
    image = images.pack(recipe(tmp_path), tmp_path / "images")
    before = (image.folder / "manifest.json").stat().st_mtime_ns
    assert (
        images.pack(recipe(tmp_path), tmp_path / "images").folder / "manifest.json"
    ).stat().st_mtime_ns == before


def test_a_missing_file_is_named(tmp_path):
    with pytest.raises(BuildError, match=r"trial:1.*nowhere"):
        images.pack(images.Recipe("trial:1", {"/x": tmp_path / "nowhere"}, ("/x",)), tmp_path)


def test_archive_holds_what_docker_load_reads(tmp_path):
    image = images.pack(recipe(tmp_path), tmp_path / "images")
    images.archive(image, "registry.example", tmp_path / "trial.tar")
    with tarfile.open(tmp_path / "trial.tar") as archive:
        (entry,) = json.load(archive.extractfile("manifest.json"))
        assert entry["RepoTags"] == ["registry.example/trial:1"]
        config = json.load(archive.extractfile(entry["Config"]))
        plain = gzip.decompress(archive.extractfile(entry["Layers"][0]).read())
    assert config["rootfs"]["diff_ids"] == [f"sha256:{hashlib.sha256(plain).hexdigest()}"]


class Registry(http.server.BaseHTTPRequestHandler):
    """As much of the distribution interface as a push needs; refuses content that is not what its digest says."""

    blobs: dict[str, bytes]
    manifests: dict[str, bytes]

    def do_HEAD(self):
        self.answer(200 if self.path.rpartition("/")[2] in self.blobs else 404)

    def do_POST(self):
        self.answer(202, {"Location": f"http://{self.headers['Host']}/upload?state=1"})

    def do_PUT(self):
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if "/manifests/" in self.path:
            known = {blob["digest"] for blob in [json.loads(body)["config"], *json.loads(body)["layers"]]}
            if not known <= set(self.blobs):
                self.answer(404)
                return
            self.manifests[self.path] = body
        else:
            query = parse_qs(urlsplit(self.path).query)
            assert query["state"] == ["1"]
            (digest,) = query["digest"]
            if digest != f"sha256:{hashlib.sha256(body).hexdigest()}":
                self.answer(400)
                return
            self.blobs[digest] = body
        self.answer(201)

    def answer(self, status: int, headers: dict[str, str] | None = None):
        self.send_response(status)
        for name, value in {"Content-Length": "0", **(headers or {})}.items():
            self.send_header(name, value)
        self.end_headers()

    def log_message(self, *_):
        pass


@pytest.fixture
def registry():
    handler = type("OneRegistry", (Registry,), {"blobs": {}, "manifests": {}})
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever)
    thread.start()
    yield f"127.0.0.1:{server.server_port}", handler
    server.shutdown()
    thread.join()
    server.server_close()


def test_push_sends_blobs_then_the_manifest(tmp_path, registry):
    address, kept = registry
    image = images.pack(recipe(tmp_path), tmp_path / "images")
    images.push(image, address)
    assert kept.manifests == {"/v2/trial/manifests/1": image.manifest}
    assert set(kept.blobs) == set(image.blobs())
    images.push(image, address)  # again: nothing is sent twice


def test_a_registry_that_refuses_is_quoted(tmp_path, registry):
    address, _ = registry
    image = images.pack(recipe(tmp_path), tmp_path / "images")
    (image.folder / image.blobs()[1].partition(":")[2]).write_bytes(b"something else")
    with pytest.raises(BuildError, match=r"answered 400 to PUT"):
        images.push(image, address)


def test_a_program_comes_with_its_linker_and_libraries():
    found = closure.libraries(Path(sys.executable).resolve())
    assert any("libc.so" in path for path in found)
    assert any("ld-linux" in path for path in found)
    assert all(source.exists() for source in found.values())


def test_what_is_no_package_is_not_packed(tmp_path):
    (tmp_path / "app").mkdir()
    with pytest.raises(BuildError, match=r"app is not a Python package: there is no .*__init__\.py"):
        closure.python_application("app:1", tmp_path / "app", ("-m",))


@pytest.mark.skipif(os.geteuid() != 0, reason="chroot needs root")
def test_a_python_application_runs_from_what_was_packed_alone(tmp_path):
    """Unpacked into an empty folder that becomes its root, it finds nothing of this machine."""
    wanted = closure.python_application("catalogue:1", CATALOGUE, ("-m", "catalogue", "--help"))
    image = images.pack(wanted, tmp_path / "images")
    root = tmp_path / "root"
    layer_of(image).extractall(root, filter="tar")
    config = json.loads(image.blob(image.blobs()[0]))["config"]
    assert not (root / "tmp" / "pytest").exists()
    done = subprocess.run(
        [shutil.which("chroot") or "/usr/sbin/chroot", str(root), *config["Entrypoint"]],
        env=dict(entry.split("=", 1) for entry in config["Env"]), capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert "--database" in done.stdout


def test_any_program_becomes_an_image_of_its_name(tmp_path):
    program = tmp_path / "boutique"
    program.write_bytes(b"\x7fELF static")
    recipe = closure.program("boutique", program, "2")
    assert (recipe.name, recipe.command) == ("boutique:2", ("/boutique",))
    assert recipe.files["/boutique"] == program
    with pytest.raises(BuildError, match="nothing-there cannot be read"):
        closure.program("boutique", tmp_path / "nothing-there", "2")
