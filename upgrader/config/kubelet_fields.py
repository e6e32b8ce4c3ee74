"""Fields of the KubeletConfiguration in `upgrader.yaml`: which of them a run can't change."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator

__all__ = ["KubeletFields"]

_REFUSED = {
    "apiVersion": "each node's file has its own value",
    "kind": "each node's file has its own value",
    "staticPodPath": "the control plane's static pods would stop",
    "staticPodURL": "the control plane's static pods would stop",
    "staticPodURLHeader": "it may contain a secret",
    "cgroupDriver": "running pods would be lost: set it on a drained node, and in the container runtime",
    "cgroupRoot": "running pods would be lost",
    "cgroupsPerQOS": "running pods would be lost",
    **dict.fromkeys(
        ("cpuManagerPolicy", "cpuManagerPolicyOptions", "memoryManagerPolicy", "reservedMemory"),
        "the kubelet doesn't start while /var/lib/kubelet has the state of another policy. On each node: drain it, set "
        "the field in the kubelet's own file, remove cpu_manager_state or memory_manager_state, restart the kubelet",
    ),
    "containerRuntimeEndpoint": "running pods would be lost",
    "healthzBindAddress": "the Ansible role's `node_healthz_url` may still have the old value",
    "healthzPort": "the Ansible role's `node_healthz_url` may still have the old value",
}
"""Fields that a run can't change, each with why."""


def _kubelet_fields(value: object) -> object:
    if isinstance(value, dict):
        for name in value:
            if name in _REFUSED:
                raise ValueError(f"field '{name}' can't be set here: {_REFUSED[name]}")
        _check_json(value, "")
    return value


def _check_json(value: object, where: str) -> None:
    if isinstance(value, dict):
        for name, each in value.items():
            if not isinstance(name, str):
                raise ValueError(f"the key {name!r} {where}is not a string: put it in quotes")
            _check_json(each, f"of {name} ")
    elif isinstance(value, list):
        for each in value:
            _check_json(each, where)
    elif not isinstance(value, str | int | float | bool | None) or value in (float("inf"), float("-inf")):
        raise ValueError(f"the value {value!r} {where}is not a JSON value")


KubeletFields = Annotated[dict[str, Any], BeforeValidator(_kubelet_fields)]
