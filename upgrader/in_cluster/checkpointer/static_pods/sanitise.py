"""A pod → a static pod that needs no API: the manifest, and the files that its volumes become.

The kubelet refuses a static pod that refers to any API object (service account, Secret, ConfigMap, claim), and runs no
scheduler for it. So: fields are kept by name, everything unknown is dropped, and what can't work is refused.
"""

from __future__ import annotations

import copy
import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from upgrader.contract.checkpoints import CHECKPOINT_OF, GENERATION, LEASE, POD_SUFFIX
from upgrader.in_cluster.checkpointer.checkpointer_errors import Refused
from upgrader.in_cluster.checkpointer.static_pods.pods import Pod, image_ids
from upgrader.in_cluster.checkpointer.static_pods.volumes import Fetch, File, Volume, volumes
from upgrader.onhost.node.workload_policy import Workload

_KEPT = (
    *("hostNetwork", "hostPID", "hostIPC", "hostUsers", "hostAliases", "shareProcessNamespace", "setHostnameAsFQDN"),
    *("dnsPolicy", "dnsConfig", "os", "resources", "restartPolicy", "securityContext", "terminationGracePeriodSeconds"),
    # Numeric priority and class go together: admission checks the mirror pod's one against the other.
    *("priority", "priorityClassName", "tolerations"),
)
_REFUSED = ("runtimeClassName", "resourceClaims")
_PROBES = ("livenessProbe", "readinessProbe", "startupProbe")
_ENV_NAME = re.compile(r"[-._a-zA-Z][-._a-zA-Z0-9]*")
Json = dict[str, Any]

MOST_BYTES = 4 * 2**20
"""Bytes of one generation: its manifest, and its Secrets' and ConfigMaps' files."""


@dataclass(frozen=True)
class Candidate:
    """What would be kept of a pod. `manifest` mounts its files below `ROOT`; `digest` covers manifest, files and
    images.
    """

    workload: Workload
    manifest: Json
    volumes: tuple[Volume, ...]
    images: Mapping[str, str]
    digest: str

    @property
    def files(self) -> tuple[File, ...]:
        """All files of all volumes."""
        return tuple(f for v in self.volumes for f in v.files)

    @property
    def size(self) -> int:
        """Bytes of the manifest and all files."""
        return len(json.dumps(self.manifest)) + sum(len(f.content) for f in self.files)

    def placed(self, folder: str, number: int) -> Json:
        """The manifest for a generation whose files lie in `folder`."""
        manifest = copy.deepcopy(self.manifest)
        manifest["metadata"]["annotations"][GENERATION] = str(number)
        for volume in manifest["spec"].get("volumes", []):
            path = volume.get("hostPath", {}).get("path", "")
            if path.startswith(ROOT):
                volume["hostPath"]["path"] = folder + path.removeprefix(ROOT)
        return manifest


ROOT = "/checkpointer-root"
"""Stands for the generation's folder until its number is known, so that the digest doesn't depend on that."""


def candidate(pod: Pod, workload: Workload, fetch: Fetch, ports: Mapping[int, int]) -> Candidate:
    """What to keep of a pod. `ports`: probe and container ports that the standby pod serves elsewhere (the
    checkpointer's own).

    Raises Refused when the pod can't run without the API, ApiError when what it refers to can't be had now.
    """
    spec = pod["spec"]
    for field in _REFUSED:
        if spec.get(field):
            raise Refused("FieldNeedsApi", f"the pod sets {field}, which a static pod can't have")
    kept = volumes(pod, fetch)
    static: Json = {key: spec[key] for key in _KEPT if key in spec}
    on_host = bool(spec.get("hostNetwork"))
    if LEASE in (pod["metadata"].get("annotations") or {}) and not on_host:
        on_host = True
        _move_to_host(static)
    static["automountServiceAccountToken"] = False
    static["enableServiceLinks"] = False
    static["volumes"] = [_volume(v) for v in kept]
    for key in ("initContainers", "containers"):
        if spec.get(key):
            static[key] = [_container(c, on_host, fetch, ports) for c in spec[key]]
    manifest: Json = {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": workload.name + POD_SUFFIX,
            "namespace": workload.namespace,
            "labels": {CHECKPOINT_OF: workload.name},
            "annotations": {},
        },
        "spec": static,
    }
    images = image_ids(pod)
    made = Candidate(workload, manifest, tuple(kept), images, _digest(manifest, kept, images))
    if made.size > MOST_BYTES:
        raise Refused("TooLarge", f"its checkpoint would take {made.size} bytes, more than {MOST_BYTES}")
    return made


def _move_to_host(static: Json) -> None:
    """Make a leader-elected pod use the node's network: repairing a broken pod network needs controller-manager, so its
    standby pod must not need that network.
    """
    static["hostNetwork"] = True
    static.pop("hostUsers", None)  # a user namespace can't have the node's network
    context = static.get("securityContext") or {}
    if "sysctls" in context:
        own = [s for s in context["sysctls"] if not s["name"].startswith("net.")]  # the node's aren't a pod's to set
        static["securityContext"] = {**context, "sysctls": own}


def _volume(volume: Volume) -> Mapping[str, Any]:
    if volume.spec is not None:
        return volume.spec
    return {"name": volume.name, "hostPath": {"path": f"{ROOT}/{volume.name}", "type": "Directory"}}


def _container(source: Mapping[str, Any], host_network: bool, fetch: Fetch, ports: Mapping[int, int]) -> Json:
    container: Json = copy.deepcopy(dict(source))
    container["imagePullPolicy"] = "IfNotPresent"  # the registry may be as unreachable as the API
    container.pop("envFrom", None)
    env = [*_env_from(source, fetch), *_env(source, fetch)]
    if env or source.get("env"):
        container["env"] = env
    named = {p["name"]: p["containerPort"] for p in source.get("ports") or [] if "name" in p}
    handlers = [container[p] for p in _PROBES if p in container]
    handlers += [h for h in (container.get("lifecycle") or {}).values() if isinstance(h, dict)]
    for handler in handlers:
        for action in ("httpGet", "tcpSocket", "grpc"):
            if action in handler:
                number = named.get(handler[action]["port"], handler[action]["port"])
                handler[action]["port"] = ports.get(number, number)
    if host_network:
        # Declared ports only inform here, yet the kubelet refuses a pod whose declared ports the parent declares too.
        container.pop("ports", None)
    return container


def _env(source: Mapping[str, Any], fetch: Fetch) -> list[Json]:
    env: list[Json] = []
    for entry in source.get("env") or []:
        origin = entry.get("valueFrom") or {}
        if "secretKeyRef" in origin:
            _refuse_secret(source, origin["secretKeyRef"]["name"])
        reference = origin.get("configMapKeyRef")
        if reference is None:
            env.append(copy.deepcopy(entry))
            continue
        value = (fetch("ConfigMap", reference["name"]) or {}).get(reference["key"])
        if value is not None:
            env.append({"name": entry["name"], "value": _literal(value)})
        elif not reference.get("optional"):
            raise Refused(
                "ReferenceMissing", f"ConfigMap {reference['name']} has no key {reference['key']} (env {entry['name']})"
            )
    return env


def _env_from(source: Mapping[str, Any], fetch: Fetch) -> list[Json]:
    env: dict[str, Json] = {}
    for origin in source.get("envFrom") or []:
        if "secretRef" in origin:
            _refuse_secret(source, origin["secretRef"]["name"])
        reference = origin["configMapRef"]
        content = fetch("ConfigMap", reference["name"])
        if content is None and not reference.get("optional"):
            raise Refused(
                "ReferenceMissing", f"ConfigMap {reference['name']} doesn't exist (envFrom of {source['name']})"
            )
        for key in sorted(content or {}):
            name = origin.get("prefix", "") + key
            if _ENV_NAME.fullmatch(name):
                env[name] = {"name": name, "value": _literal((content or {})[key])}
    return list(env.values())


def _literal(value: bytes) -> str:
    """A value that the kubelet hands on unchanged: in a literal, unlike in a reference, it would expand $(NAME)."""
    return value.decode("utf-8", errors="replace").replace("$", "$$")


def _refuse_secret(container: Mapping[str, Any], name: str) -> None:
    raise Refused(
        "SecretInEnvironment",
        f"container {container['name']} has environment variables from Secret {name}: mount it instead, because the "
        "mirror pod would show their values",
    )


def _digest(manifest: Json, kept: list[Volume], images: Mapping[str, str]) -> str:
    files = [
        [f.path, hashlib.sha256(f.content).hexdigest(), f.mode, f.owner.uid, f.owner.gid] for v in kept for f in v.files
    ]
    text = json.dumps([manifest, files, dict(images)], sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()
