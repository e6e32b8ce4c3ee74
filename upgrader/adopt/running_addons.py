"""What an undo of the adoption keeps of kube-proxy and CoreDNS as they run: their images and their configuration. Pure.

kubeadm's objects are from before the adoption. Custom zones, another mode of kube-proxy or a newer image may have come
since, in the values of the release `kubernetes`.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

import yaml

from upgrader.model import limited_yaml
from upgrader.model.manifest import objects_in

__all__ = ["NOTHING_RUNS", "RunningAddons", "addons_in", "as_running"]

_ADDONS = ("kube-proxy", "coredns")
_WORKLOADS = ("DaemonSet", "Deployment")


@dataclass(frozen=True)
class RunningAddons:
    """By the add-on's name, which all of its objects have: the image of its pods, and the texts of its ConfigMap."""

    images: Mapping[str, str] = field(default_factory=dict)
    texts: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


NOTHING_RUNS = RunningAddons()


def addons_in(manifests: Iterable[str]) -> RunningAddons:
    """The add-ons in these manifests of releases."""
    images, texts = dict[str, str](), dict[str, Mapping[str, str]]()
    for manifest in manifests:
        for item in objects_in(manifest).values():
            name = str(item["metadata"]["name"])
            if name in _ADDONS and item["kind"] in _WORKLOADS:
                images[name] = str(item["spec"]["template"]["spec"]["containers"][0]["image"])
            elif name in _ADDONS and item["kind"] == "ConfigMap":
                texts[name] = item.get("data") or {}
    return RunningAddons(images, texts)


def as_running(original: Mapping[str, Any], running: RunningAddons) -> tuple[dict[str, Any], tuple[str, ...]]:
    """kubeadm's object with the image and the texts that run, and the names of the texts that differed."""
    made, name = copy.deepcopy(dict(original)), str(original["metadata"]["name"])
    if made["kind"] in _WORKLOADS and name in running.images:
        made["spec"]["template"]["spec"]["containers"][0]["image"] = running.images[name]
    if made["kind"] != "ConfigMap":
        return made, ()
    kept, runs = made.get("data") or {}, running.texts.get(name, {})
    changed = tuple(key for key in kept if key in runs and _content(key, kept[key]) != _content(key, runs[key]))
    made["data"] = {**kept, **{key: runs[key] for key in changed}}
    return made, changed


def _content(key: str, text: str) -> Any:
    """What a text says, however it is written: a chart sorts the keys, and leaves out what is empty. Zero and false
    aren't: where kube-proxy has another default, they are settings.
    """
    if key == "Corefile":
        return [line.rstrip() for line in text.strip().splitlines()]
    try:
        return _without_empty(limited_yaml.load(text))
    except yaml.YAMLError:
        return text


def _without_empty(value: Any) -> Any:
    if isinstance(value, dict):
        found = {key: _without_empty(each) for key, each in value.items()}
        return {key: each for key, each in found.items() if each is not None and each not in ("", [], {})}
    return [_without_empty(each) for each in value] if isinstance(value, list) else value
