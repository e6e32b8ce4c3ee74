"""The documentation as a site with search, made by MkDocs (`make site`).

Pages are written for a checkout: they link to folders, to sources, and to pages outside of docs/. MkDocs has one folder
of pages, so they are gathered in one, each where it is in the checkout, together with the files that they link to.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

__all__ = ["REPOSITORY", "SITE", "build", "gather", "repaired_search"]

REPOSITORY = Path(__file__).resolve().parents[1]
SITE = REPOSITORY / "build" / "site"
_PAGES = REPOSITORY / "build" / "pages"
_LINK = re.compile(r"(\]\()(?!https?://|#)([^)#\s]+)")
_PARTS_OF_PAGES = ("*.intro.md", "*.remarks.md")
_DECISIONS = Path("docs/adr")
_EVIDENCE = ("docs/adr/*", "docs/benchmarks/*", "docs/reliability.md", "C*.md")
_KEY, _UNAMBIGUOUS = "e=e+s+o.id}return e", 'e=e+s+o.id+","}return e'
_FOUND_LATER = "---\nsearch:\n  boost: 0.1\n---\n\n"
"""A search should find the pages for users first."""
_WHOLE_WIDTH = "---\nhide:\n  - navigation\n  - toc\n---\n\n"
"""Its table of measurements has seven columns: between two lists of links they don't fit 1280 pixels."""


def gather(repository: Path, pages: Path) -> None:
    """Fill the folder `pages`, which is emptied first, with every page of the repository, and what they link to."""
    shutil.rmtree(pages, ignore_errors=True)
    for page in _tracked(repository):
        text = _LINK.sub(_to_files(repository, page, pages), (repository / page).read_text())
        if page == _DECISIONS / "README.md":
            text += "".join(_decisions(repository))
        elif page == Path("README.md"):
            text = _WHOLE_WIDTH + text
        elif any(page.match(each) for each in _EVIDENCE):
            text = _FOUND_LATER + text
        _place(pages / page).write_text(text)


def _tracked(repository: Path) -> list[Path]:
    command = ["git", "-C", str(repository), "ls-files", "--cached", "--others", "--exclude-standard", "*.md"]
    listed = map(Path, subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())
    return [page for page in listed if not any(page.match(part) for part in _PARTS_OF_PAGES)]


def _to_files(repository: Path, page: Path, pages: Path) -> Callable[[re.Match[str]], str]:
    """Links to files, which come along; a folder is its README, or no page: then its name is enough."""

    def replaced(link: re.Match[str]) -> str:
        target = (repository / page).parent / link[2]
        if target.is_dir():
            readme = target / "README.md"
            return f"{link[1]}{link[2].rstrip('/')}/README.md" if readme.exists() else f"{link[1]}#"
        if target.suffix != ".md":
            shutil.copyfile(target, _place(pages / target.resolve().relative_to(repository)))
        return link[0]

    return replaced


def _place(path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    return path


def _decisions(repository: Path) -> Iterator[str]:
    """A list of all decisions, by their titles."""
    yield "\n"
    for path in sorted((repository / _DECISIONS).glob("0*.md")):
        title = path.read_text().splitlines()[0].removeprefix("# ")
        yield f"- [{title}]({path.name})\n"


def build() -> int:
    """Make the site; the exit code of MkDocs, for which a link or an anchor that leads nowhere is an error."""
    gather(REPOSITORY, _PAGES)
    # Not --quiet: what isn't logged is not counted by --strict.
    command = [sys.executable, "-m", "mkdocs", "build", "--strict"]
    # It would print an advertisement for its successor.
    environment = {**os.environ, "NO_MKDOCS_2_WARNING": "1"}
    ended = subprocess.run(command, cwd=REPOSITORY, env=environment, check=False).returncode
    if not ended:
        for worker in (SITE / "assets" / "javascripts" / "workers").glob("search.*.min.js"):
            worker.write_text(repaired_search(worker.read_text()))
    return ended


def repaired_search(worker: str) -> str:
    """The search's program, with what makes lunr take different nodes of its index for the same one repaired.

    A node's key is its edges' letters and numbers, one behind the other: `1` to node 23 and `4` to node 5 have the key
    of `1` to 2 and `3` to 45. With as many numbers as these pages have, that happens, and then a search for `5` finds
    nothing at all. Raises ValueError where the program is another one.
    """
    if worker.count(_KEY) != 1:
        raise ValueError("the search's program doesn't make keys of its index's nodes as it did: see repaired_search")
    return worker.replace(_KEY, _UNAMBIGUOUS)


if __name__ == "__main__":
    ended = build()
    if not ended:
        # A browser reads no search index from file://.
        print(f"Serve it: python3 -m http.server --directory {os.path.relpath(SITE)}", file=sys.stderr)
    sys.exit(ended)
