"""The fault that fills a disk: one file in the deployment's own folder or volumes; a reserve is never touched."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
from pathlib import Path

from towtank.errors import PlatformError
from towtank.faults.base import Order, cannot, each
from towtank.faults.options import LEAST_LEFT_BYTES, DiskOptions
from towtank.platforms.base import Deployment, Filling, FillsVolumes, HasDataFolder, Undo
from towtank.units import format_bytes

NAME = ".towtank-fill"
_PIECE = 1 << 20


class Disk:
    """Fills the disk under the deployment's folder, or a volume of its instances; the file goes with the fault."""

    def begin(self, deployment: Deployment, order: Order) -> Undo:
        """See `Action.begin`."""
        if isinstance(deployment, FillsVolumes):
            return _fill_volumes(deployment, order)
        options: DiskOptions = order.options
        owner = deployment if isinstance(deployment, HasDataFolder) else cannot(deployment, order)
        folder = _inside(owner.data_folder, options.folder)
        own_disk = _is_own_disk(folder)
        leave = options.leave if own_disk else max(options.leave, LEAST_LEFT_BYTES)
        size = min(options.size, shutil.disk_usage(folder).free - leave)
        if size <= 0:
            raise PlatformError(
                f"fault 'disk': {format_bytes(shutil.disk_usage(folder).free)} are free at {folder}, and "
                f"{format_bytes(leave)} of them must stay free",
                hint="give the deployment a disk of its own below {data}, or make room",
            )
        path = folder / NAME
        try:
            _fill(path, size, to_the_brim=own_disk)
        except OSError as error:
            path.unlink(missing_ok=True)
            raise PlatformError(f"fault 'disk': {path} cannot be filled: {error.strerror}") from error
        order.facts["written_bytes"] = path.stat().st_size
        return lambda: path.unlink(missing_ok=True)


def _fill_volumes(owner: FillsVolumes, order: Order) -> Undo:
    options: DiskOptions = order.options
    leave_shared = max(options.leave, LEAST_LEFT_BYTES)
    filling = Filling(options.folder, int(options.size), int(options.leave), int(leave_shared))

    def fill(name: str) -> Undo:
        written, undo = owner.fill_volume(name, filling, lasts_s=order.lasts_s)
        order.facts["written_bytes"] = order.facts.get("written_bytes", 0) + written
        return undo

    return each(order, fill)


def _fill(path: Path, size: int, *, to_the_brim: bool) -> None:
    """Take room on the disk; what a sparse file shows is none. On a disk of its own it may become really full."""
    with path.open("wb") as file:
        try:
            os.posix_fallocate(file.fileno(), 0, size)
        except OSError as error:  # not every file system knows it
            if error.errno == errno.ENOSPC and not to_the_brim:
                raise  # somebody else has taken room meanwhile: what must stay free is not ours to take
            with contextlib.suppress(OSError):
                for start in range(0, size, _PIECE):
                    file.write(b"\xff" * min(_PIECE, size - start))
                file.flush()


def _inside(data: Path, name: str) -> Path:
    folder = (data / name).resolve()
    if not folder.is_relative_to(data.resolve()) or not folder.is_dir():
        raise PlatformError(
            f"fault 'disk': {name!r} is no folder inside of the deployment's {data}",
            hint="`folder` is relative to {data}, and must be there when the fault begins",
        )
    return folder


def _is_own_disk(folder: Path) -> bool:
    """Whether a folder is where a disk is mounted: filling it then hurts nobody else."""
    return folder.is_mount()
