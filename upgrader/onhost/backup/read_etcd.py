"""Reads all keys of an etcd on this host, and reports their number and a hash over all of them.

Keys with a lease are left out (Events, addresses of API servers), as they can expire at any moment.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import http.client
import json
import socket
import sys
import time
from typing import TYPE_CHECKING, Any

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts.etcd_facts import client
from upgrader.onhost.node.protobuf import Message

if TYPE_CHECKING:
    from collections.abc import Callable

    Ask = Callable[[dict[str, Any]], dict[str, Any]]
    """A request for a range of keys, to its answer."""

_AT_ONCE = 100
_FIRST = b"\x00"
_SECONDS = 30.0
_POLL_SECONDS = 0.5
_NAMESPACE = b"/namespaces/kube-system"
_PROTOBUF = b"k8s\x00"
_ENCRYPTED = b"k8s:enc:"
"""How a value begins that the API server has encrypted; its provider, a version and the key's name follow."""
_MOST_NAME = 253
"""Bytes."""


def main(socket_path: str, revision: str, seconds: str) -> None:
    """Sum up the etcd behind a Unix socket ("": this host's member) at a revision ("0": now); prints it as JSON.

    Waits until it answers, at most that many seconds.
    """
    until, answer = time.monotonic() + float(seconds), {}
    while True:
        try:
            with contextlib.closing(_Connection(socket_path)) as connection:
                answer = summed(connection.ask, int(revision))
            break
        except (OSError, http.client.HTTPException, Failed, ValueError) as error:
            answer = {"failed": f"can't read etcd: {str(error) or type(error).__name__}"}
        if time.monotonic() >= until:
            break
        time.sleep(_POLL_SECONDS)
    sys.stdout.write(json.dumps(answer) + "\n")


def summed(ask: Ask, revision: int = 0) -> dict[str, Any]:
    """`keys`, `digest`, `revision`, the `uid` of the cluster that the data is of ("" where it can't be read), and the
    provider and name of each key with which values are `encrypted`.
    """
    digest, keys, uid, start, at = hashlib.sha256(), 0, "", _FIRST, revision
    encrypted: set[str] = set()
    while True:
        # A range end of one zero byte means: to the end. One revision for all pages, whatever is written meanwhile.
        wanted = {"key": _text(start), "range_end": _text(_FIRST), "limit": _AT_ONCE, "revision": at}
        answer = ask(wanted)
        at = at or int(answer["header"]["revision"])
        found = answer.get("kvs", [])
        for entry in found:
            if int(entry.get("lease") or 0):
                continue
            key, value = base64.b64decode(entry["key"]), base64.b64decode(entry.get("value", ""))
            for part in (key, value):
                digest.update(len(part).to_bytes(8, "big"))
                digest.update(part)
            keys += 1
            encrypted.update(_encryption_key(value))
            if key.endswith(_NAMESPACE):
                uid = _uid(value)
        if not answer.get("more") or not found:
            told = {"keys": keys, "digest": digest.hexdigest(), "revision": at, "uid": uid}
            return {**told, "encrypted": sorted(encrypted)}
        start = base64.b64decode(found[-1]["key"]) + b"\x00"


def _encryption_key(value: bytes) -> list[str]:
    """`aescbc key1` of `k8s:enc:aescbc:v1:key1:…`; with `kms`, the name is the plugin's. None of any other value."""
    words = value[len(_ENCRYPTED) :].split(b":", 3) if value.startswith(_ENCRYPTED) else []
    named = (words[0], words[2]) if len(words) > 3 else ()
    return [" ".join(word[:_MOST_NAME].decode("utf-8", "replace") for word in named)] if named else []


def _uid(value: bytes) -> str:
    """The UID of a namespace in the API server's storage format; "" where it is encrypted, or another format."""
    if not value.startswith(_PROTOBUF):
        return ""
    try:
        return Message(value[len(_PROTOBUF) :]).message(2).message(1).text(5)
    except ValueError:
        return ""


def _text(key: bytes) -> str:
    return base64.b64encode(key).decode()


class _Connection:
    """One kept connection to etcd's JSON gateway."""

    def __init__(self, path: str) -> None:
        if path:
            link = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
            link.settimeout(_SECONDS)
            link.connect(path)
            self._connection = http.client.HTTPConnection("localhost", timeout=_SECONDS)
            self._connection.sock = link
        else:
            tls, address, port = client("")
            self._connection = http.client.HTTPSConnection(address, port, timeout=_SECONDS, context=tls)

    def close(self) -> None:
        """End it."""
        self._connection.close()

    def ask(self, body: dict[str, Any]) -> dict[str, Any]:
        """One range of keys. Raises Failed with etcd's words."""
        self._connection.request("POST", "/v3/kv/range", body=json.dumps(body))
        response = self._connection.getresponse()
        answer: dict[str, Any] = json.loads(response.read())
        if response.status != 200:
            raise Failed(str(answer.get("message") or answer.get("error") or f"HTTP {response.status}"))
        return answer
