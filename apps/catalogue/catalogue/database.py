"""The catalogue's SQLite database: schema, prepared content, reads and writes."""

from __future__ import annotations

import random
import sqlite3
from dataclasses import dataclass
from pathlib import Path

FEATURES = 64
"""Numbers that describe an item; `recommend` compares items by them."""

SCHEMA = """
CREATE TABLE items (id INTEGER PRIMARY KEY, name TEXT NOT NULL, price_cents INTEGER NOT NULL, stock INTEGER NOT NULL,
                    features TEXT NOT NULL);
CREATE TABLE orders (id INTEGER PRIMARY KEY, item INTEGER NOT NULL REFERENCES items(id), quantity INTEGER NOT NULL,
                     at TEXT NOT NULL DEFAULT (strftime('%Y-%m-%dT%H:%M:%fZ', 'now')));
CREATE INDEX orders_by_item ON orders (item);
"""


@dataclass(frozen=True)
class Item:
    """A product."""

    id: int
    name: str
    price_cents: int
    stock: int


def build(path: Path, *, items: int, seed: int) -> None:
    """Write a fresh database with `items` products; the same seed gives the same content."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.unlink(missing_ok=True)
    rng = random.Random(seed)  # noqa: S311 - content, not secrets
    adjectives = ("quiet", "brass", "folding", "tidal", "oak", "northern", "spare", "deep-water")
    nouns = ("anchor", "compass", "hull", "lantern", "propeller", "rope", "rudder", "winch")
    connection = sqlite3.connect(path)
    try:
        # WAL lets several processes read while one writes; synchronous=NORMAL is its usual companion
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript(SCHEMA)
        connection.executemany(
            "INSERT INTO items VALUES (?, ?, ?, ?, ?)",
            (
                (
                    number,
                    f"{rng.choice(adjectives)} {rng.choice(nouns)} {number}",
                    rng.randint(100, 100_000),
                    rng.randint(0, 500),
                    ",".join(f"{rng.gauss(0, 1):.4f}" for _ in range(FEATURES)),
                )
                for number in range(1, items + 1)
            ),
        )
        connection.commit()
        # one file without a write-ahead log beside it, so that a plain copy is a complete copy
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
    finally:
        connection.close()


class Catalogue:
    """One connection to the database. Not shared between threads.

    Parameters
    ----------
    path : Path
        An existing database made by `build`.
    """

    def __init__(self, path: Path) -> None:
        if not path.is_file():
            raise FileNotFoundError(path)
        self._connection = sqlite3.connect(path, timeout=5.0, isolation_level=None)
        self._connection.execute("PRAGMA synchronous=NORMAL")

    def close(self) -> None:
        """Let go of the file."""
        self._connection.close()

    def counts(self) -> dict[str, int]:
        """How many items and orders there are."""
        (items,) = self._connection.execute("SELECT count(*) FROM items").fetchone()
        (orders,) = self._connection.execute("SELECT count(*) FROM orders").fetchone()
        return {"items": items, "orders": orders}

    def page(self, *, offset: int, limit: int) -> list[Item]:
        """Items in order of their number."""
        rows = self._connection.execute(
            "SELECT id, name, price_cents, stock FROM items ORDER BY id LIMIT ? OFFSET ?", (limit, offset)
        )
        return [Item(*row) for row in rows]

    def item(self, number: int) -> Item | None:
        """One item, or None."""
        row = self._connection.execute(
            "SELECT id, name, price_cents, stock FROM items WHERE id = ?", (number,)
        ).fetchone()
        return Item(*row) if row else None

    def order(self, item: int, quantity: int) -> int | None:
        """Place an order; the order's number, or None when there is no such item."""
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            changed = self._connection.execute(
                "UPDATE items SET stock = max(0, stock - ?) WHERE id = ?", (quantity, item)
            ).rowcount
            if not changed:
                self._connection.execute("ROLLBACK")
                return None
            cursor = self._connection.execute(
                "INSERT INTO orders (item, quantity) VALUES (?, ?)", (item, quantity)
            )
            self._connection.execute("COMMIT")
        except sqlite3.Error:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
            raise
        return cursor.lastrowid

    def features(self) -> list[tuple[int, tuple[float, ...]]]:
        """Every item's number and features."""
        rows = self._connection.execute("SELECT id, features FROM items")
        return [(number, tuple(map(float, text.split(",")))) for number, text in rows]
