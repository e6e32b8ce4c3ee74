"""The documentation keeps up with the code."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import pytest

from scripts import checks_reference, cli_reference, codes_reference, layers_figure
from scripts.docs_site import gather, repaired_search
from upgrader.config.yaml_schema import schema_text

REPOSITORY = Path(__file__).parents[3]
PAGES = sorted([*REPOSITORY.glob("*.md"), *REPOSITORY.glob("docs/**/*.md")])


def test_command_line_reference_is_current() -> None:
    """docs/reference/cli.md is what `make docs` makes from the commands as they are."""
    assert (REPOSITORY / "docs/reference/cli.md").read_text() == cli_reference.render()


def test_schema_of_upgrader_yaml_is_current() -> None:
    """The published schema is the one that `upgrader init` writes."""
    page = REPOSITORY / "docs" / "reference" / "upgrader-yaml.schema.json"
    assert page.read_text() == schema_text(), "run `make docs`"


def test_reference_of_checks_is_current() -> None:
    """docs/reference/checks.md is what `make docs` makes from the checks, and none of their ids is missing."""
    page = (REPOSITORY / "docs/reference/checks.md").read_text()
    assert page == checks_reference.render()
    for path in (REPOSITORY / "upgrader/preflight").glob("*.py"):
        written = re.findall(r'^\s*"([a-z-]+\.[a-z-]+)",$', path.read_text(), re.MULTILINE)
        assert [each for each in written if f"| `{each}` |" not in page] == []


def test_reference_of_codes_is_current() -> None:
    """Errors, gates and exit codes are those of the code."""
    assert (REPOSITORY / "docs/reference/codes.md").read_text() == codes_reference.render()
    page = (REPOSITORY / "docs/troubleshooting.md").read_text()
    assert page == codes_reference.exit_codes_page(page)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(REPOSITORY)))
def test_links_lead_somewhere(page: Path) -> None:
    """Every relative link of a page names a file or folder of the repository."""
    targets = re.findall(r"\]\((?!https?://|#)([^)#\s]+)", page.read_text())
    assert [target for target in targets if not (page.parent / target).exists()] == []


def test_answers_are_two_clicks_away() -> None:
    """Each page that answers one of the first questions is in the site's menu, and so is the list of them."""
    menu = re.findall(r"^ +- (?:[^:\n]+: )?(\S+\.md)$", (REPOSITORY / "mkdocs.yml").read_text(), re.MULTILINE)
    listed = re.findall(r"^\| .*\? \| \[.*\]\(([^)#]+)", (REPOSITORY / "docs/questions.md").read_text(), re.MULTILINE)
    assert len(listed) >= 20 and "docs/questions.md" in menu
    assert [page for page in listed if f"docs/{page}" not in menu] == []


def test_architecture_names_files_that_exist() -> None:
    """A reader who looks up where to change something finds the file; the table has only what names don't tell."""
    page = (REPOSITORY / "docs/architecture.md").read_text()
    paths = re.findall(r"`((?:upgrader|charts|templates|testkit|tests)/[^`]+)`", page)
    assert len(paths) >= 20
    assert [path for path in paths if not (REPOSITORY / path).exists()] == []
    assert len(re.findall(r"^\| ", page, re.MULTILINE)) <= 26


def test_the_figure_of_the_layers_is_that_of_the_contracts() -> None:
    """docs/architecture.md draws the layers that `make lint` enforces, and names each of their rooms."""
    page = (REPOSITORY / "docs/architecture.md").read_text()
    assert page == layers_figure.page_with_figure(page), "run `make docs`"
    (rooms,) = re.findall(r"subgraph upgrader\[.*?end\n", page, re.DOTALL)
    names = [room for row in re.findall(r'\["([^"/]+)"\]', rooms) for room in row.split(" · ")]
    assert len(names) > 15 and [name for name in names if f"**`{name}" not in page] == []


def test_the_home_page_has_the_whole_width(tmp_path: Path) -> None:
    """Its table of seven columns isn't clipped between two lists of links; other pages keep theirs."""
    home = tmp_path / "repository"
    (home / "docs").mkdir(parents=True)
    for name in ("README.md", "docs/a.md"):
        (home / name).write_text("# title\n")
    subprocess.run(["git", "init", "-q", str(home)], check=True)
    gather(home, tmp_path / "pages")
    shown = (tmp_path / "pages/README.md").read_text()
    assert shown.startswith("---\nhide:\n  - navigation\n  - toc\n---\n") and shown.endswith("# title\n")
    assert (tmp_path / "pages/docs/a.md").read_text() == "# title\n"


def test_search_tells_nodes_of_its_index_apart() -> None:
    """Its program is repaired in one place; another version of it, which may not need that, is an error to look at."""
    assert 'o.id+","' in repaired_search("for(;;){e=e+s+o.id}return e}")
    with pytest.raises(ValueError, match="repaired_search"):
        repaired_search("another program")
