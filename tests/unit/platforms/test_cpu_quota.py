"""The CPU limit of a control group: lowered and put back, in both versions."""

from __future__ import annotations

import pytest

from towtank.errors import PlatformError
from towtank.platforms.cpu_quota import CpuQuota


@pytest.fixture
def version_1(tmp_path):
    (tmp_path / "cpu.cfs_quota_us").write_text("-1\n")
    (tmp_path / "cpu.cfs_period_us").write_text("100000\n")
    return tmp_path / "cpu.cfs_quota_us"


@pytest.fixture
def version_2(tmp_path):
    (tmp_path / "cpu.max").write_text("max 100000\n")
    return tmp_path / "cpu.max"


def test_version_1(version_1, tmp_path):
    undo = CpuQuota.of([tmp_path / "memory", tmp_path]).lower(0.25)
    assert version_1.read_text() == "25000"
    undo()
    assert version_1.read_text() == "-1"


def test_version_2(version_2, tmp_path):
    undo = CpuQuota.of([tmp_path]).lower(0.5)
    assert version_2.read_text() == "50000 100000"
    undo()
    assert version_2.read_text() == "max 100000"


def test_a_limit_that_was_there_comes_back(version_2, tmp_path):
    version_2.write_text("150000 50000\n")
    undo = CpuQuota.of([tmp_path]).lower(0.1)
    assert version_2.read_text() == "5000 50000"
    undo()
    assert version_2.read_text() == "150000 50000"


def test_what_would_take_nothing_away_is_refused(version_1, version_2, tmp_path):
    version_2.write_text("50000 100000\n")
    version_1.write_text("50000\n")
    for file in (version_1, version_2):
        with pytest.raises(PlatformError, match=r"may use 0\.5 cores at most already, so that 0\.5 would"):
            CpuQuota(file).lower(0.5)
        assert file.read_text().split()[0] == "50000"


def test_the_kernel_takes_no_less_than_a_millisecond(version_2, tmp_path):
    CpuQuota.of([tmp_path]).lower(0.0001)
    assert version_2.read_text() == "1000 100000"


def test_a_group_that_is_gone_needs_no_limit(version_2, tmp_path):
    undo = CpuQuota.of([tmp_path]).lower(0.5)
    version_2.unlink()
    undo()
    assert not version_2.exists()


def test_without_a_group_it_is_said(tmp_path):
    with pytest.raises(PlatformError, match="no control group that bounds CPU") as caught:
        CpuQuota.of([tmp_path])
    assert "doctor" in caught.value.hint
