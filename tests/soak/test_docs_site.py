"""The documentation's site in a real browser: its search finds what people ask. And the man pages."""

from __future__ import annotations

import functools
import os
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts import man_pages
from scripts.docs_site import SITE, build
from testkit.browser import Browser
from testkit.questions import PAGES, WORDS

_LINKS = "document.querySelectorAll('.md-search-result__item > a')"


class _Quiet(SimpleHTTPRequestHandler):
    def log_message(self, *_: object) -> None:
        """Tests print nothing."""


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """Where the site is served."""
    assert build() == 0
    server = ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(_Quiet, directory=str(SITE)))
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield f"http://127.0.0.1:{server.server_port}"
    server.shutdown()
    server.server_close()


@pytest.fixture(scope="module")
def browser(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Browser]:
    """One for all questions."""
    with Browser(tmp_path_factory.mktemp("browser") / "profile") as opened:
        yield opened


@pytest.mark.parametrize(("words", "page"), [(words, PAGES[question]) for question, words in WORDS.items()])
def test_search_finds_the_page(url: str, browser: Browser, words: str, page: str) -> None:
    """It is among the first five, and nothing of a search leaves for another server."""
    browser.show(f"{url}/docs/questions/")
    browser.enter("[data-md-component=search-query]", words)
    assert f"{url}/docs/{page.removesuffix('.md')}/" in _first_five(browser)
    assert [request for request in browser.requests if not request.startswith((url, "data:"))] == []


@pytest.mark.parametrize("page", ["upgrader.1", "upgrader-run.1", "upgrader-certs-renew.1"])
def test_man_formats_them(page: str, tmp_path: Path) -> None:
    """`man` shows the usage, the options and the description, and warns of nothing."""
    man_pages.write(tmp_path)
    shown = subprocess.run(
        ["man", "--warnings", "--local-file", str(tmp_path / page)],
        capture_output=True, text=True, check=True, env={**os.environ, "MANWIDTH": "80", "PAGER": "cat"},
    )  # fmt: skip
    assert "SYNOPSIS" in shown.stdout and "OPTIONS" in shown.stdout and not shown.stderr, shown


def _first_five(browser: Browser) -> list[str]:
    """The pages that are found, without their sections; they may still change while the words are looked up."""
    deadline = time.monotonic() + 30
    pages: list[str] = []
    while time.monotonic() < deadline:
        time.sleep(0.5)
        before, found = pages, browser.evaluate(f"[...{_LINKS}].map(each => each.href.split(/[?#]/)[0])")
        pages = list(dict.fromkeys(found))[:5]
        if pages and pages == before:
            break
    return pages
