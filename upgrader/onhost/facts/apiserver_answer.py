"""Whether kube-apiserver answers on this host, its certificate verified."""

from __future__ import annotations

import re
from base64 import b64decode
from collections import Counter
from functools import partial
from typing import Any

from upgrader.onhost.common.questions import Failed, read, together
from upgrader.onhost.common.tls import context, get
from upgrader.onhost.node.listening_sockets import TABLES, is_any, parse

API_NAME = "kubernetes.default.svc"
KUBELET = "/var/lib/kubelet/pki/kubelet-client-current.pem"
_ALL_SECONDS = 6.0
"""Deadline of all answers together; less than that of this fact. One that hangs leaves the others."""


def readyz(root: str, ports: set[int]) -> dict[str, Any]:
    """kube-apiserver's /readyz on this host: on the node's address before a private one."""
    sockets = listeners(ports)
    found = sorted(sockets, key=lambda at: (at[0].startswith("127."), at))
    if not found:
        return {"answers": False, "said": f"nothing listens on port {' or '.join(str(p) for p in sorted(ports))}"}
    ca = authority(root)
    asked = together({f"{at[0]}:{at[1]}": partial(_ask, root, ca, *at) for at in found}, _ALL_SECONDS)
    answers = [_answer(at, answer) for at, answer in asked.items()]
    alone = [answer for answer in answers if answer["answers"] and private(answer["address"])]
    first = next((answer for answer in answers if answer["answers"]), answers[0])
    public = [count for (address, _), count in sockets.items() if not private(address)]
    return dict(first, instances=len(alone), listeners=max(public, default=0), private=len(sockets) - len(public))


def private(address: str) -> bool:
    """Whether it belongs to exactly one instance, as the chart chooses it. At 127.0.0.1, for clients, any instance
    answers.
    """
    return address.startswith("127.") and not address.startswith("127.0.")


def listeners(ports: set[int]) -> Counter[tuple[str, int]]:
    """(address, port) → how many TCP sockets listen there, for these ports; a wildcard counts as the loopback
    address.
    """
    found: Counter[tuple[str, int]] = Counter()
    for table in TABLES:
        try:
            places = parse(read(table).decode())
        except OSError:
            continue
        found.update(("127.0.0.1" if is_any(address) else address, port) for address, port in places if port in ports)
    return found


def authority(root: str) -> str:
    """The cluster's CA as PEM: kubeadm's file, or the one in the kubelet's kubeconfig."""
    try:
        return read(root + "/etc/kubernetes/pki/ca.crt").decode()
    except OSError:
        text = read(root + "/etc/kubernetes/kubelet.conf").decode()
        found = re.search(r"certificate-authority-data:\s*(\S+)", text)
        if not found:
            raise Failed("there is no CA to verify kube-apiserver with") from None
        return b64decode(found.group(1)).decode()


def _answer(at: str, answer: dict[str, Any]) -> dict[str, Any]:
    """What was asked there; none may have come."""
    return answer if "answers" in answer else {"answers": False, "address": at, "said": answer["unknown"]}


def _ask(root: str, authority: str, address: str, port: int) -> dict[str, Any]:
    at = f"{address}:{port}"
    try:
        status, body = get(context(authority), address, port, API_NAME, "/readyz?verbose")
        if status == 401:
            # No anonymous requests here: ask as the kubelet. Every authenticated client may ask this.
            own = context(authority)
            own.load_cert_chain(root + KUBELET)
            status, body = get(own, address, port, API_NAME, "/readyz?verbose")
    except Failed as error:
        return {"answers": False, "address": at, "said": str(error)}
    failing = [line[3:].split()[0] for line in body.splitlines() if line.startswith("[-]")]
    answer = "ok" if status == 200 else f"HTTP {status}" + (": not ready: " + ", ".join(failing) if failing else "")
    return {"answers": status == 200, "address": at, "said": answer}
