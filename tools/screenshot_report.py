"""Take the picture of a report that the README shows.

    PYTHONPATH=python:tests python tools/screenshot_report.py RESULTS/report/report.html docs/images/report.png

Needs Debian's chromium and the playwright package. With --pieces FOLDER the whole page is taken piece by piece,
light, dark and on a phone, to be looked at.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from support.browser import chromium, opened

WIDTH, HEIGHT = 1180, 1180
PIECE = 1400
VIEWS = {"light": (1280, False), "dark": (1280, True), "phone": (390, False)}


def main() -> None:
    """Read the command line and take the pictures."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("report", type=Path)
    parser.add_argument("picture", type=Path, nargs="?", help="PNG of the first screen")
    parser.add_argument(
        "--height", type=int, default=HEIGHT, help="of the picture, CSS px (default: %(default)s)"
    )
    parser.add_argument("--pieces", type=Path, help="folder for the whole page in pieces")
    arguments = parser.parse_args()
    report = arguments.report.resolve()
    with chromium() as browser:
        if arguments.picture:
            with opened(browser, report, width=WIDTH, height=arguments.height) as seen:
                seen.page.screenshot(path=str(arguments.picture))
            print(f"{arguments.picture}: {arguments.picture.stat().st_size / 1000:.0f} kB")
        if arguments.pieces:
            arguments.pieces.mkdir(parents=True, exist_ok=True)
            for name, (width, dark) in VIEWS.items():
                with opened(browser, report, width=width, dark=dark) as seen:
                    take_pieces(seen.page, arguments.pieces / name, width)


def take_pieces(page: object, stem: Path, width: int) -> None:
    """Cut the whole page into pictures that a viewer does not shrink."""
    total = page.evaluate("document.documentElement.scrollHeight")
    for number, top in enumerate(range(0, total, PIECE)):
        clip = {"x": 0, "y": top, "width": width, "height": min(PIECE, total - top)}
        path = f"{stem}-{number:02d}.png"
        page.screenshot(path=path, full_page=True, clip=clip)
        print(path)


if __name__ == "__main__":
    main()
