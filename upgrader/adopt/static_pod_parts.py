"""What a static pod has that the charts' pods could not have: refused by name, never dropped. Pure.

kubeadm's patches, and people who edit a manifest, can add anything to it. What is listed here as known is either taken
over (flags, volumes, variables, resources, labels), or set by the charts themselves on purpose (probes, priority,
network).
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from upgrader.adopt.client_addresses import given_address
from upgrader.adopt.facts import MANIFESTS, ControllerFacts, StaticPod
from upgrader.adopt.manifest_fields import unknown
from upgrader.adopt.volumes import innermost_mount
from upgrader.contract.flags import is_true, number
from upgrader.contract.variables import seen_words
from upgrader.errors import Blocked

__all__ = ["CONTAINER_FIELDS", "check_static_pods", "other_lease"]

_METADATA = frozenset({"annotations", "creationTimestamp", "labels", "name", "namespace"})
_POD = frozenset(
    {
        "automountServiceAccountToken",
        "containers",
        "dnsPolicy",
        "enableServiceLinks",
        "hostNetwork",
        "preemptionPolicy",
        "priority",
        "priorityClassName",
        "restartPolicy",
        "schedulerName",
        "securityContext",
        "terminationGracePeriodSeconds",
        "tolerations",
        "volumes",
    }
)
CONTAINER_FIELDS = frozenset(
    {
        "args",
        "command",
        "env",
        "image",
        "imagePullPolicy",
        "livenessProbe",
        "name",
        "ports",
        "readinessProbe",
        "resources",
        "securityContext",
        "startupProbe",
        "terminationMessagePath",
        "terminationMessagePolicy",
        "volumeMounts",
    }
)
"""What a chart has a value for or sets on purpose, and what is looked at by itself."""
_STRICT: Mapping[str, tuple[Any, ...]] = {
    "readOnlyRootFilesystem": (True,),
    "seccompProfile": ({"type": "RuntimeDefault"},),
}
"""What of a securityContext the charts' pods have as well. All that is false, 0 (root) or empty is theirs, too."""
_DEFAULTS: Mapping[str, tuple[Any, ...]] = {
    "appArmorProfile": ({"type": "RuntimeDefault"},),
    "fsGroupChangePolicy": ("Always",),
    "hostUsers": (True,),
    "os": ({"name": "linux"},),
    "procMount": ("Default",),
    "supplementalGroupsPolicy": ("Merge",),
}
"""Fields with the value that they have where a manifest, or a chart, says nothing; so of containers, below."""
_CONTAINERS_DEFAULTS: Mapping[str, tuple[Any, ...]] = {"restartPolicy": ("Always",)}
_RESIZED_IN_PLACE = "NotRequired"
_REMEDIES = {
    "containers": "Run it as a separate static pod or DaemonSet instead of in kube-apiserver's pod: a KMS plugin only "
    "needs its socket in a hostPath volume.",
    "initContainers": "Do its work on the controller itself, before the kubelet starts.",
    "hostAliases": "For kube-apiserver, write the names to /etc/hosts of each controller; for the other two, set "
    "`controlPlane.hostAliases` in values/kubernetes.yaml. Then remove them from the static pod.",
    "user": "The charts' pods run as root without capabilities, and can't read files that only another "
    "user may read. Change the owner of keys and configuration to root, and remove the setting from the "
    "static pod (kubeadm's feature gate RootlessControlPlane adds it).",
    "command": "Have the container start the component itself, with flags of the form --NAME=VALUE, as kubeadm writes "
    "them, from /usr/local/bin or another folder of its PATH.",
    "env": "In the flags that refer to the variable, write its value instead, and remove the variable: a flag may "
    "have a different value on each controller, but a variable can't. If the component itself reads the variable, "
    "give it a literal `value`.",
}
_USERS = frozenset({"fsGroup", "runAsGroup", "runAsNonRoot", "runAsUser", "supplementalGroups"})
"""What of a securityContext says as whom the pod runs."""
_PATH = tuple(f"{root}/{name}" for root in ("", "/usr", "/usr/local") for name in ("bin", "sbin"))
"""Where a container's programs are looked for, unless its image says otherwise."""
_PORTS = range(1, 2**16)
_NAME = re.compile(r"[a-z0-9][a-z0-9-]*")
"""As all names of the components' flags are."""
_ISSUER = "service-account-issuer"
_SIGNING_KEY = "service-account-signing-key-file"
_SIGNER = "service-account-signing-endpoint"
_SYSTEM = "kube-system"
_ELECTION = "leader-elect"
_KUBECONFIGS = ("kubeconfig", "authentication-kubeconfig", "authorization-kubeconfig")
"""Flags that the charts' schemas, too, want to be paths from the root."""
_LEADERS = ("kube-controller-manager", "kube-scheduler")
_OTHERWISE = "Remove it from the static pod, if the component works without it; the charts have no setting for it."


def check_static_pods(controllers: Iterable[ControllerFacts]) -> None:
    """Of all static pods that run. Raises Blocked, which names the controller, the pod and the part."""
    for controller in controllers:
        for component, static in controller.active.items():
            _check_name(controller.host.name, static)
            _check_flag_names(controller.host.name, static)
            _check_election(controller.host.name, static)
            _check_fields(controller.host.name, static)
            _check_paths(controller.host.name, static)
            for part, what in _unknown(static):
                raise Blocked(
                    f"{component}'s static pod on {controller.host.name} has {what}, which would be lost: the chart's "
                    "pod has no equivalent",
                    remedy=_REMEDIES.get(part, _OTHERWISE),
                )
            if component == "kube-apiserver":
                _check_listener(controller.host.name, static)
                _check_issuers(controller.host.name, static)


def _check_name(host: str, static: StaticPod) -> None:
    """Its end, and its start, are seen by the mirror pod that kubeadm's name gives it."""
    metadata = static.pod.get("metadata") or {}
    name = f"{metadata.get('namespace') or 'default'}/{metadata.get('name')}"
    if name != f"{_SYSTEM}/{static.component}":
        raise Blocked(
            f"{host}: the pod in {MANIFESTS}/{static.component}.yaml is {name}, not {_SYSTEM}/{static.component} as "
            "kubeadm names it; nothing was changed",
            remedy="Correct `metadata.name` and `metadata.namespace` there; the kubelet then restarts that pod.",
        )


def _check_flag_names(host: str, static: StaticPod) -> None:
    """The charts accept no other names; their schema's error would be about values that are in no file yet."""
    for name in static.flags:
        if not _NAME.fullmatch(name):
            raise Blocked(
                f"{static.component}'s static pod on {host} has --{name}, which isn't the name of a flag: names have "
                "lower-case letters, digits and dashes; nothing was changed",
                remedy="Correct it in the static pod, on every controller (for example, write --feature-gates instead "
                "of --featureGates); the kubelet then restarts the pod. If kubeadm has it from `extraArgs` in "
                f"ConfigMap {_SYSTEM}/kubeadm-config, also correct it there.",
            )


def _check_election(host: str, static: StaticPod) -> None:
    elects = static.flags.get(_ELECTION, ("true",))[-1]
    if not is_true(elects):
        raise Blocked(
            f"{static.component}'s static pod on {host} has --{_ELECTION}={elects}: without leader election, two pods "
            "would be active whenever the chart's pod is replaced, and its standby pod would always be active, too",
            remedy="Remove the flag from the static pod, on every controller: leader election is on by default. If "
            "`extraArgs` in ConfigMap kube-system/kubeadm-config sets it, also remove it there.",
        )
    if static.component in _LEADERS:
        for key, own in (("name", static.component), ("namespace", "kube-system")):
            flag = f"{_ELECTION}-resource-{key}"
            if (found := static.flags.get(flag, (own,))[-1]) != own:
                raise other_lease(f"{static.component}'s static pod on {host} has --{flag}={found}", static.component)


def _check_fields(host: str, static: StaticPod) -> None:
    for what in unknown(static.pod["spec"], static.container, static.image):
        raise Blocked(
            f"{static.component}'s static pod on {host} has {what}: the kubelet ignores it, but the API "
            "would refuse it in the chart's pod; nothing was changed",
            remedy="Correct its name, or remove it, on every controller; the kubelet then restarts the pod.",
        )


def _check_listener(host: str, static: StaticPod) -> None:
    """Once no variable is left in them: kube-apiserver ends at a port or an address that is none."""
    port = static.flags.get("secure-port", ("6443",))[-1]
    wrong = [] if (number(port) or 0) in _PORTS else [("secure-port", port, "a port")]
    for name in ("bind-address", "advertise-address"):
        given = given_address(static.flags, name)
        if given and not _is_address(given):
            wrong.append((name, given, "an IP address"))
    for name, given, what in wrong:
        raise Blocked(
            f"{static.component}'s static pod on {host} has --{name}={given}, which isn't {what}: kube-apiserver can't "
            "start with it; nothing was changed",
            remedy="Correct it in the static pod; the kubelet then restarts it.",
        )


def _check_issuers(host: str, static: StaticPod) -> None:
    """kube-apiserver v1.22 and later ends without one, with an empty one, and with the same one twice; and without a
    key with which it signs, unless another program does that.
    """
    given = static.flags.get(_ISSUER, ())
    twice = [f"--{_ISSUER}={each} twice" for place, each in enumerate(given) if each in given[:place]]
    of_issuer = f"no --{_ISSUER}" if not given else f"an empty --{_ISSUER}" if "" in given else "".join(twice[:1])
    signs = any(static.flags.get(name, ("",))[-1] for name in (_SIGNING_KEY, _SIGNER))
    wrong = " and ".join(filter(None, (of_issuer, "" if signs else f"no --{_SIGNING_KEY}")))
    if wrong:
        issuer = (
            f"Set --{_ISSUER} there, on every controller, once for each issuer. Begin with the issuer of new tokens. "
            "kubeadm's is https://kubernetes.default.svc.cluster.local. Tokens of other issuers are invalid. "
        )
        key = (
            f"Set --{_SIGNING_KEY} there, on every controller, to the private key that belongs to "
            "--service-account-key-file; kubeadm's is /etc/kubernetes/pki/sa.key."
        )
        raise Blocked(
            f"{static.component}'s static pod on {host} has {wrong}: kube-apiserver can't start with that; nothing was "
            "changed",
            remedy=((issuer if of_issuer else "") + ("" if signs else key)).strip(),
        )


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def _check_paths(host: str, static: StaticPod) -> None:
    """Relative to the root, where the component starts, they lead into a volume: nothing else here reads them so."""
    for name, values in static.flags.items():
        for part in filter(None, (part for value in values for part in value.split(","))):
            if not part.startswith("/") and (name in _KUBECONFIGS or innermost_mount(static, f"/{part}")):
                raise Blocked(
                    f"{static.component}'s static pod on {host} has --{name}={part}, which is not an absolute path: "
                    "adoption can't take over that file; nothing was changed",
                    remedy=f"Write /{part} there, on every controller; the kubelet then restarts the pod.",
                )


def other_lease(found: str, component: str) -> Blocked:
    """The error for a component that is elected by another Lease than Kubernetes' own. `found`: where it says so."""
    return Blocked(
        f"{found}: the chart's pods, the gates and the pod-checkpointer use Lease kube-system/{component}; nothing was "
        "changed",
        remedy=f"Two instances with different Leases would both be active. So first stop {component} on all "
        f"controllers: move /etc/kubernetes/manifests/{component}.yaml to another folder. Then remove the setting "
        "everywhere, including from ConfigMap kube-system/kubeadm-config, and move the manifests back.",
    )


def _unknown(static: StaticPod) -> Iterator[tuple[str, str]]:
    """Name of the field, and the words for what is in it."""
    spec = static.pod["spec"]
    container = static.container
    metadata = static.pod.get("metadata") or {}
    for key in sorted(metadata.keys() - _METADATA):
        if metadata[key]:
            yield "metadata", f"`metadata.{key}`"
    for each in spec["containers"]:
        if each != container:
            yield "containers", f"another container, {each.get('name')}"
    for key in sorted(spec.keys() - _POD):
        if _is_set(key, spec[key]):
            names = [str(item["name"]) for item in spec[key] if "name" in item] if key == "initContainers" else []
            yield key, f"`{key}`" + (f" ({', '.join(names)})" if names else "")
    if spec.get("dnsPolicy", "Default") not in ("ClusterFirst", "Default"):
        yield "dnsPolicy", f"`dnsPolicy: {spec['dnsPolicy']}`"
    for key in sorted(container.keys() - CONTAINER_FIELDS):
        if container[key] and not _is_containers_default(key, container[key]):
            yield key, f"`{key}`"
    if (container.get("resources") or {}).get("claims"):
        yield "resources", "`resources.claims`"
    for where in (spec, container):
        for key in _unsafe(where.get("securityContext") or {}):
            yield "user" if key in _USERS else "", f"`securityContext.{key}`"
    yield from _command(static.component, container)
    for entry in container.get("env") or ():
        if "valueFrom" in entry:
            yield "env", f"the environment variable {entry['name']} with `valueFrom`"


def _is_set(key: str, value: Any) -> bool:
    """Whether a field says something else than Kubernetes' own default, which is empty or false unless it is listed."""
    defaults = _DEFAULTS.get(key, ())
    return value is not None and value not in defaults and bool(value or True in defaults)


def _is_containers_default(key: str, value: Any) -> bool:
    if key == "resizePolicy":
        return all(each.get("restartPolicy") == _RESIZED_IN_PLACE for each in value)
    return value in _CONTAINERS_DEFAULTS.get(key, ())


def _unsafe(context: Mapping[str, Any]) -> Iterator[str]:
    """What isn't as strict as the charts' own, or another user."""
    for key, value in context.items():
        if key == "capabilities":
            value = (value or {}).get("add")
        if value and value not in (*_STRICT.get(key, ()), *_DEFAULTS.get(key, ())):
            yield key


def _command(component: str, container: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    given = (str(word) for word in (*(container.get("command") or ()), *(container.get("args") or ())))
    words = seen_words(given, container)
    folder, slash, name = words[0].rpartition("/") if words else ("", "", "")
    if name != component:
        yield "command", f"the command `{words[0] if words else ''}` instead of {component}"
        return
    if slash and folder not in _PATH:
        yield "command", f"the command `{words[0]}`, which the chart's pod wouldn't find by the name {component}"
    for word in words[1:]:
        # `--flag value` and `-v 2` are flags to the component, and would be none to a chart.
        if not word.startswith("--"):
            yield "command", f"the word `{word}` among its flags"
