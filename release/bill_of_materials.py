"""A CycloneDX list of what is in an image, read from the image's own files."""

from __future__ import annotations

import json
import re
import tarfile
from collections.abc import Iterator
from pathlib import Path

from upgrader import __version__
from upgrader.lab.oci_archive import Image, digest

__all__ = ["write_bill_of_materials"]


def write_bill_of_materials(image: Image, target: Path) -> None:
    """Debian packages and Python packages, with versions and package URLs; the digests of the layers."""
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


def _debian_packages(status: str) -> Iterator[dict[str, object]]:
    for paragraph in status.split("\n\n"):
        if "Package" in (fields := _fields(paragraph)):
            name, version, architecture = fields["Package"], fields["Version"], fields["Architecture"]
            yield _component(name, version, f"pkg:deb/debian/{name}@{version.replace(':', '%3A')}?arch={architecture}")


def _python_package(metadata: str) -> dict[str, object]:
    fields = _fields(metadata.partition("\n\n")[0])
    name = re.sub(r"[-_.]+", "-", fields["Name"]).lower()
    return _component(name, fields["Version"], f"pkg:pypi/{name}@{fields['Version']}")


def _component(name: str, version: str, purl: str) -> dict[str, object]:
    return {"type": "library", "name": name, "version": version, "purl": purl, "bom-ref": purl}


def _fields(paragraph: str) -> dict[str, str]:
    return dict(re.findall(r"^([A-Za-z-]+): (.*)$", paragraph, re.MULTILINE))


def _text(archive: tarfile.TarFile, entry: tarfile.TarInfo) -> str:
    stream = archive.extractfile(entry)
    return stream.read().decode() if stream else ""
