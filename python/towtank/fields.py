"""Field types shared by every config model: units are read where a value is validated.

Below both `design` and the plug-ins, so that a platform's config model needs nothing of the experiment file.
"""

from __future__ import annotations

from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from towtank.units import parse_bytes, parse_cores, parse_duration, parse_rate, parse_ratio

__all__ = ["Cores", "Duration", "Model", "Rate", "Ratio", "Scalar", "Size", "Slug"]

Scalar = bool | int | float | str
Duration = Annotated[float, BeforeValidator(parse_duration)]
"""Seconds, ≥ 0; written ``15m`` or ``300ms``."""
Size = Annotated[int, BeforeValidator(parse_bytes)]
"""Bytes, ≥ 0; written ``64MiB``."""
Ratio = Annotated[float, BeforeValidator(parse_ratio)]
"""0–1; written ``5%``."""
Cores = Annotated[float, BeforeValidator(parse_cores)]
"""CPU cores, > 0; written ``1.5`` or ``500m``."""
Rate = Annotated[float, BeforeValidator(parse_rate)]
"""Per second, ≥ 0; written ``100/s`` or ``6/min``."""
Slug = Annotated[str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,62}$")]


class Model(BaseModel):
    """Strict and frozen: an unknown key is an error, a plan never changes under a run."""

    model_config = ConfigDict(extra="forbid", frozen=True, str_strip_whitespace=True)
