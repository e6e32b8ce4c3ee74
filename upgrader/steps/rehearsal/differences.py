"""On a copy of the cluster's data, the target reads and writes every object as the running version does."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

from upgrader.model.finding import Finding

__all__ = ["CLIENT", "RANGES", "Difference", "findings_of"]

CLIENT = "client"
"""What only the running version serves: its resource is apiVersion, resource and verb, its names are the clients'."""

RANGES = ("port-range", "address-range")
"""What has ports or addresses behind each name, and the target's range as its reason."""


@dataclass(frozen=True)
class Difference:
    """What a rehearsal found of one resource, for one reason."""

    what: str
    resource: str
    reason: str
    """In the server's words; "" where there are none."""
    count: int
    names: tuple[str, ...]
    """Of some of the objects, with their namespaces."""

    @property
    def objects(self) -> str:
        """How many, and the names of some."""
        if not self.count:
            return f"no {self.resource} are stored"
        some = ", ".join(self.names)
        return f"{self.count:,} of {self.resource}: {some}{', …' if self.count > len(self.names) else ''}"

    @property
    def said(self) -> str:
        """They, and why."""
        return f"{self.objects}. The target says: {self.reason}"


def findings_of(differences: Iterable[Difference]) -> Iterator[Finding]:
    """One for each. Raises KeyError for one of another kind."""
    for each in differences:
        yield _FINDINGS[each.what](each)


def _start(found: Difference) -> Finding:
    title = "the target's kube-apiserver does not become ready with this cluster's data"
    remedy = "Fix what the error names: a flag in the values of release kube-apiserver, a file, or an object."
    return Finding("rehearsal.start", "error", title, found.reason, remedy)


def _crash(found: Difference) -> Finding:
    title = "the target's kube-apiserver ends while it serves this cluster's data"
    remedy = "Look for this error in Kubernetes' issues, or choose another patch of the target; then rehearse again."
    return Finding("rehearsal.crash", "error", title, found.reason, remedy)


def _gone(found: Difference) -> Finding:
    if not found.count:
        title = f"the target does not serve {found.resource}, which a CustomResourceDefinition defines"
        why = (
            "None are stored, but after the upgrade, requests for them fail, such as those of their controller. If the "
            "target has an API of this group and version itself, it hides their CustomResourceDefinition."
        )
        remedy = "Turn off that API of the target (runtime-config), or use another group."
        return Finding("rehearsal.gone", "error", title, why, remedy)
    title = f"the cluster has {found.resource}, which the target does not serve"
    remedy = "Replace them with objects of the newer API, and delete them; or enable their API (runtime-config)."
    return Finding("rehearsal.gone", "error", title, found.objects, remedy)


def _version(found: Difference) -> Finding:
    title = f"the target no longer serves {found.resource} at version {found.reason}"
    remedy = "Move the clients that use this version to another one; `upgrader check --audit-log FILE` names them."
    return Finding("rehearsal.version", "warning", title, found.objects, remedy)


def _unreadable(found: Difference) -> Finding:
    title = f"the target can't read {found.resource}, but the running version can"
    remedy = "Check the target's encryption keys and feature gates; otherwise, rewrite or delete the objects."
    return Finding("rehearsal.unreadable", "error", title, found.said, remedy)


def _list(found: Difference) -> Finding:
    title = f"the target can't list {found.resource}, but the running version can"
    why = f"Whatever watches these objects does not work on the target, which says: {found.reason}"
    return Finding("rehearsal.unreadable", "error", title, why, "Check the target's feature gates and flags.")


def _left(found: Difference) -> Finding:
    title = f"the target can't read stored {found.resource}, and the running version does not serve them"
    remedy = (
        "Enable the version in which they were stored (runtime-config) in the running kube-apiserver, and delete "
        "them. Otherwise, "
        "controllers that watch them don't work on the target."
    )
    return Finding("rehearsal.left", "error", title, f"The target says: {found.reason}", remedy)


def _update(found: Difference) -> Finding:
    title = f"the target refuses to update {found.resource}"
    remedy = (
        "Fix the objects before the upgrade: the target rejects every update of them, even one that changes nothing."
    )
    return Finding("rehearsal.update", "error", title, found.said, remedy)


def _status(found: Difference) -> Finding:
    title = f"the target refuses to update the status of {found.resource}"
    remedy = "Fix the objects before the upgrade: after it, controllers can't update the status of these objects."
    return Finding("rehearsal.status", "error", title, found.said, remedy)


def _create(found: Difference) -> Finding:
    title = f"the target refuses to create {found.resource} that are the same as existing ones"
    remedy = "Fix their manifests: existing objects stay, but can't be recreated after the upgrade."
    return Finding("rehearsal.create", "error", title, found.said, remedy)


def _manifest(found: Difference) -> Finding:
    title = f"the target refuses {found.resource} in the form that Helm's records have"
    remedy = (
        "Upgrade the releases with values or charts that fix it. After the upgrade, Helm can't apply or restore these "
        "manifests."
    )
    return Finding("rehearsal.manifest", "error", title, found.said, remedy)


def _manifest_gone(found: Difference) -> Finding:
    title = f"Helm's records have {found.resource} at version {found.reason}, which the target does not serve"
    remedy = (
        "Upgrade the releases with charts for another version first. Otherwise, Helm can't change these releases "
        "after the upgrade."
    )
    return Finding("rehearsal.manifest-gone", "error", title, found.objects, remedy)


def _manifest_unread(found: Difference) -> Finding:
    title = "manifests in Helm's records can't be read, so they were not tested"
    remedy = (
        "Check them with `helm get manifest`: each document needs a kind, an apiVersion, and metadata in block style."
    )
    return Finding("rehearsal.manifest-unread", "unknown", title, found.objects, remedy)


def _changed(found: Difference) -> Finding:
    title = f"the target reads different values in {found.resource}, or none"
    remedy = "Check that clients of these fields work with the target's values, and where a value is missing."
    return Finding("rehearsal.changed", "warning", title, f"{found.objects}. Fields: {found.reason}", remedy)


def _added(found: Difference) -> Finding:
    title = f"the target adds fields to {found.resource} when it reads them"
    remedy = "Nothing to do: these are its defaults and new fields. No current value is lost."
    return Finding("rehearsal.added", "info", title, f"{found.objects}. Fields: {found.reason}", remedy)


def _dropped(found: Difference) -> Finding:
    title = f"the target accepts fields of {found.resource}, but drops or changes them when it writes"
    remedy = (
        "Enable these fields' feature gate in the target, or stop using them: new objects would silently lack them."
    )
    return Finding("rehearsal.dropped", "warning", title, f"{found.objects}. Fields: {found.reason}", remedy)


def _client(found: Difference) -> Finding:
    api_version, resource, verb = found.resource.split(" ")
    title = f"clients send {verb} for {resource} of {api_version}, which the target does not serve"
    some = "\n".join((*found.names, *(["…"] if found.count > len(found.names) else [])))
    said = f"{some}\nThe target says: {found.reason}" if found.reason else some
    return Finding(
        "rehearsal.client", "error", title, said, "Update these clients first, to versions that use another API."
    )


def _denied(found: Difference) -> Finding:
    resource = found.resource.partition(" ")[2]
    title = f"the target no longer permits clients to get {resource}"
    remedy = f"Grant these users create for {resource}, in the Roles that permit get: since v1.35, it needs both."
    return Finding("rehearsal.denied", "error", title, found.said, remedy)


def _token(found: Difference) -> Finding:
    title = "running pods lose access: the target refuses tokens that the running version issues to ServiceAccounts"
    remedy = (
        "Keep the running version's issuer as a further --service-account-issuer, its keys as further values of "
        "--service-account-key-file, and its audiences in --api-audiences."
    )
    return Finding("rehearsal.token", "error", title, _of_sample(found), remedy)


def _token_own(found: Difference) -> Finding:
    title = "new pods have no access: the target refuses tokens that it issues to ServiceAccounts itself"
    remedy = "Make the public key of --service-account-signing-key-file a value of --service-account-key-file, too."
    return Finding("rehearsal.token", "error", title, _of_sample(found), remedy)


def _token_none(found: Difference) -> Finding:
    title = "new pods do not start: the target issues no tokens to ServiceAccounts"
    remedy = (
        "Check its --service-account-signing-key-file and --service-account-max-token-expiration, and its admission "
        "policies."
    )
    return Finding("rehearsal.token", "error", title, _of_sample(found), remedy)


def _token_new(found: Difference) -> Finding:
    title = "a rollback ends new pods' access: the running version refuses tokens that the target issues"
    why = "The same happens to new pods' clients that ask a controller which is not upgraded yet."
    remedy = "First, have the running version accept the target's issuer, keys and audiences. Then upgrade."
    said = _of_sample(found, "running version")
    return Finding("rehearsal.token", "error", title, f"{why} {said}", remedy)


def _no_token(found: Difference) -> Finding:
    title = "the running version refuses tokens that it issues to ServiceAccounts, or issues none: not compared"
    remedy = "Fix the cause in the error: the request already fails today."
    return Finding("rehearsal.unproven", "unknown", title, _of_sample(found, "running version"), remedy)


def _of_sample(found: Difference, server: str = "target") -> str:
    return f"Of one ServiceAccount each in up to ten namespaces, {found.objects}. The {server} says: {found.reason}"


def _port_range(found: Difference) -> Finding:
    title = "node ports of Services are outside of the target's range"
    remedy = (
        "Plan a --service-node-port-range that has these ports, too; or change the ports of these Services first. "
        "Otherwise the Services stay as they are, but can't be created again with these ports, as by a restore."
    )
    return Finding("rehearsal.service-range", "error", title, _of_range(found), remedy)


def _address_range(found: Difference) -> Finding:
    title = "cluster IPs of Services are outside of the target's ranges"
    remedy = (
        "Keep the running version's --service-cluster-ip-range. To use another range, first create these Services "
        "again in a range that both versions have: since v1.33, a ServiceCIDR adds one."
    )
    return Finding("rehearsal.service-range", "error", title, _of_range(found), remedy)


def _of_range(found: Difference) -> str:
    return f"{found.objects}. The target's range: {found.reason}"


def _unproven(found: Difference) -> Finding:
    request = found.what.partition("-")[2]
    what = f"update the status of any {found.resource}" if request == "status" else f"{request} any {found.resource}"
    title = f"the running version refuses to {what}, so this was not compared"
    remedy = (
        "Fix the cause in the error: the request already fails today. If that is intended, try such an object on a "
        "test cluster."
    )
    return Finding("rehearsal.unproven", "unknown", title, f"{found.objects}. It says: {found.reason}", remedy)


def _conversion(found: Difference) -> Finding:
    title = f"{found.resource} are converted by a webhook, so they were not tested"
    remedy = "Check with the webhook's vendor that it supports the target."
    return Finding("rehearsal.conversion", "unknown", title, found.objects, remedy)


def _nested(found: Difference) -> Finding:
    title = f"{found.resource} are nested too deeply to be compared"
    remedy = "Delete these objects or flatten them, or try one like them on a test cluster."
    return Finding("rehearsal.nested", "unknown", title, found.objects, remedy)


def _parameters(found: Difference) -> Finding:
    title = f"{found.resource} have parameters, which a rehearsal lacks, so their decisions were not compared"
    remedy = "On a test cluster, try objects that these policies select."
    return Finding("rehearsal.parameters", "unknown", title, found.objects, remedy)


def _elsewhere(found: Difference) -> Finding:
    title = f"{found.resource} are stored in a separate etcd, so they were not tested"
    why = (
        "A rehearsal copies only the etcd of --etcd-servers; kube-apiserver's --etcd-servers-overrides names the "
        "other one."
    )
    remedy = "Try the target on a test cluster with objects like them."
    return Finding("rehearsal.elsewhere", "unknown", title, why, remedy)


def _kms(_: Difference) -> Finding:
    title = "a KMS plugin encrypts this cluster's data, so nothing was tested"
    remedy = "A rehearsal never calls the plugin. Try the target on a test cluster with the same objects."
    return Finding("rehearsal.kms", "unknown", title, "", remedy)


def _unlisted(found: Difference) -> Finding:
    title = f"the running version can't read {found.resource} either, so they were not compared"
    remedy = "Fix the cause in the error: the request already fails today."
    return Finding("rehearsal.unlisted", "unknown", title, found.reason, remedy)


def _unfinished(found: Difference) -> Finding:
    title = f"not all {found.resource} were compared, because the time ran out"
    remedy = "Rehearse again when that machine is less busy."
    return Finding("rehearsal.unfinished", "unknown", title, "", remedy)


_FINDINGS: Mapping[str, Callable[[Difference], Finding]] = {
    "start": _start,
    "crash": _crash,
    "gone": _gone,
    "version": _version,
    "unreadable": _unreadable,
    "list": _list,
    "left": _left,
    "update": _update,
    "status": _status,
    "create": _create,
    "manifest": _manifest,
    "manifest-gone": _manifest_gone,
    "manifest-unread": _manifest_unread,
    "changed": _changed,
    "added": _added,
    "dropped": _dropped,
    "no-update": _unproven,
    "no-status": _unproven,
    "no-create": _unproven,
    CLIENT: _client,
    "denied": _denied,
    "token": _token,
    "token-own": _token_own,
    "token-none": _token_none,
    "token-new": _token_new,
    "no-token": _no_token,
    "port-range": _port_range,
    "address-range": _address_range,
    "conversion": _conversion,
    "nested": _nested,
    "parameters": _parameters,
    "elsewhere": _elsewhere,
    "kms": _kms,
    "unlisted": _unlisted,
    "unfinished": _unfinished,
}
