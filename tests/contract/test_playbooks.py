"""What callers of Ansible rely on: a real ansible-playbook, on this machine and on a lab's."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from contextlib import suppress
from functools import partial
from pathlib import Path

import pytest
import yaml

from testkit.fakes.clock import FakeClock
from testkit.fakes.helm import FakeHelm
from testkit.fakes.hosts import FakeHosts
from testkit.fakes.kube import FakeKube
from testkit.lab_cluster import until
from testkit.waiting import stretched
from upgrader.adapters.playbooks import AnsiblePlaybooks
from upgrader.errors import PlaybookError
from upgrader.model.cluster import Cluster
from upgrader.model.observed import Observed
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.all_checks import run_checks
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.playbooks import check_plays
from upgrader.steps.plan import Plan
from upgrader.steps.playbook.plan import PlannedPlaybook


@pytest.fixture(scope="module")
def ansible() -> AnsiblePlaybooks:
    """One for all tests, as one command has: Ansible is compiled once."""
    return AnsiblePlaybooks()


@pytest.fixture
def inventory(tmp_path: Path) -> Path:
    """Two names for this machine."""
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    path = tmp_path / "hosts.yml"
    path.write_text(yaml.safe_dump({"all": {"hosts": {"one": host, "two": host}}}))
    return path


def playbook(folder: Path, *tasks: Mapping[str, object]) -> Path:
    """A playbook of these tasks for all hosts."""
    path = folder / "play.yml"
    path.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": False, "tasks": [dict(task) for task in tasks]}]))
    return path


def test_changes_are_counted_by_host(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """A successful playbook reports changed tasks by host, and receives its variables."""
    play = playbook(tmp_path, {"command": "echo {{ word }}", "when": "inventory_hostname == word"})
    result = ansible.run(play, inventory=inventory, variables={"word": "one"}, timeout_seconds=stretched(60))
    assert dict(result.changed) == {"one": 1}


def test_failure_names_host_task_and_message(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """A failure names the host, the task and the reason."""
    play = playbook(
        tmp_path, {"name": "Break it", "fail": {"msg": "no space left"}, "when": "inventory_hostname == 'two'"}
    )
    with pytest.raises(PlaybookError) as caught:
        ansible.run(play, inventory=inventory, variables={}, timeout_seconds=stretched(60))
    assert "two: task 'Break it': no space left" in caught.value.message
    assert "one:" not in caught.value.message


def test_rescued_failure_is_none(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """A rescued task doesn't fail the playbook."""
    block = {"block": [{"fail": {"msg": "no"}}], "rescue": [{"debug": {"msg": "yes"}}]}
    ansible.run(playbook(tmp_path, block), inventory=inventory, variables={}, timeout_seconds=stretched(60))


def test_limit_and_check_mode(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """`limit` narrows the hosts; check mode changes nothing, runs no command, and names what it would change."""
    copy = {"name": "Make a file", "copy": {"content": "x", "dest": str(tmp_path / "made")}}
    play = playbook(tmp_path, copy, {"name": "Say it", "debug": {"msg": "x"}}, {"name": "Run it", "command": "false"})
    result = ansible.run(play, inventory=inventory, variables={}, limit="one", timeout_seconds=60, check=True)
    assert dict(result.changed) == {"one": 1} and dict(result.tasks) == {"one": ("Make a file",)}
    assert not (tmp_path / "made").exists()


def test_limit_longer_than_an_argument(ansible: AnsiblePlaybooks, tmp_path: Path) -> None:
    """As of the step that stages all nodes of a large cluster: Ansible starts, and runs on these and on no other."""
    host = {"ansible_connection": "local", "ansible_python_interpreter": sys.executable}
    # As long as 3,200 usual names together, which is more than one argument may be; Ansible takes its time for each.
    names = [f"{'.'.join(['a' * 60] * 4)}.{number}" for number in range(600)]
    inventory = tmp_path / "hosts.yml"
    inventory.write_text(json.dumps({"all": {"hosts": dict.fromkeys(["other", *names], host)}}))
    task = {"fail": {"msg": "limited by {{ ansible_limit }}"}, "run_once": True, "when": "ansible_limit is defined"}
    with pytest.raises(PlaybookError) as caught:
        ansible.run(
            playbook(tmp_path, task),
            inventory=inventory,
            variables={},
            limit=",".join(names),
            timeout_seconds=stretched(120),
        )
    assert set(caught.value.hosts) == set(names)
    assert sum("limited by @" in why for why in caught.value.hosts.values()) == 1


def test_malformed_playbook_says_what_ansible_said(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """A playbook that can't start has no failed host; the message is Ansible's."""
    play = tmp_path / "play.yml"
    play.write_text("- hosts: all\n  tsks: []\n")
    with pytest.raises(PlaybookError, match="tsks"):
        ansible.run(play, inventory=inventory, variables={}, timeout_seconds=stretched(60))


def test_deadline_holds(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """A playbook that doesn't end is stopped at its deadline."""
    play = playbook(tmp_path, {"command": "sleep 60"})
    with pytest.raises(PlaybookError, match="timed out after 3 s"):
        ansible.run(play, inventory=inventory, variables={}, timeout_seconds=3)


def test_ansible_asks_for_nothing(
    ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Whatever an ansible.cfg says, and a playbook: it would be waited for, at a terminal that no one sees."""
    (tmp_path / "ansible.cfg").write_text("[privilege_escalation]\nbecome_ask_pass = True\n")
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    asking = {"ansible.builtin.pause": {"prompt": "Sure?"}}
    ansible.run(playbook(tmp_path, asking), inventory=inventory, variables={}, timeout_seconds=stretched(60))


@pytest.mark.parametrize("name", ["stage-node.yml", "upgrade-node.yml", "restore-node.yml"])
def test_a_node_is_not_left_halfway_because_another_fails(
    ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """`any_errors_fatal` of an ansible.cfg would end the play on all nodes: with a new kubelet, and a restore point
    that says that its upgrade was interrupted.
    """
    monkeypatch.setenv("ANSIBLE_ANY_ERRORS_FATAL", "True")
    (play,) = yaml.safe_load((Path("playbooks") / name).read_text())
    tasks = [
        {"fail": {"msg": "no"}, "when": "inventory_hostname == 'one'"},
        {"copy": {"content": "x", "dest": f"{tmp_path}/{{{{ inventory_hostname }}}}"}},
    ]
    path = tmp_path / name
    path.write_text(yaml.safe_dump([{**play, "hosts": "all", "become": False, "tasks": tasks}]))
    with pytest.raises(PlaybookError) as caught:
        ansible.run(path, inventory=inventory, variables={}, limit="one,two", timeout_seconds=stretched(60))
    assert list(caught.value.hosts) == ["one"]
    assert (tmp_path / "two").exists()


def test_playbook_that_ends_by_its_facts(
    ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It gathers facts, and `meta: end_host` leaves it nothing to do: that is a success, and that tags leave it no task
    isn't.
    """
    tasks = [{"meta": "end_host", "when": "ansible_facts.system == word"}, {"command": "false"}]
    play = tmp_path / "play.yml"
    play.write_text(yaml.safe_dump([{"hosts": "all", "gather_facts": True, "tasks": tasks}]))
    words = {"word": "Linux"}
    run = partial(ansible.run, play, inventory=inventory, variables=words, timeout_seconds=stretched(60))
    assert dict(run().changed) == {}
    monkeypatch.setenv("ANSIBLE_RUN_TAGS", "other")
    with pytest.raises(PlaybookError, match="ran none of its tasks"):
        run()


def test_missing_files_are_named(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """A missing inventory is refused, as ansible-runner would use its path as content."""
    with pytest.raises(PlaybookError, match=r"nowhere\.yml: no such file"):
        ansible.run(tmp_path / "nowhere.yml", inventory=inventory, variables={}, timeout_seconds=stretched(60))


def test_signal_handlers_are_left_alone(ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path) -> None:
    """Running a playbook keeps upgrader's signal handlers."""
    before = signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)
    play = playbook(tmp_path, {"command": "true"})
    ansible.run(play, inventory=inventory, variables={}, timeout_seconds=stretched(60))
    assert (signal.getsignal(signal.SIGINT), signal.getsignal(signal.SIGTERM)) == before


def test_real_machines_answer(ansible: AnsiblePlaybooks, tmp_path: Path, lab_folder: Path) -> None:
    """The lab's inventory works over SSH with strict host keys."""
    play = playbook(tmp_path, {"ping": {}}, {"command": "true"})
    result = ansible.run(play, inventory=lab_folder / "hosts.yml", variables={}, timeout_seconds=stretched(120))
    assert result.changed["controller-1"] == 1


_STARTER = """
import sys
from pathlib import Path
from upgrader.adapters.playbooks import AnsiblePlaybooks
AnsiblePlaybooks().run(Path(sys.argv[1]), inventory=Path(sys.argv[2]), variables={}, timeout_seconds=600)
"""


def test_playbook_ends_with_the_process_that_started_it(tmp_path: Path, inventory: Path) -> None:
    """Ansible ends when its parent is killed, so that it doesn't run beside the one of a resumed run."""
    begun = tmp_path / "begun"
    play = playbook(tmp_path, {"command": f"sh -c 'touch {begun}; sleep 600'"})
    with subprocess.Popen([sys.executable, "-c", _STARTER, str(play), str(inventory)]) as starter:
        try:
            until("the playbook", begun.exists, timeout_seconds=120)
            assert _at_work(play)
        finally:
            starter.kill()  # or else a failure waits for the playbook's end
    until("the end of Ansible", lambda: not _at_work(play), timeout_seconds=120)


def _at_work(play: Path) -> list[str]:
    """Processes of `ansible-playbook` with this playbook."""
    lines = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):  # it has ended
            lines.append(path.read_bytes())
    return [line.decode() for line in lines if b"ansible-playbook" in line and str(play).encode() in line]


@pytest.mark.parametrize(
    ("plays", "found"),
    [
        ([("one", "debug")], []),
        ([("all:!two", "debug")], []),
        ([("localhost", "debug")], []),
        ([("three", "debug"), ("one", "debug")], ["playbooks.idle-play"]),
        ([("three", "debug"), ("all:!all", "debug")], ["playbooks.no-machine"]),
        ([("one", "debugg")], ["playbooks.refused"]),
        ([], ["playbooks.refused"]),
    ],
)
def test_playbooks_before_a_run(
    ansible: AnsiblePlaybooks, tmp_path: Path, inventory: Path, plays: list[tuple[str, str]], found: list[str]
) -> None:
    """Found without running anything, and as Ansible's own --syntax-check has it."""
    play = tmp_path / "play.yml"
    tasks = [{"hosts": hosts, "tasks": [{"shell": f"touch {tmp_path}/ran"}, {module: {}}]} for hosts, module in plays]
    play.write_text(yaml.safe_dump(tasks))
    version = KubernetesVersion(1, 37, 1)
    context = PreflightContext(
        FakeKube(), FakeHosts(), FakeHelm(), FakeClock(), Cluster(tmp_path, Path(), "", inventory, ()), version,
        Observed(version, {}, {}), 300.0, Plan(version, version, (PlannedPlaybook(play),)),
        playbooks=ansible,
    )  # fmt: skip
    findings = run_checks(context, [("playbooks", check_plays)])
    assert [finding.id for finding in findings] == found
    checked = subprocess.run(
        [Path(sys.executable).with_name("ansible-playbook"), "--syntax-check", "-i", inventory, play],
        capture_output=True,
        text=True,
        check=False,
    )
    assert bool(checked.returncode) == (found == ["playbooks.refused"]), checked
    assert not (tmp_path / "ran").exists()
    if found == ["playbooks.refused"]:
        assert findings[0].diagnosis.splitlines()[0] in " ".join(checked.stderr.split("\n"))
