"""The image of etcd's container in a static pod manifest: one value of one line, and nothing else of the file.

The file isn't parsed and rewritten: comments, flags and the order of keys stay byte for byte.

But a manifest without a UID gets that of the running pod. Otherwise its UID is a hash of the manifest, and with another
image it is another pod for the kubelet: before the kubelet starts that one, it deletes the previous pod's mirror pod,
which needs the API. With a single member there is no API at that time, and the kubelet gives up after 34 s. With a UID,
it restarts the container of the same pod. A node's upgrade writes the same line.
"""

from __future__ import annotations

import re

from upgrader.onhost.common.questions import Failed

__all__ = ["image_of", "pinned", "with_image"]

_CONTAINER = "etcd"
_KEY = re.compile(r"( *)(- +)?([A-Za-z]+): *(.*?) *")
_IMAGE = re.compile("[A-Za-z0-9][A-Za-z0-9._:/@-]*")
_VALUE = re.compile(rf"""(["']?)({_IMAGE.pattern})\1( +#.*)?""")
_METADATA = re.compile(r"^metadata: *(\r?\n)(?: *(?:#[^\n]*)?\r?\n)*( +)[^\s#]", re.MULTILINE)
"""The end of its line, and the indentation of its first key."""
_UID = re.compile("[0-9a-f-]{32,36}")
_WHY = "# So that another kubelet doesn't restart this pod. Remove it when you change more than the image."


def image_of(manifest: str) -> str:
    """The image of the container `etcd`. Raises Failed if the manifest doesn't have kubeadm's format."""
    number, start, end = _place(manifest)
    return manifest.splitlines(keepends=True)[number][start:end]


def with_image(manifest: str, image: str) -> str:
    """The same text with another image. Only an image name is accepted. Raises Failed."""
    if not _IMAGE.fullmatch(image):
        raise Failed(f"{image!r} is not an image name; nothing was changed")
    number, start, end = _place(manifest)
    lines = manifest.splitlines(keepends=True)
    lines[number] = lines[number][:start] + image + lines[number][end:]
    return "".join(lines)


def pinned(manifest: str, uid: str) -> str:
    """The same text, in which the pod has this UID; unchanged if it already has one, or if `uid` is none."""
    found = _METADATA.search(manifest)
    if not found or not _UID.fullmatch(uid) or re.search(rf"^{found.group(2)}uid:", manifest, re.MULTILINE):
        return manifest
    (end, indent), at = found.groups(), found.end(1)
    return f"{manifest[:at]}{indent}{_WHY}{end}{indent}uid: '{uid}'{end}{manifest[at:]}"


def _place(manifest: str) -> tuple[int, int, int]:
    """The line, and the start and end of the image's name in it."""
    found = []
    for item in _containers(manifest.splitlines()):
        names = [text for _, key, text, _ in item if key == "name"]
        images = [(number, text, column) for number, key, text, column in item if key == "image"]
        if [name.strip("\"'") for name in names] == [_CONTAINER]:
            found += images
    value = _VALUE.fullmatch(found[0][1]) if len(found) == 1 else None
    if value is None:
        raise Failed(
            "etcd's manifest doesn't have kubeadm's format: it must have exactly one container `etcd` with one image"
        )
    number, _, column = found[0]
    return number, column + value.start(2), column + value.end(2)


def _containers(lines: list[str]) -> list[list[tuple[int, str, str, int]]]:
    """The keys of each container: line, name, value and the value's column."""
    begin = next((n for n, line in enumerate(lines) if re.fullmatch(r"  containers: *", line)), None)
    if begin is None or any(re.fullmatch(r"--- *", line) for line in lines[1:]):
        return []
    items: list[list[tuple[int, str, str, int]]] = []
    dash = -1
    for number in range(begin + 1, len(lines)):
        line = lines[number]
        indent = len(line) - len(line.lstrip(" "))
        if not line.strip() or line.lstrip().startswith("#"):
            continue
        if dash < 0:
            dash = indent
        starts = line[indent : indent + 2] == "- "
        if indent < dash or (indent == dash and not starts):
            break
        match = _KEY.fullmatch(line)
        if indent == dash:
            items.append([])
        if match and (indent + len(match.group(2) or "")) == dash + 2 and (indent == dash or not starts):
            items[-1].append((number, match.group(3), match.group(4), match.start(4)))
    return items
