"""What is read from `ansible-playbook --list-hosts`; what it prints of real playbooks: tests/contract."""

from __future__ import annotations

from pathlib import Path

import pytest

from testkit.waiting import stretched
from upgrader.adapters.playbook_listing import list_plays, selects_tasks
from upgrader.errors import PlaybookError, PlaybookRefused
from upgrader.ports import Play

LISTED = """
playbook: /c/a.yml

  play #1 (controllers,db): a name
  of two lines\tTAGS: []
    pattern: ['controllers', 'db']
    hosts (2):
      two
      one

  play #2 (workers): workers\tTAGS: []
    pattern: ['workers']
    hosts (0):

playbook: /c/b.yml

  play #1 (localhost): localhost\tTAGS: []
    pattern: ['localhost']
    hosts (1):
      localhost
"""


def listed(folder: Path, script: str, seconds: float = 60.0) -> tuple[tuple[Play, ...], ...]:
    """What is read from an Ansible that does this."""
    program = folder / "ansible-playbook"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(0o700)
    return list_plays(
        [Path("/c/a.yml"), Path("/c/b.yml")],
        inventory=Path("/c/hosts.yml"),
        folder=folder,
        environment={"PATH": str(folder)},
        timeout_seconds=seconds,
    )


def test_plays_of_several_playbooks(tmp_path: Path) -> None:
    """Each with its pattern and its machines, also where there are none."""
    (tmp_path / "out").write_text(LISTED)
    one, two = listed(tmp_path, "exec /bin/cat out")
    assert one == (Play("controllers, db", ("one", "two")), Play("workers", ()))
    assert two == (Play("localhost", ("localhost",)),)


@pytest.mark.parametrize("mark", ["[ERROR]: ", "ERROR! "])
def test_error_without_the_warnings(tmp_path: Path, mark: str) -> None:
    """Ansible's own words, of either form, with the place; warnings before them say nothing of it."""
    text = f"[WARNING]: Could not match\\n{mark}couldn't resolve 'cop'\\nOrigin: a.yml:1:31\\n\\n1 [cop]\\n"
    with pytest.raises(PlaybookRefused) as caught:
        listed(tmp_path, f'printf "{text}" >&2; exit 4')
    assert caught.value.message == "couldn't resolve 'cop'\nOrigin: a.yml:1:31\n1 [cop]"


def test_what_is_no_listing(tmp_path: Path) -> None:
    """An Ansible that ends well without one, or that isn't there, has said nothing of the playbooks."""
    with pytest.raises(PlaybookError) as caught:
        listed(tmp_path, "exit 0")
    assert not isinstance(caught.value, PlaybookRefused)
    with pytest.raises(PlaybookError, match="not installed"):
        list_plays([], inventory=Path(), folder=tmp_path, environment={"PATH": "/nowhere"}, timeout_seconds=1.0)


def test_what_it_waits_for_ends_with_it(tmp_path: Path) -> None:
    """An inventory's program that hangs doesn't stay behind when Ansible has had its time."""
    with pytest.raises(PlaybookError, match="timed out after"):
        listed(tmp_path, "/bin/sleep 600 & echo $! > program; wait", seconds=stretched(2))
    number = (tmp_path / "program").read_text().strip()
    status = Path(f"/proc/{number}/stat")
    assert not status.exists() or status.read_text().rpartition(")")[2].split()[0] == "Z"


@pytest.mark.parametrize(("task", "selected"), [("", False), ("      meta\tTAGS: []\n", True)])
def test_whether_tags_leave_a_task(tmp_path: Path, task: str, selected: bool) -> None:
    """A play without tasks is listed with its own tags only."""
    text = f"\nplaybook: /c/a.yml\n\n  play #1 (all): all\tTAGS: []\n    tasks:\n{task}"
    (tmp_path / "out").write_text(text)
    program = tmp_path / "ansible-playbook"
    program.write_text("#!/bin/sh\nexec /bin/cat out\n")
    program.chmod(0o700)
    found = selects_tasks(
        Path("/c/a.yml"),
        inventory=Path("/c/hosts.yml"),
        variables=Path("/c/variables"),
        folder=tmp_path,
        environment={"PATH": str(tmp_path)},
        timeout_seconds=60.0,
    )
    assert found is selected
