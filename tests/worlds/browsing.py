"""Debian's Chromium, headless, and a page of it that notices all that it should not do."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, ConsoleMessage, Page, Request, sync_playwright

from tests.worlds.prometheus.server import required_program

_FLAGS = (
    "--no-sandbox",  # which the user root, as in CI, cannot have
    "--disable-dev-shm-usage",  # which a container has little of
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--no-first-run",
    "--font-render-hinting=none",
)
DESKTOP = {"width": 1280, "height": 900}
PHONE = {"width": 390, "height": 844}
_LONGEST_MILLISECONDS = 10_000
ZONE = "Europe/Berlin"


@contextmanager
def chromium() -> Iterator[Browser]:
    """Run the browser with a profile of its own; skips the test without one, in CI fails it."""
    binary = required_program("chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=binary, args=_FLAGS)
        yield browser
        browser.close()


class Tab:
    """A page of the browser; ``page`` is playwright's."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.complaints: list[str] = []
        """Errors of scripts, of the console, and of the Content-Security-Policy."""
        self.requested: list[str] = []
        self.received = 0
        """The bytes of all answers as they came over the wire, heads included."""
        page.set_default_timeout(_LONGEST_MILLISECONDS)
        page.on("console", self._take_message)
        page.on("pageerror", lambda error: self.complaints.append(str(error)))
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("requestfinished", self._finished)

    def _take_message(self, message: ConsoleMessage) -> None:
        if message.type in {"error", "warning"}:
            self.complaints.append(f"{message.text} ({message.location.get('url')})")

    def _finished(self, request: Request) -> None:
        sizes = request.sizes()
        self.received += sizes["responseBodySize"] + sizes["responseHeadersSize"]

    def open(self, path: str) -> Page:
        """Go to a path and wait until all is loaded."""
        answer = self.page.goto(self.origin + path, wait_until="load")
        assert answer is not None
        assert answer.status == 200, f"{path}: {answer.status} {answer.text()[:500]}"
        return self.page

    def elsewhere(self) -> list[str]:
        """Return what was asked of other origins."""
        return [
            url
            for url in self.requested
            if not url.startswith(f"{self.origin}/")
            and urlsplit(url).scheme not in {"data", "blob"}
        ]

    def assert_clean(self) -> None:
        """Fail for an error, a refusal of the policy, or a request to another origin."""
        assert not self.complaints, self.complaints
        assert not self.elsewhere(), self.elsewhere()


@contextmanager
def tab(browser: Browser, origin: str, **options: Any) -> Iterator[Tab]:
    """Open a tab with nothing remembered; ``options`` are those of a context."""
    given = {"viewport": DESKTOP, "timezone_id": ZONE, "locale": "en-GB"} | options
    context = browser.new_context(**given)
    try:
        yield Tab(context.new_page(), origin)
    finally:
        context.close()


def assert_accessible(page: Page) -> None:
    """Check what axe finds in both themes and on a phone, where nothing is wider than the page."""
    assert findings(page) == []
    page.emulate_media(color_scheme="dark")
    assert findings(page) == []
    page.set_viewport_size({"width": PHONE["width"], "height": PHONE["height"]})
    assert findings(page) == []
    assert page.evaluate("document.scrollingElement.scrollWidth - innerWidth") <= 0


def findings(page: Page) -> list[str]:
    """Return what axe finds, one sentence for each element.  Needs ``bypass_csp``."""
    response = Axe().run(page).response
    return [
        f"{violation['id']}: {violation['help']}: {node['html'][:200]} "
        f"({node.get('failureSummary', '')})"
        for violation in response["violations"]
        for node in violation["nodes"]
    ]
