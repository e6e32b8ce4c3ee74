"""What `pip install` of the wheel gives, without a checkout."""

from __future__ import annotations

import ast
import filecmp
import json
import os
import re
import subprocess
import sys
import zipfile
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from release.python_packages import build_packages
from release.sources import Sources
from scripts import man_pages
from upgrader.lab.haproxy_agent import write_haproxy_agent


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The wheel, installed in a folder of its own; what it needs is this environment's."""
    folder = tmp_path_factory.mktemp("built")
    build_packages(Sources.of_this_checkout(), folder)
    (wheel,) = folder.glob("*.whl")
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--no-index", "--no-compile"]
    subprocess.run([*install, "--target", str(folder / "installed"), str(wheel)], check=True)
    return folder


def test_charts_and_playbooks_come_with_it(built: Path, tmp_path: Path) -> None:
    """A folder with one line is checked with the wheel's own charts and playbooks; no path leads to the checkout."""
    (tmp_path / "upgrader.yaml").write_text("kubernetesVersion: v1.37.1\n")
    (tmp_path / "hosts.yml").write_text("controllers: {hosts: {a: {ansible_host: 192.0.2.1}}}\n")
    (tmp_path / "kubeconfig").write_text("{}")
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(built / "installed")}
    program = "import upgrader.built_in_files as b"
    program += "; print(b.charts_folder(), b.playbooks_folder(), b.lab_folder())"
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    folders = found.stdout.split()
    assert all(Path(folder).is_relative_to(built / "installed") for folder in folders), folders
    assert (Path(folders[1]) / "upgrade-node.yml").is_file() and (Path(folders[2]) / "node/links.txt").is_file()

    command = [sys.executable, "-m", "upgrader", "check", "--offline", "-o", "json"]
    checked = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    seen = json.loads(checked.stdout)
    refused = [finding for finding in seen["findings"] if finding["id"] == "charts.refused"]
    assert len(refused) == 3 and "image.repository" in checked.stdout, checked  # all were found, and want values


def test_every_file_that_it_needs_is_in_it(built: Path) -> None:
    """Templates, tables, charts with their schemas, playbooks and what the lab is made of: all that git has of them."""
    root = Sources.of_this_checkout().root
    places = {"upgrader": "upgrader", "charts": "upgrader/built_in_charts", "playbooks": "upgrader/built_in_playbooks"}
    places |= {"lab": "upgrader/built_in_lab", "templates": "upgrader/built_in_templates"}
    listed = subprocess.run(["git", "ls-files", "--", *places], cwd=root, capture_output=True, text=True, check=True)
    missing = []
    for name in listed.stdout.splitlines():
        top, _, rest = name.partition("/")
        place = "upgrader/built_in_lab" if rest.startswith("in_cluster/") else places[top]
        if (root / name).is_file() and not (built / "installed" / place / rest).is_file():
            missing.append(name)
    assert missing == []
    assert any((built / "installed/upgrader/built_in_templates").rglob("hosts.yml.j2"))


def test_it_has_a_man_page_for_each_command(built: Path) -> None:
    """`man` finds them beside the programs of an environment; they are made from the commands with the wheel."""
    pages = {page.name: page.read_text() for page in (built / "installed/share/man/man1").iterdir()}
    assert pages == man_pages.render() and "upgrader-certs-renew.1" in pages


def modules(built: Path) -> Iterator[Path]:
    """Those that `upgrader` itself can import, and not what it brings as files."""
    package = built / "installed/upgrader"
    return (path for path in package.rglob("*.py") if not path.relative_to(package).parts[0].startswith("built_in_"))


HANDED_OUT = {"markupsafe": "jinja2", "pydantic-core": "pydantic", "urllib3": "kubernetes"}
"""Distributions whose types a required one hands out: they come with it."""


def named(distribution: str) -> str:
    """Its name as all ways to write it are compared."""
    return re.sub(r"[-_.]+", "-", distribution).lower()


def test_every_module_has_what_it_imports(built: Path) -> None:
    """Each distribution that a module imports, wherever in it, is one that the wheel's metadata require."""
    (metadata,) = (built / "installed").glob("upgrader-*.dist-info/METADATA")
    required = {named(name) for name in re.findall(r"^Requires-Dist: ([\w.-]+)", metadata.read_text(), re.MULTILINE)}
    known = required | {name for name, by in HANDED_OUT.items() if by in required}
    of = packages_distributions()
    missing = set()
    for path in modules(built):
        for node in ast.walk(ast.parse(path.read_text())):
            names = [alias.name for alias in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            for top in {name.partition(".")[0] for name in names} - sys.stdlib_module_names - {"upgrader"}:
                if not known & {named(name) for name in of.get(top, ())}:
                    missing.add((str(path.relative_to(built / "installed")), top))
    assert not missing


def test_programs_of_a_cluster_are_what_the_lab_makes_images_of(built: Path, tmp_path: Path) -> None:
    """From the wheel, too, guard's image and its agent for HAProxy have guard, with packages around it."""
    program = "from pathlib import Path; from upgrader.lab.haproxy_agent import write_haproxy_agent as write"
    program += "; from upgrader.lab.build_cache import own_sources; print(own_sources('in_cluster/guard'))"
    program += "; print(own_sources('contract')); write(Path('agent'))"
    environment = {"PATH": os.environ["PATH"], "HOME": str(tmp_path), "PYTHONPATH": str(built / "installed")}
    found = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert found.stdout.splitlines() == [
        str(built / "installed/upgrader/built_in_lab/in_cluster/guard"),
        str(built / "installed/upgrader/contract"),
    ]
    names = set(zipfile.ZipFile(tmp_path / "agent/haproxy-agent.pyz").namelist())
    assert {"upgrader/__init__.py", "upgrader/in_cluster/__init__.py", "upgrader/in_cluster/guard/__init__.py"} <= names
    checkout = tmp_path / "checkout.pyz"
    write_haproxy_agent(checkout)
    assert names == set(zipfile.ZipFile(checkout / "haproxy-agent.pyz").namelist())


def test_module_that_playbooks_share_with_hosts_is_a_file(built: Path) -> None:
    """In the checkout it is a link to the one rule of durable files; Ansible sends what is in the wheel."""
    package = built / "installed/upgrader"
    sent = package / "built_in_playbooks/roles/node/module_utils/durable_files.py"
    assert not sent.is_symlink() and sent.read_bytes() == (package / "contract/durable_files.py").read_bytes()


def test_the_same_sources_make_the_same_bytes(built: Path, tmp_path: Path) -> None:
    """Wheel and source archive are equal when they are built again."""
    build_packages(Sources.of_this_checkout(), tmp_path)
    # To tell megabytes apart in words takes pytest hours.
    for path in tmp_path.iterdir():
        assert filecmp.cmp(path, built / path.name, shallow=False), path.name
