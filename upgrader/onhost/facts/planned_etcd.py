"""Whether etcd answers at the addresses that a kube-apiserver on this host is going to use, with its files."""

from __future__ import annotations

import json
import os
import re
import sys
from functools import partial
from typing import Any

from upgrader.onhost.common.questions import Failed, read, together
from upgrader.onhost.common.tls import context, get, plain

_URL = re.compile(r"(https?)://\[?([^\]/]+?)\]?:(\d+)/?")
_SECONDS = 9.0


def ask(root: str, server: str, ca: str, certificate: str, key: str) -> str:
    """ "" if etcd reports itself healthy there; else why not. Raises Failed if nothing answers."""
    found = _URL.fullmatch(server)
    if not found:
        raise Failed(f"{server} is not an address of etcd")
    scheme, host, port = found.group(1), found.group(2), int(found.group(3))
    if scheme == "http":
        status, text = plain(host, port, "/health")
    else:
        tls = context(read(root + ca).decode("ascii", "replace"))
        tls.load_cert_chain(root + certificate, root + key)
        status, text = get(tls, host, port, host, "/health")
    return "" if status == 200 else f"HTTP {status}: {text.strip()[:200]}"


def main(given: str, root: str = "") -> None:
    """`given`: JSON with `servers`, `ca`, `certificate` and `key`. Prints each server's answer, or the files that are
    missing, as JSON.
    """
    wanted = json.loads(given)
    files = [wanted[name] for name in ("ca", "certificate", "key")]
    missing = [path for path in files if path and not os.path.isfile(root + path)]
    answer: dict[str, Any] = {"missing": missing}
    if not missing:
        answer["answers"] = together({each: partial(ask, root, each, *files) for each in wanted["servers"]}, _SECONDS)
    sys.stdout.write(json.dumps(answer) + "\n")
    sys.stdout.flush()
    os._exit(0)
