"""Changes after which kube-apiserver is Ready, or at least answers, and is wrong."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from testkit.lab_cluster import LabCluster

__all__ = ["WRONG", "WrongApi", "seconds_until_healthy"]

_PKI = "/etc/kubernetes/pki"  # the folder that kube-apiserver's pod mounts
_OTHER_CA = f"{_PKI}/wrong-ca.crt"
_ADMISSION, _WEBHOOK = f"{_PKI}/admission.yaml", f"{_PKI}/image-policy.yaml"
_OLD_KEY, _NEW_KEY = f"{_PKI}/encryption-old.yaml", f"{_PKI}/encryption-new.yaml"


@dataclass(frozen=True)
class WrongApi:
    """One change, as `extraArgs` in the values of the release kube-apiserver, or as other `values` of it."""

    flags: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 90.0
    """From the moment in which the change is in place until the cluster is healthy again."""
    names: tuple[str, ...] = ()
    """What the message has to name, one of them."""
    prepare: Callable[[LabCluster], None] = lambda cluster: None
    """What the cluster needs before, such as a file on the controller."""
    before: Mapping[str, str] = field(default_factory=dict)
    """Flags that a run sets first."""
    harmless: bool = False
    """Whether it changes nothing for any client, so that the run succeeds."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Other values than `extraArgs`."""
    told: str = ""
    """The finding that blocks such a run before it changes anything; "" where no check can tell."""

    @property
    def values(self) -> Mapping[str, Any]:
        """All of the change."""
        return {**self.others, **({"extraArgs": {**self.before, **self.flags}} if self.flags else {})}


def _other_ca(cluster: LabCluster) -> None:
    command = f"openssl req -x509 -newkey rsa:2048 -nodes -keyout /dev/null -out {_OTHER_CA} -days 30 -subj /CN=other"
    cluster.on_controller("sh", "-c", f"{command} 2>/dev/null")


def _two_keys(cluster: LabCluster) -> None:
    for path, letter in ((_OLD_KEY, "A"), (_NEW_KEY, "B")):
        provider = {"aescbc": {"keys": [{"name": letter, "secret": f"{letter * 43}="}]}}
        configuration = {
            "apiVersion": "apiserver.config.k8s.io/v1",
            "kind": "EncryptionConfiguration",
            "resources": [{"resources": ["secrets"], "providers": [provider, {"identity": {}}]}],
        }
        text = json.dumps(configuration)
        cluster.on_controller("sh", "-c", f"echo '{text}' > {path} && chmod 600 {path}")


def _image_policy(cluster: LabCluster) -> None:
    """Nobody listens at the address of this webhook, and without its answer no pod is admitted."""
    clusters = [{"name": "policy", "cluster": {"server": "https://127.0.0.1:2998"}}]
    users = [{"name": "apiserver", "user": {}}]
    contexts = [{"name": "policy", "context": {"cluster": "policy", "user": "apiserver"}}]
    webhook = {
        "apiVersion": "v1",
        "kind": "Config",
        "clusters": clusters,
        "users": users,
        "contexts": contexts,
        "current-context": "policy",
    }
    policy = {"kubeConfigFile": _WEBHOOK, "allowTTL": 50, "denyTTL": 50, "retryBackoff": 500, "defaultAllow": False}
    admission = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": policy}}],
    }
    for path, content in ((_WEBHOOK, webhook), (_ADMISSION, admission)):
        cluster.on_controller("sh", "-c", f"echo '{json.dumps(content)}' > {path}")


def _pod_security(cluster: LabCluster) -> None:
    """What a namespace's labels say of it otherwise: pods on the host's network aren't admitted anywhere."""
    defaults = {"enforce": "restricted", "enforce-version": "latest"}
    security = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}
    admission = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": {**security, "defaults": defaults}}],
    }
    cluster.on_controller("sh", "-c", f"echo '{json.dumps(admission)}' > {_ADMISSION}")


WRONG: Mapping[str, WrongApi] = {
    "issuer": WrongApi({"service-account-issuer": "https://other.example"}, names=("service-account-issuer",)),
    "dead etcd": WrongApi(
        {"etcd-servers": "https://127.0.0.1:2999"}, 45.0, ("127.0.0.1:2999",), told="planned-etcd.unanswered"
    ),
    "other etcd prefix": WrongApi({"etcd-prefix": "/other"}),
    "client CA": WrongApi({"client-ca-file": _OTHER_CA}, prepare=_other_ca),
    # It never becomes Ready, so that the old instance serves on: only the deadline of its gate ends it.
    "authorization denies": WrongApi({"authorization-mode": "AlwaysDeny"}, 240.0),
    "key lost": WrongApi(
        {"encryption-provider-config": _NEW_KEY},
        240.0,  # nor does this: it can't read the Secrets that it has to know first
        prepare=_two_keys,
        before={"encryption-provider-config": _OLD_KEY},
    ),
    "no apps/v1": WrongApi({"runtime-config": "apps/v1=false"}),
    "no autoscaling/v2": WrongApi({"runtime-config": "autoscaling/v2=false"}, names=("autoscaling/v2",)),
    # Since v1.33 the object ServiceCIDR decides, which the flag no longer changes once it exists.
    "service range": WrongApi({"service-cluster-ip-range": "10.200.0.0/16"}, harmless=True),
    "admission denies": WrongApi({"enable-admission-plugins": "AlwaysDeny"}),
    "no pod is admitted": WrongApi(
        {"enable-admission-plugins": "NodeRestriction,ImagePolicyWebhook", "admission-control-config-file": _ADMISSION},
        prepare=_image_policy,
        # The chart mounts what flags name; this file is named by another one.
        others={
            "extraVolumes": [{"name": "image-policy", "hostPath": {"path": _WEBHOOK, "type": "File"}}],
            "extraVolumeMounts": [{"name": "image-policy", "mountPath": _WEBHOOK, "readOnly": True}],
        },
    ),
    "pod security": WrongApi({"admission-control-config-file": _ADMISSION}, prepare=_pod_security),
    # Slower, but 99 % of each verb's requests stay within a second at the lab's load.
    "a tenth of a CPU": WrongApi(
        others={"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}}, harmless=True
    ),
    # API Priority and Fairness gives each level one seat at least, and queues: a lab's few clients never wait for one.
    "two requests at once": WrongApi(
        {"max-requests-inflight": "2", "max-mutating-requests-inflight": "1"}, harmless=True
    ),
    "tokens' audience": WrongApi({"api-audiences": "other"}, names=("api-audiences",)),
}


def seconds_until_healthy(cluster: LabCluster) -> float:
    """From the moment in which the newest run's bad change was in place until it was undone."""
    times = [
        (line["type"], line["data"].get("step"), datetime.fromisoformat(line["time"])) for line in cluster.journal()
    ]
    begun = [time for kind, step, time in times if step == "kube-apiserver" and kind in ("StepStarted", "StepApplied")]
    undone = [time for kind, step, time in times if step == "kube-apiserver" and kind == "UndoEnded"]
    return (undone[-1] - begun[-1]).total_seconds()
