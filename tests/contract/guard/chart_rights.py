"""The rights that the chart gives, by what its values enable: each is taken away by a test, which then sees it named.

Tests are parametrised with these lists, and tests/charts/test_guard_rights.py compares them with the chart: there a
right fails that is added without a test.
"""

from __future__ import annotations

from dataclasses import dataclass

from testkit.guard_process import GuardProcess

__all__ = [
    "AGGREGATOR",
    "AGGREGATOR_OF_CORE",
    "CERTIFICATES",
    "CONFIGURATIONS",
    "DOWNSCALE",
    "GENERATOR",
    "HEALTH_CHECKERS",
    "HOLD",
    "INGRESS",
    "INGRESS_HOLD",
    "NO_DOWNSCALE",
    "OWN_CELL",
    "OWN_CONFIGURATIONS",
    "PROTECTOR_WEBHOOK",
    "ROLLOUTS",
    "ZONE_BUDGETS",
    "ZONE_TRACKER",
    "Right",
    "complaints",
]


@dataclass(frozen=True)
class Right:
    """Of a ServiceAccount, for a feature. `namespace`: there alone, as it has one of the same name elsewhere."""

    feature: str
    account: str
    """In guard's namespace `ops`, or as NAMESPACE/NAME."""
    verb: str
    resource: str
    namespace: str = ""

    def __str__(self) -> str:
        return f"{self.verb} {self.resource}" + (f" in {self.namespace}" if self.namespace else "")

    @property
    def named(self) -> str:
        """How the API server says that it is missing."""
        return f'cannot {self.verb} resource "{self.resource}"'


def complaints(guard: GuardProcess, right: Right | None = None) -> list[str]:
    """What a replica has logged about rights that it lacks: about this one, or any."""
    wanted = right.named if right else "cannot "
    return [text for line in guard.lines() if wanted in (text := " ".join(map(str, line.values())))]


def _of(feature: str, account: str, **resources: str) -> tuple[Right, ...]:
    """`resources`: each with its verbs; `_status` and `_scale` are subresources."""
    return tuple(
        Right(feature, account, verb, resource.replace("_", "/"))
        for resource, verbs in resources.items()
        for verb in verbs.split()
    )


_LEADS = "create get update"

CERTIFICATES = _of(
    "certificates",
    "guard",
    secrets="create get update",
    validatingwebhookconfigurations="list watch",
    mutatingwebhookconfigurations="list watch",
)
"""Whatever is enabled."""
OWN_CONFIGURATIONS = _of("configurations", "guard", validatingwebhookconfigurations="patch")
"""Those of the chart, whichever there are."""
CONFIGURATIONS = (*OWN_CONFIGURATIONS, *_of("configurations", "guard", mutatingwebhookconfigurations="patch"))
"""With others' (`certificate.configurations`), which may be of either kind."""
NO_DOWNSCALE = _of("noDownscale", "guard", deployments="get", replicasets="get", statefulsets="get")
ROLLOUTS = _of(
    "rollouts",
    "guard",
    leases=f"{_LEADS} list watch",
    pods="list watch delete",
    statefulsets="get list watch",
    statefulsets_status="update",
    events="create",
)
HOLD = (Right("hold", "guard", "get", "leases", "kube-system"),)
"""Where groups are rolled, and runs hold them still."""
DOWNSCALE = _of(
    "downscale",
    "guard",
    statefulsets="patch",
    statefulsets_scale="patch",
    replicatemplates_scale="get",
    replicatemplates_status="patch",
)
ZONE_TRACKER = _of("downscale", "guard", configmaps="get")
"""With the ConfigMap of rollout-operator's zone tracker (`downscale.zoneTracker`)."""
ZONE_BUDGETS = _of(
    "zoneBudget",
    "guard",
    zoneawarepoddisruptionbudgets="get list watch",
    zoneawarepoddisruptionbudgets_status="update",
    pods="get list watch",
    statefulsets="list",
    poddisruptionbudgets="list",
)
PROTECTOR_WEBHOOK = _of("protector", "guard", podprotectors="get list watch", podprotectors_status="update")
"""Of the webhook, where PodProtectors are."""
OWN_CELL = _of("protector", "guard", pods="get", poddisruptionbudgets="list")
"""Of the webhook, where the cluster's own pods are a cell of these."""
GENERATOR = _of(
    "protector",
    "guard-generator",
    leases=_LEADS,
    podprotectors="get list watch create update delete",
    podprotectors_status="update",
    deployments="get list watch patch",
)
AGGREGATOR = _of("protector", "guard-aggregator", leases=_LEADS, pods="get list watch")
"""Where pods are counted."""
AGGREGATOR_OF_CORE = _of("protector", "guard-aggregator", podprotectors="get list watch", podprotectors_status="update")
"""Where they are counted into PodProtectors of the same cluster."""
INGRESS = _of(
    "ingress",
    "guard-ingress",
    leases=_LEADS,
    nodes="get list watch patch",
    ingressdaemonsets="get list watch",
    ingressdaemonsets_status="update",
    deployments="list watch create update patch delete",
    daemonsets="list watch create update delete",
)
INGRESS_HOLD = (Right("hold", "guard-ingress", "get", "leases", "kube-system"),)
HEALTH_CHECKERS = _of("ingress", "shop/default", deployments="list watch")
"""Of those that IngressDaemonSets in `shop` run."""
