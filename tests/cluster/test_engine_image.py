"""The load engine as an image: static, alone in it, and able to do there what it does elsewhere."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tarfile
from pathlib import Path

import pytest
from testbed import closure, images

from support.static_engine import BUILD_IT, static_engine

pytestmark = pytest.mark.cluster
ROOT = Path(__file__).parents[2]


@pytest.fixture
def engine() -> Path:
    """The static engine of this checkout."""
    built = static_engine()
    if built is None:
        pytest.skip(f"there is no static engine that is as new as the ordinary one: {BUILD_IT}")
    return built


@pytest.fixture
def rootfs(engine: Path, tmp_path: Path) -> Path:
    """What a container of the image finds, unpacked."""
    image = images.pack(closure.load_engine(engine, "test"), tmp_path / "image")
    layer = json.loads(image.manifest)["layers"][0]["digest"]
    (tmp_path / "layer.tar.gz").write_bytes(image.blob(layer))
    with tarfile.open(tmp_path / "layer.tar.gz") as packed:
        packed.extractall(tmp_path / "root", filter="tar")
    return tmp_path / "root"


def inside(rootfs: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """Run the engine with nothing but the image around it."""
    if os.geteuid() != 0:
        pytest.skip("chroot needs root")
    command = ["chroot", str(rootfs), "/towtank-engine", *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)


def job(rootfs: Path, url: str) -> None:
    step = {"request": {"name": "get", "path": "/"}}
    stages = [{"name": "s", "from_per_s": 50, "to_per_s": 50, "duration_us": 400_000}]
    content = {
        "version": 1, "run_id": "inside", "seed": 1, "output": "/tmp/requests", "threads": 1,
        "targets": {"app": {"instances": [{"name": "app-0", "url": url}]}},
        "workloads": [
            {"name": "w", "warmup_us": 0, "timeout_us": 5_000_000, "journey": {"steps": [step]},
             "load": {"model": "open", "arrivals": "uniform", "stages": stages}}
        ],
    }  # fmt: skip
    (rootfs / "job.json").write_text(json.dumps(content))


def test_it_is_static_and_alone(engine: Path, rootfs: Path) -> None:
    said = subprocess.run(["ldd", engine], capture_output=True, text=True, check=False)
    assert "statically linked" in said.stdout or "not a dynamic executable" in said.stderr
    files = {str(path.relative_to(rootfs)) for path in rootfs.rglob("*") if path.is_file()}
    assert files <= {"towtank-engine", "etc/passwd", str(closure.ROOTS).lstrip("/")}
    assert inside(rootfs, "--version").stdout.startswith("towtank-engine ")


def test_root_certificates_come_with_it(rootfs: Path) -> None:
    roots = rootfs / str(closure.ROOTS).lstrip("/")
    if not roots.exists():
        pytest.skip(f"this machine has no {closure.ROOTS}: the package ca-certificates brings it")
    job(rootfs, "https://shop.example")
    checked = inside(rootfs, "check", "/job.json")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    roots.unlink()
    checked = inside(rootfs, "check", "/job.json")
    assert checked.returncode != 0
    assert "this system has no root certificates" in checked.stdout + checked.stderr


def test_the_dockerfile_makes_the_same_of_it(engine: Path, tmp_path: Path) -> None:
    """Built without root's storage and without pulling anything; what needs a base image is not tried here."""
    if not shutil.which("buildah"):
        pytest.skip("buildah is missing: `tools/system-packages.sh images` installs it")
    if not closure.ROOTS.is_file():
        pytest.skip(f"this machine has no {closure.ROOTS}: the package ca-certificates brings it")
    context = tmp_path / "context"
    context.mkdir()
    shutil.copy(engine, context / "towtank-engine")
    shutil.copy(closure.ROOTS, context)
    (context / "towtank-engine").chmod(0o600)  # a download loses its mode
    state = ["--root", str(tmp_path / "s"), "--runroot", str(tmp_path / "r"), "--storage-driver", "vfs"]

    def buildah(*words: str) -> str:
        done = subprocess.run(
            ["buildah", *state, *words],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=ROOT,
            env={**os.environ, "BUILDAH_ISOLATION": "chroot"},
        )
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    buildah("bud", "--file", "engine/Dockerfile.prebuilt", "--tag", "engine:test", str(context))
    about = json.loads(buildah("inspect", "--type", "image", "engine:test"))["OCIv1"]
    assert (about["config"]["User"], about["config"]["Entrypoint"]) == ("65532", ["/towtank-engine"])
    assert len(about["rootfs"]["diff_ids"]) >= 1
    container = buildah("from", "--pull-never", "engine:test")
    mounted = Path(buildah("mount", container))
    try:
        assert (mounted / "towtank-engine").stat().st_mode & 0o777 == 0o755
        assert inside(mounted, "--version").stdout.startswith("towtank-engine ")
    finally:
        buildah("umount", container)
        buildah("rm", container)
