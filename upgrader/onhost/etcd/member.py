"""Commands on a controller for the image of its etcd member.

This program waits for a change, and reverts it: a runner that is killed leaves no member with an image that doesn't
start.
"""

from __future__ import annotations

import json
import os
import re
import sys
from typing import Any

from upgrader.contract.durable_files import rewrite
from upgrader.onhost.common.private_folder import locked
from upgrader.onhost.common.questions import Failed, attempt
from upgrader.onhost.etcd import kept_image
from upgrader.onhost.etcd.manifest import image_of, pinned, with_image
from upgrader.onhost.etcd.running import Watch, container, of_same_image, running_uid, runs_image
from upgrader.onhost.etcd.streams import Streams
from upgrader.onhost.facts import container_facts, etcd_facts
from upgrader.onhost.node.cri import Runtime

__all__ = ["Member", "main"]

MANIFEST = "/etc/kubernetes/manifests/etcd.yaml"
FOLDER = "/var/lib/upgrader/etcd"
_BUSY = "an earlier change of etcd's image is still running on this controller"
_LEAD = "/v3/maintenance/transfer-leadership"
_VERSION = re.compile(r"\d{1,4}\.\d{1,4}\.")


class Member:
    """The etcd member on this host; `root` is "" except in tests."""

    def __init__(self, root: str = "", runtime: Runtime | None = None) -> None:
        self.root = root
        self.manifest, self.folder = root + MANIFEST, root + FOLDER
        self.runtime = runtime or container_facts.runtime(container_facts.socket_path(root))

    def look(self) -> dict[str, Any]:
        """`image` is that of the manifest, `runs` whether its container has it; or `absent`. Read-only."""
        if not os.path.exists(self.manifest):
            return {"absent": True}
        image = image_of(self._read())
        return {
            "image": image,
            "runs": attempt(lambda: self._runs(image)),
            "server": attempt(lambda: etcd_facts.server(self.root, [])),
            "cluster_version": attempt(self._agreed),
        }

    def change(self, before: str, image: str, version: str, seconds: float) -> dict[str, Any]:
        """Switch the member to another image, if it has `before`, and wait until it is healthy. `failed`: why it isn't;
        the manifest then has the previous image again, and `back` is why the member isn't healthy with it ("": it is).
        The UID that keeps the pod remains. The new image remains if the previous one can no longer read etcd's data:
        `back` says so.
        """
        with locked(self.folder, 2 * seconds + 30, _BUSY):
            now, ending = image_of(self._read()), 0
            if now == before != image:
                if self.runtime.image(image) is None:
                    raise Failed(f"image {image} is not on this node; nothing was changed")
                kept_image.keep(self.folder, before, image, self._known_agreed())
                ending = of_same_image(self.runtime, before, image)
                self._write(image, running_uid(self.runtime))
            elif now != image:
                raise Failed(f"{MANIFEST} now has the image {now}; nothing was changed")
            wrong = self._watch(image, version, ending).wait(seconds)
            if not wrong:
                return {"image": image}
            return {"wrong": wrong, **self._put_back(image, seconds, started_before=ending)}

    def put_back(self, image: str, seconds: float) -> dict[str, Any]:
        """Restore the image before this one. Does nothing if the manifest doesn't have this one."""
        with locked(self.folder, 2 * seconds + 30, _BUSY):
            return self._put_back(image, seconds)

    def lead(self, member: str) -> dict[str, Any]:
        """Transfer leadership to another member, by its hexadecimal ID, if this one leads."""
        etcd_facts.asked(self.root, _LEAD, {"targetID": str(int(member, 16))})
        return {}

    def _put_back(self, image: str, seconds: float, started_before: int = 0) -> dict[str, Any]:
        """`image`: the manifest's image now. `back`: why the member isn't healthy with it, "" if it is.
        `started_before`: `of_same_image` when this image was set; if no other container has started since, none will.
        """
        now, ending = image_of(self._read()), 0
        before = kept_image.before(self.folder, image)
        if now == image:
            if not before:
                return {"image": now, "back": "this controller has no record of its previous image"}
            if why := self._unreadable(image):
                return {"image": now, "back": why}
            ending = of_same_image(self.runtime, image, before)
            self._write(before)
            now = before
        elif not before:
            return {"image": now, "back": ""}  # no change got this far
        elif now != before:
            return {"image": now, "back": "the image has been changed again since"}
        watch = self._watch(now, "", ending if ending != started_before else 0)
        return {"image": now, "back": watch.wait(seconds, ends=False)}

    def _unreadable(self, image: str) -> str:
        """Why the image before this one can no longer read etcd's data; "" if it can, or if that is unknown. An older
        minor version exits on data whose version the members have raised.
        """
        then, now = kept_image.agreed(self.folder, image), self._known_agreed()
        if not then or not now or _minor(now) <= _minor(then):
            return ""
        return (
            f"etcd's cluster version is now {now}, and the previous image can't read data of that version; the new "
            "image stays"
        )

    def _known_agreed(self) -> str:
        try:
            return self._agreed()
        except (Failed, OSError, ValueError):
            return ""

    def _agreed(self) -> str:
        """The cluster version, on which all members agree, such as `3.6.0`. Raises Failed, OSError or ValueError."""
        found = str(etcd_facts.asked(self.root, "/version").get("etcdcluster", ""))
        return found if _VERSION.match(found) else ""

    def _watch(self, image: str, version: str, ending: int) -> Watch:
        return Watch(self.runtime, image, version, self.root, ending, Streams(self._port()).end_abandoned)

    def _port(self) -> int:
        """The port for its clients; 0 if unknown."""
        try:
            return etcd_facts.client_port(self.root)
        except Failed:
            return 0

    def _runs(self, image: str) -> bool:
        found = container(self.runtime)
        return found is not None and found.state == "running" and runs_image(self.runtime, found, image)

    def _read(self) -> str:
        # Bytes that are no UTF-8 may be in a comment, and stay.
        with open(self.manifest, encoding="utf-8", errors="surrogateescape", newline="") as file:
            return file.read()

    def _write(self, image: str, uid: str = "") -> None:
        text = pinned(with_image(self._read(), image), uid)
        rewrite(self.manifest, text.encode("utf-8", "surrogateescape"))


def _minor(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".")[:2])


def main(command: str, *words: str) -> None:
    """Print the answer as JSON; `failed` is why there is none."""
    os.umask(0o077)
    try:
        answer = _answer(Member(), command, words)
    except (Failed, OSError, ValueError) as error:
        answer = {"failed": str(error) or type(error).__name__}
    sys.stdout.write(json.dumps(answer) + "\n")


def _answer(member: Member, command: str, words: tuple[str, ...]) -> dict[str, Any]:
    if command == "look":
        return member.look()
    if command == "lead":
        return member.lead(*words)
    if command == "put-back":
        return member.put_back(words[0], float(words[1]))
    before, image, version, seconds = words
    return member.change(before, image, version, float(seconds))
