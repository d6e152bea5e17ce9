"""`PORT=8080 python -m function`: serve one instance."""

from __future__ import annotations

import logging
import os

from func_python.http import serve

from function.instance import Instance


def new() -> Instance:
    """Make the instance; the runtime knows a constructor by this name."""
    return Instance(os.environ)


if __name__ == "__main__":
    logging.getLogger().setLevel(logging.WARNING)
    os.environ.setdefault("LISTEN_ADDRESS", f"[::]:{os.environ.get('PORT') or '8080'}")
    serve(new)
