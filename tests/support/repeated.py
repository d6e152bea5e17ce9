"""Measurements that another load on the machine can spoil: they are repeated, and never made lenient."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable
from typing import ParamSpec

import pytest

ATTEMPTS = 6
PAUSE_S = 0.5
P = ParamSpec("P")


def repeated(check: Callable[P, None]) -> Callable[P, None]:
    """Make a test again after a failure, a few times: the machine is not always busy, and a defect fails each time.

    For tests that have no state to leave behind, or begin with making it. They run alone.
    """

    @pytest.mark.alone
    @functools.wraps(check)
    def again(*args: P.args, **kwargs: P.kwargs) -> None:
        for _ in range(ATTEMPTS - 1):
            try:
                return check(*args, **kwargs)
            except (AssertionError, ValueError):
                time.sleep(PAUSE_S)
        return check(*args, **kwargs)

    return again
