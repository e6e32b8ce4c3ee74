"""How much of a disk, and of the memory, this host's kubelet wants free: below that, it evicts pods, or removes images.

It is told without a parser of YAML, which hosts don't have. What can't be read is taken for the kubelet's default.
"""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Container, Iterator, Mapping
from typing import NamedTuple

from upgrader.onhost.common.kubelet_file import configuration_file, running_flags
from upgrader.onhost.common.questions import Failed, read

__all__ = ["Share", "kubelets_memory", "kubelets_share"]

_FOLDER, _CONTAINERD = "/var/lib/kubelet", "/var/lib/containerd"
_MOUNTS = "/proc/self/mountinfo"
_LAYERS = re.compile(r"\bupperdir=([^,\s]+)/io\.containerd\.snapshotter\.")
"""Where containerd has its images, as each running container's mount says: its root may be anywhere."""
_DEFAULTS = {"nodefs": "10%", "imagefs": "15%", "memory": "100Mi"}
"""`evictionHard`, if nothing is said there at all: of the disk of the kubelet's own folder, of the images', and of the
memory. What is not named where others are has no threshold, unless `mergeDefaultEvictionSettings` says so.
"""
_NONE = ("0%", "100%")
"""These are no thresholds."""
_MOST_FULL_OF_IMAGES = 85
"""Percent: `imageGCHighThresholdPercent`."""
_SECTION = re.compile(
    r"(?m)(?:^[ \t]*|[{,][ \t]*)[\"']?(evictionHard|evictionSoft)[\"']?[ \t]*:[ \t]*"
    r"(\{[^}]*\}|(?:#.*)?(?:\n(?:[ \t]+\S.*|[ \t]*(?:#.*)?(?=\n)))+)"
)
"""In block style, or in flow style and JSON."""
_HAS_ANY = re.compile(r"(?m)^\{|^[ \t]+[^\s#]")
"""Without any, in block style, it is a null, and so as if it were missing."""
_SIGNAL = re.compile(r"(?m)^[^#\n]*?\b(nodefs|imagefs|memory)\.available[\"']?[ \t]*[:<][ \t]*[\"']?([^\s\"'}]*)")
_MERGED = re.compile(r"(?m)^[^#\n]*?\bmergeDefaultEvictionSettings[\"']?[ \t]*:[ \t]*true\b")
_COLLECTED = re.compile(r"(?m)^[^#\n]*?\bimageGCHighThresholdPercent[\"']?[ \t]*:[ \t]*(\d+)")
_AMOUNT = re.compile(r"(\d+(?:\.\d+)?)(%|[KMGTP]i|[kMGTP])?")
_UNITS = {"": 1, **{f"{letter}i": 1 << 10 * number for number, letter in enumerate("KMGTP", 1)}}
_UNITS.update({letter: 1000**number for number, letter in enumerate("kMGTP", 1)})


class Share(NamedTuple):
    """What is to stay free."""

    kept: int
    """Bytes."""
    said: str
    """The same as the kubelet's configuration has it: `10 %`, `20Gi`."""


def kubelets_share(folder: str, total: int) -> Share:
    """That of the disk of a folder, which has `total` bytes; 0 bytes if the kubelet has no use for it."""
    flags = running_flags("")
    place = flags.get("root-dir", _FOLDER)
    if not os.path.isdir(place):
        return Share(0, "")
    there = set()  # type: set[str]
    if _on_one_disk(place, folder):
        there.add("nodefs")
    if any(os.path.isdir(images) and _on_one_disk(images, folder) for images in _image_folders()):
        there.add("imagefs")
    return _strictest(there, total, flags)


def kubelets_memory(total: int) -> Share:
    """That of the memory, of which there are `total` bytes; 0 bytes on a host without a kubelet."""
    flags = running_flags("")
    return _strictest({"memory"}, total, flags) if os.path.isdir(flags.get("root-dir", _FOLDER)) else Share(0, "")


def _strictest(names: Container[str], total: int, flags: Mapping[str, str]) -> Share:
    wanted = _wanted(list(_texts(flags)), flags)
    return max((_share(said, total) for name, said in wanted if name in names), default=Share(0, ""))


def _wanted(texts: list[str], flags: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Each threshold, and what it is of."""
    soft = _thresholds("evictionSoft", texts, flags.get("eviction-soft"), {})
    hard = _thresholds("evictionHard", texts, flags.get("eviction-hard"), _DEFAULTS)
    if any(map(_MERGED.search, texts)):
        hard = {**_DEFAULTS, **hard}
    for thresholds in (hard, soft):
        yield from ((signal, said) for signal, said in thresholds.items() if said not in _NONE)
    full = [said for text in texts for said in _COLLECTED.findall(text)]
    full += [said for said in [flags.get("image-gc-high-threshold", "")] if said.isdigit()]
    yield "imagefs", f"{max(0, 100 - int(full[-1] if full else _MOST_FULL_OF_IMAGES))}%"


def _thresholds(name: str, texts: list[str], flag: str | None, defaults: Mapping[str, str]) -> Mapping[str, str]:
    """Those of one field: the first file's are instead of the defaults, and each further file's are merged into them.
    Its flag is instead of all.
    """
    if flag is not None:
        return _signals(flag)
    found = defaults
    for number, text in enumerate(texts):
        for section in _SECTION.finditer(text):
            if section[1] == name and _HAS_ANY.search(section[2]):
                found = {**(found if number else {}), **_signals(section[2])}
    return found


def _signals(text: str) -> dict[str, str]:
    parts = text.replace(",", "\n").splitlines()  # in flow style, and as a flag has them
    named = [found.groups() for part in parts for found in _SIGNAL.finditer(part)]
    return {signal: said if _AMOUNT.fullmatch(said) else _DEFAULTS[signal] for signal, said in named}


def _share(said: str, total: int) -> Share:
    found = _AMOUNT.fullmatch(said)
    assert found, "it was looked at"
    if found[2] == "%":
        return Share(int(total * float(found[1]) / 100), f"{found[1]} %")
    return Share(int(float(found[1]) * _UNITS[found[2] or ""]), said)


def _texts(flags: Mapping[str, str]) -> Iterator[str]:
    """The kubelet's configuration: its file, and those that are merged into it, each in its turn."""
    more = flags.get("config-dir", "")
    for path in (configuration_file(""), *(sorted(glob.glob(os.path.join(more, "*.conf"))) if more else ())):
        try:
            yield read(path).decode("utf-8", "replace")
        except (OSError, Failed):
            yield ""


def _image_folders() -> set[str]:
    """Where no container says it, containerd's usual one."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            return set(_LAYERS.findall(file.read())) or {_CONTAINERD}
    except OSError:
        return {_CONTAINERD}


def _on_one_disk(one: str, other: str) -> bool:
    return os.stat(one).st_dev == os.stat(other).st_dev
