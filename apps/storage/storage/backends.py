"""What a backend is, which there are, and what each needs of this machine."""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from storage.errors import StorageError

NAMES = ("ceph", "nfs", "directory")
NEEDS = {
    "ceph": (
        "ceph", "ceph-mon", "ceph-mgr", "ceph-osd", "ceph-mds", "ceph-fuse", "ceph-authtool", "monmaptool",
    ),
    "nfs": ("ganesha.nfsd", "rpcbind", "cc", "pkg-config"),
    "directory": (),
}  # fmt: skip
ALWAYS = ("unshare", "nsenter", "ip", "mount", "umount")
FUSE = Path("/dev/fuse")
SYSTEM_PROGRAMS = "/usr/sbin:/sbin"


class Backend(Protocol):
    """A kind of storage. It lives in namespaces of its own, so fixed ports and mounts disturb nobody."""

    def up(self, mount: Path) -> None:
        """Start it and mount it at `mount`; raise a StorageError when it does not come up."""
        ...

    def down(self, mount: Path) -> None:
        """Unmount and end it; safe after half an `up`."""
        ...

    def ended(self) -> str | None:
        """Name of a process that ended by itself, if one did."""
        ...


@dataclass(frozen=True)
class Wish:
    """What kind of backend is wanted.

    Parameters
    ----------
    kind : str
        One of NAMES.
    size : int
        Copies that Ceph keeps of every object (1 to 3); others ignore it.
    """

    kind: str
    size: int = 3

    def check(self) -> None:
        """Say at once what this machine lacks for it.

        Raises
        ------
        StorageError
            Not root, no FUSE device, or programs that are missing: all of them, and how to get them.
        """
        if os.geteuid() != 0:
            raise StorageError(
                f"backend {self.kind} needs root (mounts and namespaces of its own); run it as root, "
                "or study only what needs no backend"
            )
        path = f"{os.environ.get('PATH', '')}:{SYSTEM_PROGRAMS}"
        lacking = [name for name in (*ALWAYS, *NEEDS[self.kind]) if not shutil.which(name, path=path)]
        if lacking:
            raise StorageError(
                f"backend {self.kind} cannot run here: missing {', '.join(lacking)}. "
                "`tools/system-packages.sh storage` installs them; without it use the backend `directory`"
            )
        if self.kind != "directory" and not FUSE.exists():
            raise StorageError(
                f"backend {self.kind} cannot run here: {FUSE} is missing (`modprobe fuse`, or a kernel with FUSE); "
                "without it use the backend `directory`"
            )
