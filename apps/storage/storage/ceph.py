"""CephFS on one machine: a monitor, a manager, a metadata server and three stores, mounted by ceph-fuse.

Each store is BlueStore on a sparse file of 2 GiB. Sizes of caches are the smallest that Ceph 16 accepts: all together
it takes about 0.8 GB of memory, and 0.4 GB of disk before anything is written. No authentication: nobody else is in its
network.
"""

from __future__ import annotations

import json
import uuid
from pathlib import Path

from storage.daemons import Daemons, run
from storage.errors import StorageError

STORES = 3
STORE_BYTES = 2 << 30
CACHE_BYTES = 64 << 20
UP_S = 120.0
CONFIG = """\
[global]
fsid = {fsid}
mon host = [v2:127.0.0.1:3300]
mon initial members = a
public addr = 127.0.0.1
cluster addr = 127.0.0.1
ms bind ipv6 = false
auth cluster required = none
auth service required = none
auth client required = none
run dir = /run
admin socket = /run/$name.asok
log file = {work}/log/$name.ceph.log
mon cluster log file = {work}/log/cluster.log
pid file = /run/$name.pid
keyring = {work}/keyring
mon data = {work}/mon
mgr data = {work}/mgr
mgr initial modules =
osd data = {work}/osd.$id
osd objectstore = bluestore
bluestore block size = {store_bytes}
bluestore cache autotune = false
bluestore cache size = {cache_bytes}
osd memory target = 939524096
osd crush chooseleaf type = 0
osd class update on start = false
osd pool default size = {size}
osd pool default min size = 1
osd pool default pg autoscale mode = off
mon allow pool size one = true
mon warn on pool no redundancy = false
mon data avail crit = 1
mon data avail warn = 1
auth allow insecure global id reclaim = false
"""


class Ceph:
    """A cluster of its own.

    Parameters
    ----------
    work : Path
        Folder of its stores, configuration, sockets and logs.
    size : int
        Copies of every object, 1 to 3.
    """

    def __init__(self, work: Path, size: int) -> None:
        if not 1 <= size <= STORES:
            raise StorageError(
                f"--size {size}: Ceph keeps 1 to {STORES} copies here, one on each of its stores"
            )
        self._work = work
        self._size = size
        self._config = work / "ceph.conf"
        self._daemons = Daemons(work / "log")

    def up(self, mount: Path) -> None:
        """Make the cluster, wait until every placement group is clean, and mount its file system."""
        for folder in ("mon", "mgr"):
            (self._work / folder).mkdir(exist_ok=True)
        self._make_monitor()
        self._start("ceph-mgr", "a")
        self._make_stores()
        self._start("ceph-mds", "a")
        self._ask("osd", "pool", "create", "metadata", "8")
        self._ask("osd", "pool", "create", "data", "16")
        if self._size == 1:
            for pool in ("metadata", "data"):
                self._ask("osd", "pool", "set", pool, "size", "1", "--yes-i-really-mean-it")
        self._ask("fs", "new", "tank", "metadata", "data")
        self._daemons.wait_for("a clean cluster", self._clean, UP_S)
        self._daemons.start("ceph-fuse", "ceph-fuse", "-c", self._config, "-n", "client.admin", mount, "-f")
        self._daemons.wait_for("the mount", mount.is_mount, UP_S)

    def down(self, mount: Path) -> None:
        """Unmount, which writes back what is cached, and end every daemon."""
        self._daemons.unmount_and_end(mount)

    def ended(self) -> str | None:
        """Name of a daemon that ended by itself."""
        return self._daemons.ended()

    def _make_monitor(self) -> None:
        fsid = str(uuid.uuid4())
        work = self._work
        self._config.write_text(
            CONFIG.format(
                fsid=fsid, work=work, size=self._size, store_bytes=STORE_BYTES, cache_bytes=CACHE_BYTES
            ),
            "utf-8",
        )
        keys, places = work / "keyring", work / "monmap"
        run("ceph-authtool", "--create-keyring", keys, "--gen-key", "-n", "mon.", "--cap", "mon", "allow *")
        rights = [word for who in ("mon", "osd", "mds", "mgr") for word in ("--cap", who, "allow *")]
        run("ceph-authtool", keys, "--gen-key", "-n", "client.admin", *rights)
        run("monmaptool", "--create", "--addv", "a", "[v2:127.0.0.1:3300]", "--fsid", fsid, places)
        run("ceph-mon", "-c", self._config, "--mkfs", "-i", "a", "--monmap", places, "--keyring", keys)
        self._start("ceph-mon", "a")

    def _make_stores(self) -> None:
        for number in range(STORES):
            identity = str(uuid.uuid4())
            (self._work / f"osd.{number}").mkdir()
            self._ask("osd", "new", identity)
            run("ceph-osd", "-c", self._config, "-i", str(number), "--mkfs", "--osd-uuid", identity)
            self._start("ceph-osd", str(number))

    def _start(self, program: str, identity: str) -> None:
        self._daemons.start(f"{program}.{identity}", program, "-c", self._config, "-i", identity, "-f")

    def _ask(self, *words: str) -> str:
        return run("ceph", "-c", self._config, "--connect-timeout", "30", *words)

    def _clean(self) -> bool:
        """Whether all stores are up, the file system is served, and every object has all its copies."""
        state = json.loads(self._ask("status", "--format", "json"))
        groups = state["pgmap"]
        clean = sum(g["count"] for g in groups["pgs_by_state"] if g["state_name"] == "active+clean")
        active = [rank for rank in state["fsmap"]["by_rank"] if rank["status"] == "up:active"]
        return state["osdmap"]["num_up_osds"] == STORES and bool(active) and 0 < groups["num_pgs"] == clean
