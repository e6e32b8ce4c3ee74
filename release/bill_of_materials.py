"""A CycloneDX list of what is in an image, read from the image's own files."""

from __future__ import annotations

import json
import re
import subprocess
import tarfile
import tempfile
from collections.abc import Iterator
from pathlib import Path

from upgrader import __version__
from upgrader.lab.golang import go_command
from upgrader.lab.oci_archive import Image, digest
from upgrader.lab.progress_port import Silent

__all__ = ["write_bill_of_materials"]


def write_bill_of_materials(image: Image, target: Path) -> None:
    """Debian packages, Python packages and Go modules, with versions and package URLs; the digests of the layers."""
    components = sorted(_components(image), key=lambda component: str(component["purl"]))
    document = {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "version": 1,
        "metadata": {
            "component": {
                "type": "container",
                "name": image.name.partition(":")[0],
                "version": __version__,
                "properties": [{"name": "oci:layer", "value": digest(layer)} for layer in image.layers],
            }
        },
        "components": components,
    }
    target.write_text(json.dumps(document, indent=2) + "\n")


def _components(image: Image) -> Iterator[dict[str, object]]:
    for layer in image.layers:
        with tarfile.open(layer) as archive:
            for entry in archive:
                name = entry.name.removeprefix("./")
                if name == "var/lib/dpkg/status":
                    yield from _debian_packages(_text(archive, entry))
                elif re.search(r"\.dist-info/METADATA$", name):
                    yield _python_package(_text(archive, entry))
                elif name.startswith("usr/local/bin/") and (content := _bytes(archive, entry)).startswith(b"\x7fELF"):
                    yield from _go_modules(content)


def _debian_packages(status: str) -> Iterator[dict[str, object]]:
    for paragraph in status.split("\n\n"):
        if "Package" in (fields := _fields(paragraph)):
            name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
            yield _component(name, version, f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}?arch={architecture}")


def _python_package(metadata: str) -> dict[str, object]:
    fields = _fields(metadata.partition("\n\n")[0])
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    return _component(name, fields["Version"], f"pkg:pypi/{name}@{fields['Version']}")


def _go_modules(program: bytes) -> Iterator[dict[str, object]]:
    """What the linker wrote into a program of Go: each module of it, and Go's own library."""
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder) / "program"
        file.write_bytes(program)
        go = str(go_command(Silent()))
        told = subprocess.run([go, "version", "-m", str(file)], capture_output=True, text=True, check=True).stdout
    head, *lines = told.splitlines()
    version = head.rpartition(": go")[2]
    yield _component("stdlib", version, f"pkg:golang/stdlib@{version}")
    modules: list[list[str]] = []
    for kind, *rest in (line.split() for line in lines):
        if kind in ("mod", "dep"):
            modules.append(rest)
        elif kind == "=>":  # the one before is replaced by it
            modules[-1] = rest
    for name, version, *_ in modules:
        yield _component(name, version, f"pkg:golang/{name}@{version}")


def _component(name: str, version: str, purl: str) -> dict[str, object]:
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}


def _fields(paragraph: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))


def _text(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    return _bytes(archive, entry).decode()


def _bytes(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> bytes:
    stream = archive.extractfile(entry) if entry.isfile() else None
    return stream.read() if stream else b""
