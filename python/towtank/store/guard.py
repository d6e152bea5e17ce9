"""Which SQL may run: one statement that reads, and nothing that hides in it.

DuckDB's own locks (see `store.database`) keep a query inside the results folder, but they do not tell reading from
writing there: since 2.0 a common table expression may carry ``COPY … TO`` or ``INSERT``. So a statement is parsed
first, and only trees made of known, reading parts are run.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import duckdb

from towtank.errors import QueryError

QUERY_NODES = frozenset({"SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"})
"""Kinds of queries that read; ``COPY_QUERY_NODE``, ``INSERT_QUERY_NODE`` … are not among them."""

TABLE_FUNCTIONS = frozenset(
    {
        "range", "generate_series", "unnest", "repeat", "repeat_row", "json_each", "json_tree",
        "histogram", "histogram_values", "summary", "glob",
        "read_parquet", "parquet_scan", "read_csv", "read_csv_auto", "sniff_csv", "read_text",
        "read_json", "read_json_auto", "read_ndjson", "read_ndjson_auto",
        "parquet_metadata", "parquet_schema", "parquet_file_metadata", "parquet_kv_metadata",
        "duckdb_columns", "duckdb_tables", "duckdb_views", "duckdb_functions", "duckdb_settings", "duckdb_types",
        "duckdb_keywords", "duckdb_memory", "pragma_table_info", "pragma_version",
    }
)  # fmt: skip
"""Table functions that read: the results, the catalogue, or nothing. `query` and `json_execute_serialized_sql` would
run SQL that was never looked at, `arrow_scan` takes raw addresses, `checkpoint` and `enable_logging` act."""

_HINT = "only one reading statement runs here: SELECT, FROM, WITH, VALUES, DESCRIBE, SUMMARIZE or SHOW TABLES"


def check_reads_only(connection: duckdb.DuckDBPyConnection, sql: str) -> None:
    """Refuse anything but one statement that reads.

    Parameters
    ----------
    connection : DuckDBPyConnection
        Used for its parser only.
    sql : str

    Raises
    ------
    QueryError
        Syntax error with its place, several statements, or something that acts.
    """
    try:
        answer = connection.execute("SELECT json_serialize_sql(?)", [sql]).fetchall()
        tree: dict[str, Any] = json.loads(answer[0][0])
    except (duckdb.Error, RecursionError) as error:
        raise QueryError(f"this SQL cannot be read: {error}", hint=_HINT) from error
    if tree["error"]:
        if tree.get("error_type") == "not implemented":
            raise QueryError(f"refused: {_kind(connection, sql)} is not a statement that reads", hint=_HINT)
        raise QueryError(_syntax_error(sql, tree))
    if len(tree["statements"]) != 1:
        raise QueryError(f"expected one SQL statement, found {len(tree['statements'])}", hint=_HINT)
    for node in _nodes(tree["statements"]):
        _check_node(node)


def _check_node(node: dict[str, Any]) -> None:
    kind = str(node.get("type", ""))
    if "cte_map" in node and kind not in QUERY_NODES:
        word = kind.removesuffix("_QUERY_NODE").replace("_", " ")
        raise QueryError(f"refused: {word} within a query writes", hint=_HINT)
    if kind == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).lower()
        if name not in TABLE_FUNCTIONS:
            raise QueryError(
                f"refused: the table function {name!r} is not among those that only read the results",
                hint=f"allowed are the views and {', '.join(sorted(TABLE_FUNCTIONS))}",
            )


def _nodes(tree: object) -> Iterator[dict[str, Any]]:
    """Every object in the tree; without recursion, as SQL can nest deeply."""
    waiting = [tree]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting.extend(item.values())
        elif isinstance(item, list):
            waiting.extend(item)


def _kind(connection: duckdb.DuckDBPyConnection, sql: str) -> str:
    """What the first statement that does not read is called."""
    try:
        kinds = [s.type.name for s in connection.extract_statements(sql)]
    except duckdb.Error:
        return "this"
    return next((kind for kind in kinds if kind != "SELECT"), "this")


def _syntax_error(sql: str, tree: dict[str, Any]) -> str:
    """Say where the syntax breaks, with the line and a caret below the place."""
    message = f"SQL syntax: {tree.get('error_message', 'it cannot be read')}"
    try:
        at = int(tree["position"])
    except (KeyError, ValueError):
        return message
    at = len(sql.encode()[:at].decode(errors="replace"))
    start = sql.rfind("\n", 0, at) + 1
    line = sql[start:].split("\n", 1)[0]
    column = at - start
    return (
        f"{message} (line {sql.count(chr(10), 0, at) + 1}, column {column + 1})\n  {line}\n  {' ' * column}^"
    )
