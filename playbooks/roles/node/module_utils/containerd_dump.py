"""What containerd writes as its whole configuration, by `containerd config dump`: 1.x and 2.x in other sections."""

from __future__ import annotations

import re
from collections.abc import Iterator

__all__ = ["cri_off", "cri_sections", "cri_settings", "sandbox_image", "settings", "socket_in", "strings"]

SERVED = ("grpc", "plugins.io.containerd.server.v1.grpc")
"""The sections that say where containerd listens: until 2.2, and since 2.3, whose configuration has version 4."""

_CRI = ("cri", "io.containerd.grpc.v1.cri", "io.containerd.cri.v1.runtime", "io.containerd.cri.v1.images")
"""The plugins without any of which the kubelet isn't served."""

_OLD_SECTION = "plugins.io.containerd.grpc.v1.cri"
_NEW_SECTION = "plugins.io.containerd.cri.v1.runtime"


def settings(dump: str) -> Iterator[tuple[str, str, str]]:
    """Section, name and value of each line of a dump, as containerd writes it: one setting a line."""
    section = ""
    for line in dump.splitlines():
        header = re.fullmatch(r"\s*\[+(.*?)\]+\s*", line)
        setting = re.fullmatch(r"\s*([\w.-]+)\s*=\s*(.*?)\s*", line)
        if header and "=" not in header.group(1):
            section = header.group(1).replace('"', "").replace("'", "")
        elif setting:
            yield section, setting.group(1), setting.group(2).strip("\"'")


def cri_settings(dump: str) -> list[tuple[str, str, str]]:
    """Those of CRI that count."""
    counted = set(cri_sections(dump))
    return [each for each in settings(dump) if each[0] in counted]


def cri_sections(dump: str) -> list[str]:
    """CRI's sections, but for those where 1.x had handlers and folders: 2.x doesn't read them, and writes them all the
    same.
    """
    headers = (re.fullmatch(r"\s*\[+([^=]*?)\]+\s*", line) for line in dump.splitlines())
    found = [name for each in headers if each and ".cri" in (name := each.group(1).replace('"', "").replace("'", ""))]
    moved = any(section.startswith(_NEW_SECTION) for section in found)
    return [each for each in found if not (moved and each.startswith(_OLD_SECTION))]


def strings(value: str) -> list[str]:
    """The texts of a list in a dump."""
    return [one or other for one, other in re.findall(r"'([^']*)'|\"([^\"]*)\"", value)]


def cri_off(dump: str) -> list[str]:
    """The plugins of CRI that are switched off."""
    off = [value for section, name, value in settings(dump) if not section and name == "disabled_plugins"]
    return sorted({plugin for value in off for plugin in strings(value) if plugin in _CRI})


def sandbox_image(dump: str) -> str:
    """The image of the pods' sandboxes; "" where there is no CRI."""
    found = [
        value
        for section, name, value in cri_settings(dump)
        if name == "sandbox_image" or (name == "sandbox" and "pinned_images" in section)
    ]
    return found[0] if found else ""


def socket_in(dump: str) -> str:
    """Where containerd listens; "" where the dump doesn't say."""
    found = [value for section, name, value in settings(dump) if section in SERVED and name == "address" and value]
    return found[0] if found else ""
