"""Headless Chromium for tests: Debian's browser, driven by playwright, with every request and complaint recorded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@dataclass
class Seen:
    """What a page did while it was open: requests, console messages, policy violations, errors."""

    page: Any
    requests: list[str] = field(default_factory=list)
    console: list[str] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)

    def violations(self) -> list[str]:
        """Return content-security-policy violations, as the page's own event reports them."""
        return self.page.evaluate("window.__violations || []")


@contextmanager
def chromium() -> Iterator[Any]:
    """Start the browser, and end it."""
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(CHROMIUM), args=ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


@contextmanager
def opened(
    browser: Any,
    path: Path,
    *,
    width: int = 1280,
    height: int = 900,
    dark: bool = False,
    scripts: bool = True,
) -> Iterator[Seen]:
    """Open a file, wait until its figures are drawn, and record everything it does."""
    context = browser.new_context(
        viewport={"width": width, "height": height},
        color_scheme="dark" if dark else "light",
        java_script_enabled=scripts,
        offline=True,
    )
    try:
        page = context.new_page()
        seen = Seen(page)
        page.on("request", lambda request: seen.requests.append(request.url))
        page.on("console", lambda message: seen.console.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: seen.errors.append(str(error)))
        if scripts:
            page.add_init_script(
                "window.__violations = []; document.addEventListener('securitypolicyviolation',"
                " e => window.__violations.push(`${e.violatedDirective} ${e.blockedURI} ${e.sample}`))"
            )
        page.goto(path.as_uri())
        if scripts:
            page.wait_for_function("document.documentElement.dataset.figures === 'drawn'", timeout=60_000)
        yield seen
    finally:
        context.close()
