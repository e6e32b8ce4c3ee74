"""Where a kubelet says that it is healthy, by its own flags and configuration."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator

from ansible.module_utils.kubelet_unit import Unit

__all__ = ["healthz_url"]

_ADDRESS, _PORT = "127.0.0.1", "10248"
"""The kubelet's own defaults."""
_LOCAL = {"0.0.0.0": "127.0.0.1", "::": "::1"}


def healthz_url(unit: Unit) -> str:
    """The URL; "" where the kubelet serves none (port 0). A flag counts more than the file, as it does for the kubelet.

    Of a file only keys that stand in a line of their own are read: kubeadm writes nothing else, and nodes have no
    parser of YAML. Raises OSError where a file can't be read.
    """
    flags, files = list(_flag_texts(unit)), list(_configurations(unit))
    address = _flag("healthz-bind-address", flags) or _key("healthzBindAddress", files) or _ADDRESS
    port = _flag("healthz-port", flags) or _key("healthzPort", files) or _PORT
    if int(port) == 0:
        return ""
    address = _LOCAL.get(address, address)
    host = f"[{address}]" if ":" in address else address
    return f"http://{host}:{port}/healthz"


def _flag_texts(unit: Unit) -> Iterator[str]:
    yield " ".join((*unit.arguments, *unit.environment))
    for path, optional in unit.environment_files:
        try:
            yield _text(path)
        except FileNotFoundError:
            if not optional:
                raise


def _configurations(unit: Unit) -> Iterator[str]:
    for path in unit.configuration_files():
        try:
            yield _text(path)
        except FileNotFoundError:
            continue  # the kubelet itself says so


def _text(path: str) -> str:
    with open(path, encoding="utf-8", errors="replace") as stream:
        return stream.read()


def _flag(name: str, texts: list[str]) -> str:
    found = [value for text in texts for value in re.findall(rf"(?<![\w-])--{name}[= ]([^\s\"']+)", text)]
    return found[-1] if found else ""


def _key(name: str, texts: list[str]) -> str:
    """Of JSON, or of YAML at the top; "" where no file has it, or has nothing, or `null`."""
    found = [value for text in texts for value in _values(name, text)]
    return found[-1] if found and found[-1] != "null" else ""


def _values(name: str, text: str) -> list[str]:
    if text.lstrip().startswith("{"):
        try:
            return [str(value) for key, value in json.loads(text).items() if key == name and value is not None]
        except ValueError:
            return []  # the kubelet itself says so
    return re.findall(rf"^[\"']?{name}[\"']? *: *[\"']?([^\s\"'#]+)", text, re.MULTILINE)
