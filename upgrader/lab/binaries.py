"""The programs of the lab, by version, in the cache: Kubernetes, etcd, CoreDNS, Helm, flannel and pause."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from upgrader.built_in_files import lab_folder
from upgrader.errors import LabError
from upgrader.lab.build_cache import built, cache_root, content_hash
from upgrader.lab.golang import Module, build_module, go_command
from upgrader.lab.oci_archive import native_architecture
from upgrader.lab.progress_port import LabProgress

__all__ = [
    "COREDNS",
    "ETCD",
    "FLANNEL",
    "FLANNEL_CNI",
    "HELM",
    "PAUSE",
    "Binaries",
    "built_kubernetes",
    "kubectl",
    "kubernetes",
    "link_kubectl",
    "oldest_first",
    "version_flags",
]

ETCD = "v3.6.8"
COREDNS = "v1.14.2"
HELM = "v4.3.1"
FLANNEL = "v0.28.10"
FLANNEL_CNI = "v1.0.0-rc1"  # the last version of the CNI plugins that includes flannel's
PAUSE = "3.10.2"  # the name that kubelet and kubeadm of these versions require; the program is the lab's own


def version_flags(version: str) -> str:
    """The linker's flags that give a program of Kubernetes its version."""
    minor = version.split(".")[1]
    stamp = "k8s.io/component-base/version"
    values = {"gitVersion": version, "gitMajor": "1", "gitMinor": minor, "gitTreeState": "clean", "gitCommit": "none"}
    return " ".join(f"-X {stamp}.{name}={value}" for name, value in values.items())


def _kubernetes_module(version: str) -> Module:
    return Module(
        name="Kubernetes",
        path="k8s.io/kubernetes",
        version=version,
        programs={"kubernetes": ".", "kubeadm": "./kubeadm"},
        sources=lab_folder() / "modules" / "kubernetes",
        ldflags=version_flags(version),
        staging=True,
        seconds=540,
    )


def kubernetes(version: str, progress: LabProgress) -> Path:
    """Build `kubernetes` (one program for all components and kubectl) and `kubeadm` of a version; returns their folder.

    Also creates `bin/kubectl-VERSION` in the cache: the program acts as kubectl under any name that begins with
    `kubectl`.
    """
    folder = _built("kubernetes", f"{version}-{_sources_hash()}", _kubernetes_module(version), progress)
    link_kubectl(version, folder / "kubernetes")
    return folder


def link_kubectl(version: str, program: Path) -> None:
    """Make that program the kubectl of a version."""
    _link(f"kubectl-{version}", program)


def kubectl(version: str) -> Path:
    """The kubectl of a version that is in the cache."""
    return cache_root() / "bin" / f"kubectl-{version}"


def built_kubernetes() -> tuple[str, ...]:
    """Every version of Kubernetes that was built, oldest first."""
    folders = (cache_root() / "kubernetes").glob(f"v*-{_sources_hash()}")
    return oldest_first(folder.name.split("-")[0] for folder in folders)


def oldest_first(versions: Iterable[str]) -> tuple[str, ...]:
    """Versions like `v1.36.3`, in their order."""
    return tuple(sorted(versions, key=lambda version: [int(part) for part in version[1:].split(".")]))


class Binaries:
    """The programs that do not depend on the version of Kubernetes; each is built on first use."""

    def __init__(self, progress: LabProgress) -> None:
        self._progress = progress

    def etcd(self, version: str = ETCD) -> Path:
        """The folder with etcd, etcdctl and etcdutl, of the labs' version or of another one."""
        base = "go.etcd.io/etcd"
        programs = {"etcd": f"{base}/server/v3", "etcdctl": f"{base}/etcdctl/v3", "etcdutl": f"{base}/etcdutl/v3"}
        more = (f"{base}/etcdctl/v3", f"{base}/etcdutl/v3")
        module = Module("etcd", f"{base}/server/v3", version, programs, more=more, seconds=75)
        return _built("etcd", version, module, self._progress)

    def containerd(self, version: str) -> Path:
        """The folder with containerd 2.x, its shim and ctr; the version is stamped as upstream's releases do."""
        base = "github.com/containerd/containerd/v2"
        programs = {name: f"{base}/cmd/{name}" for name in ("containerd", "containerd-shim-runc-v2", "ctr")}
        module = Module("containerd", base, version, programs, ldflags=f"-X {base}/version.Version={version}")
        return _built("containerd-programs", version, module, self._progress)

    def coredns(self) -> Path:
        """The folder with coredns."""
        module = Module("CoreDNS", "github.com/coredns/coredns", COREDNS, {"coredns": "github.com/coredns/coredns"})
        return _built("coredns", COREDNS, module, self._progress)

    def flannel(self) -> Path:
        """The folder with flanneld and install-conf, as in flannel's image; without the backends that need more than
        Go's standard tools.
        """
        base = "github.com/flannel-io/flannel"
        programs = {"flanneld": base, "install-conf": f"{base}/cmd/install_conf"}
        without = tuple(f"{base}/pkg/backend/{name}" for name in ("udp", "tencentvpc"))
        stamp = f"-X {base}/pkg/version.Version={FLANNEL}"
        module = Module("flannel", base, FLANNEL, programs, ldflags=stamp, without=without)
        return _built("flannel", FLANNEL, module, self._progress)

    def flannel_cni(self) -> Path:
        """The folder with flannel, the CNI plugin that delegates to another plugin with the network that flanneld
        found.
        """
        base = "github.com/containernetworking/plugins"
        stamp = f"-X {base}/pkg/utils/buildversion.BuildVersion={FLANNEL_CNI}"
        programs = {"flannel": f"{base}/plugins/meta/flannel"}
        module = Module("flannel's CNI plugin", base, FLANNEL_CNI, programs, ldflags=stamp, seconds=20)
        return _built("flannel-cni", FLANNEL_CNI, module, self._progress)

    def helm(self) -> Path:
        """The helm program, also at `bin/helm-VERSION` in the cache."""
        return _link(f"helm-{HELM}", self.helm_for("") / "helm")

    def helm_for(self, architecture: str) -> Path:
        """The folder with helm for machines like this one (empty), or for `arm64`, `amd64`."""
        other = "" if architecture in ("", native_architecture()) else architecture
        stamp = f"-X helm.sh/helm/v4/internal/version.version={HELM}"
        programs = {"helm": "helm.sh/helm/v4/cmd/helm"}
        module = Module("Helm", "helm.sh/helm/v4", HELM, programs, ldflags=stamp, architecture=other)
        return _built("helm", f"{HELM}-{other}" if other else HELM, module, self._progress)

    def pause(self) -> Path:
        """The folder with pause."""
        sources = lab_folder() / "modules" / "pause"
        module = Module("pause", "", content_hash([sources]), {"pause": "."}, sources=sources, seconds=5)
        return _built("pause", module.version, module, self._progress)


def _sources_hash() -> str:
    return content_hash([lab_folder() / "modules" / "kubernetes"])


def _link(name: str, program: Path) -> Path:
    """Make `bin/NAME` in the cache point to a program."""
    link = cache_root() / "bin" / name
    link.parent.mkdir(parents=True, exist_ok=True)
    points_to = os.path.relpath(program, link.parent)
    if not link.is_symlink() or os.readlink(link) != points_to:
        link.unlink(missing_ok=True)
        link.symlink_to(points_to)
    return link


def _built(kind: str, key: str, module: Module, progress: LabProgress) -> Path:
    def build(target: Path) -> None:
        try:
            build_module(module, target, go_command(progress), progress)
        except LabError as error:
            raise LabError(
                f"{module.name} {module.version} could not be built: {error.message}",
                remedy="check that this version exists and that the Go module proxy is reachable (`go env GOPROXY`)",
            ) from error

    return built(cache_root() / kind / key, build)
