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
"""`evictionHard`, if it says nothing of the disk of the kubelet's own folder, of the images', or of the memory."""
_MOST_FULL_OF_IMAGES = 85
"""Percent: `imageGCHighThresholdPercent`."""
_SECTION = re.compile(
    r"(?m)(?:^[ \t]*|[{,][ \t]*)[\"']?(evictionHard|evictionSoft)[\"']?[ \t]*:[ \t]*"
    r"(\{[^}]*\}|(?:#.*)?(?:\n(?:[ \t]+\S.*|[ \t]*(?:#.*)?(?=\n)))+)"
)
"""In block style, or in flow style and JSON."""
_SIGNAL = re.compile(r"(?m)^[^#\n]*?\b(nodefs|imagefs|memory)\.available[\"']?[ \t]*[:<][ \t]*[\"']?([\d.]+[%A-Za-z]*)")
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
    """Each threshold, and what it is of: the strictest one counts, wherever it is from."""
    found = [(section[1], section[2]) for text in texts for section in _SECTION.finditer(text)]
    found += [("evictionHard", flags.get("eviction-hard", "")), ("evictionSoft", flags.get("eviction-soft", ""))]
    hard = set()  # type: set[str]
    for name, text in found:
        for part in text.replace(",", "\n").splitlines():  # in flow style, and as a flag has them
            for signal in _SIGNAL.finditer(part):
                if _AMOUNT.fullmatch(signal[2]):
                    hard.update([signal[1]] if name == "evictionHard" else [])
                    yield signal[1], signal[2]
    yield from ((signal, said) for signal, said in _DEFAULTS.items() if signal not in hard)
    full = [int(said) for text in texts for said in _COLLECTED.findall(text)]
    full += [int(said) for said in [flags.get("image-gc-high-threshold", "")] if said.isdigit()]
    yield "imagefs", f"{max(0, 100 - min(full, default=_MOST_FULL_OF_IMAGES))}%"


def _share(said: str, total: int) -> Share:
    found = _AMOUNT.fullmatch(said)
    assert found, "it was looked at"
    if found[2] == "%":
        return Share(int(total * float(found[1]) / 100), f"{found[1]} %")
    return Share(int(float(found[1]) * _UNITS[found[2] or ""]), said)


def _texts(flags: Mapping[str, str]) -> Iterator[str]:
    """The kubelet's configuration: its file, and those that are merged into it."""
    more = flags.get("config-dir", "")
    for path in (configuration_file(""), *(sorted(glob.glob(os.path.join(more, "*.conf"))) if more else ())):
        try:
            yield read(path).decode("utf-8", "replace")
        except (OSError, Failed):
            continue


def _image_folders() -> set[str]:
    try:
        with open(_MOUNTS, encoding="utf-8", errors="replace") as file:
            return {_CONTAINERD, *_LAYERS.findall(file.read())}
    except OSError:
        return {_CONTAINERD}


def _on_one_disk(one: str, other: str) -> bool:
    return os.stat(one).st_dev == os.stat(other).st_dev
