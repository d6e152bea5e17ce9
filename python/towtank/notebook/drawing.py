"""A figure of the report in a notebook: it draws itself, without network, and is an altair chart to build on."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import altair as alt
import pandas as pd

from towtank.errors import TowtankError
from towtank.report.figures.save import FORMATS, alone, encode
from towtank.report.model import Figure
from towtank.report.text import listed


@dataclass(frozen=True, eq=False)
class Drawing:
    """One figure.

    Parameters
    ----------
    figure : Figure
        Its specification, with title, caption and what is seen in it.
    """

    figure: Figure

    @property
    def chart(self) -> alt.TopLevelMixin:
        """The figure as an altair chart, to be changed or put beside others."""
        chart: alt.TopLevelMixin = alt.Chart.from_dict(alone(self.figure))
        return chart

    @property
    def data(self) -> dict[str, pd.DataFrame]:
        """What is drawn, a table for each dataset of the figure."""
        return {name: pd.DataFrame(rows) for name, rows in self.figure.datasets.items()}

    def save(self, path: Path | str) -> Path:
        """Write the figure to a file.

        Parameters
        ----------
        path : Path
            Its suffix is the format: svg, png or pdf.

        Returns
        -------
        Path

        Raises
        ------
        TowtankError
            Another suffix, or the file cannot be written.
        """
        target = Path(path)
        suffix = target.suffix.removeprefix(".").lower()
        if suffix not in FORMATS:
            raise TowtankError(
                f"figure {self.figure.id} cannot be written to {path}: {suffix or 'no suffix'} is no format of figures",
                hint=f"name the file .{listed(FORMATS)}",
            )
        try:
            target.write_bytes(encode(self.figure, suffix))
        except OSError as error:
            raise TowtankError(
                f"figure {self.figure.id} cannot be written to {path}: {error.strerror}"
            ) from error
        return target

    def __repr__(self) -> str:
        return f"Drawing({self.figure.id!r}): {self.figure.title}. {self.figure.caption}"

    def _repr_mimebundle_(self, **_: object) -> dict[str, str]:
        """SVG: altair's own HTML would fetch scripts from the network."""
        return {"image/svg+xml": encode(self.figure, "svg").decode(), "text/plain": repr(self)}
