"""`python -m catalogue.seed --out FILE`: make a prepared database."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from catalogue.database import Catalogue, build


def main() -> None:
    """Make the database and print what is in it as one JSON object."""
    parser = argparse.ArgumentParser(description="Make a prepared catalogue database.")
    parser.add_argument("--out", type=Path, required=True)
    parser.add_argument("--items", type=int, default=4000)
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    build(options.out, items=options.items, seed=options.seed)
    catalogue = Catalogue(options.out)
    print(json.dumps(catalogue.counts()))
    catalogue.close()


if __name__ == "__main__":
    main()
