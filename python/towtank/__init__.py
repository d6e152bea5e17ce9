"""Towtank: one experiment file in, one defensible answer out.

>>> import towtank
>>> e = towtank.open("results/storage-backends")     # in a notebook: tables as dataframes, figures that draw themselves
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from towtank.notebook import open_results as open  # noqa: A004 - `towtank.open`, as `gzip.open`

__version__ = "0.1.0"

__all__ = ["__version__", "open"]


def __getattr__(name: str) -> Any:  # noqa: ANN401 - whatever the name stands for
    if name == "open":  # loads statistics and plots, which commands do not need
        from towtank.notebook import open_results  # noqa: PLC0415

        return open_results
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
