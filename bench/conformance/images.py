"""The images of Kubernetes' tests that the lab has: made of upstream's programs and of Debian's packages."""

from __future__ import annotations

import subprocess
from collections.abc import Iterable
from pathlib import Path

from bench.conformance.programs import Programs
from upgrader.lab.binaries import COREDNS, PAUSE, Binaries
from upgrader.lab.build_cache import content_hash
from upgrader.lab.debian import package_files, packages_layer
from upgrader.lab.image_catalog import etcd_image
from upgrader.lab.oci_archive import Image, layer_of_files, layer_of_links
from upgrader.lab.progress_port import LabProgress

__all__ = ["KINDS", "listed_images", "made_images", "names_of"]

KINDS = (
    "agnhost",
    "busybox",
    "etcd",
    "glibc-dns-testing",
    "kitten",
    "nautilus",
    "nginx",
    "nonewprivs",
    "sample-apiserver",
)
"""Last parts of the repositories whose images are made here, under whatever tag the tests want."""
_LOGIN = "gcr.io/k8s-authenticated-test/"
"""No node may have what is there: specs prove that it can't be pulled without a login."""
_HERE = Path(__file__).parent


def listed_images(programs: Programs) -> tuple[str, ...]:
    """Every image that a test may use, as `e2e.test` lists them."""
    command = [str(programs.e2e), "--list-images"]
    listed = subprocess.run(command, cwd=programs.folder, capture_output=True, text=True, check=True)
    words = (line.strip() for line in listed.stdout.splitlines())
    return tuple(word for word in words if "/" in word and " " not in word and not word.startswith(_LOGIN))


def names_of(kind: str, listed: Iterable[str]) -> tuple[str, ...]:
    """Those of the listed images that are of that kind, whatever their registry and tag."""
    return tuple(name for name in listed if name.rpartition(":")[0].rpartition("/")[2] == kind)


def made_images(programs: Programs, progress: LabProgress) -> list[Image]:
    """All that are made here, under each name that the tests know them by."""
    listed = listed_images(programs)
    found = [
        image
        for kind, (layers, entrypoint, command) in _parts(programs, progress).items()
        for image in (Image(name, layers, entrypoint, command) for name in names_of(kind, listed))
    ]
    wanted, of_the_lab = names_of("pause", listed), f"registry.k8s.io/pause:{PAUSE}"
    if wanted != (of_the_lab,):
        raise RuntimeError(f"the tests want {', '.join(wanted)}; the lab has {of_the_lab}")
    return found


_Parts = tuple[tuple[Path, ...], tuple[str, ...], tuple[str, ...]]


def _parts(programs: Programs, progress: LabProgress) -> dict[str, _Parts]:
    """Kind → layers, entrypoint and command."""
    debian = packages_layer("conformance", _HERE / "packages.txt", progress)
    files = {f"/{name}": programs.folder / name for name in ("agnhost", "localhost.crt", "localhost.key")}
    coredns = layer_of_files(f"coredns-{COREDNS}", {"/coredns": Binaries(progress).coredns() / "coredns"})
    agnhost = (
        debian,
        coredns,
        _files("agnhost", _HERE / "rootfs" / "agnhost"),
        layer_of_files(f"agnhost-{programs.folder.name}", files),
        layer_of_links({"/agnhost-2": "agnhost"}),
    )
    sample = layer_of_files(
        f"sample-apiserver-{programs.folder.name}", {"/sample-apiserver": programs.folder / "sample-apiserver"}
    )
    nnp = layer_of_files(f"nnp-{programs.folder.name}", {"/usr/local/bin/nnp": programs.folder / "nnp"})
    html = {
        kind: layer_of_files(
            f"{kind}-{programs.folder.name}",
            {f"/{file.name}": file for file in sorted((programs.folder / kind).iterdir())},
        )
        for kind in ("kitten", "nautilus")
    }
    serves = {kind: ((*agnhost, layer), ("/agnhost",), ("test-webserver",)) for kind, layer in html.items()}
    return {
        "agnhost": (agnhost, ("/agnhost",), ("pause",)),
        "busybox": (_busybox(progress), (), ("sh",)),
        "etcd": (etcd_image(progress).layers, (), ("etcd",)),
        "glibc-dns-testing": ((debian, coredns), (), ("bash",)),
        "nginx": ((debian, _files("agnhost", _HERE / "rootfs" / "agnhost")), (), ("nginx", "-g", "daemon off;")),
        "nonewprivs": ((*_busybox(progress), nnp), (), ("nnp",)),
        "sample-apiserver": ((sample,), ("/sample-apiserver",), ()),
        **serves,
    }


def _busybox(progress: LabProgress) -> tuple[Path, ...]:
    program = package_files("busybox-static", ["bin/busybox"], progress) / "bin" / "busybox"
    listed = subprocess.run([str(program), "--list"], capture_output=True, text=True, check=True)
    links = {f"/bin/{applet}": "busybox" for applet in listed.stdout.split() if applet not in ("busybox", "sh")}
    shell = package_files("bash-static", ["bin/bash-static"], progress) / "bin" / "bash-static"
    return (
        _files("busybox", _HERE / "rootfs" / "busybox"),
        layer_of_files(f"busybox-bash-{content_hash([program, shell])}", {"/bin/busybox": program, "/bin/bash": shell}),
        layer_of_links(links),
    )


def _files(kind: str, root: Path) -> Path:
    key = f"conformance-{kind}-{content_hash([root])}"
    return layer_of_files(key, {f"/{entry.name}": entry for entry in sorted(root.iterdir())})
