"""Secrets of twelve kinds are planted where a run meets them; nothing that it leaves, prints or passes has one."""

from __future__ import annotations

import base64
import gzip
import json
import os
import secrets
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
import yaml

from testkit.command import REPOSITORY, Ended, upgrader
from testkit.lab_cluster import OLD, LabCluster
from upgrader.ports import Kind

_CHART = REPOSITORY / "testkit" / "leaky_chart"
_SECRETS = Kind("v1", "secrets")
_LOOKS = 10
"""How often a process is looked at: it may execute another program soon, but hardly later."""
_LOG_LINES = 10
"""A report shows as many lines of a crashed container's log."""


def _word() -> str:
    """A secret that no pattern recognises: a word."""
    return "".join(secrets.choice("bcdfghjklmnpqrstvwxz") for _ in range(14))


def _coded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def _pem() -> str:
    lines = [base64.b64encode(secrets.token_bytes(48)).decode() for _ in range(3)]
    # Put together here, so that no scanner takes this file for a leak.
    return "\n".join(["-----BEGIN " + "PRIVATE KEY-----", *lines, "-----END " + "PRIVATE KEY-----"])


@dataclass(frozen=True)
class Planted:
    """One secret of each kind."""

    value: str = field(default_factory=_word)
    """In a release's values, and in its container's environment."""
    secret: str = field(default_factory=_word)
    """In a Secret that the release renders."""
    output: str = field(default_factory=lambda: secrets.token_hex(12))
    """A flag in a playbook's output."""
    passphrase: str = field(default_factory=_word)
    """In a crashing pod's log."""
    kubeconfig: str = field(default_factory=_word)
    """The token of another user in the operator's kubeconfig."""
    become: str = field(default_factory=_word)
    """Ansible's become password, in the inventory."""
    userinfo: str = field(default_factory=_word)
    """In a URL."""
    variable: str = field(default_factory=_word)
    """In the environment that upgrader is started with."""
    pem: str = field(default_factory=_pem)
    """A private key, of which logs show lines."""
    jwt: str = field(default_factory=lambda: ".".join(("eyJhbGciOiJSUzI1NiJ9", secrets.token_hex(20), "c2ln")))
    cloud: str = field(default_factory=lambda: base64.b64encode(secrets.token_bytes(30)).decode())
    """A cloud provider's secret key."""
    registry: str = field(default_factory=_word)
    """A registry's password."""

    @property
    def registry_auth(self) -> str:
        return _coded(f"bot:{self.registry}")

    @property
    def lines(self) -> list[str]:
        """What a careless program writes about each."""
        return [
            f"S1 connecting with {self.value}",
            f"S2 read {self.secret} from the Secret",
            f"S3 curl --token {self.output}",
            f"S4 passphrase={self.passphrase}",
            f"S5 used {self.kubeconfig}",
            f"S6 sudo asked, answered {self.become}",
            f"S7 cloning https://bot:{self.userinfo}@git.example/x",
            f"S8 environment has {self.variable}",
            f"S9 {self.pem.splitlines()[2]}",
            f"S10 bearer was {self.jwt}",
            f"S11 aws_secret_access_key = {self.cloud}",
            f"S12 login {self.registry_auth}, which is {self.registry}",
        ]

    @property
    def forms(self) -> Mapping[str, str]:
        """Every text that would give one away → what it is."""
        found = {text: kind for kind, text in vars(self).items() if kind != "pem"}
        found |= dict.fromkeys(self.pem.splitlines()[1:-1], "pem")
        found[self.jwt.split(".")[1]] = "jwt"
        found[self.registry_auth] = "registry login"
        coded = {
            base64.b64encode(text.encode()).decode().rstrip("="): f"{kind}, base64" for text, kind in found.items()
        }
        return found | coded

    def in_text(self, text: str) -> list[str]:
        """The kinds of those that a text has."""
        return [kind for form, kind in self.forms.items() if form in text]


class _Processes:
    """What others on this machine see of the processes while a run works, and what it passes to its children."""

    def __init__(self) -> None:
        self.command_lines: set[str] = set()
        self.environments: set[str] = set()
        self._stop = threading.Event()

    @contextmanager
    def watched(self) -> Iterator[None]:
        """Look at /proc all the time while the context is open."""
        thread = threading.Thread(target=self._watch)
        thread.start()
        try:
            yield
        finally:
            self._stop.set()
            thread.join()

    def _watch(self) -> None:
        looks: dict[str, int] = {}
        while not self._stop.wait(0.05):
            pids = set(filter(str.isdecimal, os.listdir("/proc")))
            looks = {pid: looks.get(pid, 0) + 1 for pid in pids}
            for pid in pids:
                if looks[pid] <= _LOOKS:
                    self._look(Path("/proc") / pid)

    def _look(self, process: Path) -> None:
        try:
            line = (process / "cmdline").read_bytes().decode(errors="replace")
            self.command_lines.add(line)
            if "ansible" in line or "helm" in line:
                self.environments.add((process / "environ").read_bytes().decode(errors="replace"))
        except OSError:
            pass  # it has ended


@pytest.fixture
def planted(cluster: LabCluster) -> Iterator[Planted]:
    """The secrets, in the cluster folder's files; the kubeconfig is restored."""
    planted = Planted()
    kubeconfig, inventory = cluster.folder / "kubeconfig", cluster.folder / "hosts.yml"
    before = kubeconfig.read_bytes()
    config = yaml.safe_load(before)
    config["users"].append({"name": "robot", "user": {"token": planted.kubeconfig}})
    kubeconfig.write_text(yaml.safe_dump(config))
    hosts = yaml.safe_load(inventory.read_text())
    hosts["all"]["vars"]["ansible_become_password"] = planted.become
    inventory.write_text(yaml.safe_dump(hosts))
    login = {
        "auths": {"registry.example": {"username": "bot", "auth": planted.registry_auth, "password": planted.registry}}
    }
    values = {
        "password": planted.value,
        "secret": {"key": planted.secret, "tls.key": planted.pem},
        "dockerconfigjson": json.dumps(login),
    }
    (cluster.folder / "values" / "leaky.yaml").write_text(yaml.safe_dump({**values, "say": planted.lines}))
    item = {"release": "leaky", "chart": str(_CHART), "namespace": "default", "values": "values/leaky.yaml"}
    settings = {"pipeline": [{"playbook": "tune.yml"}, item], "policy": {"onFailure": "rollback-step"}}
    cluster.change_settings(settings)
    try:
        yield planted
    finally:
        kubeconfig.write_bytes(before)
        for file in ("tune.yml", "said.txt"):
            (cluster.folder / file).unlink(missing_ok=True)


def _playbook(cluster: LabCluster, planted: Planted, *, fails: bool) -> None:
    """A playbook that says everything, and fails with it or not."""
    (cluster.folder / "said.txt").write_text("\n".join(planted.lines))
    said = "{{ lookup('file', playbook_dir + '/said.txt') }}"
    task = {"ansible.builtin.fail" if fails else "ansible.builtin.debug": {"msg": said}}
    plays = [{"hosts": "controllers", "gather_facts": False, "tasks": [{"name": "Say", **task}]}]
    (cluster.folder / "tune.yml").write_text(yaml.safe_dump(plays, sort_keys=False))


def test_no_secret_is_left_printed_or_passed(cluster: LabCluster, planted: Planted, tmp_path: Path) -> None:
    """A crash, a rollback, a failed playbook, a refused value, a diff, a status: all are told, without a secret."""
    environment = {"AWS_SESSION_TOKEN": planted.variable, "TMPDIR": str(tmp_path)}
    before = set(cluster.runs())
    ended: list[Ended] = []

    def run(*arguments: str) -> Ended:
        ended.append(upgrader("-C", cluster.folder, *arguments, environment=environment))
        return ended[-1]

    processes = _Processes()
    with processes.watched():
        _playbook(cluster, planted, fails=False)
        diff = run("plan", "--to", OLD, "--diff")
        crashed = run("run", "--to", OLD, "--yes")
        _playbook(cluster, planted, fails=True)
        failed = run("run", "--to", OLD, "--yes")
        cluster.change_values("leaky", {"refuse": True})
        refused = run("plan", "--to", OLD)
        for command in ("status", "history"):
            run(command)
            run(command, "--json")

    # Each did what it was for, and told it.
    assert "Secret leaky" in diff.stderr + diff.stdout, diff
    assert crashed.exit_code == 4, crashed
    assert failed.exit_code == 5, failed
    for line in planted.lines[-_LOG_LINES + 1 :]:
        assert line.split()[0] in crashed.stderr, crashed
    for line in planted.lines:
        assert line.split()[0] in failed.stderr, failed
    assert failed.stderr.count("[masked]") >= len(planted.lines)
    assert "is refused" in refused.stderr, refused

    # None of it has a secret.
    for done in ended:
        assert planted.in_text(str(done)) == [], done
    runs = set(cluster.runs()) - before
    assert len(runs) == 2
    kept = [path for run_name in runs for path in (cluster.folder / "runs" / run_name).rglob("*") if path.is_file()]
    for path in kept:
        assert planted.in_text(path.read_text()) == [], path
    for run_name in runs:
        secret = cluster.kube.get(_SECRETS, f"upgrader.run.{run_name.lower()}", "kube-system")
        assert secret is not None
        journal = gzip.decompress(base64.b64decode(secret["data"]["journal.jsonl.gz"])).decode()
        assert "S12" in journal and planted.in_text(journal) == [], run_name
        there = cluster.on_controller("cat", f"/etc/kubernetes/upgrader/runs/{run_name}/journal.jsonl")
        assert "S12" in there and planted.in_text(there) == [], run_name
    everything = cluster.on_controller("sh", "-c", "find /etc/kubernetes/upgrader -type f -exec cat {} +")
    assert planted.in_text(everything) == []
    leftovers = [path for path in tmp_path.rglob("*") if path.is_file()]
    assert [path for path in leftovers if planted.in_text(path.read_text(errors="replace"))] == []

    # Everybody may read command lines; an environment is read by its user and root only, and has only what was in ours.
    assert any("helm" in line for line in processes.command_lines) and processes.environments
    assert [line for line in processes.command_lines if planted.in_text(line)] == []
    assert {kind for found in processes.environments for kind in planted.in_text(found)} <= {"variable"}
