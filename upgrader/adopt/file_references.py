"""What the files that a static pod's flags name refer to in turn: other files, and sockets of other programs.

An admission configuration names a kubeconfig, which names a certificate; an encryption configuration names the socket
of a KMS plugin, an egress configuration that of a proxy.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import PurePosixPath
from typing import Any

import yaml

from upgrader.adopt.facts import StaticPod
from upgrader.adopt.files_of_host import FileOfHost, files_of_host
from upgrader.adopt.readable_files import named_in_flags
from upgrader.adopt.volumes import Mounted, innermost_mount, on_host
from upgrader.model import limited_yaml
from upgrader.model.cluster import Host
from upgrader.model.redaction.known_secrets import secrets_in
from upgrader.ports import Hosts

__all__ = ["Reference", "references"]

_PEM = b"-----BEGIN "
_SOCKET = "unix://"
_LONGEST_PATH = 1024


@dataclass(frozen=True)
class Reference:
    """A path that a file names, and at which there is something on the controller. The path is the container's."""

    inside: str
    by: str
    """The file on the controller, and the field."""
    text: str
    mount: Mounted
    found: FileOfHost

    @property
    def path(self) -> str:
        """On the controller."""
        return on_host(self.mount, self.inside)


def references(hosts: Hosts, host: Host, static: StaticPod) -> Iterator[Reference]:
    """Each once, from the flags' files on. Relative paths begin at the folder of the file that names them. Raises
    HostError.
    """
    written = static.flags.get("audit-log-path", ())
    named = {each: mount for each in named_in_flags(static) - {*written} if (mount := innermost_mount(static, each))}
    there = files_of_host(hosts, host, (on_host(mount, inside) for inside, mount in named.items()))
    begin = {inside: on_host(mount, inside) for inside, mount in named.items()}
    left = {inside: path for inside, path in begin.items() if path in there and there[path].is_file}
    seen = set(begin)
    while left:
        inside, path = left.popitem()
        for each in _in_file(hosts, host, static, inside, path):
            if each.inside not in seen:
                seen.add(each.inside)
                yield each
                if each.found.is_file:
                    left[each.inside] = each.path


def _in_file(hosts: Hosts, host: Host, static: StaticPod, inside: str, path: str) -> Iterator[Reference]:
    content = hosts.read(host, path) or b""
    found = [] if content.startswith(_PEM) else list(_paths(content, inside))
    mounts = {other: mount for other, _, _ in found if (mount := innermost_mount(static, other))}
    there = files_of_host(hosts, host, (on_host(mount, other) for other, mount in mounts.items()))
    for other, field, text in found:
        mount = mounts.get(other)
        if mount and (file := there.get(on_host(mount, other))):
            yield Reference(other, f"{path} ({field})", text, mount, file)


def _paths(content: bytes, file: str) -> Iterator[tuple[str, str, str]]:
    """What may be a path in a file of YAML or JSON, with the field that has it, and its text: no secret by its name."""
    try:
        documents = list(limited_yaml.load_all(content))
    except (yaml.YAMLError, ValueError):  # bytes that are no text, or a date that no calendar has
        return
    for document in documents:
        secrets = frozenset(secrets_in(document))
        for field, text in _strings(document, ""):
            path = text.removeprefix(_SOCKET)
            unlike = text in secrets or any(each in path for each in (" ", "\n", "://", "\0"))
            if path and len(path) < _LONGEST_PATH and not unlike:
                yield str(PurePosixPath(file).parent / path), field, text


def _strings(part: Any, field: str) -> Iterator[tuple[str, str]]:
    """Each text, with its field as kubectl writes it: `plugins[0].path`."""
    if isinstance(part, str):
        yield field, part
    elif isinstance(part, dict):
        for key, value in part.items():
            yield from _strings(value, f"{field}.{key}" if field else str(key))
    elif isinstance(part, list):
        for number, value in enumerate(part):
            yield from _strings(value, f"{field}[{number}]")
