"""A real Chromium at the console of a real broker, which watches that nothing goes wrong behind the page."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from tests.servers.http.serving import ServedNode
from tools.toolchains.chromium import have_chromium

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

FLAGS = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
_WATCH = """
window.violations = [];
addEventListener("securitypolicyviolation", (event) => {
  violations.push(`${event.violatedDirective} ${event.blockedURI} ${event.sample}`);
});
window.executed = 0;
"""
LIMIT_MS = 20_000


@contextlib.contextmanager
def chromium() -> Iterator[Browser]:
    """A browser; raises `MissingToolError` where there is none."""
    from playwright.sync_api import sync_playwright

    program = have_chromium()
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=str(program), args=list(FLAGS))
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """One page of the console, and what it did that it should not have done."""

    def __init__(self, page: Page, url: str) -> None:
        self.page = page
        self.url = url
        self.faults: list[str] = []
        self.elsewhere: list[str] = []

    def open(self, screen: str = "overview") -> Page:
        """Show a screen, and wait until it has loaded."""
        self.page.goto(f"{self.url}/console/#/{screen}")
        self.page.locator("h1").first.wait_for()
        self.page.get_by_text("Loading …").first.wait_for(state="hidden")
        return self.page

    def _note(self, message: Any) -> None:
        # A refusal of the broker is shown on the page; the browser lists it as an error as well.
        if message.type in ("error", "warning") and "Failed to load resource" not in message.text:
            self.faults.append(message.text)

    def _request(self, request: Any) -> None:
        if not request.url.startswith((self.url, "data:", "blob:")):
            self.elsewhere.append(request.url)

    def check(self) -> None:
        """Nothing was executed, no policy violated, nothing fetched from elsewhere, no error written."""
        assert self.page.evaluate("violations") == []
        assert self.page.evaluate("executed") == 0
        assert (self.elsewhere, self.faults) == ([], []), (self.elsewhere, self.faults)


@contextlib.contextmanager
def visit(
    browser: Browser,
    node: ServedNode,
    theme: Any = "light",
    *,
    url: str | None = None,
    is_checked: bool = True,
    locale: str = "en-US",
) -> Iterator[Visit]:
    """A page with cookies of its own; `is_checked` unless the test itself does what the page's policy forbids."""
    context = browser.new_context(
        viewport={"width": 1280, "height": 800}, color_scheme=theme, accept_downloads=True, locale=locale
    )
    page = context.new_page()
    page.set_default_timeout(LIMIT_MS)
    page.add_init_script(_WATCH)
    visited = Visit(page, node.url if url is None else url)
    page.on("console", visited._note)
    page.on("pageerror", lambda fault: visited.faults.append(str(fault)))
    page.on("request", visited._request)
    try:
        yield visited
        if is_checked:
            visited.check()
    finally:
        context.close()
