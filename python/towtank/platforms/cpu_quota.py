"""The CPU limit of a control group, lowered for a while and put back: version 1 and version 2."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from towtank.errors import PlatformError
from towtank.platforms.base import Undo

LEAST_QUOTA_US = 1000
"""The smallest quota that the kernel takes."""
_V1_QUOTA, _V1_PERIOD, _V2 = "cpu.cfs_quota_us", "cpu.cfs_period_us", "cpu.max"


@dataclass(frozen=True)
class CpuQuota:
    """Where the limit of one group stands.

    Parameters
    ----------
    file : Path
        ``cpu.max``, or ``cpu.cfs_quota_us`` with the period in another file beside it.
    """

    file: Path

    @classmethod
    def of(cls, folders: Sequence[Path]) -> CpuQuota:
        """Find it among the folders of a group, one for each hierarchy.

        Raises
        ------
        PlatformError
            None of them bounds CPU.
        """
        for folder in folders:
            for name in (_V2, _V1_QUOTA):
                if (folder / name).is_file():
                    return cls(folder / name)
        where = ", ".join(map(str, folders)) or "it has none"
        raise PlatformError(
            f"the instance has no control group that bounds CPU ({where})",
            hint="control groups are what takes CPU away; `towtank doctor` says whether they can be used here",
        )

    def lower(self, cores: float) -> Undo:
        """Set the limit; what it was is put back by what is returned.

        Raises
        ------
        PlatformError
            The kernel does not take it, or the instance has no more than that anyhow.
        """
        before = self._read()
        has = self._cores(before)
        if has is not None and has <= cores:
            raise PlatformError(
                f"it may use {has:g} cores at most already, so that {cores:g} would take nothing away",
                hint="let `cores` of the fault be less than the limit of the instance",
            )
        self._write(max(LEAST_QUOTA_US, round(cores * self._period_us(before))), before)

        def put_back() -> None:
            if self.file.exists():  # a group goes when its instance does, and its limit with it
                self._put(before)

        return put_back

    def _cores(self, text: str) -> float | None:
        """Cores that a limit allows; None where there is none."""
        quota = text.split(maxsplit=1)[0]
        return None if quota in {"max", "-1"} else int(quota) / self._period_us(text)

    def _period_us(self, before: str) -> int:
        if self.file.name == _V2:
            return int(before.split()[1])
        return int(self.file.with_name(_V1_PERIOD).read_text(encoding="ascii"))

    def _write(self, quota_us: int, before: str) -> None:
        if self.file.name == _V2:
            self._put(f"{quota_us} {before.split()[1]}")
        else:
            self._put(str(quota_us))

    def _read(self) -> str:
        try:
            return self.file.read_text(encoding="ascii").strip()
        except OSError as error:
            raise PlatformError(f"{self.file} cannot be read: {error.strerror}") from error

    def _put(self, text: str) -> None:
        try:
            self.file.write_text(text, encoding="ascii")
        except OSError as error:
            raise PlatformError(
                f"the CPU limit {text!r} cannot be written to {self.file}: {error.strerror}"
            ) from error
