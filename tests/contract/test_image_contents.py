"""The lists of what is in the images of guard and the pod-checkpointer, beside what the images' own files say."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from release.bill_of_materials import write_bill_of_materials
from testkit.container import Container, unpacked
from upgrader import __version__
from upgrader.lab.daemon_images import checkpointer_image, guard_image
from upgrader.lab.oci_archive import Image, write_platforms
from upgrader.lab.progress_port import LabProgress, Silent

_ASKED = r"""
import gzip, importlib.metadata, json, pathlib, re

def version(documents):
    # A package that was only compiled again has a change of its own, for each architecture.
    changes = [*documents.glob("changelog.Debian.a*.gz"), documents / "changelog.Debian.gz", documents / "changelog.gz"]
    first = next(path for path in changes if path.exists())
    return re.match(r"\S+ \((\S+)\)", gzip.open(first, "rt").readline())[1]

debian = {folder.name: version(folder) for folder in pathlib.Path("/usr/share/doc").iterdir()}
python, recorded = {}, set()
for found in importlib.metadata.distributions():
    python[re.sub("[-_.]+", "-", found.metadata["Name"]).lower()] = found.version
    recorded |= {str(found.locate_file(each)) for each in found.files}
files = {str(path) for path in pathlib.Path("/app/site-packages").rglob("*") if path.is_file()}
modules = pathlib.Path("/app/upgrader").rglob("*")
ours = {"/".join(path.parent.parts[3:5]) for path in modules if path.is_file() and "__pycache__" not in path.parts}
strangers = sorted(path for path in files - recorded if "/__pycache__/" not in path)
print(json.dumps({"debian": debian, "python": python, "strangers": strangers, "ours": sorted(ours)}))
"""


@pytest.mark.parametrize(
    ("made", "ours"),
    [
        (checkpointer_image, ["contract", "in_cluster/checkpointer", "in_cluster/shared", "onhost/node"]),
        (guard_image, ["contract", "in_cluster/guard", "in_cluster/shared"]),
    ],
    ids=["pod-checkpointer", "guard"],
)
def test_list_is_what_the_image_says_of_itself(
    made: Callable[[LabProgress], Image], ours: list[str], tmp_path: Path
) -> None:
    """Debian's packages are those whose copyrights and newest changes are in the image, Python's are those that its
    Python knows, each in the same version; every file beside the packages of ours is one of a listed package."""
    image = made(Silent())
    write_bill_of_materials(image, tmp_path / "list.json")
    document = json.loads((tmp_path / "list.json").read_text())
    assert document["metadata"]["component"]["version"] == __version__
    listed: dict[str, dict[str, str]] = {"deb/debian": {}, "pypi": {}}
    for each in document["components"]:
        kind = re.fullmatch(r"pkg:(.+)/[^/]+@[^/]+", each["purl"])
        assert kind, each
        listed[kind[1]][each["name"]] = each["version"]
    write_platforms([image], tmp_path / "image.tar")
    said = json.loads(_asked(unpacked(tmp_path / "image.tar", tmp_path / "root")))
    assert said["debian"] == listed["deb/debian"]
    assert {re.sub(r"[-_.]+", "-", name).lower(): version for name, version in listed["pypi"].items()} == said["python"]
    assert (said["strangers"], said["ours"]) == ([], ours)


def _asked(image: Container) -> str:
    """What the image's Python answers. It has no other program, none either that systemd-nspawn could start it with."""
    environment = dict(each.split("=", 1) for each in image.config["Env"])
    command = ["/usr/sbin/chroot", str(image.root), "/usr/bin/python3", "-c", _ASKED]
    return subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
