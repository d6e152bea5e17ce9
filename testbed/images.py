"""Container images without Docker: packed from files of this machine, pushed to a registry by its HTTP interface.

Packing the same files gives the same digests: times and owners are left out.
"""

from __future__ import annotations

import gzip
import hashlib
import http.client
import io
import json
import platform
import tarfile
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from testbed.errors import BuildError

MANIFEST_TYPE = "application/vnd.oci.image.manifest.v1+json"
CONFIG_TYPE = "application/vnd.oci.image.config.v1+json"
LAYER_TYPE = "application/vnd.oci.image.layer.v1.tar+gzip"
NOBODY = "65532"
USERS = b"root:x:0:0:root:/:/\nnonroot:x:65532:65532:nonroot:/:/\n"
MACHINES = {"x86_64": "amd64", "aarch64": "arm64"}


@dataclass(frozen=True)
class Recipe:
    """What is in an image.

    Parameters
    ----------
    name : str
        Repository and tag, such as `hello:1`; the registry's name comes before it when it is used.
    files : mapping of str to Path
        Path in the image → regular file on this machine (links are followed, mode bits kept).
    command : tuple of str
        What it runs.
    user : str
        Numeric user id.
    environment : mapping of str to str
        Variables.
    """

    name: str
    files: Mapping[str, Path]
    command: tuple[str, ...]
    user: str = NOBODY
    environment: Mapping[str, str] = field(default_factory=lambda: {"PATH": "/usr/bin:/bin:/"})


@dataclass(frozen=True)
class Image:
    """A packed image in a folder of its own: `manifest.json` and its blobs by digest."""

    name: str
    folder: Path

    @property
    def manifest(self) -> bytes:
        """The manifest as it is pushed; its digest is the image's."""
        return (self.folder / "manifest.json").read_bytes()

    @property
    def digest(self) -> str:
        """Digest of the manifest."""
        return _digest(self.manifest)

    @property
    def compressed_bytes(self) -> int:
        """Size of what is pulled: configuration and layers."""
        manifest = json.loads(self.manifest)
        return int(manifest["config"]["size"]) + sum(int(layer["size"]) for layer in manifest["layers"])

    @property
    def unpacked_bytes(self) -> int:
        """Size of the layers once they are unpacked, as archives."""
        # gzip's last four bytes are the size of what was compressed, modulo 4 GiB (RFC 1952, 2.3.1)
        return sum(int.from_bytes(self.blob(layer)[-4:], "little") for layer in self.blobs()[1:])

    def blobs(self) -> list[str]:
        """Digests of the configuration and the layers."""
        manifest = json.loads(self.manifest)
        return [manifest["config"]["digest"], *(layer["digest"] for layer in manifest["layers"])]

    def blob(self, digest: str) -> bytes:
        """Content of one blob."""
        return (self.folder / digest.partition(":")[2]).read_bytes()


def pack(recipe: Recipe, folder: Path) -> Image:
    """Pack an image below `folder`, unless the same one is there.

    Raises
    ------
    BuildError
        When a file is missing.
    """
    image = Image(recipe.name, folder / recipe.name.replace(":", "_").replace("/", "_"))
    wanted = _fingerprint(recipe)
    mark = image.folder / "recipe"
    if mark.exists() and mark.read_text("utf-8") == wanted:
        return image
    image.folder.mkdir(parents=True, exist_ok=True)
    mark.unlink(missing_ok=True)
    for old in image.folder.iterdir():
        old.unlink()
    plain = _layer(recipe)
    layer = gzip.compress(plain, compresslevel=6, mtime=0)
    config = json.dumps(
        {
            "architecture": MACHINES.get(platform.machine(), platform.machine()),
            "os": "linux",
            "config": {
                "Entrypoint": list(recipe.command),
                "User": recipe.user,
                "Env": [f"{key}={value}" for key, value in sorted(recipe.environment.items())],
                "WorkingDir": "/",
            },
            "rootfs": {"type": "layers", "diff_ids": [_digest(plain)]},
            "history": [{"created_by": "towtank testbed"}],
        },
        sort_keys=True,
    ).encode()
    manifest = {
        "schemaVersion": 2,
        "mediaType": MANIFEST_TYPE,
        "config": {"mediaType": CONFIG_TYPE, "digest": _digest(config), "size": len(config)},
        "layers": [{"mediaType": LAYER_TYPE, "digest": _digest(layer), "size": len(layer)}],
    }
    for content in (config, layer):
        (image.folder / _digest(content).partition(":")[2]).write_bytes(content)
    (image.folder / "manifest.json").write_text(json.dumps(manifest, sort_keys=True), "utf-8")
    mark.write_text(wanted, "utf-8")
    return image


def archive(image: Image, registry: str, target: Path) -> None:
    """Write one file that `kind load image-archive`, `k3s ctr images import` and `docker load` read."""
    config, *layers = image.blobs()
    config_path = f"{config.partition(':')[2]}.json"
    layer_paths = [f"{layer.partition(':')[2]}.tar.gz" for layer in layers]
    listing = [{"Config": config_path, "RepoTags": [f"{registry}/{image.name}"], "Layers": layer_paths}]
    with tarfile.open(target, "w") as out:
        _add(out, config_path, image.blob(config))
        for layer, path in zip(layers, layer_paths, strict=True):
            _add(out, path, image.blob(layer))
        _add(out, "manifest.json", json.dumps(listing).encode())


def push(image: Image, registry: str) -> None:
    """Push an image to `http://registry`; blobs that are there are not sent again.

    Raises
    ------
    BuildError
        When the registry refuses.
    """
    repository, _, tag = image.name.rpartition(":")
    for digest in image.blobs():
        if _request(registry, "HEAD", f"/v2/{repository}/blobs/{digest}")[0] == http.HTTPStatus.OK:
            continue
        _, headers = _expect(registry, "POST", f"/v2/{repository}/blobs/uploads/")
        place = urlsplit(headers["location"])
        query = f"{place.query}&" if place.query else ""
        _expect(
            registry,
            "PUT",
            f"{place.path}?{query}digest={digest}",
            image.blob(digest),
            "application/octet-stream",
        )
    _expect(registry, "PUT", f"/v2/{repository}/manifests/{tag}", image.manifest, MANIFEST_TYPE)


def _expect(
    registry: str, method: str, path: str, body: bytes = b"", kind: str = ""
) -> tuple[int, dict[str, str]]:
    status, headers, answer = _talk(registry, method, path, body, kind)
    if not http.HTTPStatus.OK <= status < http.HTTPStatus.MULTIPLE_CHOICES:
        raise BuildError(f"the registry {registry} answered {status} to {method} {path}: {answer[:300]!r}")
    return status, headers


def _request(registry: str, method: str, path: str) -> tuple[int, dict[str, str]]:
    status, headers, _ = _talk(registry, method, path, b"", "")
    return status, headers


def _talk(registry: str, method: str, path: str, body: bytes, kind: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(registry, timeout=30)
    try:
        connection.request(method, path, body=body, headers={"Content-Type": kind} if kind else {})
        answer = connection.getresponse()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        return answer.status, headers, answer.read()
    finally:
        connection.close()


def _layer(recipe: Recipe) -> bytes:
    content = io.BytesIO()
    with tarfile.open(fileobj=content, mode="w", format=tarfile.PAX_FORMAT) as out:
        _add(out, "etc/passwd", USERS)
        _add_folder(out, "tmp", 0o1777)
        for path, source in sorted(recipe.files.items()):
            try:
                data = source.read_bytes()
            except OSError as missing:
                raise BuildError(f"image {recipe.name}: {source} cannot be read: {missing}") from missing
            _add(out, path.lstrip("/"), data, 0o755 if source.stat().st_mode & 0o111 else 0o644)
    return content.getvalue()


def _add(out: tarfile.TarFile, path: str, data: bytes, mode: int = 0o644) -> None:
    entry = tarfile.TarInfo(path)
    entry.size, entry.mode = len(data), mode
    out.addfile(entry, io.BytesIO(data))


def _add_folder(out: tarfile.TarFile, path: str, mode: int) -> None:
    entry = tarfile.TarInfo(path)
    entry.type, entry.mode = tarfile.DIRTYPE, mode
    out.addfile(entry)


def _fingerprint(recipe: Recipe) -> str:
    """What the image is made of; files by size and time, which is enough to see that one was built anew."""
    files: dict[str, Any] = {}
    for path, source in recipe.files.items():
        try:
            about = source.stat()
        except OSError as missing:
            raise BuildError(f"image {recipe.name}: {source} cannot be read: {missing}") from missing
        files[path] = [str(source), about.st_size, about.st_mtime_ns]
    return json.dumps(
        [recipe.name, files, recipe.command, recipe.user, dict(recipe.environment)], sort_keys=True
    )


def _digest(content: bytes) -> str:
    return f"sha256:{hashlib.sha256(content).hexdigest()}"
