"""A real, headless Chromium: what people see, what the console says, and which addresses a page asks for.

    with browser() as b:
        b.open(url)
        b.screenshot(path, width=1280, height=900, dark=True)

Driver and browser are named, so selenium has nothing to look for and nothing to download.
"""

from __future__ import annotations

import base64
import contextlib
import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from selenium import webdriver
from selenium.common.exceptions import (
    ElementClickInterceptedException,
    ElementNotInteractableException,
    StaleElementReferenceException,
)
from selenium.webdriver.chrome.service import Service
from selenium.webdriver.common.by import By
from selenium.webdriver.support.ui import WebDriverWait

from tests.lab.needed import need

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PROGRAMS = ("chromium", "chromedriver")
"""What has to be installed; tests/lab/install.sh does it on Debian."""

HARMLESS = ("WebGL",)
"""Console messages that speak of the machine, not of the page."""

PATIENCE_S = 180.0
"""How long a page, or a script in it, may take: a busy machine is slow, and one that never ends is as wrong later."""

_SWITCHES = (
    "--headless=new",
    "--no-sandbox",
    "--disable-gpu",
    "--in-process-gpu",
    "--disable-extensions",
    "--disable-component-extensions-with-background-pages",
    "--disable-quic",
    "--disable-dev-shm-usage",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--hide-scrollbars",
    "--force-color-profile=srgb",
)


def missing() -> list[str]:
    """Programs that are not on this machine."""
    return [name for name in PROGRAMS if shutil.which(name) is None]


def need_browser() -> None:
    """Skip the test where there is no Chromium; fail it where nothing may be skipped."""
    need("browser", missing())


@dataclass
class Browser:
    """One window of a headless Chromium."""

    driver: Any  # selenium's own types change from release to release

    def open(self, url: str, *, until: str | None = None, seconds: float = PATIENCE_S) -> None:
        """Go to an address; wait for an element (CSS selector) if one is named."""
        self.driver.get(url)
        if until is not None:
            self.wait(until, seconds=seconds)

    def wait(self, selector: str, *, seconds: float = PATIENCE_S) -> Any:
        """The first visible element that a CSS selector finds, as soon as there is one."""

        def visible_element(driver: Any) -> Any:
            return next((each for each in driver.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed()), None)

        return self.until(visible_element, f"nothing visible matches {selector!r}", seconds=seconds)

    def click(self, selector: str, *, text: str | None = None, holding: str = "") -> str:
        """Click the first visible element there, again if it moved, was covered or was drawn anew, and return its text.

        Args:
            selector: of CSS.
            text: that it shows; None: any.
            holding: what its link has in its address; empty: anything, or no link.
        """

        def wanted(element: Any) -> bool:
            return (text is None or element.text == text) and holding in (element.get_attribute("href") or "")

        def clicked(driver: Any) -> tuple[str] | None:
            found = (each for each in driver.find_elements(By.CSS_SELECTOR, selector) if each.is_displayed())
            first = next((each for each in found if wanted(each)), None)
            if first is None:
                return None
            shown = str(first.text)
            first.click()
            return (shown,)

        refused = (StaleElementReferenceException, ElementClickInterceptedException, ElementNotInteractableException)
        waiting = WebDriverWait(self.driver, PATIENCE_S, ignored_exceptions=refused)
        (shown,) = waiting.until(clicked, f"{selector!r} {text or holding} could not be clicked") or ("",)
        return shown

    def wait_text(self, text: str, *, seconds: float = PATIENCE_S) -> None:
        """Wait until the page shows a text."""
        self.until(lambda _: text in self.text(), f"the page never showed {text!r}", seconds=seconds)

    def until(self, condition: Callable[[Any], Any], what: str, *, seconds: float = PATIENCE_S) -> Any:
        """Wait for a condition on the driver and return what it found."""
        waiting = WebDriverWait(self.driver, seconds, ignored_exceptions=(StaleElementReferenceException,))
        return waiting.until(condition, what)

    def all(self, selector: str) -> list[Any]:
        """Elements that a CSS selector finds, visible or not."""
        return list(self.driver.find_elements(By.CSS_SELECTOR, selector))

    def text(self, selector: str = "body") -> str:
        """The text that a person sees there."""
        return str(self.driver.find_element(By.CSS_SELECTOR, selector).text)

    def run(self, script: str, *arguments: object) -> Any:
        """Run JavaScript in the page."""
        return self.driver.execute_script(script, *arguments)

    def resize(self, width: int, height: int) -> None:
        """Give the page this many pixels (a window has a least width of its own, a page has not)."""
        metrics = {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": False}
        self.driver.execute_cdp_cmd("Emulation.setDeviceMetricsOverride", metrics)

    def prefer(self, *, dark: bool) -> None:
        """Say what the system prefers, light or dark."""
        value = "dark" if dark else "light"
        features = [
            {"name": "prefers-color-scheme", "value": value},
            {"name": "prefers-reduced-motion", "value": "reduce"},
        ]
        self.driver.execute_cdp_cmd("Emulation.setEmulatedMedia", {"features": features})

    def screenshot(
        self, path: Path | str, *, width: int | None = None, height: int | None = None, dark: bool | None = None,
        whole: bool = False,
    ) -> None:  # fmt: skip
        """Save what is seen as PNG; `whole` takes the page down to its end."""
        if dark is not None:
            self.prefer(dark=dark)
        if width is not None and height is not None:
            self.resize(width, height)
        if whole and width is not None:
            self.resize(width, max(height or 0, int(self.run("return document.documentElement.scrollHeight"))))
        # Two frames, so that what the new size and scheme ask for is drawn.
        self.driver.execute_async_script(
            "const done = arguments[0]; requestAnimationFrame(() => requestAnimationFrame(() => setTimeout(done, 400)))"
        )
        taken = self.driver.execute_cdp_cmd("Page.captureScreenshot", {"format": "png"})
        Path(path).write_bytes(base64.b64decode(taken["data"]))

    def console(self) -> list[str]:
        """Warnings and errors of the console since the last call, without what is known to be harmless."""
        entries = [entry for entry in self.driver.get_log("browser") if entry["level"] in {"SEVERE", "WARNING"}]
        return [entry["message"] for entry in entries if not any(word in entry["message"] for word in HARMLESS)]

    def requested(self) -> list[str]:
        """Addresses that were asked for since the last call, by the page or anything in it."""
        messages = (json.loads(entry["message"])["message"] for entry in self.driver.get_log("performance"))
        sent = (m["params"]["request"]["url"] for m in messages if m["method"] == "Network.requestWillBeSent")
        return [url for url in sent if not url.startswith(("data:", "blob:", "chrome:"))]

    def hosts(self) -> set[str]:
        """Hosts that were asked since the last call of `requested` or this."""
        return {urlsplit(url).hostname or "" for url in self.requested()}


@contextlib.contextmanager
def browser(*, width: int = 1280, height: int = 900) -> Iterator[Browser]:
    """A fresh Chromium with a profile of its own; both are gone afterwards."""
    with tempfile.TemporaryDirectory(prefix="trackside-chromium-", ignore_cleanup_errors=True) as profile:
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium") or ""
        for switch in (*_SWITCHES, f"--user-data-dir={profile}", f"--window-size={width},{height}"):
            options.add_argument(switch)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL", "performance": "ALL"})
        driver = webdriver.Chrome(options=options, service=Service(shutil.which("chromedriver")))
        try:
            driver.set_page_load_timeout(PATIENCE_S)
            driver.set_script_timeout(PATIENCE_S)
            made = Browser(driver)
            made.resize(width, height)
            made.prefer(dark=False)
            yield made
        finally:
            driver.quit()
