"""The lab's images, and a containerd store that contains them.

Every Kubernetes version in the cache is in the store, so that an upgrade finds the images of its target. As importing
takes seconds per node, it is done once, with a separate containerd in a private namespace; each node gets hard links.
"""

from __future__ import annotations

import hashlib
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from upgrader.errors import LabError
from upgrader.lab.binaries import COREDNS, ETCD, PAUSE, Binaries
from upgrader.lab.build_cache import built, cache_root
from upgrader.lab.debian import base_layer, node_root, package_version, private_namespace
from upgrader.lab.oci_archive import Image, digest_of, documents, layer_of_files, write_archive
from upgrader.lab.origin import Origin
from upgrader.lab.progress_port import LabProgress
from upgrader.lab.spec import DEBIAN

__all__ = ["IMAGE_VERSIONS", "etcd_image", "image_names", "images", "kubeadm_images", "link_store", "store"]

IMAGE_VERSIONS = {"etcd": f"{ETCD.removeprefix('v')}-0", "coredns": COREDNS, "pause": PAUSE, "tools": "1"}


def images(origin: Origin, progress: LabProgress) -> list[Image]:
    """Every image except the pod-checkpointer's, whose source changes often."""
    base = base_layer(progress)
    return [
        *origin.images(),
        # As HAProxy's official image has it, which is the chart's default.
        Image(f"upgrader.lab/haproxy:{package_version(base, 'haproxy')}", (base,), stop_signal="SIGUSR1"),
        Image(f"upgrader.lab/tools:{IMAGE_VERSIONS['tools']}", (base,)),
    ]


def etcd_image(progress: LabProgress, version: str = ETCD) -> Image:
    """etcd's image, of the labs' version or of another one."""
    folder = Binaries(progress).etcd(version)
    files = {f"/usr/local/bin/{name}": folder / name for name in ("etcd", "etcdctl", "etcdutl")}
    return Image(f"registry.k8s.io/etcd:{version.removeprefix('v')}-0", (layer_of_files(f"etcd-{version}", files),))


def kubeadm_images(found: Sequence[Image], version: str) -> list[Image]:
    """The images that a node needs before pods can log in to a registry: kubeadm's own, and the tools for tests."""
    return [i for i in found if i.name.endswith(f":{version}") or image_names([i]).keys() & IMAGE_VERSIONS.keys()]


def image_names(found: Sequence[Image]) -> dict[str, str]:
    """Last part of the repository → full name of an image; of several versions, the last one."""
    return {image.name.rsplit(":", 1)[0].rsplit("/", 1)[1]: image.name for image in found}


def store(found: Sequence[Image], progress: LabProgress, debian: int = 12) -> Path:
    """A folder for /var/lib/containerd that contains the images, unpacked by the containerd of a release of Debian."""
    identity = "\n".join(sorted(f"{image.name} {digest_of(documents(image)[1])}" for image in found))
    key = hashlib.sha256(identity.encode()).hexdigest()[:12]

    def build(target: Path) -> None:
        target.mkdir()
        with progress.task(f"container images ({len(found)})", seconds=25):
            write_archive(found, target.parent / "images.tar")
            _import(target.parent / "images.tar", target, node_root(progress, debian))

    return built(cache_root() / "containerd" / f"{key}-{DEBIAN[debian]}", build)


def link_store(source: Path, target: Path) -> None:
    """Give a node its own containerd folder: hard links, except copies of the databases, which change in place."""
    if subprocess.run(["cp", "-al", str(source), str(target)], capture_output=True, check=False).returncode:
        subprocess.run(["rm", "-rf", str(target)], check=True)
        subprocess.run(["cp", "-a", str(source), str(target)], check=True)  # another file system: no hard links
        return
    for database in source.rglob("*.db"):
        copy = target / database.relative_to(source)
        copy.unlink()
        shutil.copy2(database, copy)


_IMPORT = """
set -eu
mount --bind "$STORE" "$ROOT/var/lib/containerd"
mount -t tmpfs tmpfs "$ROOT/run"
mount -t tmpfs tmpfs "$ROOT/tmp"
mount -t proc proc "$ROOT/proc"
mount --rbind /dev "$ROOT/dev"
mkdir "$ROOT/tmp/in"
mount --bind "$(dirname "$ARCHIVE")" "$ROOT/tmp/in"
chroot "$ROOT" containerd --log-level error >"$ROOT/tmp/log" 2>&1 &
daemon=$!
for i in $(seq 100); do
    if chroot "$ROOT" ctr version >/dev/null 2>&1; then break; fi
    if [ "$i" = 100 ]; then cat "$ROOT/tmp/log" >&2; echo "containerd does not answer" >&2; exit 1; fi
    sleep 0.1
done
chroot "$ROOT" ctr -n k8s.io images import "/tmp/in/$(basename "$ARCHIVE")"
kill "$daemon"
wait "$daemon" || true
"""


def _import(archive: Path, target: Path, root: Path) -> None:
    environment = {
        "PATH": "/usr/sbin:/usr/bin:/sbin:/bin",
        "STORE": str(target),
        "ROOT": str(root),
        "ARCHIVE": str(archive),
    }
    command = private_namespace(["sh", "-c", _IMPORT])
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise LabError(f"images could not be imported into containerd: {done.stderr.strip()[-1000:]}")
