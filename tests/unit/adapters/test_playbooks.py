"""How Ansible's events become a result: judged by the final counts, told by the last failure."""

from __future__ import annotations

import errno
import os
import shutil
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ansible_runner
import pytest

from upgrader.adapters import playbooks
from upgrader.adapters.playbooks import AnsiblePlaybooks
from upgrader.errors import PlaybookError


class ScriptedRun:
    """Stands in for `ansible_runner.run`: hands out events, and looks at what it was given while it ran."""

    def __init__(self, status: str, *events: dict[str, Any]) -> None:
        self._events = events
        self.status = status
        self.given: dict[str, Any] = {}
        self.variables = ""
        self.limit = ""
        self.mode = 0

    def __call__(self, **given: Any) -> ScriptedRun:
        self.given = given
        path = Path(given["extravars"])
        self.variables, self.mode = path.read_text(), path.stat().st_mode & 0o777
        if given["limit"]:
            self.limit = Path(given["limit"].removeprefix("@")).read_text()
        for event in self._events:
            given["event_handler"](event)
        return self

    @property
    def stdout(self) -> Any:
        path = Path(self.given["private_data_dir"]) / "stdout"
        path.write_text("ERROR! something is odd\n")
        return path.open()


def failed(host: str, result: dict[str, Any]) -> dict[str, Any]:
    """A failed task."""
    return {"event": "runner_on_failed", "event_data": {"host": host, "task": "Do it", "res": result}}


def stats(**counts: dict[str, int]) -> dict[str, Any]:
    """The end of a play."""
    return {"event": "playbook_on_stats", "event_data": {"processed": {"one": 1}, **counts}}


def play(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    run: ScriptedRun,
    limit: str = "",
    ansible: AnsiblePlaybooks | None = None,
    **variables: str,
) -> dict[str, int]:
    """Run a playbook; returns what changed."""
    monkeypatch.setattr(ansible_runner, "run", run)
    for name in ("play.yml", "hosts.yml"):
        (tmp_path / name).touch()
    result = (ansible or AnsiblePlaybooks()).run(
        tmp_path / "play.yml", inventory=tmp_path / "hosts.yml", variables=variables, timeout_seconds=5, limit=limit
    )
    return dict(result.changed)


@pytest.mark.parametrize(
    ("result", "said"),
    [
        ({"msg": "non-zero return code", "stderr": "disk full"}, "non-zero return code disk full"),
        ({"results": [{"item": "a"}, {"item": "b", "failed": True, "msg": "no"}]}, "item 'b': no"),
        ({"results": [{"item": "a", "unreachable": True, "msg": "lost"}], "msg": "All items"}, "item 'a': lost"),
        ({"censored": "the output has been hidden"}, "the output has been hidden"),
        ({}, "no message"),
    ],
    ids=["command", "loop", "lost in a loop", "no_log", "nothing"],
)
def test_failure_says_why(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, result: dict[str, Any], said: str) -> None:
    """Whatever form a module's failure has, the message is in the error, with host and task."""
    run = ScriptedRun("failed", failed("one", result), stats(failures={"one": 1}))
    with pytest.raises(PlaybookError) as caught:
        play(monkeypatch, tmp_path, run)
    assert f"one: task 'Do it': {said}" in caught.value.message


def test_unreachable_host_fails_even_if_the_run_does_not_say_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A host that Ansible never reached was not changed: that is no success, whatever the status."""
    with pytest.raises(PlaybookError, match="failed on 1 of the hosts"):
        play(monkeypatch, tmp_path, ScriptedRun("successful", stats(dark={"one": 1})))


def ran(action: str, kind: str = "runner_on_ok") -> dict[str, Any]:
    """A task of this module."""
    return {"event": kind, "event_data": {"host": "one", "task": "Do it", "task_action": action, "res": {}}}


@pytest.mark.parametrize("action", ["gather_facts", "ansible.builtin.setup"])
def test_playbook_whose_tasks_no_tag_selects_fails(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, action: str
) -> None:
    """Ansible gathers facts, runs nothing and reports success: that step has not been done, and changed nothing."""
    monkeypatch.setattr(playbooks, "selects_tasks", lambda *_, **__: False)
    with pytest.raises(PlaybookError, match="ran none of its tasks") as caught:
        play(monkeypatch, tmp_path, ScriptedRun("successful", ran(action, "runner_on_start"), ran(action), stats()))
    assert "ANSIBLE_RUN_TAGS" in caught.value.remedy and not caught.value.begun


def test_playbook_that_ends_by_its_facts_succeeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`meta: end_host` ends an idempotent playbook on a host that has it all; Ansible has no event for that."""
    monkeypatch.setattr(playbooks, "selects_tasks", lambda *_, **__: True)
    assert play(monkeypatch, tmp_path, ScriptedRun("successful", ran("gather_facts"), stats())) == {}


@pytest.mark.parametrize("kind", ["runner_on_ok", "runner_on_skipped"])
def test_playbook_with_nothing_left_to_do_succeeds(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, kind: str) -> None:
    """Its tasks were run, or skipped for their conditions."""
    run = ScriptedRun("successful", ran("gather_facts"), ran("ansible.builtin.copy", kind), stats())
    assert play(monkeypatch, tmp_path, run) == {}


def test_playbook_whose_events_are_lost_has_not_done_nothing(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Where the disk is full, tasks may have run whose events were not written: nobody says that none has."""
    run = ScriptedRun("successful", ran("gather_facts"), {"uuid": "1"}, stats())
    assert play(monkeypatch, tmp_path, run) == {}


def test_variables_stay_off_the_command_line(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """They go through a file that only this user can read, and that is gone afterwards."""
    run = ScriptedRun("successful", stats(changed={"one": 2}))
    assert play(monkeypatch, tmp_path, run, password="hunter2") == {"one": 2}
    assert "hunter2" in run.variables and run.mode == 0o600
    assert "hunter2" not in str(run.given)
    assert not Path(run.given["private_data_dir"]).exists()


def test_playbook_has_succeeded_whatever_becomes_of_its_temporary_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A network file system may keep a name in it for a while: no reason to fail, and the variables are removed."""

    def kept(path: Any, **_: Any) -> None:
        raise OSError(errno.ENOTEMPTY, os.strerror(errno.ENOTEMPTY), path)

    run = ScriptedRun("successful", ran("command"), stats(changed={"one": 1}))
    with monkeypatch.context() as refused:
        refused.setattr(os, "rmdir", kept)
        assert play(monkeypatch, tmp_path, run, password="secret") == {"one": 1}
    folder = Path(run.given["private_data_dir"])
    assert folder.exists() and [path for path in folder.rglob("*") if path.is_file()] == []
    shutil.rmtree(folder)


def test_bytecode_is_kept_between_starts_and_is_private(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ansible is compiled once for an adapter, never in the cluster folder, and for no other user; nothing remains."""
    run = ScriptedRun("successful", stats())
    monkeypatch.setattr(ansible_runner, "run", run)
    (tmp_path / "a.yml").touch()
    ansible = AnsiblePlaybooks()
    folders = []
    for _ in range(2):
        ansible.run(tmp_path / "a.yml", inventory=tmp_path / "a.yml", variables={}, timeout_seconds=5)
        folders.append(Path(run.given["envvars"]["PYTHONPYCACHEPREFIX"]))
    assert folders[0] == folders[1] and folders[0].stat().st_mode & 0o777 == 0o700
    assert tmp_path not in folders[0].parents
    del ansible
    assert not folders[0].exists()


@pytest.mark.parametrize("name", ["ANSIBLE_HOST_KEY_CHECKING", "ANSIBLE_SSH_HOST_KEY_CHECKING"])
def test_host_keys_are_checked_whatever_a_configuration_says(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    """A machine that nobody has verified must not get a controller's secrets; of two variables the second one wins."""
    monkeypatch.setenv(name, "False")
    run = ScriptedRun("successful", stats())
    play(monkeypatch, tmp_path, run)
    assert run.given["envvars"][name] == "True"


def test_machine_that_loses_its_power_is_noticed(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """ssh asks whether the machine is still there, beside whatever arguments the environment has for it."""
    monkeypatch.setenv("ANSIBLE_SSH_EXTRA_ARGS", "-o Ciphers=aes256-ctr")
    run = ScriptedRun("successful", stats())
    play(monkeypatch, tmp_path, run)
    given = run.given["envvars"]["ANSIBLE_SSH_EXTRA_ARGS"]
    assert given == "-o Ciphers=aes256-ctr -o ServerAliveInterval=15 -o ServerAliveCountMax=4"


@pytest.mark.parametrize("named", ["{}", "{}/ansible.cfg", "~/ansible.cfg", "$HOME/ansible.cfg"])
def test_arguments_of_an_ansible_cfg_are_kept(monkeypatch: pytest.MonkeyPatch, tmp_path: Path, named: str) -> None:
    """The way to a machine may be there, however the file is named. A broken one is left to Ansible; one that it
    wouldn't read may lead elsewhere.
    """
    monkeypatch.delenv("ANSIBLE_SSH_EXTRA_ARGS", raising=False)
    file = tmp_path / "ansible.cfg"
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("ANSIBLE_CONFIG", named.format(tmp_path))
    (tmp_path / ".ansible.cfg").write_text("[ssh_connection]\nssh_extra_args = -o ProxyJump=elsewhere\n")
    for text, kept in (
        ("[ssh_connection]\nssh_extra_args = -o ProxyJump=%h.b ; ours\n", "-o ProxyJump=%h.b "),
        ("[", ""),
    ):
        file.write_text(text)
        run = ScriptedRun("successful", stats())
        play(monkeypatch, tmp_path, run)
        given = run.given["envvars"]["ANSIBLE_SSH_EXTRA_ARGS"]
        assert given == f"{kept}-o ServerAliveInterval=15 -o ServerAliveCountMax=4"


@pytest.mark.parametrize(
    ("folder", "variable", "text", "given"),
    [
        ("", "", "", "True"),
        ("elsewhere", "", "", None),
        ("", "ANSIBLE_SSH_PIPELINING", "", None),
        ("", "", "[ssh_connection]\npipelining = False\n", None),
        ("", "", "[defaults]\npipelining = False\n", None),
    ],
    ids=["built in", "an operator's", "the environment says", "its section says", "the defaults say"],
)
def test_built_in_playbooks_are_pipelined(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, folder: str, variable: str, text: str, given: str | None
) -> None:
    """One session of SSH for a task; others may rely on a terminal for sudo, and what an operator says holds."""
    for name in ("ANSIBLE_PIPELINING", "ANSIBLE_SSH_PIPELINING"):
        monkeypatch.delenv(name, raising=False)
    if variable:
        monkeypatch.setenv(variable, "False")
    (tmp_path / "ansible.cfg").write_text(text)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    run = ScriptedRun("successful", stats())
    play(monkeypatch, tmp_path, run, ansible=AnsiblePlaybooks(pipelined=tmp_path / folder))
    assert run.given["envvars"].get("ANSIBLE_PIPELINING") == given


@pytest.mark.parametrize(
    ("folder", "hosts", "variable", "text", "given"),
    [
        ("", 3, "", "", "3"),
        ("", 10, "", "", "10"),
        ("", 1000, "", "", "10"),
        ("", 10, "25", "", None),
        ("", 10, "", "[defaults]\nforks = 2\n", None),
        ("elsewhere", 10, "", "", None),
    ],
    ids=["few", "a batch", "all nodes", "the environment says", "ansible.cfg says", "an operator's"],
)
def test_nodes_of_a_batch_go_through_each_task_together(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    folder: str,
    hosts: int,
    variable: str,
    text: str,
    given: str | None,
) -> None:
    """Ansible works on five hosts at once, so that ten drained nodes would wait for each other."""
    monkeypatch.delenv("ANSIBLE_FORKS", raising=False)
    if variable:
        monkeypatch.setenv("ANSIBLE_FORKS", variable)
    (tmp_path / "ansible.cfg").write_text(text)
    monkeypatch.setenv("ANSIBLE_CONFIG", str(tmp_path / "ansible.cfg"))
    nodes = [f"node-{number}" for number in range(hosts)]
    run = ScriptedRun("successful", stats(processed=dict.fromkeys(nodes, 1)))
    play(monkeypatch, tmp_path, run, ansible=AnsiblePlaybooks(pipelined=tmp_path / folder), limit=",".join(nodes))
    assert run.given["envvars"].get("ANSIBLE_FORKS") == given


def test_what_never_ran_shows_ansibles_words(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without a failed host, Ansible's last lines are the message."""
    with pytest.raises(PlaybookError, match="something is odd"):
        play(monkeypatch, tmp_path, ScriptedRun("failed"))


def test_playbook_that_no_host_matches_fails(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Ansible calls it a success; whoever wrote the step meant some host."""
    with pytest.raises(PlaybookError, match="did nothing: it has no tasks for the hosts"):
        play(monkeypatch, tmp_path, ScriptedRun("successful", stats(processed={})))


@pytest.mark.parametrize("failures", [{}, {"one": 1}])
def test_host_on_which_nothing_ran_has_failed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, failures: dict[str, int]
) -> None:
    """One that the inventory doesn't list is ignored by Ansible: nothing of it was changed, and no wait helps."""
    with pytest.raises(PlaybookError, match="two: no play ran on it") as caught:
        play(monkeypatch, tmp_path, ScriptedRun("successful", stats(failures=failures)), limit="one,two")
    assert set(caught.value.hosts) == {"two", *failures}


def test_thousands_of_nodes_are_no_argument(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Linux starts no program with an argument of more than 128 KiB: some 3,000 names of a cloud's machines."""
    names = [f"ip-10-0-{number}.eu-central-1.compute.internal" for number in range(5000)]
    processed = {"event_data": {"processed": dict.fromkeys(names, 1)}, "event": "playbook_on_stats"}
    run = ScriptedRun("successful", processed)
    assert play(monkeypatch, tmp_path, run, limit=",".join(names)) == {}
    assert len(run.given["limit"]) < 128 * 1024 and run.limit.split() == names
    play(monkeypatch, tmp_path, run)
    assert run.given["limit"] is None


def test_colours_that_a_job_forces(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ansible's words are read, by how their lines begin: a CI job's ANSIBLE_FORCE_COLOR, which comes before NOCOLOR,
    doesn't count.
    """
    monkeypatch.setenv("ANSIBLE_FORCE_COLOR", "1")
    seen = tmp_path / "seen"

    def ansible(command: list[str], **options: Any) -> Any:
        seen.write_text(options["env"]["ANSIBLE_FORCE_COLOR"])
        raise OSError(2, "no")

    monkeypatch.setattr("upgrader.adapters.playbook_listing.subprocess.Popen", ansible)
    (tmp_path / "a.yml").touch()
    with pytest.raises(PlaybookError):
        AnsiblePlaybooks().plays([tmp_path / "a.yml"], inventory=tmp_path / "a.yml", timeout_seconds=1.0)
    assert seen.read_text() == "0"


FACTS_ONLY = (
    {"event": "runner_on_ok", "event_data": {"host": "one", "task": "Gathering Facts", "task_action": "gather_facts"}},
    stats(),
)


def test_listing_of_tasks_has_what_is_left_of_the_time(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A playbook whose facts took three of its five seconds has two for the question whether tags left it a task."""
    times, given = iter([100.0, 103.0]), dict[str, Any]()
    monkeypatch.setattr(playbooks, "time", SimpleNamespace(monotonic=lambda: next(times)))
    monkeypatch.setattr(playbooks, "selects_tasks", lambda *_, **options: given.update(options) or True)
    assert play(monkeypatch, tmp_path, ScriptedRun("successful", *FACTS_ONLY)) == {}
    assert given["timeout_seconds"] == 2.0


def test_playbook_whose_tasks_could_not_be_listed_may_have_begun(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Ansible has ended it well, and only whether it had a task is unknown: a rollback mustn't take it for one that was
    never started.
    """

    def late(*_: Any, **__: Any) -> bool:
        raise PlaybookError("ansible-playbook --list-tasks timed out after 2 s", begun=False)

    monkeypatch.setattr(playbooks, "selects_tasks", late)
    with pytest.raises(PlaybookError, match=r"play\.yml ended, but it is unknown .*: .*timed out after 2 s") as caught:
        play(monkeypatch, tmp_path, ScriptedRun("successful", *FACTS_ONLY))
    assert caught.value.begun
