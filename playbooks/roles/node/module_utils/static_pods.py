"""The UIDs of static pods, which a kubelet of another minor computes differently, and then starts the pods anew.

A static pod's UID is a hash of its manifest as the kubelet knows it: with each minor's new fields, and in 1.37 by
another function. A new kubelet so takes an unchanged etcd.yaml for another pod: it ends etcd and starts it again, and
when both are there for a moment, the new one finds its port taken. A manifest that says its UID keeps its pod.
"""

from __future__ import annotations

import glob
import json
import os
import re
from collections.abc import Iterable

__all__ = ["identity", "live_uids", "pinned", "running_uid"]

_WHY = "# So that another kubelet doesn't restart this pod. Remove it when you change more than the image."


def running_uid(namespace: str, name: str, logs: str, live: Iterable[str]) -> str:
    """The UID of a static pod that runs, by the folder of its logs; "" unless exactly one of them is `live`."""
    found = set()
    for path in glob.glob(os.path.join(logs, f"{glob.escape(f'{namespace}_{name}')}-*_*")):
        uid = path.rpartition("_")[2]
        if re.fullmatch("[0-9a-f]{32}", uid) and uid in live:
            found.add(uid)
    return found.pop() if len(found) == 1 else ""


def live_uids(proc: str = "/proc") -> set[str]:
    """The UIDs, of the form that static pods have, of all pods that have a process."""
    found: set[str] = set()
    for path in glob.glob(os.path.join(proc, "[0-9]*", "cgroup")):
        try:
            with open(path, encoding="utf-8", errors="replace") as stream:
                found.update(re.findall(r"pod([0-9a-f]{32})\b", stream.read()))
        except OSError:
            continue  # that process has just ended
    return found


def identity(text: str) -> tuple[str, str, str] | None:
    """Namespace, name and UID ("" if it says none) of a manifest; None where its form isn't a plain one."""
    if text.lstrip().startswith("{"):
        try:
            metadata = json.loads(text)["metadata"]
            return metadata.get("namespace", "default"), metadata["name"], metadata.get("uid", "")
        except (ValueError, KeyError, TypeError, AttributeError):
            return None
    block = re.findall(r"^metadata:[ \t]*\n((?:[ ]{2,}.*\n|[ \t]*#.*\n)+)", text, re.MULTILINE)
    if len(block) != 1 or re.search(r"^---[ \t]*$", text.lstrip()[3:], re.MULTILINE):
        return None
    line = r"^  (name|namespace|uid):[ \t]*[\"']?([\w.-]+)[\"']?[ \t]*(?:#.*)?$"
    fields = dict(re.findall(line, block[0], re.MULTILINE))
    return (fields.get("namespace", "default"), fields["name"], fields.get("uid", "")) if "name" in fields else None


def pinned(text: str, uid: str) -> str:
    """The manifest with that UID."""
    if text.lstrip().startswith("{"):
        manifest = json.loads(text)
        manifest["metadata"]["uid"] = uid
        return json.dumps(manifest, indent=1) + "\n"
    return re.sub(r"^(metadata:[ \t]*\n)", rf"\g<1>  {_WHY}\n  uid: '{uid}'\n", text, count=1, flags=re.MULTILINE)
