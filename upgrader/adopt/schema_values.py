"""What kubeadm's files say that the charts' schemas refuse: told by the flag, or the field, that says it. Pure.

Helm's error would be about values that are in no file yet.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable, Mapping
from typing import Any

from upgrader.adopt.addon_parts import SECTIONS
from upgrader.adopt.facts import ControllerFacts, KubeadmFacts, StaticPod
from upgrader.adopt.values import container_image
from upgrader.errors import Blocked

__all__ = ["check_addons_images", "check_schema_values"]

_SERVICES = "service-cluster-ip-range"
_RANGE = re.compile(r"[0-9a-fA-F.:]+/[0-9]+")
_ZEROS = re.compile(r"(^|\.)0+(?=\d)")
"""Kubernetes ignores them in ranges that it has always read."""
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def check_schema_values(controllers: Iterable[ControllerFacts]) -> None:
    """Of all static pods that run. Raises Blocked, which names the controller and the flag."""
    for controller in controllers:
        for component, static in controller.active.items():
            where = f"{component}'s static pod on {controller.host.name}"
            if component == "kube-apiserver":
                _check_services(where, static)
            _check_image(where, static.image, "Change it in the static pod, on every controller")


def check_addons_images(facts: KubeadmFacts, chosen: Mapping[str, Any]) -> None:
    """Of kube-proxy and CoreDNS, but those whose image the operator's own values of release kubernetes (`chosen`) set.
    Raises Blocked.
    """
    for name, workload in facts.addons.items():
        if not (chosen.get(SECTIONS[name]) or {}).get("image"):
            _check_image(f"the pod template of kube-system/{name}", container_image(workload), "Change the image")


def _check_services(where: str, static: StaticPod) -> None:
    """kube-apiserver ends at anything else than a range, or one of each IP family, without spaces."""
    given = static.flags.get(_SERVICES, ("",))[-1]
    if not given:  # its own default
        return
    families = [_family(part) for part in given.split(",")]
    if None in families or len(set(families)) < len(families):
        raise Blocked(
            f"{where} has --{_SERVICES}='{given}', which is neither one range of addresses nor one range of each IP "
            "family: kube-apiserver can't start with it; nothing was changed",
            remedy="Correct it in the static pod, as 10.96.0.0/12 or 10.96.0.0/12,fd00:10:96::/112, without spaces or "
            "variables; the kubelet then restarts it. Don't change the range of existing Services.",
        )


def _family(text: str) -> int | None:
    """4 or 6; None for what is no range."""
    try:
        return ipaddress.ip_network(_ZEROS.sub(r"\1", text), strict=False).version if _RANGE.fullmatch(text) else None
    except ValueError:
        return None


def _check_image(where: str, reference: str, how: str) -> None:
    name, at, digest = reference.partition("@")
    if not name or (at and not _DIGEST.fullmatch(digest)):
        raise Blocked(
            f"{where} has {'no image' if not name else f'the image {reference}'}: the charts accept a name with a tag, "
            "or with a digest of sha256; nothing was changed",
            remedy=f"{how}, in one of these forms.",
        )
