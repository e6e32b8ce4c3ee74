"""The documentation's site in a real browser: its search finds what people ask. And the man pages."""

from __future__ import annotations

import functools
import os
import re
import subprocess
import threading
import time
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import pytest

from scripts import man_pages
from scripts.docs_site import REPOSITORY, SITE, build
from testkit.browser import Browser

_ROW = re.compile(r"^\| ([^|]*\?) \| \[[^]]*\]\(([^)#]+)", re.MULTILINE)
PAGES = dict(_ROW.findall((REPOSITORY / "docs/questions.md").read_text()))
WORDS = {
    "How do I try it without a cluster of mine?": "try demo cluster",
    "How do I install it without a checkout?": "install offline wheel",
    "Does it work with k3s, RKE2, EKS or GKE?": "k3s RKE2 managed",
    "Which ports and machines does it have to reach?": "needs ports firewalls",
    "Is my kind of cluster supported?": "kinds keepalived external etcd",
    "Which versions are supported?": "supported versions tested",
    "Does it work on an IPv6-only cluster?": "IPv6-only",
    "How long does it take?": "how long it takes minutes",
    "How do I use it without a network, or a registry?": "air-gapped",
    "How do I write the cluster folder?": "create cluster folder",
    "How do I move a kubeadm cluster over, and back?": "adopt undo kubeadm",
    "How do I undo `adopt`?": "adopt undo",
    "How do I stop using it?": "stop using it",
    "How do I upgrade over several minors?": "several minor versions hops",
    "How do I upgrade kubelets as well?": "kubelet drain pools",
    "How do I change a flag of kube-apiserver?": "change a flag of kube-apiserver",
    "How do I keep to a maintenance window?": "maintenance window",
    "How do I pause a run?": "pausing a run",
    "How do I upgrade five clusters?": "several clusters",
    "How do I run it as a CI job?": "GitHub GitLab CI job",
    "Argo CD or Flux owns our releases: what now?": "Argo CD Flux",
    "How does a person approve a step, or a pool?": "approval of a person",
    "How is a step approved in a CI job?": "approve step CI job",
    "How do I skip a check?": "skip check reason",
    "What does this check mean?": "webhook failurePolicy check",
    "How long may a gate wait, and how do I change that?": "gate deadline timeout",
    "What do clients of the API notice?": "failed requests clients retry-after",
    "How do I get a newer upgrader?": "newer upgrader",
    "What is guard, and how do I switch it off?": "guard webhooks switch off",
    "The API does not answer: what now?": "API does not answer recover",
    "My runner was killed: what now?": "interrupted run resume",
    "My laptop went to sleep: what now?": "laptop sleeps",
    "Can I go back after a minor upgrade?": "minor upgrade go back",
    "How do I downgrade?": "downgrades",
    "A playbook can't be undone: how does the rollback go on?": "resume done step by hand",
    "A controller is dead: how do I remove it?": "remove dead controller",
    "What does exit code 5 mean?": "exit code 5",
    "What does this word in a message mean?": "explain code messages name",
    "How do I back up and restore etcd?": "backup restore snapshot",
    "How do I renew certificates?": "renew certificates",
    "How do I replace the cluster's CA?": "rotate a new CA",
    "How do I reach nodes behind a bastion?": "ProxyJump bastion",
    "What may its credentials do?": "credential may do",
}
"""Question of the page → what a reader may type into the site's search."""
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


def test_all_are_asked() -> None:
    """No row of the page is forgotten, and there are at least twenty."""
    rows = [line for line in (REPOSITORY / "docs/questions.md").read_text().splitlines() if "](" in line]
    assert set(WORDS) == set(PAGES) and len(PAGES) == len(rows) >= 20


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
