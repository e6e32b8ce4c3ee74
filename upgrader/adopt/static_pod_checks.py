"""What is asked of controllers with static pods before anything changes there: the same of a first adoption, and of
controllers that joined an adopted cluster.

In three parts, as each needs what the one before has made sure of.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from upgrader.adopt.added_files import check_added_files
from upgrader.adopt.advertised import check_advertised
from upgrader.adopt.container_runtime import check_container_runtime
from upgrader.adopt.derive import FlagChange
from upgrader.adopt.facts import ControllerFacts
from upgrader.adopt.failing_pods import check_started
from upgrader.adopt.health_requests import check_health_requests
from upgrader.adopt.leaders_api import OwnServer, aliases_of, leaders_servers
from upgrader.adopt.local_proxies import check_local_proxies
from upgrader.adopt.low_port import check_low_port
from upgrader.adopt.other_manifests import check_other_manifests
from upgrader.adopt.schema_values import check_schema_values
from upgrader.adopt.static_pod_parts import check_static_pods
from upgrader.model.cluster import Host
from upgrader.ports import Hosts, Kube

__all__ = ["check_machines", "check_pods", "check_with_values", "leaders_kubeconfigs"]

Values = Mapping[str, Any]


def check_machines(kube: Kube, hosts: Hosts, controllers: Sequence[Host], checkpointer: Values) -> None:
    """Before their static pods are read. `checkpointer`: the operator's values for the release `pod-checkpointer`.

    Raises Blocked, ApiError and HostError.
    """
    check_container_runtime(kube, hosts, controllers, checkpointer)
    check_other_manifests(hosts, controllers)


def check_pods(kube: Kube, hosts: Hosts, controllers: Sequence[ControllerFacts]) -> None:
    """What the static pods have, before anything relies on their flags. Raises Blocked, ApiError or HostError."""
    check_static_pods(controllers)
    check_schema_values(controllers)
    check_started(kube, controllers)
    check_low_port(hosts, controllers)


def leaders_kubeconfigs(
    hosts: Hosts, controllers: Sequence[ControllerFacts], addresses: Sequence[str], kubernetes: Values
) -> tuple[OwnServer, ...]:
    """What must change in kubeconfigs, once everything that the charts' pods are to reach can be reached from them.

    `addresses`: the nodes' own, in order; `kubernetes`: the operator's values for that release. Raises Blocked, or
    HostError.
    """
    check_advertised(controllers, addresses)
    check_local_proxies(controllers, kubernetes)
    return leaders_servers(hosts, controllers, addresses, aliases_of(kubernetes))


def check_with_values(
    hosts: Hosts,
    controllers: Sequence[ControllerFacts],
    certificates: str,
    changes: Sequence[FlagChange],
    api_server: Values,
) -> None:
    """What the releases need there: files of flags that they add (`changes`), and answers to HAProxy's check.

    `certificates`: kubeadm's folder; `api_server`: all values of the release `kube-apiserver`. Raises Blocked, or
    HostError.
    """
    check_added_files(hosts, controllers, certificates, changes)
    check_health_requests(hosts, controllers, api_server)
