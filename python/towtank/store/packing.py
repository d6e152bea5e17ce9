"""Frozen data with its tables as one file and back: JSON for the values, Arrow for the tables, nothing that runs.

Unlike a pickle, a file of this kind can hold nothing but values of the kinds that its reader names: results may come
from somebody else.
"""

from __future__ import annotations

import dataclasses
import io
import json
import math
import types
import typing
import zipfile
import zlib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pandas as pd
import pyarrow as pa
from pyarrow import feather

T = TypeVar("T")

_TREE = "values.json"
_MARK = "$"
"""Key of a JSON object that stands for something JSON has no word for."""
_FLOATS = {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}
MOST_BYTES = 1 << 30
"""Of one unpacked file; more is no file of ours."""


class PackedError(ValueError):
    """A file is none of ours, is damaged, or holds another kind of value."""


def pack(value: object, path: Path) -> None:
    """Write a dataclass with everything in it to a file.

    Parameters
    ----------
    value : dataclass
        Of None, texts, numbers, lists, tuples, mappings, arrays, dataframes and further dataclasses.
    path : Path

    Raises
    ------
    TypeError
        Something in it is of no such kind.
    """
    tables: list[pa.Table] = []
    tree = _encode(value, tables)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_TREE, json.dumps(tree, separators=(",", ":")))
        for number, table in enumerate(tables):
            sink = io.BytesIO()
            feather.write_feather(table, sink, compression="zstd")
            archive.writestr(zipfile.ZipInfo(f"{number}.arrow"), sink.getvalue(), zipfile.ZIP_STORED)


def unpack(path: Path, kind: type[T]) -> T:
    """Read a dataclass from a file.

    Raises
    ------
    PackedError
        The file is damaged, or holds something else.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            if sum(item.file_size for item in archive.infolist()) > MOST_BYTES:
                raise PackedError(f"{path} unpacks to more than {MOST_BYTES} bytes")
            tree = json.loads(archive.read(_TREE))
            tables = _Tables(archive)
            found = _decode(tree, tables, {_name(one): one for one in _kinds(kind)})
    except (zipfile.BadZipFile, zlib.error, pa.ArrowException, OSError, EOFError, KeyError, IndexError, TypeError,
            ValueError, RuntimeError) as error:  # fmt: skip
        raise PackedError(f"{path} cannot be used: {error}") from error
    if not isinstance(found, kind):
        raise PackedError(f"{path} holds {type(found).__name__}, not {kind.__name__}")
    return found


class _Tables:
    """Tables of an archive, read when they are asked for."""

    def __init__(self, archive: zipfile.ZipFile) -> None:
        self._archive = archive

    def __getitem__(self, number: int) -> pa.Table:
        return feather.read_table(io.BytesIO(self._archive.read(f"{int(number)}.arrow")))


def _encode(value: Any, tables: list[pa.Table]) -> Any:  # noqa: ANN401, PLR0911 - JSON
    if isinstance(value, np.generic):
        value = value.item()
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if math.isfinite(value) else {_MARK: "float", "v": str(value)}
    if isinstance(value, tuple):
        return {_MARK: "tuple", "v": [_encode(item, tables) for item in value]}
    if isinstance(value, np.ndarray):
        tables.append(pa.table({"v": value}))
        return {_MARK: "array", "v": len(tables) - 1}
    if isinstance(value, pd.DataFrame):
        tables.append(pa.Table.from_pandas(value))
        return {_MARK: "frame", "v": len(tables) - 1}
    if isinstance(value, Mapping):
        return {_MARK: "map", "v": [[_encode(k, tables), _encode(v, tables)] for k, v in value.items()]}
    if isinstance(value, Sequence):
        return [_encode(item, tables) for item in value]
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        parts = {f.name: _encode(getattr(value, f.name), tables) for f in dataclasses.fields(value)}
        return {_MARK: "data", "of": _name(type(value)), "v": parts}
    raise TypeError(f"{type(value).__name__} cannot be packed")


def _decode(tree: Any, tables: _Tables, kinds: Mapping[str, type]) -> Any:  # noqa: ANN401, PLR0911 - JSON
    if isinstance(tree, list):
        return [_decode(item, tables, kinds) for item in tree]
    if not isinstance(tree, dict):
        return tree
    inner = tree["v"]
    match tree[_MARK]:
        case "float":
            return _FLOATS[inner]
        case "tuple":
            return tuple(_decode(item, tables, kinds) for item in inner)
        case "array":
            return tables[inner]["v"].to_numpy()
        case "frame":
            return tables[inner].to_pandas()
        case "map":
            return {_decode(k, tables, kinds): _decode(v, tables, kinds) for k, v in inner}
        case "data":
            return kinds[tree["of"]](**{name: _decode(item, tables, kinds) for name, item in inner.items()})
    raise PackedError(f"there is no {tree[_MARK]!r}")


def _name(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def _kinds(kind: object, known: set[object] | None = None) -> Iterator[type]:
    """A dataclass and those that its fields can hold."""
    seen = set() if known is None else known
    if kind in seen:
        return
    seen.add(kind)
    if isinstance(kind, type) and dataclasses.is_dataclass(kind) and not isinstance(kind, types.GenericAlias):
        yield kind
        for hint in typing.get_type_hints(kind).values():
            yield from _kinds(hint, seen)
    for part in typing.get_args(kind):
        if not isinstance(part, list | str):
            yield from _kinds(part, seen)
