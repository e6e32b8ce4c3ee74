"""Reads everything that a recovery goes by: the controllers themselves, and the API from here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

from upgrader.errors import ApiError
from upgrader.gates.api_absence import not_ready
from upgrader.gates.rollback_needs import NOT_ACCEPTED, refusal
from upgrader.model.cluster import Cluster
from upgrader.onhost.node.disk_layout import KUBE_APISERVER
from upgrader.onhost.sending.collect import examine_all
from upgrader.onhost.sending.host_facts import Examined, HostFacts, Unknown
from upgrader.ports import Hosts, Kube
from upgrader.recover.diagnosis.diagnose import Diagnosis, diagnose
from upgrader.recover.diagnosis.wrong_api import ApiSeen

__all__ = ["Examiner", "read_api"]


@dataclass(frozen=True)
class Examiner:
    """Examines the controllers of a cluster, or those that are named; changes nothing.

    `admitted` tells whether kube-apiserver's pods were admitted before the run that it is examined for.
    """

    hosts: Hosts
    kube: Kube
    cluster: Cluster
    only: Sequence[str] = ()
    admitted: Callable[[], bool] = lambda: False

    def __call__(self) -> Diagnosis:
        """Examine once; never raises for a controller that can't be reached.

        The API is asked meanwhile: both take their time where an instance hangs.
        """
        with ThreadPoolExecutor(1) as beside:
            answer = beside.submit(read_api, self.kube)
            examined = examine_all(self.hosts, self.cluster, self.only)
            api = answer.result()
        asks = api.answers and not api.refuses
        release = _release(examined)
        seen = self._with_refusal(api, release) if asks else api
        return replace(diagnose(examined, seen, all_controllers=not self.only), release=release)

    def machines(self) -> Diagnosis:
        """The controllers alone: the API counts as one that answers, and refuses nothing. Never raises, either."""
        examined = examine_all(self.hosts, self.cluster, self.only)
        return replace(diagnose(examined, ApiSeen(answers=True)), release=_release(examined))

    def _with_refusal(self, api: ApiSeen, release: str) -> ApiSeen:
        found = refusal(self.kube, release, admitted=self.admitted())
        return ApiSeen(True, api.answer, found.text, found.credentials) if found else api


def read_api(kube: Kube) -> ApiSeen:
    """Whether the API server that the kubeconfig names is ready; one that doesn't accept its credentials answers."""
    try:
        answer = kube.raw("/readyz")
        problem = not_ready(answer)
        return ApiSeen(answers=not problem, answer=problem or answer)
    except ApiError as error:
        if error.status in NOT_ACCEPTED:
            return ApiSeen(True, error.message, refuses=error.message, credentials=True)
        return ApiSeen(answers=False, answer=error.message)


def _release(examined: Sequence[Examined]) -> str:
    """The Helm release whose pods run on the controllers; "" where kubeadm's own do, or that isn't known."""
    facts = [item.facts for item in examined if item.facts is not None]
    return KUBE_APISERVER.name if facts and all(map(_is_released, facts)) else ""


def _is_released(facts: HostFacts) -> bool:
    workload = facts.workload()
    running = [] if isinstance(facts.containers, Unknown) else [c for c in facts.containers if c.state == "running"]
    own = [c for c in running if not c.static]
    return bool(own and workload and any(generation.helm_revision for generation in workload.generations))
