"""Kubernetes as a lab gets it by default: its own release if the hosts that have it can be reached, or else built here.

What is in the cache is used, whichever it is.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from upgrader.lab.binaries import oldest_first
from upgrader.lab.built_here import BuiltHere
from upgrader.lab.mirror import Mirror, Unavailable
from upgrader.lab.oci_archive import Image
from upgrader.lab.origin import Programs
from upgrader.lab.release_hosts import PROGRAMS, REGISTRY

__all__ = ["DefaultOrigin"]


class DefaultOrigin:
    """`Origin` that decides for each version. `why_not()` says which host can't be reached, and why, or ""; `say`
    prints a line.

    If the release has something wrong (a signature, a SHA-256), that is an error, and nothing is built in its place.
    """

    def __init__(
        self,
        release: Mirror,
        built: BuiltHere,
        why_not: Callable[[], str],
        say: Callable[[str], None],
    ) -> None:
        self._release = release
        self._built = built
        self._why_not = why_not
        self._say = say
        self._downloads = False
        self._last: Mirror | BuiltHere = built

    def choose(self, versions: Sequence[str]) -> None:
        """Decide, and say where each version comes from and why."""
        missing = []
        for version in versions:
            if self._release.has(version):
                self._say(f"Kubernetes {version}: in the cache, its own release")
            elif self._built.has(version):
                self._say(f"Kubernetes {version}: in the cache, built from source")
            else:
                missing.append(version)
        if not missing:
            return
        why_not, names = self._why_not(), ", ".join(missing)
        self._downloads = not why_not
        if why_not:
            self._say(f"Kubernetes {names}: building it from source, because {why_not}")
        else:
            self._say(f"Kubernetes {names}: downloading its release from {PROGRAMS} and {REGISTRY}")

    def programs(self, version: str) -> Programs:
        self._last = self._built
        if self._release.has(version) or (self._downloads and not self._built.has(version)):
            try:
                # All of it, now: a lab is of one kind.
                self._release.shared_images()
                self._release.etcd()
                found = self._release.programs(version)
            except Unavailable as error:
                self._downloads = False
                self._say(
                    f"Kubernetes {version}: building it from source, because its release can't be downloaded: "
                    f"{error.message}"
                )
            else:
                self._last = self._release
                return found
        return self._built.programs(version)

    def etcd(self) -> Programs:
        return self._last.etcd()

    def images(self) -> list[Image]:
        found = self._last.shared_images()
        for version in oldest_first({*self._release.versions(), *self._built.versions()}):
            # Of the kind of the lab's own version, where there are both.
            found += next(each for each in (self._last, self._release, self._built) if each.has(version)).images_of(
                version
            )
        return found

    def has(self, version: str) -> bool:
        return self._release.has(version) or self._built.has(version)
