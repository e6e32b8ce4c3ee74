"""What this host upgrades by itself: which packages under Kubernetes, and whether it reboots.

By unattended-upgrades or dnf-automatic, which a systemd timer starts.
"""

from __future__ import annotations

import configparser
import glob
import os
import re
from fnmatch import fnmatchcase
from typing import Any

from upgrader.onhost.common.questions import command, read
from upgrader.onhost.facts.machine_facts import properties

PACKAGES = ("containerd", "containerd.io", "cri-o", "kubelet", "runc", "systemd")
"""Those whose upgrade restarts the kubelet or the container runtime, or can take the network away."""
_APT, _APT_TIMER = "/usr/bin/unattended-upgrade", "apt-daily-upgrade.timer"
_DNF_TIMERS = ("dnf-automatic.timer", "dnf5-automatic.timer", "dnf-automatic-install.timer")
_DNF_CONFIG = "/etc/dnf/automatic.conf"
_SETTING = re.compile(r'^([^ ]+?)(?:::)? "(.*)";$', re.MULTILINE)
_EXCLUDED = re.compile(r"^[ \t]*(?:exclude|excludepkgs)[ \t]*=(.*(?:\n[ \t]+.*)*)", re.MULTILINE)


def updates(root: str) -> dict[str, Any]:
    """`timer`: the systemd timer that starts the upgrades, "" for none; `packages`: those of PACKAGES that it may
    upgrade; `reboots`: whether it may reboot the machine.
    """
    if os.path.exists(root + _APT) and _starts(_APT_TIMER):
        return _apt()
    timers = [timer for timer in _DNF_TIMERS if os.path.exists(root + "/usr/lib/systemd/system/" + timer)]
    started = [timer for timer in timers if _starts(timer)]
    return _dnf(root, started[-1]) if started else _none()


def _starts(timer: str) -> bool:
    return properties(timer)["ActiveState"] == "active"


def _none() -> dict[str, Any]:
    return {"timer": "", "packages": [], "reboots": False}


def _apt() -> dict[str, Any]:
    settings: dict[str, list[str]] = {}
    for name, value in _SETTING.findall(command("apt-config", "dump")):
        settings.setdefault(name.lower(), []).append(value)
    if "0" in (
        _last(settings, "APT::Periodic::Enable", "1"),
        _last(settings, "APT::Periodic::Unattended-Upgrade", "0"),
    ):
        return _none()
    kept = [each for each in settings.get("unattended-upgrade::package-blacklist", []) if each]
    states = dict(
        line.split()[:2] for line in command("dpkg", "--get-selections").splitlines() if len(line.split()) > 1
    )
    chosen = [name.partition(":")[0] for name, state in states.items() if state == "install"]
    return {
        "timer": _APT_TIMER,
        "packages": [name for name in PACKAGES if name in chosen and not any(_begins(each, name) for each in kept)],
        "reboots": _last(settings, "Unattended-Upgrade::Automatic-Reboot", "false").lower() in ("true", "1", "yes"),
    }


def _last(settings: dict[str, list[str]], name: str, default: str) -> str:
    return settings.get(name.lower(), [default])[-1]


def _begins(pattern: str, name: str) -> bool:
    """As unattended-upgrades reads its list; a pattern that is none keeps nothing."""
    try:
        return re.match(pattern, name) is not None
    except re.error:
        return False


def _dnf(root: str, timer: str) -> dict[str, Any]:
    config = configparser.ConfigParser(interpolation=None, strict=False)
    if os.path.exists(root + _DNF_CONFIG):
        config.read_string(read(root + _DNF_CONFIG).decode("utf-8", "replace"))
    applies = config.get("commands", "apply_updates", fallback="no").strip().lower() in ("yes", "true", "1", "on")
    if timer != _DNF_TIMERS[-1] and not applies:
        return _none()
    installed = command("rpm", "--query", "--queryformat", "%{NAME}\\n", *PACKAGES).split("\n")
    return {
        "timer": timer,
        "packages": [name for name in PACKAGES if name in installed and not _kept_by_dnf(root, name)],
        "reboots": config.get("commands", "reboot", fallback="never").strip().lower() != "never",
    }


def _kept_by_dnf(root: str, name: str) -> bool:
    """Whether a list of excluded packages, or the plugin versionlock, has it."""
    for path in ("/etc/dnf/dnf.conf", *_below(root, "/etc/yum.repos.d/*.repo")):
        for words in _EXCLUDED.findall(_text(root + path)):
            if any(fnmatchcase(name, each) for each in re.split(r"[\s,]+", words.strip())):
                return True
    if re.search(r"(?m)^[ \t]*(?:\d+:)?" + re.escape(name) + r"-\d", _text(root + "/etc/dnf/plugins/versionlock.list")):
        return True
    locked = r'(?m)^[ \t]*name[ \t]*=[ \t]*"' + re.escape(name) + '"'
    return re.search(locked, _text(root + "/etc/dnf/versionlock.toml")) is not None


def _below(root: str, pattern: str) -> list[str]:
    return [path[len(root) :] for path in sorted(glob.glob(glob.escape(root) + pattern))]


def _text(path: str) -> str:
    """ "" for a file that doesn't exist."""
    return read(path).decode("utf-8", "replace") if os.path.exists(path) else ""
