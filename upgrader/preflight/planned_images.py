"""Every component of the control plane gets an image of the target version: none is pinned to another version.

Otherwise a run would succeed while the old program keeps running, and the next upgrade would be two minors.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from upgrader.model.finding import Finding
from upgrader.model.images import images_in
from upgrader.model.settings import BUILT_IN_CHARTS
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.context import PreflightContext
from upgrader.steps.plan import planned_of
from upgrader.steps.release.plan import PlannedRelease
from upgrader.steps.release.planned_commands import planned_commands

__all__ = ["check_planned_images"]

_BEGINS = re.compile(r"v[1-9]\d*\.\d+\.\d+(?=$|[-+._])")
"""How a tag begins that names a version, a vendor's too: `v1.36.3-eks-1-36-5`. A project's that builds on Kubernetes,
v0.36.5, is none.
"""


def check_planned_images(context: PreflightContext) -> Iterator[Finding]:
    """Of the built-in releases, by the images' tags; by what changes, where a tag or a digest names no version."""
    releases = [step for step in planned_of(context.plan, PlannedRelease) if step.name in BUILT_IN_CHARTS]
    for command in planned_commands(releases, context.target):
        image = str(command.found.get("image"))
        named = _version(image)
        before = images_in(command.release.before).get((command.workload, command.container))
        stays = named is None and image == before and context.target != context.observed.server
        if stays or named not in (None, context.target):
            yield Finding(
                "releases.image-pinned",
                "error",
                f"{command.component} would stay at {image} instead of {context.target}",
                f"The values of release {command.release.name} pin this image to "
                f"{'a digest or a tag that names no version' if named is None else 'a tag of another version'}. "
                "The run would succeed, but keep the old version.",
                "Remove `tag` and `digest` of that image from the values, so that it follows `kubernetesVersion`; or "
                f"set them to the tag or digest of {context.target}.",
            )


def _version(image: str) -> KubernetesVersion | None:
    """None where there is a digest, which decides then, and where the tag names no version."""
    found = _BEGINS.match(image.rpartition("/")[2].partition(":")[2]) if "@" not in image else None
    return KubernetesVersion.parse(found[0]) if found else None
