"""The schema of programs in `nodes`: the sources of kubelets and of the container runtime."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Annotated, Literal

from pydantic import BeforeValidator, Field, model_validator

from upgrader.config.section import Section
from upgrader.errors import UsageError
from upgrader.model.version import KubernetesVersion

__all__ = [
    "ArchitectureSourceSection",
    "ContainerRuntimeSection",
    "ContainerdArchiveSection",
    "ContainerdSourceSection",
    "NodeSourceSection",
]

_CONTAINERD = re.compile(r"\d[0-9A-Za-z.+~-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _sha256(text: object) -> str:
    if not isinstance(text, str) or not _SHA256.fullmatch(text):
        raise ValueError(f"{text!r} is not a SHA-256: write its 64 hexadecimal digits, in lower case")
    return text


def _containerd_version(text: object) -> str:
    if not isinstance(text, str) or not _CONTAINERD.fullmatch(text):
        raise ValueError(f"{text!r} is not a version of containerd; write it like '2.1.4'")
    return text


ContainerdVersion = Annotated[str, BeforeValidator(_containerd_version)]
Sha256 = Annotated[str, BeforeValidator(_sha256)]
Sums = dict[str, dict[Literal["kubelet", "kubectl", "kubeadm"], Sha256]]
Architecture = Literal["amd64", "arm", "arm64", "ppc64le", "riscv64", "s390x"]


class _Place(Section):
    path: str = ""
    url: str = ""


class ArchitectureSourceSection(_Place):
    """Different values for nodes of one architecture; an unset path or URL is that of all others."""

    path: str = Field(default="", description="The folder with the files for these nodes. Only for `folder`.")
    url: str = Field(default="", description="The HTTPS address below which their files are. Only for `url`.")
    sha256: Sums = Field(description="The SHA-256 of each file, by version, then by program.")


class NodeSourceSection(Section):
    """Where nodes get kubelet, kubectl and kubeadm from."""

    kind: Literal["packages", "folder", "url"] = Field(
        description="`packages`: the packages of the node's operating system, held at their version. `folder`: files "
        "of a folder on this machine. `url`: files that each node downloads.",
    )
    path: str = Field(
        default="",
        description="The folder with the files. `{version}` in its path stands for the version. Only for `folder`.",
    )
    url: str = Field(
        default="",
        description="The HTTPS address below which the files are. `{version}` in it stands for the version. Only for "
        "`url`.",
        examples=["https://dl.k8s.io/{version}/bin/linux/amd64"],
    )
    sha256: Sums = Field(
        default={},
        description="The SHA-256 of each file, by version, then by program. Required for `folder` and `url`: a program "
        "without an SHA-256 is not upgraded.",
    )
    architectures: dict[Architecture, ArchitectureSourceSection] = Field(
        default={},
        description="Other values for nodes of one architecture, by the architecture's name, such as `arm64`. Only for "
        "`folder` and `url`; package repositories handle architectures themselves.",
    )

    @model_validator(mode="after")
    def _fits_its_kind(self) -> NodeSourceSection:
        wanted = {"packages": "", "folder": "path", "url": "url"}[self.kind]
        for key in ("path", "url"):
            if bool(getattr(self, key)) != (key == wanted):
                raise ValueError(f"a source of kind '{self.kind}' {'needs' if key == wanted else 'has no'} key '{key}'")
        for url in (self.url, *(own.url for own in self.architectures.values())):
            if url and not url.startswith("https://"):
                raise ValueError(f"{url!r} is not an address that starts with https://")
        _check_architectures(self.kind, self.architectures)
        for sums in (self.sha256, *(own.sha256 for own in self.architectures.values())):
            for version in sums:
                try:
                    KubernetesVersion.parse(version)
                except UsageError as error:
                    raise ValueError(f"{error.message}; write it like v1.37.1") from error
        return self


def _check_architectures(kind: str, architectures: Mapping[Architecture, _Place]) -> None:
    wanted = {"packages": "", "folder": "path", "url": "url"}[kind]
    if architectures and not wanted:
        raise ValueError(f"a source of kind '{kind}' has no key 'architectures'")
    for name, own in architectures.items():
        for key in {"path", "url"} - {wanted}:
            if getattr(own, key):
                raise ValueError(f"architecture '{name}' of a source of kind '{kind}' has no key '{key}'")


class ContainerdArchiveSection(_Place):
    """The archive for nodes of one architecture."""

    path: str = Field(default="", description="The archive's path. Only for `folder`.")
    url: str = Field(default="", description="The archive's HTTPS address. Only for `url`.")
    sha256: Sha256 = Field(description="The archive's SHA-256.")


class ContainerdSourceSection(Section):
    """Where nodes get containerd from."""

    kind: Literal["packages", "folder", "url"] = Field(
        description="`packages`: the installed package (`containerd`, `containerd.io`), held at its version. `folder`: "
        "an archive on this machine. `url`: an archive that each node downloads.",
    )
    path: str = Field(
        default="",
        description="The path of the archive, which has containerd's programs in its folder `bin`, as containerd's "
        "releases do. `{version}` in the path stands for the version. Only for `folder`.",
        examples=["containerd-{version}-linux-amd64.tar.gz"],
    )
    url: str = Field(
        default="",
        description="The archive's HTTPS address. `{version}` in it stands for the version. Only for `url`.",
    )
    sha256: Sha256 | None = Field(
        default=None,
        description="The SHA-256 of the archive. Required for `folder` and `url`; not allowed for `packages`.",
    )
    architectures: dict[Architecture, ContainerdArchiveSection] = Field(
        default={},
        description="Archives for nodes of other architectures, by the architecture's name, such as `arm64`. Only for "
        "`folder` and `url`.",
    )

    @model_validator(mode="after")
    def _fits_its_kind(self) -> ContainerdSourceSection:
        wanted = {"packages": (), "folder": ("path", "sha256"), "url": ("url", "sha256")}[self.kind]
        for key in ("path", "url", "sha256"):
            if bool(getattr(self, key)) != (key in wanted):
                raise ValueError(f"a source of kind '{self.kind}' {'needs' if key in wanted else 'has no'} key '{key}'")
        for url in (self.url, *(own.url for own in self.architectures.values())):
            if url and not url.startswith("https://"):
                raise ValueError(f"{url!r} is not an address that starts with https://")
        _check_architectures(self.kind, self.architectures)
        return self


class ContainerRuntimeSection(Section):
    """Which containerd nodes have, and how it is configured."""

    version: ContainerdVersion = Field(
        default="",
        description="containerd's version, without `v`, as `containerd --version` prints it, or the version of its "
        "package. Needs `source`. Without `version`, each node keeps its containerd.",
        examples=["2.1.4"],
    )
    source: ContainerdSourceSection | None = None
    config: str = Field(
        default="",
        description="The file that is installed as containerd's configuration on each node. If its name ends with "
        "`.j2`, it is a Jinja2 template, with the inventory's variables.",
        examples=["containerd.toml.j2"],
    )

    @model_validator(mode="after")
    def _is_whole(self) -> ContainerRuntimeSection:
        if bool(self.version) != (self.source is not None):
            raise ValueError("'version' and 'source' must be set together")
        if not self.version and not self.config:
            raise ValueError("set 'version' and 'source', or 'config'")
        return self
