"""Whether an audit webhook that kube-apiserver is going to use answers on this host."""

from __future__ import annotations

import base64
import json
import os
import re
import ssl
import sys
from functools import partial

from upgrader.onhost.common.questions import Failed, read, together
from upgrader.onhost.common.tls import context, get, plain

_VALUE = r"""["']?\s*:\s*["']?([^\s"',}]+)"""
_URL = re.compile(r"(https?)://\[?([^\]/]+?)\]?(?::(\d+))?(/.*)?")
_NO_EVENTS = '{"apiVersion":"audit.k8s.io/v1","kind":"EventList","metadata":{},"items":[]}'
_SECONDS = 9.0


def ask(root: str, path: str) -> str:
    """ "" if the server of that kubeconfig answers, with any status, as no credentials are sent. Else why not."""
    text = read(root + path).decode("utf-8", "replace")
    servers = set(re.findall("server" + _VALUE, text))
    found = _URL.fullmatch(servers.pop()) if len(servers) == 1 else None
    if not found:
        return ""  # none, or several: which one counts is for kube-apiserver to say
    scheme, host, port, below = found.groups()
    try:
        if scheme == "http":
            plain(host, int(port or 80), below or "/", _NO_EVENTS)
        else:
            get(_trust(root, text), host, int(port or 443), host, below or "/", _NO_EVENTS)
    except Failed as error:
        if "alert" not in str(error):  # one that wants a certificate, and says so, answers
            raise
    return ""


def _trust(root: str, text: str) -> ssl.SSLContext:
    embedded = re.search("certificate-authority-data" + _VALUE, text)
    file = re.search("certificate-authority" + _VALUE, text)
    if re.search("insecure-skip-tls-verify[\"']?\\s*:\\s*true", text):
        made = ssl.create_default_context()
        made.check_hostname, made.verify_mode = False, ssl.CERT_NONE
        return made
    if embedded:
        return context(base64.b64decode(embedded.group(1)).decode("ascii", "replace"))
    if file:
        return context(read(root + file.group(1)).decode("ascii", "replace"))
    return ssl.create_default_context()


def main(path: str, root: str = "") -> None:
    """Prints as JSON the result of `ask` for that kubeconfig, or that the file doesn't exist."""
    found = os.path.isfile(root + path)
    answer = together({"answer": partial(ask, root, path)}, _SECONDS) if found else {}
    sys.stdout.write(json.dumps({"found": found, **answer}) + "\n")
    sys.stdout.flush()
    os._exit(0)
