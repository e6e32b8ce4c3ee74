"""Changes etcd's membership through the member on this host, over its JSON gateway."""

from __future__ import annotations

import json
import sys

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.facts import etcd_facts

_LIST, _REMOVE, _LEAD = "/v3/cluster/member/list", "/v3/cluster/member/remove", "/v3/maintenance/transfer-leadership"


def main(what: str, member: str, root: str = "") -> None:
    """`remove` a member by its hexadecimal ID, if it still exists; or make it `lead`, if this host's member leads.

    Prints what was `done`, or why it `failed`.
    """
    try:
        answer = {"done": _lead(root, member) if what == "lead" else _remove(root, member)}
    except (Failed, OSError, ValueError) as error:
        answer = {"failed": str(error) or type(error).__name__}
    sys.stdout.write(json.dumps(answer) + "\n")


def _remove(root: str, member: str) -> str:
    members = {format(int(each["ID"]), "x") for each in etcd_facts.asked(root, _LIST, {}).get("members", [])}
    if member not in members:
        return "it was no longer a member"
    etcd_facts.asked(root, _REMOVE, {"ID": str(int(member, 16))})
    return "removed"


def _lead(root: str, member: str) -> str:
    etcd_facts.asked(root, _LEAD, {"targetID": str(int(member, 16))})
    return "moved"
