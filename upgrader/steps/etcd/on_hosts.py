"""The member of etcd on each controller, over SSH: its state, the change of its image, and the rollback."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from typing import Any

from upgrader.errors import HostError
from upgrader.model.cluster import Host
from upgrader.onhost.sending.decoder import etcd_server
from upgrader.onhost.sending.host_facts import EtcdServer, Unknown
from upgrader.onhost.sending.sent_program import SentProgram
from upgrader.ports import Hosts

__all__ = ["Changed", "EtcdOnHosts", "MemberNow", "etcd_images"]

_LOOK_SECONDS = 40.0
_MARGIN_SECONDS = 60.0
_REMEDY = "Check etcd on that controller (crictl ps -a --name etcd) and its manifest."
_MEMBER = SentProgram("member", "etcd", "its etcd", _REMEDY)


@dataclass(frozen=True)
class MemberNow:
    """A controller's member. `image`: that of its manifest; `runs`: whether its container has it.

    `cluster_version`: on which version all members have agreed, such as `3.6.0`; "" if it doesn't report one.
    """

    host: Host
    image: str
    runs: bool | Unknown
    server: EtcdServer | Unknown
    cluster_version: str = ""

    @property
    def name(self) -> str:
        return self.host.name


@dataclass(frozen=True)
class Changed:
    """What became of a change. `wrong`: why the member isn't healthy with the new image, "" where it is.

    `image`: that of its manifest now; `back`: why it isn't healthy with that again, "" where it is.
    """

    image: str
    wrong: str = ""
    back: str = ""


@dataclass(frozen=True)
class EtcdOnHosts:
    """Every method raises HostUnreachable or HostError."""

    hosts: Hosts

    def look(self, host: Host) -> MemberNow | None:
        """None where etcd is no static pod of this controller. Changes nothing."""
        return _MEMBER.read(self.hosts, host, partial(_member, host), "look", seconds=_LOOK_SECONDS)

    def change(self, host: Host, before: str, image: str, version: str, seconds: float) -> Changed:
        """Have the member run another image in place of `before`, which the controller itself restores if the member
        isn't healthy within `seconds`.
        """
        return self._changed(host, "change", before, image, version, str(seconds), seconds=seconds)

    def put_back(self, host: Host, image: str, seconds: float) -> Changed:
        """Restore the image that the member had before this one, and wait until it is healthy."""
        return self._changed(host, "put-back", image, str(seconds), seconds=seconds)

    def lead(self, host: Host, member: str) -> None:
        """Have the member on this host, which leads, hand over to another one, by its ID."""
        _MEMBER.answer(self.hosts, host, "lead", member, seconds=_LOOK_SECONDS)

    def _changed(self, host: Host, *words: str, seconds: float) -> Changed:
        # It may wait for an earlier one, then for the new image, and then for the old one.
        answer = _MEMBER.answer(self.hosts, host, *words, seconds=4 * seconds + 30 + _MARGIN_SECONDS)
        return Changed(str(answer.get("image", "")), str(answer.get("wrong", "")), str(answer.get("back", "")))


def etcd_images(hosts: Hosts, controllers: Sequence[Host]) -> dict[str, str]:
    """Controller → the image in its manifest; without those that have none, or can't be asked: a check names these.

    Not as the API has it: where a pod keeps its UID, its mirror pod keeps the old image in its spec.
    """

    def image(host: Host) -> str:
        try:
            found = EtcdOnHosts(hosts).look(host)
        except HostError:
            return ""
        return found.image if found else ""

    with ThreadPoolExecutor(max(1, len(controllers))) as pool:
        found = zip(controllers, pool.map(image, controllers), strict=True)
        return {host.name: each for host, each in found if each}


def _member(host: Host, answer: dict[str, Any]) -> MemberNow | None:
    if answer.get("absent"):
        return None
    runs, server, version = answer["runs"], answer["server"], answer["cluster_version"]
    return MemberNow(
        host,
        str(answer["image"]),
        runs if isinstance(runs, bool) else _unknown(runs),
        _unknown(server) if "unknown" in server else etcd_server(server),
        version if isinstance(version, str) else "",
    )


def _unknown(found: Any) -> Unknown:
    return Unknown(str(found["unknown"]))
