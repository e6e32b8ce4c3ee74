"""Reads everything that a recovery goes by: the controllers themselves, and the API from here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from upgrader.errors import ApiError
from upgrader.model.cluster import Cluster
from upgrader.ports import Hosts, Kube
from upgrader.recover.diagnosis.diagnose import ApiSeen, Diagnosis, diagnose
from upgrader.recover.facts.collect import examine_all

__all__ = ["Examiner", "read_api"]


@dataclass(frozen=True)
class Examiner:
    """Examines the controllers of a cluster, or those that are named; changes nothing."""

    hosts: Hosts
    kube: Kube
    cluster: Cluster
    only: Sequence[str] = ()

    def __call__(self) -> Diagnosis:
        """Examine once; never raises for a controller that can't be reached."""
        examined = examine_all(self.hosts, self.cluster, self.only)
        return diagnose(examined, read_api(self.kube))


def read_api(kube: Kube) -> ApiSeen:
    """Whether the API server that the kubeconfig names is ready."""
    try:
        return ApiSeen(answers=True, answer=kube.raw("/readyz"))
    except ApiError as error:
        return ApiSeen(answers=False, answer=error.message)
