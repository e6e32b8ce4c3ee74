"""Ansible playbooks with ansible-runner, in a private folder that is removed afterwards."""

from __future__ import annotations

import configparser
import json
import os
import shutil
import sys
import tempfile
import time
import weakref
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from upgrader.adapters.playbook_listing import list_plays, selects_tasks
from upgrader.adapters.process_tree import end_tree
from upgrader.errors import PlaybookError
from upgrader.ports import Play, PlaybookResult

__all__ = ["AnsiblePlaybooks"]

_TAIL_LINES = 15
_OF_TASKS = ("TASK [", "RUNNING HANDLER [", "PLAY RECAP")
"""Prefixes of Ansible's output once tasks run; these lines normally arrive as events."""
_FACTS = ("gather_facts", "setup")
"""Modules that only read. Ansible gathers facts before the tasks of a play, whatever tags select of these."""
_PID = "ansible.pid"
_KEEP_ALIVE = ("-o ServerAliveInterval=15", "-o ServerAliveCountMax=4")
_PIPELINING = ("ANSIBLE_PIPELINING", "ANSIBLE_SSH_PIPELINING")
_FORKS = "ANSIBLE_FORKS"
_MOST_FORKS = 10
"""A tenth of 100 nodes goes through each task at once, not in two halves. Each is a process of its own here."""


class AnsiblePlaybooks:
    """`ports.Ansible` with the ansible-playbook beside this Python, or else the one on PATH.

    Playbooks below the folder `pipelined` are sent to hosts with Ansible's pipelining: one session of SSH for a task,
    instead of five. Whether others bear it, which they do where sudo needs no terminal, their own ansible.cfg says.
    """

    def __init__(self, pipelined: Path | None = None) -> None:
        self._pipelined = pipelined

    @cached_property
    def _bytecode(self) -> Path:
        """A private folder for the bytecode of Ansible and of plugins, removed with this object or at the process's
        end. All of this object's starts use it: to compile Ansible takes as long as the rest of its start.
        """
        folder = tempfile.mkdtemp(prefix="upgrader-ansible-")
        weakref.finalize(self, shutil.rmtree, folder, ignore_errors=True)
        return Path(folder)

    def plays(
        self, playbooks: Sequence[Path], *, inventory: Path, timeout_seconds: float
    ) -> tuple[tuple[Play, ...], ...]:
        for path in (*playbooks, inventory):
            _refuse_missing(path)
        with _temporary_folder() as folder:
            front = Path(folder) / "bin"
            return list_plays(
                playbooks,
                inventory=inventory,
                folder=Path(folder),
                environment=_environment(front, self._bytecode),
                timeout_seconds=timeout_seconds,
            )

    def run(
        self,
        playbook: Path,
        *,
        inventory: Path,
        variables: Mapping[str, Any],
        limit: str = "",
        timeout_seconds: float,
        check: bool = False,
        cancelled: Callable[[], bool] = lambda: False,
    ) -> PlaybookResult:
        import ansible_runner

        for path in (playbook, inventory):
            _refuse_missing(path)  # ansible-runner takes a path that doesn't exist for the inventory's content
        events = _Events()
        with _temporary_folder() as folder:
            ending = _Ending(cancelled, time.monotonic() + timeout_seconds, Path(folder) / _PID)
            given = _variables_file(Path(folder), variables)
            environment = _environment(_die_with_parent(Path(folder)), self._bytecode)
            # Ansible removes its own one only if nothing ends it: compressed programs, and decrypted files, would stay.
            environment["ANSIBLE_LOCAL_TEMP"] = folder
            if self._pipelined is not None and playbook.resolve().is_relative_to(self._pipelined.resolve()):
                environment |= _pipelining() | _forks(limit)
            runner = ansible_runner.run(
                private_data_dir=folder,
                playbook=str(playbook.resolve()),
                inventory=str(inventory.resolve()),
                extravars=str(given),
                limit=_limit_argument(Path(folder), limit),
                cmdline="--check" if check else None,
                settings={"pexpect_timeout": 1},  # how often `cancel_callback` is asked
                envvars=environment,
                suppress_env_files=True,
                quiet=True,
                event_handler=events.take,
                # Without one, ansible-runner replaces the process's own signal handlers.
                cancel_callback=ending.due,
            )
            status, output = ending.why or str(runner.status), _output(runner)
            if status == "successful" and events.gathered and not events.worked:
                # Of `meta` there are no events: `end_host` may have ended the play, by a condition on facts.
                events.worked = self._selects_tasks(playbook, inventory, given, ending.deadline)
        return _result(playbook, status, events, output, timeout_seconds, limit)

    def _selects_tasks(self, playbook: Path, inventory: Path, variables: Path, deadline: float) -> bool:
        """Whether tags leave a task of a playbook that has ended well, in what is left of its time. Raises
        PlaybookError; it may have begun then, as only that is unknown.
        """
        folder = variables.parent
        try:
            return selects_tasks(
                playbook,
                inventory=inventory,
                variables=variables,
                folder=folder,
                environment=_environment(folder, self._bytecode),
                timeout_seconds=max(0.0, deadline - time.monotonic()),
            )
        except PlaybookError as error:
            raise PlaybookError(
                f"playbook {playbook.name} ended, but it is unknown whether tags exclude all its tasks: "
                f"{error.message}",
                remedy=error.remedy or "Run it again; it must be idempotent.",
            ) from error


def _temporary_folder() -> tempfile.TemporaryDirectory[str]:
    """What can't be removed of it, as on a network file system, is left: a playbook that has ended well has not failed
    by that.
    """
    return tempfile.TemporaryDirectory(prefix="upgrader-ansible-", ignore_cleanup_errors=True)


def _refuse_missing(path: Path) -> None:
    if not path.exists():
        raise PlaybookError(f"{path}: no such file", remedy="Check the path in upgrader.yaml.", begun=False)


@dataclass
class _Ending:
    """Ends Ansible when it is cancelled or takes too long.

    ansible-runner would stop only the main process's group, but Ansible's workers have their own groups.
    """

    cancelled: Callable[[], bool]
    deadline: float
    pid_file: Path
    why: str = ""

    def due(self) -> bool:
        """Whether Ansible must end; its processes are ended before this returns."""
        self.why = "canceled" if self.cancelled() else "timeout" if time.monotonic() >= self.deadline else ""
        if self.why and self.pid_file.exists():
            end_tree(int(self.pid_file.read_text()))
        return bool(self.why)


@dataclass
class _Events:
    """What is kept of a run's events: each host's last failure and changes, and the final counts."""

    failures: dict[str, str] = field(default_factory=dict)
    changes: dict[str, list[str]] = field(default_factory=dict)
    stats: dict[str, dict[str, int]] = field(default_factory=dict)
    processed: frozenset[str] = frozenset()
    """The hosts that a play was run on."""
    begun: bool = False
    """Whether a task was started on any host, reachable or not, or may have been (its events are lost)."""
    gathered: bool = False
    """Whether facts were gathered."""
    worked: bool = False
    """Whether a task was started that does more than that, or may have been."""
    ended: bool = False
    """Whether Ansible's final counts were seen."""

    def take(self, event: dict[str, Any]) -> bool:
        """Called by ansible-runner for every event; False: ansible-runner need not store it."""
        kind, data = event.get("event", ""), event.get("event_data", {})
        self.begun = self.begun or kind.startswith("runner_") or _lost(event)
        facts = kind.startswith("runner_") and str(data.get("task_action", "")).rpartition(".")[2] in _FACTS
        self.gathered = self.gathered or facts
        self.worked = self.worked or (kind.startswith("runner_") and not facts) or _lost(event)
        if kind in ("runner_on_failed", "runner_on_unreachable"):
            self.failures[data["host"]] = f"task '{data.get('task', '?')}': {_message(data.get('res') or {})}"
        elif kind == "runner_on_ok" and (data.get("res") or {}).get("changed"):
            self.changes.setdefault(data["host"], []).append(str(data.get("task", "?")))
        elif kind == "playbook_on_stats":
            self.ended = True
            self.stats = {name: data.get(name) or {} for name in ("changed", "failures", "dark")}
            self.processed = frozenset(data.get("processed") or ())
        return False


def _lost(event: Mapping[str, Any]) -> bool:
    """Whether this shows that ansible-runner has lost an event: its file can't be written (the disk is full), or its
    callback failed, so that Ansible's own output of tasks appears.
    """
    if not event.get("event"):
        return "uuid" in event
    return event["event"] == "verbose" and str(event.get("stdout", "")).startswith(_OF_TASKS)


def _result(
    playbook: Path, status: str, events: _Events, output: list[str], timeout_seconds: float, limit: str
) -> PlaybookResult:
    """The result by the final counts: a failure that the playbook rescued doesn't count."""
    hosts = sorted({**events.stats.get("failures", {}), **events.stats.get("dark", {})})
    failed = {host: events.failures.get(host, "failed") for host in hosts}
    if status == "timeout":
        raise PlaybookError(
            f"playbook {playbook.name} timed out after {timeout_seconds:.0f} s, and was stopped",
            remedy="Read what the playbook printed last:\n" + "\n".join(output),
        )
    if status == "canceled":
        raise PlaybookError(f"playbook {playbook.name} was terminated", remedy="Run it again; it must be idempotent.")
    if events.processed:
        failed |= _absent(limit, events)
    if failed:
        lines = [f"playbook {playbook.name} failed on {len(failed)} of the hosts:"]
        raise PlaybookError("\n".join([*lines, *(f"  {host}: {why}" for host, why in failed.items())]), hosts=failed)
    if status != "successful":
        raise PlaybookError(
            f"playbook {playbook.name} could not be run ({status}):\n" + "\n".join(output), begun=events.begun
        )
    if not events.ended:
        raise PlaybookError(
            f"playbook {playbook.name} ended, but its result is unknown: ansible-runner lost Ansible's events",
            remedy="Check whether the disk of TMPDIR is full, and see the last lines:\n" + "\n".join(output),
        )
    if not events.processed:
        raise PlaybookError(
            f"playbook {playbook.name} did nothing: it has no tasks for the hosts in the inventory",
            remedy="Correct `hosts` in the playbook, or the groups of the inventory; or remove the step.",
            begun=events.begun,
        )
    if events.gathered and not events.worked:
        raise PlaybookError(
            f"playbook {playbook.name} did nothing: Ansible gathered facts, and ran none of its tasks",
            remedy="If tags exclude them all, change ANSIBLE_RUN_TAGS, ANSIBLE_SKIP_TAGS, or section [tags] of "
            "ansible.cfg. If the playbook has none, remove the step.",
            begun=False,
        )
    tasks = {host: tuple(names) for host, names in sorted(events.changes.items())}
    return PlaybookResult(changed=events.stats.get("changed", {}), failed={}, tasks=tasks)


def _absent(limit: str, events: _Events) -> dict[str, str]:
    """The hosts of a limit on which nothing ran. Ansible ignores unknown hosts, and reports success."""
    why = (
        "no play ran on it: the inventory doesn't list it, the playbook's `hosts` exclude it, or the play had "
        "already failed on another host"
    )
    return {name: why for name in limit.split(",") if name and name not in events.processed}


def _message(result: dict[str, Any]) -> str:
    """The message of a failed task and what its command wrote, or those of a loop's items that did."""
    failed_items = [item for item in result.get("results") or [] if item.get("failed") or item.get("unreachable")]
    if failed_items:
        return "; ".join(f"item {item.get('item')!r}: {_message(item)}" for item in failed_items)
    parts = (str(result.get(key) or "").strip() for key in ("msg", "censored", "stderr", "module_stderr"))
    return " ".join(dict.fromkeys(part for part in parts if part)) or "no message"


def _variables_file(folder: Path, variables: Mapping[str, Any]) -> Path:
    """Variables are passed in a file: every user of this machine can read a command line."""
    path = folder / "variables.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(dict(variables), file)
    return path


def _limit_argument(folder: Path, limit: str) -> str | None:
    """As Ansible takes it: the name of a file, as Linux allows no argument of more than 128 KiB: some 3,000 nodes."""
    if not limit:
        return None
    path = folder / "limit"
    path.write_text(limit.replace(",", "\n"))
    return f"@{path}"


_WRAPPER = """#!{python}
import contextlib, ctypes, fcntl, os, signal, sys, termios
os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
if sys.platform == "linux":
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    ctypes.CDLL(None).prctl(1, signal.SIGINT)  # PR_SET_PDEATHSIG
    if os.getppid() != {parent}:
        sys.exit("the parent process has ended")
    signal.signal(signal.SIGHUP, signal.SIG_IGN)  # which a process gets for giving its terminal up
    with contextlib.suppress(OSError):
        fcntl.ioctl(os.open("/dev/tty", os.O_RDWR), termios.TIOCNOTTY)
    signal.signal(signal.SIGHUP, signal.SIG_DFL)
with open({pid_file!r}, "w") as file:
    file.write(str(os.getpid()))
os.environ["PATH"] = os.environ["PATH"].partition(os.pathsep)[2]
os.execvp("ansible-playbook", ["ansible-playbook", *sys.argv[1:]])
"""


def _die_with_parent(folder: Path) -> Path:
    """Make a folder `bin` for the front of PATH, whose `ansible-playbook` is interrupted as soon as this process ends.

    Otherwise Ansible would survive a kill of `upgrader`, and run beside the one that a resumed run starts.

    It has no terminal: ansible-runner gives it one that isn't shown, where it would wait until the playbook's deadline
    for the password that `become_ask_pass` wants, for a variable of `vars_prompt`, or for a passphrase of ssh.
    """
    path = folder / "bin" / "ansible-playbook"
    path.parent.mkdir()
    path.write_text(_WRAPPER.format(python=sys.executable, parent=os.getpid(), pid_file=str(folder / _PID)))
    path.chmod(0o700)
    return path.parent


def _environment(front: Path, bytecode: Path) -> dict[str, str]:
    beside = str(Path(sys.executable).parent)
    ssh = "ANSIBLE_SSH_EXTRA_ARGS"
    return {
        "PATH": os.pathsep.join([str(front), beside, os.environ.get("PATH", os.defpath)]),
        # Ansible refuses to start in a locale that isn't UTF-8, which a CI job's often isn't.
        "LC_ALL": "C.UTF-8",
        # Many CI jobs force colours, which comes before NOCOLOR.
        "ANSIBLE_NOCOLOR": "1",
        "ANSIBLE_FORCE_COLOR": "0",
        # Or else plugins leave bytecode in the cluster folder, and take what they find there.
        "PYTHONPYCACHEPREFIX": str(bytecode),
        # Whatever an ansible.cfg says: a machine that nobody has verified must not get a controller's secrets.
        # It has two names for that, and obeys the second one.
        "ANSIBLE_HOST_KEY_CHECKING": "True",
        "ANSIBLE_SSH_HOST_KEY_CHECKING": "True",
        "ANSIBLE_RETRY_FILES_ENABLED": "0",
        # It would stop at a failed task, and ask what to do.
        "ANSIBLE_ENABLE_TASK_DEBUGGER": "False",
        # Or else ansible-runner's events lack what is read of them,
        "RUNNER_OMIT_EVENTS": "false",
        "RUNNER_ONLY_FAILED_EVENTS": "false",
        # or all of them are lost: it takes this one for a number, which is a name in some CI systems.
        **({} if os.environ.get("JOB_ID", "0").isdecimal() else {"JOB_ID": ""}),
        # Or else a task on a machine that loses its power is waited for until the playbook's deadline. What ssh_args
        # of an ansible.cfg say comes first, and holds.
        ssh: " ".join(
            filter(None, [os.environ.get(ssh) or _configured("ssh_connection", "ssh_extra_args"), *_KEEP_ALIVE])
        ),
    }


def _pipelining() -> dict[str, str]:
    """Pipelining, unless the environment or an ansible.cfg says whether to; an inventory comes first anyway."""
    sections = ("defaults", "connection", "ssh_connection")
    said = any(map(os.environ.get, _PIPELINING)) or any(_configured(section, "pipelining") for section in sections)
    return {} if said else {_PIPELINING[0]: "True"}


def _forks(limit: str) -> dict[str, str]:
    """On how many hosts Ansible works at once, unless the environment or ansible.cfg says it. Its default is five."""
    if os.environ.get(_FORKS) or _configured("defaults", "forks"):
        return {}
    return {_FORKS: str(min(limit.count(",") + 1, _MOST_FORKS))} if limit else {}


def _configured(section: str, key: str) -> str:
    """A value of the ansible.cfg that Ansible would read, which the environment replaces; "" where it has none."""
    named = os.environ.get("ANSIBLE_CONFIG")
    for place in [*([named] if named else []), "~/.ansible.cfg", "/etc/ansible/ansible.cfg"]:
        file = os.path.expanduser(os.path.expandvars(place))
        file = os.path.join(file, "ansible.cfg") if os.path.isdir(file) else file
        if os.access(file, os.R_OK):
            parser = configparser.ConfigParser(interpolation=None, inline_comment_prefixes=(";",))
            try:
                parser.read(file, encoding="utf-8")
            except (configparser.Error, OSError, UnicodeDecodeError):
                return ""  # Ansible reads the same file, and says what is wrong with it
            return parser.get(section, key, fallback="")
    return ""


def _output(runner: Any) -> list[str]:
    with runner.stdout as file:
        return [line.rstrip() for line in file if line.strip()][-_TAIL_LINES:]
