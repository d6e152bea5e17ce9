"""`python -m catalogue --port 8000 --database catalogue.db`: serve the catalogue."""

from __future__ import annotations

import argparse
import os
import signal
import sys
import threading
from pathlib import Path

from catalogue.server import Server


def main() -> int:
    """Serve until SIGTERM or Ctrl-C."""
    parser = argparse.ArgumentParser(prog="catalogue", description="A small product catalogue over SQLite.")
    parser.add_argument("--host", default="127.0.0.1")
    parser.add_argument("--port", type=int, default=int(os.environ.get("PORT", "8000")))
    parser.add_argument("--database", type=Path, required=True)
    parser.add_argument("--instance", default=os.environ.get("INSTANCE", "catalogue"))
    options = parser.parse_args()
    try:
        server = Server((options.host, options.port), database=options.database, instance=options.instance)
    except FileNotFoundError:
        print(
            f"there is no database at {options.database}; make one with "
            f"python -m catalogue.seed --out {options.database}",
            file=sys.stderr,
        )
        return 1
    except OSError as error:
        print(f"cannot listen on {options.host}:{options.port}: {error.strerror}", file=sys.stderr)
        return 1

    def stop(*_: object) -> None:
        # shutdown() waits for the serving loop, which runs in this very thread
        threading.Thread(target=server.shutdown).start()

    signal.signal(signal.SIGTERM, stop)
    signal.signal(signal.SIGINT, stop)
    print(f"catalogue {options.instance} on http://{options.host}:{options.port}", flush=True)
    with server:
        server.serve_forever(poll_interval=0.2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
