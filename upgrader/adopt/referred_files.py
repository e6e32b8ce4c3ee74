"""Files in the folder of certificates that no flag names, but a file does that a flag names.

The chart mounts of that folder what its flags name, and kubeadm's static pod all of it. So people put configuration
there that needs no volume then: an admission configuration with a kubeconfig beside it, say.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePosixPath
from typing import Any

import yaml

from upgrader import fast_yaml
from upgrader.adopt.facts import ControllerFacts
from upgrader.ports import Hosts

__all__ = ["referred_files"]

_PEM = b"-----BEGIN "
_LONGEST_PATH = 1024


def referred_files(hosts: Hosts, controllers: tuple[ControllerFacts, ...], pki: str) -> tuple[str, ...]:
    """Of the first controller whose kube-apiserver is a static pod; paths relative to a file begin at its folder.

    Raises HostError.
    """
    for controller in controllers:
        if static := controller.active.get("kube-apiserver"):
            named = {value for values in static.flags.values() for value in values if _below(value, pki)}
            left, found = sorted(named), set[str]()
            while left:
                content = hosts.read(controller.host, path := left.pop()) or b""
                for other in _paths(content, PurePosixPath(path).parent) if not content.startswith(_PEM) else ():
                    new = _below(other, pki) and other not in named | found
                    if new and hosts.read(controller.host, other) is not None:
                        found.add(other)
                        left.append(other)
            return tuple(sorted(found))
    return ()


def _below(path: str, folder: str) -> bool:
    return path.startswith(f"{folder}/") and ".." not in PurePosixPath(path).parts


def _paths(content: bytes, folder: PurePosixPath) -> Iterator[str]:
    """What may be a path in a file of YAML or JSON."""
    try:
        documents = list(fast_yaml.load_all(content))
    except (yaml.YAMLError, UnicodeDecodeError):
        return
    for text in _strings(documents):
        if text and len(text) < _LONGEST_PATH and not any(each in text for each in (" ", "\n", "://", "\0")):
            yield str(folder / text)


def _strings(part: Any) -> Iterator[str]:
    if isinstance(part, str):
        yield part
    elif isinstance(part, dict):
        for value in part.values():
            yield from _strings(value)
    elif isinstance(part, list):
        for value in part:
            yield from _strings(value)
