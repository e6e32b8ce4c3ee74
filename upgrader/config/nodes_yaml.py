"""The schema of the section `nodes` of `upgrader.yaml`. Its descriptions are the text of the reference manual."""

from __future__ import annotations

import re
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from upgrader.config.section import Duration, NodeShare, Section
from upgrader.errors import UsageError
from upgrader.model.node_settings import CONTROLLERS, WORKERS, DrainPolicy, NodePool, NodesSettings, OnBlocked
from upgrader.model.version import KubernetesVersion

__all__ = [
    "ContainerRuntimeSection",
    "ContainerdSourceSection",
    "DrainSection",
    "NodePoolSection",
    "NodeSourceSection",
    "NodesSection",
]

_POOL = re.compile(r"[a-z0-9]([-a-z0-9]{0,38}[a-z0-9])?")
_CONTAINERD = re.compile(r"\d[0-9A-Za-z.+~-]*")
_SHA256 = re.compile(r"[0-9a-f]{64}")


def _pool(text: object) -> str:
    if not isinstance(text, str) or not _POOL.fullmatch(text):
        raise ValueError(f"{text!r} is not a pool's name: at most 40 lower-case letters, digits and '-'")
    return text


def _sha256(text: object) -> str:
    if not isinstance(text, str) or not _SHA256.fullmatch(text):
        raise ValueError(f"{text!r} is not a SHA-256: write its 64 hexadecimal digits, in lower case")
    return text


def _containerd_version(text: object) -> str:
    if not isinstance(text, str) or not _CONTAINERD.fullmatch(text):
        raise ValueError(f"{text!r} is not a version of containerd; write it like '2.1.4'")
    return text


ContainerdVersion = Annotated[str, BeforeValidator(_containerd_version)]
PoolName = Annotated[str, BeforeValidator(_pool)]
Sha256 = Annotated[str, BeforeValidator(_sha256)]


_REFUSED = {
    "apiVersion": "the node's file has its own",
    "kind": "the node's file has its own",
    "staticPodPath": "the control plane's static pods would end",
    "staticPodURL": "the control plane's static pods would end",
    "staticPodURLHeader": "it may hold a secret",
    "cgroupDriver": "pods that run would be lost: set it on a node without any, and on the container runtime with it",
    "cgroupRoot": "pods that run would be lost",
    "cgroupsPerQOS": "pods that run would be lost",
    "containerRuntimeEndpoint": "pods that run would be lost",
    "healthzBindAddress": "the kubelet is asked at its old one whether it is healthy",
    "healthzPort": "the kubelet is asked at its old one whether it is healthy",
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
                raise ValueError(f"the key {name!r} {where}is no text: put it in quotes")
            _check_json(each, f"of {name} ")
    elif isinstance(value, list):
        for each in value:
            _check_json(each, where)
    elif not isinstance(value, str | int | float | bool | None) or value in (float("inf"), float("-inf")):
        raise ValueError(f"the value {value!r} {where}is none that JSON has")


KubeletFields = Annotated[dict[str, Any], BeforeValidator(_kubelet_fields)]


class DrainSection(Section):
    """How nodes are drained: by the eviction API, which honours PodDisruptionBudgets."""

    deadline: Duration = Field(
        default=DrainPolicy.deadline_seconds,
        description="How long the drain of a node may take, until all evicted pods have ended.",
        examples=["5m"],
    )
    on_blocked: OnBlocked = Field(
        default=DrainPolicy.on_blocked,
        description="What happens when it takes longer, or when a pod has no controller that would make it again. "
        "`fail`: the node is uncordoned, and has failed. `skip-node`: the same, and it doesn't count as failed. "
        "`force`: its pods are deleted, whatever their budgets say; the drain has the deadline once more.",
    )


class NodeSourceSection(Section):
    """Where nodes get kubelet, kubectl and kubeadm from."""

    kind: Literal["packages", "folder", "url"] = Field(
        description="`packages`: the packages of the node's operating system, held at their version. `folder`: files "
        "of a folder on this machine. `url`: files that each node downloads.",
    )
    path: str = Field(
        default="",
        description="The folder with the files; `{version}` in it stands for the version. Only of `folder`.",
    )
    url: str = Field(
        default="",
        description="The address, over HTTPS, below which the files are; `{version}` in it stands for the version. "
        "Only of `url`.",
        examples=["https://dl.k8s.io/{version}/bin/linux/amd64"],
    )
    sha256: dict[str, dict[Literal["kubelet", "kubectl", "kubeadm"], Sha256]] = Field(
        default={},
        description="The SHA-256 of each file, by version, then by program. Required by `folder` and `url`: a program "
        "without one is left alone.",
    )

    @model_validator(mode="after")
    def _fits_its_kind(self) -> NodeSourceSection:
        wanted = {"packages": "", "folder": "path", "url": "url"}[self.kind]
        for key in ("path", "url"):
            if bool(getattr(self, key)) != (key == wanted):
                raise ValueError(f"a source of kind '{self.kind}' {'needs' if key == wanted else 'has no'} key '{key}'")
        if self.url and not self.url.startswith("https://"):
            raise ValueError(f"{self.url!r} is no address that starts with https://")
        for version in self.sha256:
            try:
                KubernetesVersion.parse(version)
            except UsageError as error:
                raise ValueError(f"{error.message}; write it like v1.37.1") from error
        return self


class ContainerdSourceSection(Section):
    """Where nodes get containerd from."""

    kind: Literal["packages", "folder", "url"] = Field(
        description="`packages`: the package that the node has of it (`containerd`, `containerd.io`), held at its "
        "version. `folder`: an archive on this machine. `url`: an archive that each node downloads.",
    )
    path: str = Field(
        default="",
        description="The archive, with containerd's programs in its folder `bin`, as containerd's releases have them; "
        "`{version}` in it stands for the version. Only of `folder`.",
        examples=["containerd-{version}-linux-amd64.tar.gz"],
    )
    url: str = Field(default="", description="The archive's address, over HTTPS; `{version}` in it too. Only of `url`.")
    sha256: Sha256 | None = Field(
        default=None, description="The SHA-256 of the archive. Required by `folder` and `url`, and only of these."
    )

    @model_validator(mode="after")
    def _fits_its_kind(self) -> ContainerdSourceSection:
        wanted = {"packages": (), "folder": ("path", "sha256"), "url": ("url", "sha256")}[self.kind]
        for key in ("path", "url", "sha256"):
            if bool(getattr(self, key)) != (key in wanted):
                raise ValueError(f"a source of kind '{self.kind}' {'needs' if key in wanted else 'has no'} key '{key}'")
        if self.url and not self.url.startswith("https://"):
            raise ValueError(f"{self.url!r} is no address that starts with https://")
        return self


class ContainerRuntimeSection(Section):
    """Which containerd nodes have, and how it is configured."""

    version: ContainerdVersion = Field(
        default="",
        description="Its version, without `v`, as `containerd --version` prints it, or that of its package. Needs "
        "`source`. Without it, each node keeps the one that it has.",
        examples=["2.1.4"],
    )
    source: ContainerdSourceSection | None = None
    config: str = Field(
        default="",
        description="The file that becomes containerd's configuration file on each node. One that ends with `.j2` is a "
        "Jinja2 template, with the inventory's variables.",
        examples=["containerd.toml.j2"],
    )

    @model_validator(mode="after")
    def _is_whole(self) -> ContainerRuntimeSection:
        if bool(self.version) != (self.source is not None):
            raise ValueError("'version' and 'source' need each other")
        if not self.version and not self.config:
            raise ValueError("it needs 'version' and 'source', or 'config'")
        return self


class NodePoolSection(Section):
    """A pool of workers, which are upgraded in one step, after the pools before it."""

    name: PoolName = Field(
        description="Its name; its step is called `nodes-NAME`. `workers` is the pool of all others."
    )
    selector: dict[str, str] = Field(
        default={}, description="The labels that its nodes have. Required, except for `workers`, which has none."
    )
    max_unavailable: NodeShare = Field(
        default=NodePool.max_unavailable,
        description="How many of its nodes are upgraded at once: a number, or a percentage, which is rounded down; at "
        "least one.",
    )
    max_failed: int = Field(
        default=NodePool.max_failed,
        ge=0,
        description="How many of its nodes may fail: they are put back to their old version, and the run goes on.",
    )
    drain: DrainSection | None = Field(default=None, description="As in `nodes.drain`, for this pool alone.")

    @model_validator(mode="after")
    def _has_a_selector(self) -> NodePoolSection:
        if self.name == CONTROLLERS:
            raise ValueError(
                "'controllers' is the pool of the inventory's controllers: one at a time, and none may fail"
            )
        if (self.name == WORKERS) == bool(self.selector):
            needs = "has no key" if self.name == WORKERS else "needs a key"
            raise ValueError(f"pool '{self.name}' {needs} 'selector'")
        return self


class NodesSection(Section):
    """How nodes are upgraded, after the releases: the controllers first, one at a time, then each pool of workers."""

    source: NodeSourceSection
    drain: DrainSection = DrainSection()
    ready_deadline: Duration = Field(
        default=NodesSettings.ready_seconds,
        description="How long a node may take to be Ready with its new kubelet before it is put back.",
        examples=["5m"],
    )
    kubelet_configuration: KubeletFields = Field(
        default={},
        description="Fields of the KubeletConfiguration, as in its file. They are merged into the file of each node, "
        "whose other fields stay, and into the ConfigMap from which kubeadm configures nodes that join.",
    )
    container_runtime: ContainerRuntimeSection | None = None
    pools: list[NodePoolSection] = Field(
        default=[],
        description="Pools of workers, in the order in which they are upgraded. A worker is in the first one whose "
        "labels it has; all others are in the pool `workers`, which comes last.",
    )

    @model_validator(mode="after")
    def _names_differ(self) -> NodesSection:
        names = [pool.name for pool in self.pools]
        for name in names:
            if names.count(name) > 1:
                raise ValueError(f"two pools are named '{name}'")
        return self
