"""The schema of the section `etcd` of `upgrader.yaml`. Its descriptions are the text of the reference manual."""

from __future__ import annotations

import re
from typing import Annotated

from pydantic import BeforeValidator, Field, model_validator

from upgrader.config.section import Duration, Section, StepAvailabilitySection
from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion

__all__ = ["EtcdSection"]

_IMAGE = re.compile(r"[a-zA-Z0-9][a-zA-Z0-9.:_/-]*(@sha256:[0-9a-f]{64})?")


def _image(text: object) -> str:
    # It is written into a manifest as it is.
    named = isinstance(text, str) and _IMAGE.fullmatch(text) and ("@" in text or ":" in text.rpartition("/")[2])
    if not isinstance(text, str) or not named:
        raise ValueError(f"{text!r} is not an image with a tag or a digest; write it as registry.k8s.io/etcd:3.6.6-0")
    return text


class EtcdSection(Section):
    """Which [image](../etcd.md) the members of etcd get that kubeadm has made: static pods of the controllers."""

    image: Annotated[str, BeforeValidator(_image)] = Field(
        description="The image, with a tag or a digest.", examples=["registry.k8s.io/etcd:3.6.6-0"]
    )
    version: str = Field(
        default="",
        description="The image's version of etcd, such as `3.6.6`. Required if the image's tag doesn't begin with it.",
    )
    ready_deadline: Duration = Field(
        default=EtcdSettings.ready_seconds,
        description="How long a member may take to become healthy with its new image before the old one is restored.",
        examples=["3m"],
    )
    availability: StepAvailabilitySection = Field(
        default=StepAvailabilitySection(),
        description="How much the step may disturb the API's clients. Default: the limits of `availability`; with one "
        "or two members, whose restart interrupts the API, 600 failed requests and 60 s.",
    )

    @model_validator(mode="after")
    def _version_known(self) -> EtcdSection:
        tagged = EtcdVersion.of_image(self.image)
        if not self.version and tagged is None:
            raise ValueError(f"the tag of {self.image} is not a version of etcd: add the key 'version'")
        if self.version and tagged is not None and EtcdVersion.parse(self.version) != tagged:
            raise ValueError(f"version {self.version!r} is not the tag's version, {tagged}")
        if self.version:
            EtcdVersion.parse(self.version)
        return self

    @property
    def known_version(self) -> EtcdVersion:
        """That of the tag, or the key's."""
        return EtcdVersion.of_image(self.image) or EtcdVersion.parse(self.version)
