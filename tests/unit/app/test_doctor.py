"""`upgrader doctor`: what it says of a machine that is fit, and of what is wrong with others."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path

import pytest
from click.testing import CliRunner

from testkit.fakes.helm import FakeHelm
from testkit.fakes.kube import FakeKube
from testkit.fakes.own_machine import FakeMachine
from upgrader.app import doctor as module
from upgrader.app.doctor import Doctor, Symptom
from upgrader.cli.main import cli
from upgrader.config.inventory import check_exists
from upgrader.errors import ApiUnavailable, HelmError
from upgrader.model.cluster import Host
from upgrader.ports import CommandResult, Helm, Kube


class Now:
    """`ports.Clock`, as far as it is asked."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def monotonic(self) -> float:
        raise NotImplementedError

    def sleep(self, seconds: float) -> None:
        raise NotImplementedError


@dataclass
class Site:
    """A machine and a folder; fit, until a test changes something."""

    folder: Path
    machine: FakeMachine = field(default_factory=FakeMachine)
    kube: FakeKube = field(default_factory=FakeKube)
    helm_version: str = "4.3.1"
    environ: dict[str, str] = field(default_factory=dict)

    def found(self) -> dict[str, Symptom]:
        """Each line by its name."""
        return {each.name: each for each in self.doctor().examine(self.environ)}

    def doctor(self) -> Doctor:
        """It, with the fakes."""

        @contextmanager
        def helm() -> Iterator[Helm]:
            if not self.helm_version:
                raise HelmError("there is no helm", remedy="Install Helm.")
            fake = FakeHelm()
            fake.version = lambda: self.helm_version  # type: ignore[method-assign]
            yield fake

        @contextmanager
        def kube() -> Iterator[Kube]:
            yield self.kube

        return Doctor(self.machine, Now(), helm, kube, self.folder)


@pytest.fixture
def site(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Site:
    """Everything is in order."""
    site, key = Site(tmp_path), tmp_path / "key"
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    (tmp_path / "hosts.yml").write_text("")

    def load_hosts(inventory: Path, *, dynamic: bool) -> dict[str, tuple[Host, ...]]:
        check_exists(inventory)
        return {"controllers": (Host("c1", "192.0.2.1", key_file=key),)}

    monkeypatch.setattr(module, "load_hosts", load_hosts)  # Ansible would need seconds for each test
    site.machine.modes = {tmp_path / "kubeconfig": 0o600, key: 0o600}
    site.machine.programs = {
        "ansible-playbook": lambda _: CommandResult(0, "ansible-playbook [core 2.19]\nmore\n", ""),
        "ssh": lambda _: CommandResult(0, "", "OpenSSH_9.2\n"),
        "ssh-add": lambda _: CommandResult(0, "256 SHA256:x me\n", ""),
        "ssh-keygen": lambda arguments: CommandResult(0, "found\n" if arguments[1] == "192.0.2.1" else "", ""),
    }
    return site


def test_machine_that_is_fit(site: Site) -> None:
    """All is ok, and each line says what was found."""
    found = site.found()
    assert {each.state for each in found.values()} == {"ok"}, found
    assert found["helm"].text == "4.3.1" and found["known_hosts"].text == "has every controller"
    assert found["agent"].text.startswith("none")
    site.environ = {"SSH_AUTH_SOCK": "/agent"}
    assert site.found()["agent"].text == "1 key"


def test_programs_that_are_missing(site: Site) -> None:
    """Each is an error of its own with its remedy, and hides none of the others."""
    site.machine.programs, site.helm_version, site.environ = {}, "", {"SSH_AUTH_SOCK": "/agent"}
    found = site.found()
    for name in ("helm", "ansible", "ssh", "known_hosts"):
        assert found[name].state == "error" and found[name].remedy, found[name]
    assert found["agent"].state == "warning"
    site.helm_version = "2.17.0"
    assert "2.17.0 is not supported" in site.found()["helm"].text


def test_known_hosts_that_keeps_no_key(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """`UserKnownHostsFile /dev/null`: a login alone would change nothing."""
    site.machine.programs["ssh-keygen"] = lambda _: CommandResult(1, "", "")
    assert site.found()["known_hosts"].remedy.startswith("Log in to each controller once")
    host = Host("c1", "192.0.2.1", known_hosts=Path("/dev/null"))
    monkeypatch.setattr(module, "load_hosts", lambda _, *, dynamic: {"controllers": (host,)})
    assert site.found()["known_hosts"].remedy.startswith("Remove UserKnownHostsFile")


@pytest.mark.parametrize(("free", "state"), [(500 << 20, "warning"), (1 << 20, "error"), (None, "warning")])
def test_disk_that_is_full(site: Site, free: int | None, state: str) -> None:
    """A run that can't write its journal stops."""
    site.machine.free = free
    assert site.found()["disk"].state == state


def test_files_that_others_may_read(site: Site) -> None:
    """The kubeconfig is a warning, as it works; a key is an error, as ssh refuses it."""
    site.machine.modes = dict.fromkeys(site.machine.modes, 0o644)
    found = site.found()
    assert (found["kubeconfig"].state, found["ssh key"].state) == ("warning", "error")
    assert found["ssh key"].remedy == f"chmod 600 {site.folder / 'key'}"
    site.machine.modes = {}
    found = site.found()
    assert (found["kubeconfig"].state, found["ssh key"].state) == ("warning", "error")
    assert "KUBECONFIG, but only if you name a context" in found["kubeconfig"].text
    site.environ = {"UPGRADER_KUBECONFIG": "/nowhere"}
    assert site.found()["kubeconfig"].state == "error"


def test_credentials_of_services(site: Site) -> None:
    """Each file that the section observability names: others must not read it, and a run must."""
    with (site.folder / "upgrader.yaml").open("a") as file:
        file.write(
            "observability:\n  webhook: {urlFile: url, secretFile: key-of-hook}\n"
            "  prometheus: {url: 'https://p', bearerTokenFile: token, caFile: ca.crt}\n"
            "  pushgateway: {url: 'https://g', basicAuth: {username: ann, passwordFile: url}}\n"
        )
    site.machine.modes |= {site.folder / "url": 0o600, site.folder / "token": 0o640}
    found = [each for each in site.doctor().examine({}) if each.name == "credentials"]
    assert [(each.state, each.text.split("/")[-1]) for each in found] == [
        ("error", "key-of-hook can't be read"),
        ("ok", "url (600)"),
        ("warning", "token (640)"),
    ]
    assert found[2].remedy == f"chmod 600 {site.folder / 'token'}"


@pytest.mark.parametrize(("ahead", "state"), [(60.0, "warning"), (-60.0, "warning"), (2.0, "ok")])
def test_clock_that_is_off(site: Site, ahead: float, state: str) -> None:
    """In either direction; a few seconds are HTTP's own imprecision."""
    site.kube.ahead_seconds = ahead
    assert site.found()["clock"].state == state


def test_api_that_does_not_answer(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """That is no fault of this machine: not compared, and it says why."""

    def away() -> datetime:
        raise ApiUnavailable("no route to host", remedy="upgrader recover --dry-run")

    monkeypatch.setattr(site.kube, "server_time", away)
    found = site.found()["clock"]
    assert found.state == "warning" and "no route" in found.text and "recover" in found.remedy


def test_folder_that_is_wrong(site: Site) -> None:
    """The machine is looked at all the same."""
    (site.folder / "hosts.yml").unlink()
    found = site.found()
    assert found["inventory"].state == "error" and found["clock"].state == "ok"
    (site.folder / "upgrader.yaml").unlink()
    found = site.found()
    assert found["folder"].state == "error" and "init" in found["folder"].remedy and found["helm"].state == "ok"
    assert "clock" not in found


def test_command(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """0 where nothing is wrong, with warnings too; 2 with the names of what is."""
    monkeypatch.setattr("upgrader.app.doctor.this_doctor", lambda _: site.doctor())
    monkeypatch.delenv("SSH_AUTH_SOCK", raising=False)
    site.machine.free = 500 << 20
    ended = CliRunner().invoke(cli, ["-C", str(site.folder), "doctor"])
    assert ended.exit_code == 0 and "warning disk" in ended.output and "Remedy: Free some" in ended.output
    site.helm_version = ""
    ended = CliRunner().invoke(cli, ["-C", str(site.folder), "doctor"])
    assert "helm" in str(ended.exception) and "error   helm" in ended.output


def test_this_machine(tmp_path: Path) -> None:
    """With the real parts, as far as a folder without a cluster goes."""
    found = {each.name: each for each in module.this_doctor(tmp_path).examine({})}
    assert found["python"].state == found["helm"].state == found["ansible"].state == "ok"
    assert found["folder"].state == "error"
