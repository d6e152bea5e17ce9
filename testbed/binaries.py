"""Building the testbed's programs from published Go modules, and packing the images that the cluster itself needs."""

from __future__ import annotations

import fcntl
import hashlib
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from testbed import images
from testbed.errors import BuildError, NotPossibleError
from testbed.settings import HERE, Folders
from testbed.shell import find, run

GO_FOLDER = HERE / "go"
BUILD_TIMEOUT_S = 3600
KUBERNETES = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-scheduler",
    "kubelet",
    "kube-proxy",
    "kubectl",
)
"""Names under which the one Kubernetes program is called."""
SYSTEM_PROGRAMS = (
    "containerd",
    "runc",
    "etcd",
    "docker-registry",
    "iptables",
    "ip",
    "nsenter",
    "openssl",
    "sysctl",
)
CNI_FOLDERS = (Path("/usr/lib/cni"), Path("/opt/cni/bin"))
CNI_PLUGINS = ("ptp", "host-local", "portmap", "loopback")


@dataclass(frozen=True)
class GoProgram:
    """A program of a Go module: its file name, its package, and the module's folder."""

    name: str
    package: str
    versioned: bool = False
    module: Path = GO_FOLDER


GO_PROGRAMS = (
    GoProgram("kubernetes", "./cmd/kubernetes", versioned=True),
    GoProgram("metrics-server", "./cmd/metrics-server"),
    GoProgram("coredns", "./cmd/coredns"),
    GoProgram("hello", "./cmd/hello"),
    GoProgram("kwok", "./cmd/kwok"),
)


def cni_folder() -> Path:
    """Where the network plug-ins are.

    Raises
    ------
    NotPossibleError
        When they are not installed.
    """
    for folder in CNI_FOLDERS:
        if all((folder / plugin).exists() for plugin in CNI_PLUGINS):
            return folder
    raise NotPossibleError(
        f"the CNI plugins {', '.join(CNI_PLUGINS)} are missing in {' and '.join(map(str, CNI_FOLDERS))}; "
        "`tools/system-packages.sh testbed` installs them on Debian"
    )


def check_programs() -> None:
    """Refuse when a program of this machine is missing."""
    for program in SYSTEM_PROGRAMS:
        find(program)
    cni_folder()


def build(folders: Folders, say: Callable[[str], None]) -> None:
    """Build what is missing or older than its source. The first time takes minutes and needs the Go module proxy."""

    def make() -> None:
        _compile_c(folders)
        compile_go(folders, GO_PROGRAMS, say)
        for name in KUBERNETES:
            link = folders.programs / name
            link.unlink(missing_ok=True)
            link.symlink_to("kubernetes")

    with alone(folders):
        once(folders.programs / ".built", [HERE / "pause.c", GO_FOLDER], make)
        pack(folders)


def recipes(folders: Folders) -> list[images.Recipe]:
    """Images that every start pushes: the pod's first process, DNS, metrics, and one to try things with."""
    return [
        images.Recipe("pause:1", {"/pause": folders.programs / "pause"}, ("/pause",)),
        images.Recipe("coredns:1", {"/coredns": folders.programs / "coredns"}, ("/coredns",), user="0"),
        images.Recipe(
            "metrics-server:1", {"/metrics-server": folders.programs / "metrics-server"}, ("/metrics-server",)
        ),
        images.Recipe("hello:1", {"/hello": folders.programs / "hello"}, ("/hello",)),
    ]


def pack(folders: Folders) -> list[images.Image]:
    """Pack these images, or return those that are packed already."""
    return [images.pack(recipe, folders.images) for recipe in recipes(folders)]


def compile_go(folders: Folders, programs: Sequence[GoProgram], say: Callable[[str], None]) -> None:
    """Compile programs, one after the other.

    Raises
    ------
    NotPossibleError
        There is no Go.
    BuildError
        What the compiler says.
    """
    for program in programs:
        begun = time.monotonic()
        _compile(folders, program)
        say(f"built {program.name} in {time.monotonic() - begun:.0f} s")


def go() -> str:
    """The path of the compiler.

    Raises
    ------
    NotPossibleError
    """
    try:
        return find("go")
    except NotPossibleError as missing:
        raise NotPossibleError(
            "Go is needed to build the testbed's programs; install Go 1.26 or newer"
        ) from missing


def _compile(folders: Folders, program: GoProgram) -> None:
    flags = "-s -w"
    if program.versioned:
        flags += " " + " ".join(_version_flags())
    # Built beside and renamed: a running cluster may be using the old file.
    beside = folders.programs / f".{program.name}.new"
    run(
        [go(), "build", "-trimpath", "-ldflags", flags, "-o", beside, program.package],
        folder=program.module, environment=go_environment(), timeout_s=BUILD_TIMEOUT_S, error=BuildError,
    )  # fmt: skip
    beside.replace(folders.programs / program.name)


def go_environment() -> dict[str, str]:
    """Variables of the compiler: what go.mod and go.sum say, and nothing newer."""
    flags = f"{os.environ.get('GOFLAGS', '')} -buildvcs=false -modcacherw -mod=readonly".strip()
    return {**os.environ, "CGO_ENABLED": "0", "GOTOOLCHAIN": "local", "GOFLAGS": flags}


def _version_flags() -> Iterator[str]:
    """What Kubernetes says of itself; unset, it is v0.0.0, which clients do not accept."""
    version = kubernetes_version()
    major, minor, _ = version.removeprefix("v").split(".", 2)
    values = {
        "gitVersion": version, "gitMajor": major, "gitMinor": minor, "gitTreeState": "clean",
        "gitCommit": "module", "buildDate": "1970-01-01T00:00:00Z",
    }  # fmt: skip
    for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version"):
        for name, value in values.items():
            yield f"-X {package}.{name}={value}"


def kubernetes_version() -> str:
    """The version that go.mod names."""
    for line in (GO_FOLDER / "go.mod").read_text("utf-8").splitlines():
        words = line.split()
        if words[:1] == ["k8s.io/kubernetes"]:
            return words[1]
    raise BuildError(f"{GO_FOLDER / 'go.mod'} does not require k8s.io/kubernetes")


def _compile_c(folders: Folders) -> None:
    source, target = HERE / "pause.c", folders.programs / "pause"
    beside = target.with_name(".pause.new")
    run([find("cc"), "-Os", "-static", "-s", "-o", beside, source], error=BuildError)
    beside.replace(target)


def once(mark: Path, sources: Sequence[Path], make: Callable[[], None]) -> None:
    """Make something, unless `mark` says that it was made of these very files, and of all in these folders."""
    wanted = _fingerprint(sources)
    if mark.exists() and mark.read_text("utf-8") == wanted:
        return
    mark.unlink(missing_ok=True)
    make()
    mark.write_text(wanted, "utf-8")


def _fingerprint(sources: Sequence[Path]) -> str:
    """Digest of everything the programs are built from."""
    digest = hashlib.sha256()
    for path in sorted(p for source in sources for p in (source, *source.rglob("*")) if p.is_file()):
        digest.update(f"{path.relative_to(HERE)} {hashlib.sha256(path.read_bytes()).hexdigest()}\n".encode())
    return digest.hexdigest()


@contextmanager
def alone(folders: Folders) -> Iterator[None]:
    """One build at a time in this folder."""
    folders.programs.mkdir(parents=True, exist_ok=True)
    with (folders.programs / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield
