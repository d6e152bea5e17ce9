"""The fault that fills a disk leaves to others what they take meanwhile."""

from __future__ import annotations

import errno
import os

import pytest

from towtank.faults import disk


@pytest.mark.parametrize(("code", "brim", "raises"), [
    (errno.ENOSPC, False, True), (errno.ENOSPC, True, False), (errno.EOPNOTSUPP, False, False),
])  # fmt: skip
def test_room_that_others_took_meanwhile_is_theirs(tmp_path, monkeypatch, code, brim, raises):
    def refused(*_):
        raise OSError(code, os.strerror(code))

    monkeypatch.setattr(os, "posix_fallocate", refused)
    path = tmp_path / "fill"
    if raises:
        with pytest.raises(OSError, match=os.strerror(code)):
            disk._fill(path, 2 << 20, to_the_brim=brim)
        assert path.stat().st_size == 0
    else:
        disk._fill(path, 2 << 20, to_the_brim=brim)
        assert path.stat().st_size == 2 << 20
