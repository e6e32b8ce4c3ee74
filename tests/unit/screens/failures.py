"""Failures as operators meet them: each is made, and what is seen on a terminal of 80×24 then is returned."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import paramiko
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from testkit.example_runs import INTERRUPTED, journal_of
from testkit.fakes.hosts import FakeHosts
from testkit.pki import CertificateAuthority, printed
from testkit.terminal import Shown
from tests.unit.gates.builders import add_deployment, add_pod, crashed
from tests.unit.recover.host_facts_json import host_facts
from tests.unit.screens.site import API_SERVER, NEW_POD, Site, SiteSession
from tests.unit.steps.kubelets import waiting
from upgrader.adapters.apiclient import ApiClient, ApiRequest
from upgrader.adapters.sshconnect import _unreachable
from upgrader.config.yaml_document import shown
from upgrader.engine.locks.lease_object import LEASES, Holder
from upgrader.engine.locks.lease_object import manifest as lease
from upgrader.errors import ApiError, ApiUnavailable, ChartRefused, UpgraderError
from upgrader.gates.kubernetes_kinds import PODS, REPLICA_SETS, SECRETS
from upgrader.model.cluster import Host
from upgrader.model.finding import Finding
from upgrader.model.image_settings import ImageSettings
from upgrader.model.node_settings import NodePool, NodeSource, NodesSettings
from upgrader.model.release import ReleaseSpec, Revision
from upgrader.onhost.sending.host_facts import Examined
from upgrader.ports import CommandResult, Kind, KubeObject
from upgrader.recover.diagnosis.diagnose import diagnose
from upgrader.recover.diagnosis.wrong_api import ApiSeen
from upgrader.steps.nodes.api_resources import BUDGETS

__all__ = ["FAILURES", "Failure"]

FINDINGS = Path(__file__).parents[1] / "recover/findings"
RUN = "upgrader -C my-cluster run --yes"
WARNINGS = (
    Finding(
        "backup.none",
        "warning",
        "no backup is taken before this change of the minor version",
        "A rollback puts releases back, and never etcd's data.",
        "Set backup.recipients in upgrader.yaml.",
    ),
    Finding(
        "os-support.containerd",
        "warning",
        "containerd 1.6.20 of controller-1 gets no updates any more",
        "Its maintenance ended in 2025.",
        "Upgrade it: docs/nodes.md.",
    ),
    Finding(
        "disruption-budgets.no-room",
        "warning",
        "these PodDisruptionBudgets never allow an eviction: shop/web (minAvailable 100%: 3 of 3 must stay)",
        "All of their pods must stay Ready, so no eviction is ever allowed.",
        "Set maxUnavailable to at least 1.",
    ),
)
"""What a cluster usually has beside what stops its run."""


@dataclass(frozen=True)
class Failure:
    """One kind: what has to be on the screen. Words that the terminal broke into lines count as whole."""

    title: str
    about: str
    """What happened, and what the screen leaves out."""
    make: Callable[[Site], Shown]
    exit_code: int
    object: tuple[str, ...]
    """Which thing it is about."""
    cause: tuple[str, ...]
    next: tuple[str, ...]
    """The command to type, or the file to change."""


def _bad_flag(site: Site) -> Shown:
    """Helm replaces the Deployment, and the new pod's container ends at once."""
    values = site.values("image: {tag: v1.37.1}\nextraArgs: {max-requests-inflight: many}\n")
    site.set(pipeline=(replace(site.release, values_file=values),))
    kube, helm = site.world.kube, site.world.helm
    upgrade = helm.upgrade
    said = 'Error: invalid argument "many" for "--max-requests-inflight" flag: strconv.ParseInt'

    def crashing(spec: ReleaseSpec, *, watch: Callable[[], None], **more: Any) -> Revision:
        add_deployment(kube, API_SERVER, generation=2, revision=2, updatedReplicas=1, replicas=2, unavailableReplicas=1)
        add_pod(kube, API_SERVER, crashed(1, name=API_SERVER, message=said), name=NEW_POD, revision=2)
        try:
            for _ in range(60):
                watch()
                site.world.clock.sleep(1)
        except UpgraderError as error:
            kube.delete(PODS, NEW_POD, "kube-system")
            kube.delete(REPLICA_SETS, f"{API_SERVER}-2", "kube-system")
            add_deployment(kube, API_SERVER, generation=3)
            helm.fail_upgrade[spec.name] = error
        return upgrade(spec, watch=watch, **more)

    site.patch.setattr(helm, "upgrade", crashing)
    return site.types(RUN)


def _image(site: Site) -> Shown:
    """The controller's kubelet says why; nothing has been changed by then."""
    site.set(images=ImageSettings(pull=True))
    why = (
        'failed to pull and unpack image "registry.k8s.io/kube-apiserver:v1.37.1": failed to resolve reference: '
        "registry.k8s.io/kube-apiserver:v1.37.1: not found"
    )
    kube = site.world.kube
    for name in ("kube-system",):
        kube.put(Kind("v1", "namespaces", namespaced=False), {"metadata": {"name": name}})
        kube.put(Kind("v1", "serviceaccounts"), {"metadata": {"name": "default"}}, name)
    create = kube.create

    def created(kind: Kind, manifest: KubeObject, namespace: str = "", **more: Any) -> KubeObject:
        made = create(kind, manifest, namespace, **more)
        if kind == PODS and manifest["spec"].get("nodeName"):
            states = [{"name": c["name"], **waiting("ErrImagePull", why)} for c in manifest["spec"]["containers"]]
            kube.put(PODS, {**made, "status": {"phase": "Pending", "containerStatuses": states}})
        return made

    site.patch.setattr(kube, "create", created)
    return site.types(RUN)


def _lock(site: Site) -> Shown:
    """Somebody on another machine has just renewed it, and does so again."""
    kube, clock = site.world.kube, site.world.clock
    holder = Holder(
        "anna@build-7 (process 4711) 5f0c1a", "another", "20260101T000000-v1.37.1", "kubernetes: waits for its gates"
    )

    def renewed(*_: object) -> None:
        kube.put(LEASES, lease(holder, now=clock.now(), acquired="2026-01-01T00:00:00.000000Z", transitions=3))

    renewed()
    sleep = clock.sleep

    def slept(seconds: float) -> None:
        sleep(seconds)
        renewed()

    site.patch.setattr(clock, "sleep", slept)
    return site.types(RUN)


def _webhook(site: Site) -> Shown:
    kind = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)
    rule = {"apiGroups": [""], "resources": ["pods"], "operations": ["CREATE"]}
    webhook = {
        "name": "pods.policy.example",
        "clientConfig": {"service": {"namespace": "policy", "name": "policy"}},
        "rules": [rule],
    }
    site.world.kube.put(kind, {"metadata": {"name": "policy"}, "webhooks": [webhook]})
    site.world.kube.refuses_dry_run = ApiError(
        "the API server at https://10.0.0.2:6443 refused 'create pods kube-system/kube-apiserver-dry-run': HTTP 500 "
        'Internal error occurred: failed calling webhook "pods.policy.example": failed to call webhook: Post '
        '"https://policy.policy.svc:443/?timeout=10s": service "policy" not found'
    )
    site.checks("admission", "webhooks", also=WARNINGS)
    return site.types(RUN)


def _budget(site: Site) -> Shown:
    """A pool of one node, whose drain a budget never allows."""
    kube = site.world.kube
    site.worker("worker-1")
    pool = NodePool("workers")
    site.set(nodes=NodesSettings(NodeSource("packages"), (NodePool("controllers"), pool)))
    owner = [{"kind": "ReplicaSet", "name": "web-5d4", "controller": True}]
    pod = {"name": "web-5d4-k7m2p", "namespace": "shop", "labels": {"app": "web"}, "ownerReferences": owner}
    kube.put(PODS, {"metadata": pod, "spec": {"nodeName": "worker-1"}, "status": {"phase": "Running"}})
    status = {"disruptionsAllowed": 0, "expectedPods": 1, "desiredHealthy": 1, "currentHealthy": 1}
    spec = {"minAvailable": 1, "selector": {"matchLabels": {"app": "web"}}}
    kube.put(BUDGETS, {"metadata": {"name": "web", "namespace": "shop"}, "spec": spec, "status": status})
    site.checks("nodes", also=WARNINGS[:2])
    return site.types(RUN)


def _certificate(site: Site) -> Shown:
    pem = CertificateAuthority.named("kubernetes").issue("kube-apiserver")
    site.world.clock.sleep((datetime(2035, 1, 1, 9, tzinfo=UTC) - site.world.clock.now()).total_seconds())
    site.world.hosts.commands["sh"] = CommandResult(0, printed({"pki/apiserver.crt": pem}), "")
    site.checks("certificates", also=WARNINGS)
    return site.types(RUN)


def _host_key(site: Site) -> Shown:
    """The machine at that address has another key than known_hosts says."""
    known = paramiko.Ed25519Key(data=_ed25519(1))
    now = paramiko.Ed25519Key(data=_ed25519(2))
    host = Host("controller-1", "10.0.0.2", known_hosts=site.folder / "ssh/known_hosts")
    error = _unreachable(host, paramiko.BadHostKeyException("10.0.0.2", now, known), host)

    class Changed(FakeHosts):
        def _check(self, host: Host) -> None:
            raise error

    site.hosts = Changed()
    site.checks("hosts", also=WARNINGS)
    return site.types("upgrader -C my-cluster check")


def _ed25519(number: int) -> bytes:
    """A public key, as SSH has it."""
    message = paramiko.Message()
    message.add_string("ssh-ed25519")
    message.add_string(Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32).public_key().public_bytes_raw())
    return message.asbytes()


def _values(site: Site) -> Shown:
    """What Helm says of a value that the chart's schema refuses, with the file and the line."""
    values = site.values("image:\n  tag: v1.37.1\nreplica: 1\n")
    site.set(pipeline=(replace(site.release, values_file=values),))
    said = (
        "Helm failed on release 'kube-apiserver': values don't meet the specifications of the schema(s) in the "
        "following chart(s):\nkube-apiserver:\n- at '': additional properties 'replica' not allowed"
    )
    error = ChartRefused(said, remedy=f"See: helm template kube-apiserver {shown(site.folder / 'chart')} --values FILE")

    def refused(*_: object, **__: object) -> str:
        raise error

    site.patch.setattr(site.world.helm, "render", refused)
    return site.types("upgrader -C my-cluster plan")


def _yesterday(site: Site) -> Shown:
    """Somebody approved it, and ran it a day and an hour later."""
    kube = site.world.kube
    kube.put(Kind("v1", "namespaces", namespaced=False), {"metadata": {"name": "kube-system", "uid": "uid-1"}})
    record = {"metadata": {"name": "sh.helm.release.v1.kube-apiserver.v1", "namespace": "kube-system"}}
    kube.put(SECRETS, {**record, "data": {"release": "revision 1"}})
    planned = site.types("upgrader -C my-cluster plan --out approved.json")
    assert planned.exit_code == 0, planned
    site.world.clock.sleep(25 * 3600)
    return site.types("upgrader -C my-cluster run --plan approved.json --yes")


def _interrupted(site: Site) -> Shown:
    """The process was killed while it waited for a gate; somebody starts the upgrade again."""
    journal_of(INTERRUPTED[:-3], site.folder)
    return site.types("upgrader -C my-cluster status")


def _api(site: Site) -> Shown:
    """The process doesn't run: nothing listens at the kubeconfig's address."""
    server = "https://10.0.0.2:6443"
    client = SimpleNamespace(_server=server)
    request = ApiRequest("GET", "/version", "get /version")
    error = ApiClient._unavailable(client, request, ConnectionRefusedError(111, "Connection refused"), 4)  # type: ignore[arg-type]
    assert isinstance(error, ApiUnavailable)

    def away(*_: object, **__: object) -> None:
        raise error

    for name in ("raw", "get", "list"):
        site.patch.setattr(site.world.kube, name, away)
    return site.types(RUN)


def _recover(site: Site) -> Shown:
    """As the one before, and what its remedy shows."""
    case = json.loads((FINDINGS / "bad-flag.json").read_text())
    facts = host_facts(case["controllers"][0])
    refused = "the API server at https://10.0.0.2:6443 did not answer: Connection refused (get /readyz) (4 tries)"
    site.world.kube.unavailable = True
    seen = diagnose([Examined(Host("controller-1", "10.0.0.2"), facts)], ApiSeen(False, refused))
    site.patch.setattr(SiteSession, "seen", seen)
    return site.types("upgrader -C my-cluster recover --dry-run")


FAILURES: Mapping[str, Failure] = {
    "bad-flag": Failure(
        "A bad flag: kube-apiserver exits at once",
        "kube-apiserver rejects the value of a flag: the new pod exits, and the run rolls back. The old pod serves "
        "the API all the time. In most cases, the check `flags` or the step `trial` finds such a value before "
        "anything changes.",
        _bad_flag,
        4,
        (NEW_POD, "kube-apiserver"),
        ("invalid argument", "--max-requests-inflight"),
        ("my-cluster/values/kube-apiserver.yaml", "upgrader -C my-cluster run --to v1.37.1"),
    ),
    "image": Failure(
        "An image that can't be pulled",
        "The kubelets pull all images before anything else changes.",
        _image,
        4,
        ("registry.k8s.io/kube-apiserver:v1.37.1", "controller-1"),
        ("not found",),
        ("upgrader -C my-cluster run --to v1.37.1",),
    ),
    "lock": Failure(
        "Another run holds the lock",
        "The message names the holder of the lock and what its run is doing.",
        _lock,
        6,
        ("anna@build-7 (process 4711)",),
        ("kubernetes: waits for its gates",),
        ("upgrader -C my-cluster status",),
    ),
    "api": Failure(
        "The API doesn't answer",
        "No command that needs the API can start. The remedy needs only SSH.",
        _api,
        5,
        ("https://10.0.0.2:6443",),
        ("Connection refused",),
        ("upgrader -C my-cluster recover --dry-run",),
    ),
    "recover": Failure(
        "Why the API doesn't answer",
        "`recover --dry-run` changes nothing. Here, someone added a wrong flag to kube-apiserver without `upgrader`.",
        _recover,
        7,
        ("controller-1: kube-apiserver",),
        ("exits with 1: Error: unknown flag: --nonsense",),
        ("upgrader -C my-cluster recover",),
    ),
    "webhook": Failure(
        "A webhook without a backend",
        "With failurePolicy Fail, no pod in kube-system can be created, so a rollback would also fail. The list of "
        "warnings pushes the blocking finding off the screen, so the error repeats the finding.",
        _webhook,
        3,
        ("pods.policy.example", "ValidatingWebhookConfiguration policy"),
        ("Service policy/policy doesn't exist",),
        ("kubectl get validatingwebhookconfigurations",),
    ),
    "budget": Failure(
        "A PodDisruptionBudget that never allows a drain",
        "This blocks only a run that [upgrades nodes](../nodes.md) with `drain.onBlocked: fail`; else it is a warning.",
        _budget,
        3,
        ("shop/web", "worker-1"),
        ("never allow the drain",),
        ("kubectl -n shop",),
    ),
    "certificate": Failure(
        "A certificate that has expired",
        "A certificate with less than 30 days left is only a warning.",
        _certificate,
        3,
        ("controller-1", "/etc/kubernetes/pki/apiserver.crt"),
        ("expired",),
        ("upgrader -C my-cluster certs renew",),
    ),
    "host-key": Failure(
        "An SSH host key that has changed",
        "`upgrader` doesn't log in to a machine whose host key has changed.",
        _host_key,
        3,
        ("controller-1 (root@10.0.0.2:22)",),
        ("the host key has changed",),
        ("ssh-keygen -f", "-R '10.0.0.2'"),
    ),
    "values": Failure(
        "A value that the chart doesn't have",
        "The message names the file and line in the cluster folder, even if Helm names another path.",
        _values,
        2,
        ("my-cluster/values/kube-apiserver.yaml:3",),
        ("'replica' not allowed",),
        ("helm template kube-apiserver my-cluster/chart --values my-cluster/values/kube-apiserver.yaml",),
    ),
    "plan": Failure(
        "A saved plan of yesterday",
        "A saved plan expires after a day. `run` refuses it before it contacts the cluster.",
        _yesterday,
        3,
        ("approved.json",),
        ("expired at 2026-01-02",),
        ("upgrader -C my-cluster plan --out",),
    ),
    "interrupted": Failure(
        "A run whose process was killed",
        "For example, the runner's machine was rebooted. The journal has everything that `resume` and `rollback` need.",
        _interrupted,
        0,
        ("20260101T000000-v1.37.1",),
        ("was interrupted", "kube-apiserver"),
        ("upgrader -C my-cluster resume", "upgrader -C my-cluster rollback"),
    ),
}
