"""What a host says of the updates that it installs by itself: its package manager's settings, read on its disk."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from upgrader.onhost.facts.unattended_updates import updates

_NONE = {"timer": "", "packages": [], "reboots": False}
_ON = 'APT::Periodic "";\nAPT::Periodic::Unattended-Upgrade "1";\n'


class _Host:
    """A disk in a folder, with programs that print what they are told."""

    def __init__(self, root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.root = root
        monkeypatch.setenv("PATH", f"{root}/bin:{os.environ['PATH']}")

    def has(self, path: str, text: str = "") -> None:
        """A file of it."""
        file = self.root / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text)

    def prints(self, program: str, text: str) -> None:
        """A program of it."""
        self.has(f"/bin/{program}", f"#!/bin/sh\ncat <<'END'\n{text}\nEND\n")
        (self.root / "bin" / program).chmod(0o755)

    def apt(self, settings: str, selections: str = "kubelet\tinstall\n", timer: str = "active") -> dict[str, object]:
        """Of a Debian with unattended-upgrades."""
        self.has("/usr/bin/unattended-upgrade")
        self.prints("systemctl", f"ActiveState={timer}")
        self.prints("apt-config", settings)
        self.prints("dpkg", selections)
        return updates(str(self.root))

    def dnf(self, timer: str, config: str = "", installed: str = "kubelet\nsystemd") -> dict[str, object]:
        """Of a system with dnf-automatic."""
        self.has(f"/usr/lib/systemd/system/{timer}")
        self.has("/etc/dnf/automatic.conf", config)
        self.prints("systemctl", "ActiveState=active")
        self.prints("rpm", f"{installed}\npackage cri-o is not installed")
        return updates(str(self.root))


@pytest.fixture
def host(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> _Host:
    """An empty one."""
    return _Host(tmp_path, monkeypatch)


def test_a_host_without_such_a_program_does_nothing(host: _Host) -> None:
    """No command is run for it."""
    assert updates(str(host.root)) == _NONE


@pytest.mark.parametrize(
    ("settings", "timer"),
    [
        ('APT::Periodic::Unattended-Upgrade "0";', "active"),
        ('APT::Architecture "amd64";', "active"),
        (f'{_ON}APT::Periodic::Enable "0";', "active"),
        (_ON, "inactive"),
    ],
    ids=["off", "not set", "all off", "timer stopped"],
)
def test_unattended_upgrades_that_is_off(host: _Host, settings: str, timer: str) -> None:
    """It is installed on every Ubuntu, and most clusters' operators have turned it off in one of these ways."""
    assert host.apt(settings, timer=timer) == _NONE


def test_what_apt_holds_or_passes_over_is_not_upgraded(host: _Host) -> None:
    """Held packages, those that aren't installed, and those of the list, whose patterns are for the begin of a name."""
    selections = "containerd.io\tinstall\nkubelet\thold\nrunc:arm64\tinstall\nsystemd\tinstall\ncri-o\tdeinstall"
    known = 'Unattended-Upgrade::Package-Blacklist "";\nUnattended-Upgrade::Package-Blacklist:: "%s";\n'
    reboot = 'Unattended-Upgrade::Automatic-Reboot "true";\n'
    found = host.apt(_ON + known % "system" + reboot, selections)
    assert found == {"timer": "apt-daily-upgrade.timer", "packages": ["containerd.io", "runc"], "reboots": True}
    broken = host.apt(_ON + known % "(", selections)
    assert broken["packages"] == ["containerd.io", "runc", "systemd"] and broken["reboots"] is False


def test_dnf_automatic_that_only_downloads(host: _Host) -> None:
    """Its default; the timer `dnf-automatic-install` upgrades whatever the file says."""
    assert host.dnf("dnf-automatic.timer", "[commands]\napply_updates = no\n") == _NONE
    found = host.dnf("dnf-automatic-install.timer")
    assert found == {"timer": "dnf-automatic-install.timer", "packages": ["kubelet", "systemd"], "reboots": False}


@pytest.mark.parametrize(
    ("path", "text"),
    [
        ("/etc/yum.repos.d/kubernetes.repo", "[kubernetes]\nenabled=1\nexclude=kubelet kubeadm kubectl\n"),
        ("/etc/dnf/dnf.conf", "[main]\nexcludepkgs = vim,\n  kube*\nbest=False\n"),
        ("/etc/dnf/plugins/versionlock.list", "# Added\nkubelet-0:1.36.3-150500.1.1.*\n"),
        ("/etc/dnf/versionlock.toml", 'version = "1.0"\n[[packages]]\nname = "kubelet"\n'),
    ],
    ids=["the repository's", "dnf's own", "versionlock", "versionlock of dnf 5"],
)
def test_what_dnf_excludes_is_not_upgraded(host: _Host, path: str, text: str) -> None:
    """In any of the places that Kubernetes' own instructions, Kubespray and administrators use."""
    config = "[commands]\napply_updates = yes\nreboot = when-needed\n"
    assert host.dnf("dnf-automatic.timer", config)["packages"] == ["kubelet", "systemd"]
    host.has(path, text)
    found = host.dnf("dnf-automatic.timer", config)
    assert (found["packages"], found["reboots"]) == (["systemd"], True)
