"""No controller upgrades its kubelet, container runtime or systemd, or reboots, by itself in the middle of a run."""

from __future__ import annotations

from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.onhost.sending.host_facts import Unknown, Updates
from upgrader.preflight.context import PreflightContext

__all__ = ["check_unattended_updates"]

_APT = "apt-daily-upgrade.timer"


def check_unattended_updates(context: PreflightContext) -> Iterator[Finding]:
    """By unattended-upgrades or dnf-automatic: what is held or excluded isn't upgraded."""
    for name, facts in context.facts.items():
        updates = facts.updates
        if isinstance(updates, Unknown):
            yield Finding(
                "machines.updates-unknown",
                "info",
                f"{name}: it is unknown whether updates are installed automatically",
                updates.why,
                f"List the timers that start updates on {name}: systemctl list-timers",
            )
        elif updates.packages or updates.reboots:
            # Every Debian and Ubuntu has systemd, whose security updates no operator wants to hold.
            held = [each for each in updates.packages if each != "systemd"]
            yield Finding(
                "machines.unattended-updates",
                "warning" if held or updates.reboots else "info",
                f"{name}: {updates.timer} {_may(updates)} at any time",
                "In the middle of a run, this restarts the kubelet or the container runtime, can upgrade a kubelet "
                "beyond kube-apiserver, and can take the node's network away.",
                f"On {name}, as root: {_remedy(updates, held)}",
            )


def _may(updates: Updates) -> str:
    upgrades = [f"may upgrade {', '.join(updates.packages)}"] if updates.packages else []
    return " and ".join([*upgrades, *(["may reboot the machine"] if updates.reboots else [])])


def _remedy(updates: Updates, held: list[str]) -> str:
    todo = []
    if held:
        names = " ".join(held)
        todo.append(f"apt-mark hold {names}" if updates.timer == _APT else f"dnf versionlock add {names}")
    if updates.reboots:
        apt = 'set Unattended-Upgrade::Automatic-Reboot "false"; in /etc/apt/apt.conf.d'
        todo.append(apt if updates.timer == _APT else "set `reboot = never` in /etc/dnf/automatic.conf")
    todo.append(f"before each run, systemctl stop {updates.timer}, and start it afterwards")
    return "; ".join(todo)
