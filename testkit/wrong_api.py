"""Changes after which kube-apiserver, or another part of the control plane, is Ready and doesn't work correctly."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from testkit.lab_cluster import LabCluster
from testkit.wrong_surroundings import (
    LOGIN_FLAG,
    LOGINS,
    OTHER_LOGINS,
    PKI,
    busy_writers,
    converted_by_name,
    dying_aggregated,
    dying_conversion,
    logged_in_by_token,
    self_signed,
    webhook_kubeconfig,
    write_file,
)

__all__ = ["WRONG", "WrongApi", "seconds_until_healthy"]

_OTHER_CA = f"{PKI}/wrong-ca.crt"
_ADMISSION, _WEBHOOK = f"{PKI}/admission.yaml", f"{PKI}/image-policy.yaml"
_AUDIT_POLICY, _AUDIT_WEBHOOK = f"{PKI}/audit-policy.yaml", f"{PKI}/audit-webhook.yaml"
_SNI, _SIGNING_KEY, _HOSTS = f"{PKI}/sni", f"{PKI}/wrong-sa.key", f"{PKI}/hosts"
_SCHEDULER = "/etc/kubernetes/wrong-scheduler.yaml"
_OLD_KEY, _NEW_KEY = f"{PKI}/encryption-old.yaml", f"{PKI}/encryption-new.yaml"


@dataclass(frozen=True)
class WrongApi:
    """One change, as `extraArgs` in the values of a release, or as other `values` of it."""

    flags: Mapping[str, str] = field(default_factory=dict)
    seconds: float = 90.0
    """The time from when the change is made until the cluster is healthy again."""
    names: tuple[str, ...] = ()
    """What the message has to name, one of them."""
    prepare: Callable[[LabCluster], None] = lambda cluster: None
    """Preparations in the cluster, such as a file on the controller."""
    before: Mapping[str, str] = field(default_factory=dict)
    """Flags that a run sets first."""
    harmless: bool = False
    """Whether no client is affected, so that the run succeeds."""
    others: Mapping[str, Any] = field(default_factory=dict)
    """Other values than `extraArgs`."""
    said: str = ""
    """The change in words, where its values are long or aren't all."""
    release: str = "kube-apiserver"
    beside: Callable[[LabCluster], AbstractContextManager[object]] = lambda cluster: nullcontext()
    """Something that exists from before the run until its end, such as a webhook, or busy clients."""
    told: str = ""
    """The finding that blocks such a run before it changes anything; "" if no check can find it."""
    warned: str = ""
    """A finding that warns of it, and doesn't block."""
    blocked: bool = False
    """Whether that finding is sufficient; otherwise the run is tried with the finding skipped, too."""

    @property
    def change(self) -> str:
        """The change as a page shows it: in words, or else the flags or values."""
        flags = " ".join(f"--{flag}={value}" for flag, value in self.flags.items())
        return self.said or f"`{flags or json.dumps(self.others)}`"

    @property
    def values(self) -> Mapping[str, Any]:
        """The whole change."""
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
    """Nothing listens at the address of this webhook, and without its answer no pod is admitted."""
    policy = {"kubeConfigFile": _WEBHOOK, "allowTTL": 50, "denyTTL": 50, "retryBackoff": 500, "defaultAllow": False}
    admission = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "ImagePolicyWebhook", "configuration": {"imagePolicy": policy}}],
    }
    write_file(cluster, _WEBHOOK, webhook_kubeconfig("https://127.0.0.1:2998"))
    write_file(cluster, _ADMISSION, json.dumps(admission))


def _pod_security(cluster: LabCluster) -> None:
    """The default for namespaces without such labels: pods on the host network aren't admitted anywhere."""
    defaults = {"enforce": "restricted", "enforce-version": "latest"}
    security = {"apiVersion": "pod-security.admission.config.k8s.io/v1", "kind": "PodSecurityConfiguration"}
    admission = {
        "apiVersion": "apiserver.config.k8s.io/v1",
        "kind": "AdmissionConfiguration",
        "plugins": [{"name": "PodSecurity", "configuration": {**security, "defaults": defaults}}],
    }
    cluster.on_controller("sh", "-c", f"echo '{json.dumps(admission)}' > {_ADMISSION}")


def _hanging_audit(cluster: LabCluster) -> None:
    """A webhook that takes connections and never answers; health checks aren't audited, as usual."""
    source = "import socket, time; s = socket.create_server(('127.0.0.1', 2997)); time.sleep(1e6)"
    unit = "wrong-audit"
    cluster.on_controller(f'systemctl is-active -q {unit} || systemd-run -q --unit={unit} python3 -c "{source}"')
    unaudited = {"level": "None", "nonResourceURLs": ["/healthz*", "/livez*", "/readyz*"]}
    policy = {"apiVersion": "audit.k8s.io/v1", "kind": "Policy", "rules": [unaudited, {"level": "Metadata"}]}
    write_file(cluster, _AUDIT_POLICY, json.dumps(policy))
    write_file(cluster, _AUDIT_WEBHOOK, webhook_kubeconfig("http://127.0.0.1:2997"))


def _foreign_certificate(cluster: LabCluster) -> None:
    self_signed(cluster, _SNI, "DNS:kubernetes.default.svc")


def _foreign_key(cluster: LabCluster) -> None:
    cluster.on_controller(f"openssl genrsa -out {_SIGNING_KEY} 2048 2>/dev/null")


def _other_profile(cluster: LabCluster) -> None:
    """Pods that name no scheduler aren't scheduled: this scheduler takes only those of `other`."""
    configuration = {
        "apiVersion": "kubescheduler.config.k8s.io/v1",
        "kind": "KubeSchedulerConfiguration",
        "clientConnection": {"kubeconfig": "/etc/kubernetes/scheduler.conf"},
        "profiles": [{"schedulerName": "other"}],
    }
    write_file(cluster, _SCHEDULER, json.dumps(configuration))


def _no_names(cluster: LabCluster) -> None:
    write_file(cluster, _HOSTS, "127.0.0.1 localhost\n")


def _file(name: str, path: str, inside: str) -> Mapping[str, Any]:
    return {
        "extraVolumes": [{"name": name, "hostPath": {"path": path, "type": "File"}}],
        "extraVolumeMounts": [{"name": name, "mountPath": inside, "readOnly": True}],
    }


_WRONG_ANSWERS = """.:53 {
    errors
    health
    ready
    template IN A cluster.local {
        answer "{{ .Name }} 30 IN A 192.0.2.1"
    }
    forward . /etc/resolv.conf
}
"""

WRONG: Mapping[str, WrongApi] = {
    "issuer": WrongApi({"service-account-issuer": "https://other.example"}, names=("service-account-issuer",)),
    "dead etcd": WrongApi(
        {"etcd-servers": "https://127.0.0.1:2999"}, 45.0, ("127.0.0.1:2999",), told="planned-etcd.unanswered"
    ),
    "other etcd prefix": WrongApi({"etcd-prefix": "/other"}),
    "client CA": WrongApi({"client-ca-file": _OTHER_CA}, prepare=_other_ca),
    # It never becomes Ready, so the old instance continues to serve.
    "authorization denies": WrongApi(
        {"authorization-mode": "AlwaysDeny"}, names=("readiness check has failed",), told="flags.authorization"
    ),
    "key lost": WrongApi(
        {"encryption-provider-config": _NEW_KEY},
        names=("can't decrypt /registry/secrets/",),
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
        # The chart mounts the files of flags; this file is named in another one.
        others={
            "extraVolumes": [{"name": "image-policy", "hostPath": {"path": _WEBHOOK, "type": "File"}}],
            "extraVolumeMounts": [{"name": "image-policy", "mountPath": _WEBHOOK, "readOnly": True}],
        },
    ),
    "pod security": WrongApi(
        {"admission-control-config-file": _ADMISSION},
        prepare=_pod_security,
        said="`--admission-control-config-file`: `enforce: restricted` everywhere",
    ),
    # Slower, but 99 % of each verb's requests stay within a second at the lab's load.
    "a tenth of a CPU": WrongApi(
        others={"resources": {"requests": {"cpu": "100m"}, "limits": {"cpu": "100m"}}},
        harmless=True,
        said="`resources` of kube-apiserver: `cpu: 100m`",
    ),
    # Found while it starts and the old instance serves: once it is the only one, Helm's rollback doesn't get through.
    "a twentieth of a CPU": WrongApi(
        others={"resources": {"requests": {"cpu": "50m"}, "limits": {"cpu": "50m"}}},
        names=("CPU limit of 50m",),
        said="`resources` of kube-apiserver: `cpu: 50m`",
        told="resources.low-cpu-limit",
    ),
    # API Priority and Fairness gives each level one seat at least, and queues: a lab's few clients never wait for one.
    "two requests at once": WrongApi(
        {"max-requests-inflight": "2", "max-mutating-requests-inflight": "1"},
        harmless=True,
        warned="flags.fewer-requests",
    ),
    "tokens' audience": WrongApi({"api-audiences": "other"}, names=("api-audiences",)),
    "logins of people": WrongApi(
        {LOGIN_FLAG: OTHER_LOGINS},
        names=("Unauthorized", "401"),
        before={LOGIN_FLAG: LOGINS},  # `beside` has set it: without it, it couldn't log in
        beside=logged_in_by_token,
        said=f"`--{LOGIN_FLAG}`: a webhook that doesn't accept the token of the run's kubeconfig",
    ),
    "audit webhook": WrongApi(
        {
            "audit-policy-file": _AUDIT_POLICY,
            "audit-webhook-config-file": _AUDIT_WEBHOOK,
            "audit-webhook-mode": "blocking-strict",
        },
        names=("audit",),
        prepare=_hanging_audit,
        said="`--audit-webhook-mode=blocking-strict`; the webhook takes connections and never answers",
        told="audit-webhook.unanswered",
        blocked=True,
    ),
    "too few requests under load": WrongApi(
        {"max-requests-inflight": "2", "max-mutating-requests-inflight": "1"},
        names=("wait for a seat",),
        beside=busy_writers,
        said="`--max-requests-inflight=2 --max-mutating-requests-inflight=1`, 24 clients whose writes take 2 s",
        warned="flags.fewer-requests",
    ),
    "certificate for a name": WrongApi(
        {"tls-sni-cert-key": f"{_SNI}.crt,{_SNI}.key:kubernetes.default.svc"},
        names=("kubernetes.default.svc",),
        prepare=_foreign_certificate,
        said="`--tls-sni-cert-key=…:kubernetes.default.svc`, of another CA",
    ),
    # The limit shortens new tokens; existing ones stay valid.
    "tokens of an hour": WrongApi({"service-account-max-token-expiration": "1h"}, harmless=True),
    "names that kube-apiserver resolves": WrongApi(
        others=_file("hosts", _HOSTS, "/etc/hosts"),
        names=("things",),
        prepare=_no_names,
        before={"v": "1"},  # a new pod, whose /etc/hosts has the webhook
        beside=converted_by_name,
        said="an `/etc/hosts` in its pod without the name of a conversion webhook",
    ),
    "conversion webhook dies": WrongApi(
        others={"podAnnotations": {"rolled": "yes"}},
        names=("things",),
        beside=dying_conversion,
        said="a roll of kube-apiserver; the webhook ends with the old instance",
    ),
    "aggregated API ends": WrongApi(
        others={"podAnnotations": {"rolled": "yes"}},
        names=("v1.aggregated.wrong.example",),
        beside=dying_aggregated,
        said="a roll of kube-apiserver; the aggregated API ends with the old instance",
    ),
    "signing key": WrongApi(
        others={"controllerManager": {"extraArgs": {"service-account-private-key-file": _SIGNING_KEY}}},
        names=("service-account-private-key-file",),
        prepare=_foreign_key,
        said="`service-account-private-key-file` of kube-controller-manager: another key",
        release="kubernetes",
    ),
    "scheduler's profile": WrongApi(
        others={"scheduler": {"extraArgs": {"config": _SCHEDULER}, **_file("config", _SCHEDULER, _SCHEDULER)}},
        names=("scheduler",),
        prepare=_other_profile,
        said="`config` of kube-scheduler: one profile, `schedulerName: other`",
        release="kubernetes",
    ),
    "DNS answers wrongly": WrongApi(
        others={"coredns": {"corefile": _WRONG_ANSWERS}},
        names=("192.0.2.1",),
        said="`coredns.corefile`: 192.0.2.1 for all of cluster.local",
        release="kubernetes",
    ),
    # The lab's own mode is nftables, and its image of kube-proxy has no iptables.
    "kube-proxy by iptables": WrongApi(
        others={"kubeProxy": {"config": {"mode": "iptables"}}}, names=("iptables",), release="kubernetes"
    ),
    "kube-proxy by IPVS": WrongApi(others={"kubeProxy": {"config": {"mode": "ipvs"}}}, release="kubernetes"),
}


def seconds_until_healthy(cluster: LabCluster, release: str = "kube-apiserver") -> float:
    """The time from when the newest run's bad change to a release was made until it was undone; from the start of its
    step where that failed while Helm waited.
    """
    times = [
        (line["type"], line["data"].get("step"), datetime.fromisoformat(line["time"])) for line in cluster.journal()
    ]
    begun = [time for kind, step, time in times if step == release and kind in ("StepStarted", "StepApplied")]
    undone = [time for kind, step, time in times if step == release and kind == "UndoEnded"]
    return (undone[-1] - begun[-1]).total_seconds()
