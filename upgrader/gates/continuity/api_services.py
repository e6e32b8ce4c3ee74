"""Whether every APIService that was Available still is, and answers through each kube-apiserver."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from upgrader.errors import ApiError, ApiUnavailable
from upgrader.gates.api_absence import unanswered
from upgrader.gates.continuity.findings import KEEP_THE_RELEASES, contradicted
from upgrader.gates.continuity.restarts import RESTART_SECONDS, WITHOUT_PODS_SECONDS, Lost, RestartWatch
from upgrader.gates.continuity.running_instances import same_host
from upgrader.gates.continuity.served_groups import built_in
from upgrader.gates.kubernetes_kinds import API_SERVICES
from upgrader.gates.ready_endpoints import has_no_pods
from upgrader.model.baseline import Backend, Baseline
from upgrader.model.outcome import Verdict, VerdictKind, pending
from upgrader.ports import Kube, KubeObject

__all__ = [
    "REPAIR",
    "ApiServiceWatch",
    "available_services",
    "deleted_versions",
    "group_version",
    "lost_service",
    "silent_backends",
]

REPAIR = "Check the APIService and its backend: kubectl get apiservices."
_NO_ENDPOINTS = "MissingEndpoints"
"""The reason of a Service whose pods aren't Ready, as while they restart; Kubernetes sees at once when one is."""
_OF_THE_SERVICE = ("ServiceNotFound", "ServicePortError")
"""The reasons of a Service that doesn't exist, or has another port: no backend is asked, so that Kubernetes sees at
once when it is right again.
"""
_SOON = "timeout=6s"
"""Kubernetes calls a backend Available that answers within 5 s."""
_OF_THE_BACKEND = ("service unavailable", "error trying to reach service")
"""In each error of kube-apiserver that doesn't reach a backend; HAProxy's `Service Unavailable` is another one."""


def available_services(kube: Kube) -> tuple[str, ...]:
    """The names of those that are Available. Raises ApiUnavailable or ApiError."""
    return tuple(sorted(item["metadata"]["name"] for item in kube.list(API_SERVICES) if not _problem(item)))


def silent_backends(kube: Kube, names: Collection[str], servers: Collection[str]) -> Iterator[tuple[Backend, str]]:
    """What doesn't answer through one of these instances of kube-apiserver, and why. Raises ApiUnavailable or ApiError.

    The condition is what one of them has written. Another may have its own way to the backend, such as a proxy.
    """
    found = _found(kube)
    for name, server in ((name, server) for name in names if name in found for server in servers):
        try:
            why = _unanswered(kube, name, found[name], server)
        except ApiUnavailable as error:
            why = error.message
        if why:
            yield Backend(name, server), why


class ApiServiceWatch:
    """Whether those of the baseline still exist and are Available, and answer through each instance of kube-apiserver.

    Kubernetes' own go with a version of it, as `check_groups` knows. One that was lost may return by itself: what
    serves it may be restarting. Each is asked, too, as its condition follows by up to half a minute, and is that of one
    instance.
    """

    def __init__(self, failing: RestartWatch) -> None:
        self._failing = failing
        self._available: Mapping[str, KubeObject] = {}
        """Those that Kubernetes called Available when they were last listed."""

    def check(self, kube: Kube, baseline: Baseline, removed: Collection[str]) -> Verdict | None:
        """None when Kubernetes calls all of them Available, but for the versions that are `removed`."""
        self._available = {}
        try:
            found = _found(kube)
        except ApiError as error:
            self.skip()
            return contradicted("the list of APIServices", error, f"{REPAIR} {KEEP_THE_RELEASES}")
        expected = (name for name in _of_others(baseline) if name in found or group_version(name) not in removed)
        verdicts = [verdict for name in expected if (verdict := self._of(kube, name, found.get(name)))]
        self._available = {name: item for name, item in found.items() if not _problem(item)}
        return _worst(verdicts)

    def ask(self, kube: Kube, baseline: Baseline, servers: Sequence[str]) -> Verdict | None:
        """None when each that is Available answers through all these instances, but for those that didn't before.

        Where these aren't known, only the instance at the kubeconfig's address is asked.
        To be called behind `check`. One that fails isn't asked through further instances, as each takes seconds; where
        an instance itself doesn't answer, nothing more is asked.
        """
        verdicts: list[Verdict] = []
        names = [name for name in _of_others(baseline) if name in self._available]
        for number, name in enumerate(names):
            verdict = self._ask(kube, baseline, name, servers)
            verdicts += [verdict] if verdict else []
            if verdict and verdict.kind is VerdictKind.UNKNOWN:
                # An API that is overloaded, or away, says nothing of a backend.
                for each in names[number:]:
                    self._failing.works(each)
                break
        return _worst(verdicts)

    def skip(self) -> None:
        """They weren't read in this round, as what is asked before them wasn't answered."""
        self._failing.skip()

    def _of(self, kube: Kube, name: str, item: KubeObject | None) -> Verdict | None:
        if item is None:
            why = f"APIService {name} was Available before this run, and no longer exists"
            return pending(why, remedy=f"{REPAIR} {KEEP_THE_RELEASES}")
        problem = _problem(item)
        if not problem:
            return None
        lost = _unavailable(name, problem)
        if problem.startswith(_OF_THE_SERVICE):
            return self._failing.fails(lost, seconds=RESTART_SECONDS)
        if not problem.startswith(_NO_ENDPOINTS):
            return self._failing.fails(lost)
        if service := _without_pods(kube, item):
            gone = replace(lost, reason=f"{lost.reason}; Service {service} has no pods")
            return self._failing.fails(gone, seconds=WITHOUT_PODS_SECONDS)
        self._failing.works(name)
        return pending(lost.reason, remedy=lost.remedy)

    def _ask(self, kube: Kube, baseline: Baseline, name: str, servers: Sequence[str]) -> Verdict | None:
        silent = [each.server for each in baseline.silent_backends or () if each.api_service == name]
        for server in servers if baseline.silent_backends is not None else ("",):
            if any(same_host(server, each) for each in silent):
                continue
            try:
                problem = _unanswered(kube, name, self._available[name], server)
            except ApiUnavailable as error:
                return unanswered(f"APIService {name}{_at(server)}", error)
            if problem:
                return self._failing.fails(_unavailable(name, problem, server))
        self._failing.works(name)
        return None


def lost_service(kube: Kube, baseline: Baseline) -> Lost | None:
    """The first of the baseline that isn't Available now; None where all are, or were deleted. Raises ApiUnavailable or
    ApiError.
    """
    found = _found(kube)
    for name in _of_others(baseline):
        if name in found and (problem := _problem(found[name]) or _unanswered(kube, name, found[name])):
            return _unavailable(name, problem)
    return None


def deleted_versions(kube: Kube, baseline: Baseline) -> frozenset[str]:
    """What others than Kubernetes served and has no APIService object any more. Raises ApiUnavailable or ApiError.

    kube-apiserver removes one of a CustomResourceDefinition only with that: it was deleted, and won't come back.
    """
    found = _found(kube)
    return frozenset(group_version(name) for name in _of_others(baseline) if name not in found)


def group_version(name: str) -> str:
    """What an APIService of this name serves, such as `metrics.k8s.io/v1beta1`."""
    version, _, group = name.partition(".")
    return f"{group}/{version}"


def _found(kube: Kube) -> Mapping[str, KubeObject]:
    return {item["metadata"]["name"]: item for item in kube.list(API_SERVICES)}


def _of_others(baseline: Baseline) -> Iterator[str]:
    return (name for name in baseline.api_services if not built_in(group_version(name)))


def _unavailable(name: str, problem: str, server: str = "") -> Lost:
    at = _at(server)
    return Lost(name, f"APIService {name} was Available before this run, and no longer is{at}: {problem}", REPAIR)


def _unanswered(kube: Kube, name: str, item: KubeObject, server: str = "") -> str:
    """Why the backend of an aggregated API doesn't say what it serves; "" where it does, or it is kube-apiserver.

    Raises ApiUnavailable where kube-apiserver doesn't say that it is the backend.
    """
    if not (item.get("spec") or {}).get("service"):
        return ""
    try:
        kube.raw(f"/apis/{group_version(name)}?{_SOON}", server=server)
    except ApiError as error:
        if isinstance(error, ApiUnavailable) and not any(words in error.message for words in _OF_THE_BACKEND):
            raise
        return error.message
    return ""


def _without_pods(kube: Kube, item: KubeObject) -> str:
    """The Service of an aggregated API, if none of its pods exists; "" otherwise."""
    service = (item.get("spec") or {}).get("service") or {}
    if not service or not has_no_pods(kube, service["namespace"], service["name"]):
        return ""
    return f"{service['namespace']}/{service['name']}"


def _problem(item: KubeObject) -> str:
    for condition in (item.get("status") or {}).get("conditions") or ():
        if condition["type"] == "Available":
            said = f"{condition.get('reason', '')}: {condition.get('message', '')}"
            return "" if condition["status"] == "True" else said
    return "it has no Available condition"


def _worst(verdicts: Sequence[Verdict]) -> Verdict | None:
    certain = (verdict for verdict in verdicts if verdict.kind is VerdictKind.BROKEN)
    return next(certain, verdicts[0] if verdicts else None)


def _at(server: str) -> str:
    return f" at {server}" if server else ""
