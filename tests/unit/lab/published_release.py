"""A small release of Kubernetes, signed by a CA of the test: all that a lab takes of one."""

from __future__ import annotations

from pathlib import Path

from testkit.mirror import MirrorFiles, Signing
from upgrader.lab.binaries import COREDNS, ETCD, PAUSE
from upgrader.lab.oci_archive import Image, layer_of_files, native_architecture

__all__ = ["ETCD_TAG", "IMAGES", "VERSION", "program", "published_release"]

VERSION = "v1.36.3"
ETCD_TAG = f"{ETCD.removeprefix('v')}-0"
IMAGES = {
    "kube-apiserver": VERSION,
    "kube-controller-manager": VERSION,
    "kube-scheduler": VERSION,
    "kube-proxy": VERSION,
    "etcd": ETCD_TAG,
    "coredns/coredns": COREDNS,
    "pause": PAUSE,
}


def program(name: str, version: str = VERSION) -> bytes:
    """A script that says its version as the program does."""
    said = {"kubelet": f"Kubernetes {version}", "kubectl": f'{{"clientVersion": {{"gitVersion": "{version}"}}}}'}
    return f"#!/bin/sh\necho '{said.get(name, version)}'\n".encode()


def published_release(folder: Path) -> MirrorFiles:
    """Its files; `roots.pem` in the folder is the CA. The cache must be the test's own."""
    mirror = MirrorFiles(Signing())
    for name in ("kubelet", "kubeadm", "kubectl"):
        mirror.add_program(VERSION, native_architecture(), name, program(name))
    for repository, tag in IMAGES.items():
        source = folder / repository.replace("/", "-")
        source.write_text(repository)
        inside = (
            {f"/usr/local/bin/{name}": source for name in ("etcd", "etcdctl", "etcdutl")}
            if repository == "etcd"
            else {f"/usr/local/bin/{source.name}": source}
        )
        layer = layer_of_files(f"test-{source.name}", inside)
        mirror.add_image(Image(f"registry.k8s.io/{repository}:{tag}", (layer,), entrypoint=(f"/{source.name}",)))
    (folder / "roots.pem").write_bytes(mirror.signing.roots)
    return mirror
