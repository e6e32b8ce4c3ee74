"""The image for CI runners, built as a release has it and run as a container engine would."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from release.bill_of_materials import write_bill_of_materials
from release.python_packages import build_packages
from release.runner_image import runner_image
from release.sources import Sources
from testkit.container import Container, unpacked
from upgrader import __version__
from upgrader.lab.oci_archive import Image, native_architecture, write_platforms
from upgrader.lab.progress_port import Silent

_PURLS = r"""
import importlib.metadata, re, subprocess
form = "pkg:deb/debian/${Package}@${Version}?arch=${Architecture}\n"
for line in subprocess.run(["dpkg-query", "-Wf", form], capture_output=True, text=True, check=True).stdout.split():
    print(line.replace("@1:", "@1%3A").replace("@2:", "@2%3A"))
for found in importlib.metadata.distributions():
    print("pkg:pypi/%s@%s" % (re.sub("[-_.]+", "-", found.metadata["Name"]).lower(), found.version))
"""
_PINS = """
import sys, upgrader
from upgrader.fleet.job_process import pins_text
print(pins_text())
print(upgrader.__file__, file=sys.stderr)
"""


@dataclass(frozen=True)
class Built:
    """The image, the wheel that is in it, and a container of it."""

    image: Image
    wheel: Path
    container: Container


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Built:
    """For this machine's architecture."""
    folder = tmp_path_factory.mktemp("runner")
    sources = Sources.of_this_checkout()
    build_packages(sources, folder)
    (wheel,) = folder.glob("*.whl")
    image = runner_image(wheel, sources, native_architecture(), Silent())
    write_platforms([image], folder / "image.tar")
    return Built(image, wheel, unpacked(folder / "image.tar", folder / "root"))


def test_programs_run_for_a_plain_user(built: Built) -> None:
    """`upgrader`, Helm, Ansible, ssh and git answer, for a user with a name and without root's rights; none of the
    image's files would give more, and a shell is there for the CI's own scripts."""
    script = "set -e; upgrader --version; helm version --short; ansible-playbook --version; ssh -V; git --version"
    ran = built.container.run("sh", "-c", f"{script}; awk 'BEGIN {{exit}}'; id -un")
    assert ran.returncode == 0, ran
    assert f"upgrader {__version__}" in ran.stdout and ran.stdout.endswith("upgrader\n"), ran
    given = [path for path in built.container.root.rglob("*") if path.is_file() and path.lstat().st_mode & 0o6000]
    assert given == []


def test_a_folder_is_checked_in_it(built: Built, tmp_path: Path) -> None:
    """`check --offline` and `plan --offline` of a folder that is mounted, with no network, nothing written and the
    wheel's own charts and playbooks: all that is wrong is the image that nobody named."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: {ansible_host: 192.0.2.1}}}\n")
    tmp_path.chmod(0o755)
    checked = built.container.run("upgrader", "-C", "/mnt", "check", "--offline", "-o", "json", mounted=tmp_path)
    assert checked.returncode == 3, checked
    refused = [each for each in json.loads(checked.stdout)["findings"] if each["id"] == "charts.refused"]
    assert "image.repository" in json.dumps(refused), checked


def test_a_campaign_finds_its_own_upgrader_in_it(built: Built, tmp_path: Path) -> None:
    """Installed from the same wheel, `fleet run` pins what the image has: its Jobs aren't refused."""
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--target", str(tmp_path)]
    subprocess.run([*install, str(built.wheel)], check=True)
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    asking = [sys.executable, "-c", _PINS]
    installed = subprocess.run(asking, cwd=tmp_path, env=environment, capture_output=True, text=True, check=True)
    in_image = built.container.run("python3", "-c", _PINS)
    assert in_image.returncode == 0 and in_image.stdout == installed.stdout, in_image
    assert str(tmp_path) in installed.stderr, "it is not the checkout that was asked"


def test_bill_of_materials_is_what_the_image_says_of_itself(built: Built, tmp_path: Path) -> None:
    """dpkg and Python, asked in a container, know exactly the packages that are listed; Helm is listed as its program
    tells its version."""
    write_bill_of_materials(built.image, tmp_path / "list.json")
    listed = {each["purl"] for each in json.loads((tmp_path / "list.json").read_text())["components"]}
    asked = built.container.run("python3", "-c", _PURLS)
    assert asked.returncode == 0, asked
    assert {purl for purl in listed if "pkg:golang/" not in purl} == set(asked.stdout.split())
    helm = built.container.run("helm", "version", "--template", "{{.Version}}")
    assert f"pkg:golang/helm.sh/helm/v4@{helm.stdout}" in listed
    assert f"pkg:pypi/upgrader@{__version__}" in listed
