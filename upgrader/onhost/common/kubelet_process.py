"""The process of this host's kubelet, and not of one in a container."""

from __future__ import annotations

from upgrader.onhost.common.questions import command

__all__ = ["main_process"]

_UNIT = "kubelet"


def main_process() -> str:
    """Its number, as systemd knows it; "" if systemd runs none. Raises Failed."""
    number = command("systemctl", "show", "--property=MainPID", "--value", _UNIT).strip()
    return number if number.isdigit() and number != "0" else ""
