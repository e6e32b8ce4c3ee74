"""What containerd says of its configuration, and what would be lost with another one."""

from __future__ import annotations

import re

from ansible.module_utils.containerd_dump import cri_sections, cri_settings, settings, socket_in, strings

__all__ = [
    "DEFAULT",
    "configuration_of",
    "cri_problem",
    "ignored_keys",
    "lost",
]

DEFAULT = "/etc/containerd/config.toml"
"""The configuration file, where no flag names another one."""

_KEPT = {
    "root": "images and containers are stored there",
    "state": "the state of running containers is there",
    "address": "the kubelet connects there",
    "snapshotter": "the images are unpacked there",
    "conf_dir": "the pods' network is configured there",
}
"""Settings with which pods that run would be lost, or new ones fail, each with why."""


def configuration_of(arguments: list[str]) -> str:
    """The configuration file that containerd's arguments name."""
    for index, word in enumerate(arguments):
        if word in ("--config", "-config", "-c") and index + 1 < len(arguments):
            return arguments[index + 1]
        name, _, value = word.partition("=")
        if name in ("--config", "-config", "-c") and value:
            return value
    return DEFAULT


def lost(before: str, after: str) -> list[str]:
    """What of two dumps must not differ, and does, each in words."""
    old, new = _kept(before), _kept(after)
    changed = [
        f"{name} changes from {_shown(old.get(name))} to {_shown(new.get(name))}: {why}"
        for name, why in _KEPT.items()
        if old.get(name) != new.get(name)
    ]
    return [*changed, *_lost_plugins(before, after), *_lost_handlers(before, after), *_lost_registries(before, after)]


def ignored_keys(stderr: str) -> list[str]:
    """The keys that containerd says it doesn't know, as 2.x does, and ignores."""
    lines = [line for line in stderr.splitlines() if "Ignoring unknown key" in line]
    return sorted({key.strip('"') for line in lines for key in re.findall(r' key=("[^"]*"|\S+)', line)})


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
    for section, name, value in settings(dump):
        if name in ("root", "state") and not section:
            found.setdefault(name, set()).add(value)
    for section, name, value in cri_settings(dump):
        if value and (name == "snapshotter" or (name == "conf_dir" and section.endswith(".cni"))):
            found.setdefault(name, set()).add(value)
    return {**found, "address": {socket_in(dump)}}


def _lost_plugins(before: str, after: str) -> list[str]:
    gone = sorted(_plugin_folders(before) - _plugin_folders(after))
    return [f"bin_dir loses {folder}: the plugins of the pods' network are there" for folder in gone]


def _plugin_folders(dump: str) -> set[str]:
    cni = [(name, value) for section, name, value in cri_settings(dump) if section.endswith(".cni")]
    several = [folder for name, value in cni if name == "bin_dirs" for folder in strings(value)]
    return {value for name, value in cni if name == "bin_dir" and value} | set(several)


def _lost_handlers(before: str, after: str) -> list[str]:
    old, new = _handlers(before), _handlers(after)
    gone = [
        f"the runtime handler {name} is removed: pods of its RuntimeClass would not start" for name in old.keys() - new
    ]
    other = [
        f"SystemdCgroup changes from {old[name]} to {new[name]} in the runtime handler {name}: the kubelet's"
        " cgroupDriver must be the same, and running containers are in the other cgroup tree"
        for name in old.keys() & new
        if old[name] != new[name]
    ]
    return sorted(gone) + sorted(other, key=lambda text: text.rpartition("handler")[2])


def _handlers(dump: str) -> dict[str, str]:
    """The runtime handlers, each with its SystemdCgroup, which is `false` if it isn't set."""
    found: dict[str, str] = {}
    for section, name, value in cri_settings(dump):
        handler = re.search(r"\.containerd\.runtimes\.(.+?)(\.options)?$", section)
        if handler:
            found.setdefault(handler[1], "false")
            if handler[2] and name == "SystemdCgroup":
                found[handler[1]] = value
    return found


def _lost_registries(before: str, after: str) -> list[str]:
    """A newer containerd may no longer read them, and ignore them. With a folder for registries, none reads them."""
    folders = {value for section, name, value in cri_settings(after) if name == "config_path" and "registry" in section}
    if any(value and ":" not in value for value in folders):
        return []
    gone = sorted(_registries(before) - _registries(after))
    return [f"{each} is no longer read: images are pulled by it. Move it to `config_path` first" for each in gone]


def _registries(dump: str) -> set[str]:
    if any(name == "config_path" and value and "registry" in section for section, name, value in cri_settings(dump)):
        return set()
    found = (
        re.search(r"\.(registry\.(?:mirrors|configs|auths)\..+?)(\.auth|\.tls)?$", each) for each in cri_sections(dump)
    )
    return {each[1] for each in found if each}


def _shown(values: set[str] | None) -> str:
    return " and ".join(sorted(values or ())) or "nothing"
