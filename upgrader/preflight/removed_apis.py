"""The target serves the APIs of all objects in the planned and the installed Helm releases.

Read are the manifests of releases; their hooks aren't in them. The cluster's live objects can't be judged: the API
converts them, and shows each in every version that it serves. Clients of an old version are found by the check `apis`.
Kinds that Kubernetes' own sources don't name, such as custom resources, are never reported.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from http import HTTPStatus

import yaml

from upgrader.errors import ApiError
from upgrader.model.api_lifecycle import ApiLifecycle, Minor, known_apis, replacement_at
from upgrader.model.counted import counted
from upgrader.model.finding import Finding
from upgrader.model.first_few import first_few
from upgrader.model.manifest import objects_in
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import PreflightContext
from upgrader.preflight.release_records import deployed_releases

__all__ = ["OutdatedObject", "check_manifests", "check_removed_apis", "outdated_objects"]

_SHOWN = 10
"""Objects, or releases, that a finding names."""
_DOCUMENTS = re.compile(r"^---(?=\s|$)", re.MULTILINE)
_APISERVER = "kube-apiserver"


@dataclass(frozen=True)
class OutdatedObject:
    """An object in a manifest whose API the target doesn't serve, or deprecates."""

    name: str
    """`CronJob default/backup`"""
    api: ApiLifecycle
    served: bool
    why: str
    """The state of its API, and the replacement."""

    def __str__(self) -> str:
        return f"{self.name}: {self.why}"


def check_removed_apis(context: PreflightContext) -> Iterator[Finding]:
    """The releases of the run, before and after it, and then all others in the cluster.

    While the target emulates an older minor, it serves that one's APIs: what it removes blocks `upgrader finalize`, and
    is only warned of before.
    """
    planned = {release.name: outdated_objects(release.after, context.served) for release in context.changing}
    yield from _planned(planned, context.served)
    yield from _installed(context)
    others: dict[str, list[OutdatedObject]] = {}
    yield from _others(context, others)
    yield from _deprecated({**planned, **others}, context.target)


def check_manifests(manifests: Mapping[str, str], target: KubernetesVersion) -> Iterator[Finding]:
    """The findings about releases (name → manifest) that need no cluster."""
    planned = {name: outdated_objects(manifest, target) for name, manifest in manifests.items()}
    yield from _planned(planned, target)
    yield from _deprecated(planned, target)


def _planned(releases: Mapping[str, list[OutdatedObject]], target: KubernetesVersion) -> Iterator[Finding]:
    for name, found in releases.items():
        if unserved := [item for item in found if not item.served]:
            yield Finding(
                "removed-apis.planned",
                "error",
                f"release {name} would have {_objects(unserved)} that {target} doesn't serve",
                f"{_listed(unserved)}\nThe API server rejects them, and Helm won't be able to change the release.",
                "Change its chart or values. Charts that use .Capabilities were not rendered for the target: skip this "
                "finding if the chart uses another API there.",
            )


def _deprecated(releases: Mapping[str, list[OutdatedObject]], target: KubernetesVersion) -> Iterator[Finding]:
    served = {name: [item for item in found if item.served] for name, found in releases.items()}
    if named := {name: items for name, items in served.items() if items}:
        total = [item for items in named.values() for item in items]
        yield Finding(
            "removed-apis.deprecated",
            "info",
            f"{_objects(total)} that {target} deprecates: in {_releases(list(named))}",
            "\n".join(f"{name}: {_listed(items)}" for name, items in list(named.items())[:_SHOWN]),
        )


def outdated_objects(manifest: str, target: KubernetesVersion) -> list[OutdatedObject]:
    """The objects that `target` doesn't serve or deprecates. Raises yaml.YAMLError.

    Only objects that name such an API are parsed: a cluster's manifests have many megabytes.
    """
    outdated, mentions = _outdated(target)
    found = []
    for document in _DOCUMENTS.split(manifest) if mentions.search(manifest) else ():
        for name, item in (objects_in(document) if mentions.search(document) else {}).items():
            api = outdated.get((str(item.get("apiVersion")), str(item.get("kind"))))
            if api:
                found.append(OutdatedObject(name, api, api.served_by(target), _why(api, target)))
    return found


@cache
def _outdated(target: KubernetesVersion) -> tuple[dict[tuple[str, str], ApiLifecycle], re.Pattern[str]]:
    """The APIs to report, and what finds their apiVersions in the text of a manifest."""
    apis = {key: api for key, api in known_apis().items() if not api.served_by(target) or api.deprecated_by(target)}
    versions = "|".join(sorted({re.escape(version) for version, _ in apis}))
    return apis, re.compile(rf"""apiVersion["']?\s*:\s*["']?(?:{versions})(?![\w.-])""")


def _why(api: ApiLifecycle, target: KubernetesVersion) -> str:
    if api.served_by(target):
        state = "is deprecated" + (f", and is removed in v{_text(api.removed)}" if api.removed else "")
    elif api.removed and api.removed <= (target.major, target.minor):
        state = f"was removed in v{_text(api.removed)}"
    else:
        state = f"is introduced in v{_text(api.introduced)}"
    replacement = replacement_at(api, target)
    return f"{api.api_version} {state}; " + (f"use {replacement}" if replacement else "nothing replaces it")


def _installed(context: PreflightContext) -> Iterator[Finding]:
    """Helm reads the installed manifest again for an upgrade and for a rollback, and fails where the API has gone.

    That concerns the releases from kube-apiserver's on: those before it are changed, and rolled back, while the old
    version serves.
    """
    names = [release.name for release in context.changing]
    concerned = context.changing[names.index(_APISERVER) if _APISERVER in names else 0 :]
    for release in concerned:
        unserved = [item for item in outdated_objects(release.before, context.served) if not item.served]
        if unserved:
            yield Finding(
                "releases.removed-apis",
                "error",
                f"release {release.name} has {_objects(unserved)} that {context.served} doesn't serve",
                f"{_listed(unserved)}\nHelm could neither upgrade the release nor roll it back once {context.served} "
                "runs.",
                "Change its chart to the replacement API, and apply it at the current version first: upgrader run "
                f"--to {context.observed.server}",
            )


def _others(context: PreflightContext, deprecated: dict[str, list[OutdatedObject]]) -> Iterator[Finding]:
    """Releases that the run doesn't change. A warning at most: they serve on, and anyone can write such a record."""
    ours = {(release.name, release.spec.namespace) for release in context.changing}
    newest: dict[str, tuple[int, list[OutdatedObject] | None]] = {}
    try:
        for record in deployed_releases(context.kube):
            name = f"{record.namespace}/{record.name}"
            if (record.name, record.namespace) not in ours and newest.get(name, (-1, None))[0] < record.revision:
                newest[name] = record.revision, _in_record(record.manifest, context.target)
    except ApiError as error:  # also without an answer in time: other checks ask for what the run needs
        allow = "Allow `list` on Secrets in all namespaces in a ClusterRole of the kubeconfig's user."
        yield Finding(
            "removed-apis.unread",
            "warning",
            f"it is unknown whether other releases use APIs that {context.target} doesn't serve",
            error.message,
            allow if error.status == HTTPStatus.FORBIDDEN else error.remedy,
        )
    unread = [name for name, (_, found) in newest.items() if found is None]
    for name, (_, found) in newest.items():
        deprecated[name] = [item for item in found or () if item.served]
        if unserved := [item for item in found or () if not item.served]:
            yield Finding(
                "removed-apis.others",
                "warning",
                f"release {name} has {_objects(unserved)} that {context.target} doesn't serve",
                f"{_listed(unserved)}\nRunning objects are unaffected, but after the run Helm can't upgrade this "
                "release, roll it back or uninstall it.",
                "Before the run, upgrade it to a chart that uses the replacement API. Afterwards, only the Helm "
                "plugin mapkubeapis can fix its records.",
            )
    if unread:
        yield Finding(
            "removed-apis.damaged",
            "warning",
            f"the records of {_releases(unread)} can't be read",
            f"They aren't in Helm's format, so they might use APIs that {context.target} doesn't serve.",
            "To see one: helm get manifest RELEASE --namespace NAMESPACE",
        )


def _in_record(manifest: str | None, target: KubernetesVersion) -> list[OutdatedObject] | None:
    """The same for an untrusted record; None for content that Helm doesn't write, or that has aliases.

    An alias in YAML may stand for another nine, and so on: a few hundred bytes would take hours.
    """
    if manifest is None:
        return None
    _, mentions = _outdated(target)
    try:
        for document in _DOCUMENTS.split(manifest) if mentions.search(manifest) else ():
            if mentions.search(document):
                yaml.compose(document, Loader=_WithoutAliases)
        return outdated_objects(manifest, target)
    except (yaml.YAMLError, AttributeError, LookupError, TypeError, ValueError, RecursionError):
        return None


class _WithoutAliases(yaml.SafeLoader):
    def compose_node(self, parent: yaml.Node | None, index: int) -> yaml.Node | None:
        if self.check_event(yaml.AliasEvent):
            raise yaml.YAMLError("an alias")
        return super().compose_node(parent, index)


def _objects(items: list[OutdatedObject]) -> str:
    apis = sorted({str(item.api) for item in items})
    shown = ", ".join(apis[:3]) + (" …" if len(apis) > 3 else "")
    return f"{counted(len(items), 'object')} ({shown})"


def _listed(items: list[OutdatedObject]) -> str:
    more = f"\nand {len(items) - _SHOWN} more" if len(items) > _SHOWN else ""
    return "\n".join(map(str, items[:_SHOWN])) + more


def _releases(names: list[str]) -> str:
    return f"release{'s' if len(names) > 1 else ''} {first_few(names, _SHOWN)}"


def _text(minor: Minor | None) -> str:
    return ".".join(map(str, minor or ()))
