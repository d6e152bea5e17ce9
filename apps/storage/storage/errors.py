"""What can go wrong with a backend, said for whoever started it."""

from __future__ import annotations


class StorageError(Exception):
    """A backend cannot be started, used or ended; the message says what to do."""
