"""What is wrong in an experiment file, said so that its author can mend it."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, order=True)
class Problem:
    """One problem at one place.

    Parameters
    ----------
    file : str
        Path as the user gave it.
    line, column : int
        1-based position of the offending key or value.
    path : str
        Key path, such as ``workloads.shop.load.users``.
    message : str
        What was found and what is allowed.
    hint : str
        The nearest known name or the next step; may be empty.
    """

    file: str
    line: int
    column: int
    path: str
    message: str
    hint: str = ""

    def __str__(self) -> str:
        where = f"{self.file}:{self.line}:{self.column}"
        path = f" {self.path}:" if self.path else ""
        hint = f" ({self.hint})" if self.hint else ""
        return f"{where}:{path} {self.message}{hint}"
