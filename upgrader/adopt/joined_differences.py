"""What the static pods of a controller that joined have, and the releases don't. Pure.

The releases' pods replace them, with what operators have chosen since kubeadm's configuration was written: so it is
told, not refused.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from upgrader.adopt.derive import FlagChange, flag_changes
from upgrader.adopt.facts import ControllerFacts, StaticPod
from upgrader.adopt.pod_metadata import differing, metadata_of, rendered_metadata
from upgrader.adopt.referred_files import shown_by_file
from upgrader.adopt.values import HANDED_OVER, rendered_flags
from upgrader.adopt.volumes import missing_mounts
from upgrader.contract.variables import seen_variables
from upgrader.gates.manifest_workloads import pod_spec

__all__ = ["parts_that_go", "released_flags"]


def parts_that_go(new: Sequence[ControllerFacts], manifests: Sequence[str], pki: str) -> Mapping[str, tuple[str, ...]]:
    """`COMPONENT on CONTROLLER` → flags, variables, volumes, labels and annotations there that its release has
    otherwise, or not at all. `manifests` are the releases' as they run, `pki` is the controllers' folder of
    certificates.
    """
    found = {}
    for controller in new:
        for component, static in controller.active.items():
            manifest = _release_of(component, manifests)
            if lines := tuple(_differing(static, manifest, pki)):
                found[f"{component} on {controller.host.name}"] = lines
    return found


def released_flags(controller: ControllerFacts, manifests: Sequence[str]) -> Iterator[FlagChange]:
    """From the flags of its static pods to those of the releases as they run."""
    for component, static in controller.active.items():
        yield from flag_changes(component, static.flags, rendered_flags(_release_of(component, manifests), component))


def _release_of(component: str, manifests: Sequence[str]) -> str:
    return next((text for text in manifests if pod_spec(text, component)), "")


def _differing(static: StaticPod, manifest: str, pki: str) -> Iterator[str]:
    flags, pod = rendered_flags(manifest, static.component), pod_spec(manifest, static.component)
    for name, values in static.flags.items():
        if name not in HANDED_OVER and flags.get(name) != values:
            yield f"--{name}={','.join(values)}"
    own = [each for each in pod.get("containers", ()) if each["name"] == static.component]
    variables = seen_variables(own[0]) if own else {}
    for name, value in sorted(seen_variables(static.container).items()):
        if variables.get(name) != value:
            yield f"the variable {name}"
    rendered = {"containers": [], **pod}
    for mounted in missing_mounts(static, rendered, pki, shown_by_file(static, rendered)):
        yield f"the volume {mounted}"
    for each in differing(metadata_of(static), rendered_metadata(manifest, static.component)):
        yield str(each)
