"""A rehearsal's result without names that a user chose, for artifacts that others can download."""

from __future__ import annotations

import re
from dataclasses import replace

from upgrader.steps.rehearsal.differences import CLIENT, RANGES, Difference
from upgrader.steps.rehearsal.result import Result

__all__ = ["redacted"]

_POLICY = re.compile(r"((?:Policy|policy) )(\S+)( with binding )?(\S+)?(?= denied request)")
_GIVEN = re.compile(r"\S*(?:[/@]|\.\w)\S*")
"""A path, an address, or a domain: a server that does not start names those that its flags have."""
_KUBERNETES = ".k8s.io"
_VERSION = re.compile(r"v\d+(?:(?:alpha|beta)\d+)?")
"""As APIs' versions are usually named. A CustomResourceDefinition's may have any other name."""
_VERSIONS = ("version", "manifest-gone")
"""Kinds of findings whose reason is an API's version, of some with its group."""


def redacted(result: Result) -> Result:
    """The result with each name of an object, a namespace, a release, a policy, a custom resource, its versions and a
    host replaced by the same word wherever it is. What Kubernetes declares stays: kinds, versions, fields.
    """
    names = _Names()
    return replace(
        result,
        controller=names.of("host", result.controller),
        rehearsal_host=names.of("host", result.rehearsal_host),
        differences=tuple(names.difference(each) for each in result.differences),
    )


class _Names:
    def __init__(self) -> None:
        self._known: dict[tuple[str, str], str] = {}
        self._counts: dict[str, int] = {}

    def of(self, kind: str, name: str) -> str:
        """The word for a name of a kind; "" for none."""
        if name and (kind, name) not in self._known:
            self._counts[kind] = self._counts.get(kind, 0) + 1
            self._known[kind, name] = f"{kind}-{self._counts[kind]}"
        return self._known.get((kind, name), "")

    def difference(self, found: Difference) -> Difference:
        """One with its names replaced."""
        if found.what == CLIENT:
            return self._client(found)
        if found.what in RANGES:
            found = replace(found, reason="…", names=tuple(each.partition(" (")[0] for each in found.names))
        names = tuple(self._object(found.resource, each) for each in found.names)
        resource, reason = self._resource(found.resource), self._reason(found.reason)
        if found.what in ("start", "crash"):
            reason = _GIVEN.sub("…", reason)
        if found.what in _VERSIONS and resource != found.resource:
            reason = self._version(reason)
        return replace(found, resource=resource, reason=reason, names=names)

    def _client(self, found: Difference) -> Difference:
        api_version, plural, verb = found.resource.split(" ")
        group = api_version.rpartition("/")[0]
        shown = self._resource(f"{plural}.{group}")
        own = shown == f"{plural}.{group}"
        resource = found.resource if own else f"{self._version(api_version)} {shown} {verb}"
        names = tuple(self.of("client", each) for each in found.names)
        return replace(found, resource=resource, reason=self._reason(found.reason), names=names)

    def _version(self, api_version: str) -> str:
        """Of a custom resource, without its group."""
        version = api_version.rpartition("/")[2]
        return version if _VERSION.fullmatch(version) else self.of("version", version)

    def _object(self, resource: str, text: str) -> str:
        """`NAMESPACE/NAME`, or `NAMESPACE/NAME of release NAMESPACE/NAME`."""
        what, of, release = text.partition(" of release ")
        shown = what if what == "a document" else self._key(resource, what)
        return shown + of + (self._key("release", release) if release else "")

    def _key(self, kind: str, key: str) -> str:
        namespace, _, name = key.rpartition("/")
        # An object of one name may be another one in another namespace.
        alias = self.of("release" if kind == "release" else "object", f"{kind} {key}")
        if kind == "namespaces":
            alias = self.of("namespace", name)
        return f"{self.of('namespace', namespace)}/{alias}" if namespace else alias

    def _resource(self, resource: str) -> str:
        group = resource.partition(".")[2]
        return self.of("custom-resource", resource) if "." in group and not group.endswith(_KUBERNETES) else resource

    def _reason(self, reason: str) -> str:
        return _POLICY.sub(self._policy, reason)

    def _policy(self, found: re.Match[str]) -> str:
        bound = f"{found[3]}{self.of('binding', found[4])}" if found[3] else ""
        return f"{found[1]}{self.of('policy', found[2])}{bound}"
