"""What containerd says of itself, of its configuration, and of what would be lost with another one."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = [
    "DEFAULT",
    "configuration_of",
    "cri_problem",
    "ignored_keys",
    "lost",
    "sandbox_image",
    "socket_in",
]

DEFAULT = "/etc/containerd/config.toml"
"""The configuration file, where no flag names another one."""

_KEPT = {
    "root": "images and containers are there",
    "state": "containers that run are there",
    "address": "the kubelet asks there",
    "snapshotter": "the images are unpacked there",
    "SystemdCgroup": "the kubelet's cgroupDriver must be the same, and containers that run are in the other tree",
}
"""Settings with which pods that run would be lost, or new ones fail, each with why."""

_SERVED = ("grpc", "plugins.io.containerd.server.v1.grpc")
"""The sections that say where containerd listens: until 2.2, and since 2.3, whose configuration has version 4."""


def configuration_of(arguments: list[str]) -> str:
    """The configuration file that containerd's arguments name."""
    for index, word in enumerate(arguments):
        if word in ("--config", "-config", "-c") and index + 1 < len(arguments):
            return arguments[index + 1]
        name, _, value = word.partition("=")
        if name in ("--config", "-config", "-c") and value:
            return value
    return DEFAULT


def sandbox_image(dump: str) -> str:
    """The image of the pods' sandboxes, by `containerd config dump`; "" where CRI is off."""
    found = [
        value
        for section, name, value in _settings(dump)
        if ".cri" in section and (name == "sandbox_image" or (name == "sandbox" and "pinned_images" in section))
    ]
    return found[0] if found else ""


def socket_in(dump: str) -> str:
    """Where containerd listens; "" where the dump doesn't say."""
    found = [value for section, name, value in _settings(dump) if section in _SERVED and name == "address" and value]
    return found[0] if found else ""


def lost(before: str, after: str) -> list[str]:
    """What of two dumps must not differ, and does, each in words."""
    old, new = _kept(before), _kept(after)
    return [
        f"{name} changes from {_shown(old.get(name))} to {_shown(new.get(name))}: {why}"
        for name, why in _KEPT.items()
        if old.get(name) != new.get(name)
    ]


def ignored_keys(stderr: str) -> list[str]:
    """The keys that containerd says it doesn't know, as 2.x does, and ignores."""
    lines = [line for line in stderr.splitlines() if "Ignoring unknown key" in line]
    return sorted({key.strip('"') for line in lines for key in re.findall(r" key=(\S+)", line)})


def cri_problem(plugins: str) -> str:
    """What is wrong with CRI, by `ctr plugins ls`; "" where the kubelet can use it."""
    lines = [line.split() for line in plugins.splitlines()]
    found = [
        line[-1] for line in lines if len(line) > 2 and line[1] == "cri" and line[0].startswith("io.containerd.grpc.")
    ]
    if not found:
        return "it has no plugin cri"
    return "" if found == ["ok"] else f"its plugin cri is in the state {found[0]}"


def _kept(dump: str) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for section, name, value in _settings(dump):
        top = name in ("root", "state") and not section
        served = name == "address" and section in _SERVED and value
        if top or served or (name in ("snapshotter", "SystemdCgroup") and ".cri" in section and value):
            found.setdefault(name, set()).add(value)
    return found


def _settings(dump: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each line of a dump, as containerd writes it: one setting a line."""
    section = ""
    for line in dump.splitlines():
        header = re.fullmatch(r"\s*\[+(.*?)\]+\s*", line)
        setting = re.fullmatch(r"\s*([\w.-]+)\s*=\s*(.*?)\s*", line)
        if header and "=" not in header.group(1):
            section = header.group(1).replace('"', "").replace("'", "")
        elif setting:
            yield section, setting.group(1), setting.group(2).strip("\"'")


def _shown(values: set[str] | None) -> str:
    return " and ".join(sorted(values)) if values else "nothing"
