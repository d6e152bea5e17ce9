"""NFS: nfs-ganesha over a plain directory, mounted by `nfs_mount`, since not every kernel has an NFS client.

NFS version 3: libnfs 4.0 (Debian 12) cannot write more than 4 KiB at a time with version 4. Version 3 needs
rpcbind, whose port and socket are fixed; the namespaces that this runs in are its own, so they disturb nobody.
"""

from __future__ import annotations

import os
from pathlib import Path

from storage.daemons import Daemons, run

SOURCE = Path(__file__).resolve().parents[1] / "nfs_mount.c"
UP_S = 60.0
OPTIONS = "default_permissions,allow_other,attr_timeout=3,entry_timeout=3"
"""Attributes and names are believed for 3 s, the least that a kernel's client does by default (acregmin)."""
CONFIG = """\
NFS_CORE_PARAM {{ Protocols = 3; Enable_NLM = false; Enable_RQUOTA = false; Enable_UDP = false; }}
NFSV4 {{ RecoveryBackend = fs; RecoveryRoot = "{work}/recovery"; Graceless = true; }}
NFS_KRB5 {{ Active_krb5 = false; }}
LOG {{ Default_Log_Level = EVENT; }}
EXPORT {{
  Export_Id = 1; Path = {work}/store; Pseudo = /store; Protocols = 3; Transports = TCP; SecType = sys;
  Access_Type = RW; Squash = No_Root_Squash; FSAL {{ Name = VFS; }}
}}
"""


class Nfs:
    """A server over `work/store` and a client of it.

    Parameters
    ----------
    work : Path
        Folder of its files, configuration and logs.
    """

    def __init__(self, work: Path) -> None:
        self._work = work
        self._daemons = Daemons(work / "log")

    def up(self, mount: Path) -> None:
        """Start rpcbind, the server and the client."""
        (self._work / "store").mkdir(exist_ok=True)
        (self._work / "recovery").mkdir(exist_ok=True)
        config = self._work / "ganesha.conf"
        config.write_text(CONFIG.format(work=self._work), "utf-8")
        client = build(self._work)
        self._daemons.start("rpcbind", "rpcbind", "-f", "-w")
        self._daemons.wait_for("rpcbind", Path("/run/rpcbind.sock").exists, UP_S)
        server = self._work / "log" / "ganesha.log"
        self._daemons.start(
            "ganesha", "ganesha.nfsd", "-F", "-f", config, "-L", "STDOUT", "-p", self._work / "ganesha.pid"
        )
        self._daemons.wait_for(
            "the NFS server", lambda: "NFS SERVER INITIALIZED" in server.read_text("utf-8"), UP_S
        )
        address = f"nfs://127.0.0.1{self._work}/store?version=3"
        self._daemons.start("nfs_mount", client, address, mount, "-f", "-o", OPTIONS)
        self._daemons.wait_for("the mount", mount.is_mount, UP_S)

    def down(self, mount: Path) -> None:
        """Unmount, which commits what is written, and end the server."""
        self._daemons.unmount_and_end(mount)

    def ended(self) -> str | None:
        """Name of a daemon that ended by itself."""
        return self._daemons.ended()


def build(work: Path) -> Path:
    """Compile the client (a second) into `work`; return it.

    Raises
    ------
    StorageError
        A compiler or a library is missing, with what they said.
    """
    program = work / "nfs_mount"
    flags = run("pkg-config", "--cflags", "--libs", "fuse3", "libnfs").split()
    partly = program.with_suffix(".new")
    run("cc", "-O2", "-Wall", "-Wextra", "-Werror", SOURCE, "-o", partly, *flags, "-lpthread")
    os.replace(partly, program)  # noqa: PTH105  # the same file or none
    return program
