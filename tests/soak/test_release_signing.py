"""The workflows' own commands, from the push to the signature, on a machine whose only network is a registry.

Signed with a key and without a transparency log: the identity of a keyless signature comes from the forge, through
Sigstore's Fulcio and Rekor. docs/adr/0037 names all that isn't run here.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import yaml

from testkit.command import REPOSITORY
from testkit.go_programs import go_program
from testkit.release_machine import ReleaseMachine, Script, github_scripts, gitlab_scripts, succeeded
from upgrader import __version__

GITHUB: Mapping[str, Any] = yaml.safe_load((REPOSITORY / ".github/workflows/release.yml").read_text())
GITLAB: Mapping[str, Any] = yaml.safe_load((REPOSITORY / ".gitlab-ci.yml").read_text())
HOST = "ghcr.io"
REGISTRY = f"{HOST}/example/upgrader"
_KEYS = "/root/keys"
_SIGNING = {
    "COSIGN_KEY": f"{_KEYS}/cosign.key",
    "COSIGN_PASSWORD": "",
    "COSIGN_SIGNING_CONFIG": f"{_KEYS}/services.json",
    "COSIGN_TRUSTED_ROOT": f"{_KEYS}/trusted-root.json",
}
"""cosign's own variables, for options that the workflows' commands don't have: a key, and no service of Sigstore."""
_VERIFY = "cosign verify --insecure-ignore-tlog=true --output text --key"
_LOGIN = f"mkdir -p ~/.docker; cosign login {HOST} --username release --password s3cret"


@dataclass(frozen=True)
class Released:
    """What a forge's jobs have left: the machine with the registry, what they say that they pushed, and the folder of
    the release in the job, with the file of its signature."""

    machine: ReleaseMachine
    references: tuple[str, ...]
    dist: str
    signature: str

    def ran(self, *commands: str) -> list[tuple[bool, str]]:
        """Of each command, whether it ended well, and what it printed."""
        _, *steps = self.machine.run([_LOGIN, *commands])
        return [(succeeded(step), "\n".join(step.lines)) for step in steps]

    def reference(self, name: str) -> str:
        """The one of an image or a chart (`charts/NAME`)."""
        (found,) = (each for each in self.references if each.startswith(f"{REGISTRY}/{name}@"))
        return found


@pytest.fixture(scope="module")
def dist(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """`make dist REGISTRY=…`, in an environment that is there."""
    folder = tmp_path_factory.mktemp("release") / "dist"
    command = ["nice", "-n", "19", sys.executable, "-m", "release", str(folder), REGISTRY]
    subprocess.run(command, cwd=REPOSITORY, check=True)
    return folder


@pytest.fixture(scope="module", params=["github", "gitlab"])
def released(request: pytest.FixtureRequest, dist: Path, tmp_path_factory: pytest.TempPathFactory) -> Released:
    """By the jobs of each forge."""
    scripts, installing, name = _github() if request.param == "github" else _gitlab()
    (version,) = re.findall(r"cosign/v3/cmd/cosign@(\S+)", "\n".join(GITLAB["sign"]["script"]))
    cosign = go_program("github.com/sigstore/cosign/v3/cmd/cosign", version)
    machine = ReleaseMachine.made(tmp_path_factory.mktemp("machines") / request.param, installing, HOST, cosign)
    machine.bring(dist, name)
    machine.scripts([_keys(), *scripts], _SIGNING)
    at = machine.work / (name if request.param == "github" else "")
    references = tuple((at / "pushed.txt").read_text().split())
    signature = (at / "SHA256SUMS.sigstore.json").relative_to(machine.work)
    return Released(machine, references, name, str(signature))


def _github() -> tuple[list[Script], str, str]:
    """The scripts of the job that publishes, those that install, and the name of the release's folder.

    A repository's name may have capitals, and a registry's path may not.
    """
    installing = "\n".join(step.get("run", "") for step in GITHUB["jobs"]["publish"]["steps"])
    return github_scripts(GITHUB, "publish", "Example/Upgrader"), installing, "dist"


def _gitlab() -> tuple[list[Script], str, str]:
    installing = "\n".join(GITLAB["push"]["before_script"])
    return gitlab_scripts(GITLAB, ("push", "sign"), REGISTRY), installing, "dist-one"


def _keys() -> Script:
    """Two pairs of keys, and files that say that there is no Fulcio, no Rekor and no clock."""
    text = f"""
mkdir -p {_KEYS}/others
cd {_KEYS}
cosign generate-key-pair
cosign signing-config create --out services.json
cosign trusted-root create --out trusted-root.json
cd others
cosign generate-key-pair
"""
    return Script(text, {})


def test_what_is_pushed_is_signed(released: Released) -> None:
    """Each image and chart that the forge's jobs pushed, and the checksums, verify by their digests with the key that
    signed; with another key none does."""
    names = [each.removeprefix(f"{REGISTRY}/").partition("@")[0] for each in released.references]
    images = ["guard", "pod-checkpointer", "upgrader-runner"]
    charts = ["fleet", "guard", "kube-apiserver", "kubernetes", "pod-checkpointer"]
    assert names == [*images, *(f"charts/{name}" for name in charts)]
    blob = f"cosign verify-blob --insecure-ignore-tlog=true --bundle {released.signature} --key"
    for key, right in ((f"{_KEYS}/cosign.pub", True), (f"{_KEYS}/others/cosign.pub", False)):
        verified = released.ran(
            *(f"{_VERIFY} {key} {reference}" for reference in released.references),
            f"{blob} {key} {released.dist}/SHA256SUMS",
        )
        assert [ended for ended, _ in verified] == [right] * (len(released.references) + 1), verified


def test_checksums_that_changed_are_refused(released: Released) -> None:
    """One digit of SHA256SUMS, and its signature is of another file."""
    blob = f"cosign verify-blob --insecure-ignore-tlog=true --bundle {released.signature} --key {_KEYS}/cosign.pub"
    sums = f"{released.dist}/SHA256SUMS"
    changed = f"tr 0 1 <{sums} >changed"
    (_, (ended, said)) = released.ran(changed, f"{blob} changed")
    assert not ended and "invalid signature" in said, said


def test_charts_name_the_registrys_images(released: Released) -> None:
    """A chart that Helm pulls from the registry by the digest that was printed names its image by the digest that the
    registry has for that version: what it runs is what was signed."""
    for name in ("guard", "pod-checkpointer"):
        pull = f"helm pull oci://{released.reference(f'charts/{name}')} --destination pulled"
        shown = f"tar -xzOf pulled/{name}*.tgz {name}/values.yaml"  # Helm calls it by its digest
        asked = f"skopeo inspect --format '{{{{.Digest}}}}' docker://{REGISTRY}/{name}:{__version__}"
        environment = "rm -rf pulled; mkdir pulled; HELM_REGISTRY_CONFIG=$HOME/.docker/config.json"
        pulled, values, digest = released.ran(f"{environment} {pull}", shown, asked)
        assert pulled[0] and values[0] and digest[0], (pulled, values, digest)
        image = yaml.safe_load(values[1])["image"]
        assert f"{image['repository']}@{image['digest']}" == released.reference(name)
        assert image["digest"] == digest[1].strip()


def test_login_is_where_attestations_are_pushed_from(released: Released) -> None:
    """actions/attest, which isn't run here, reads a registry's login from the home folder's Docker configuration."""
    if released.dist != "dist":
        pytest.skip("GitHub's alone")
    login = json.loads((released.machine.machine.root / "root/.docker/config.json").read_text())
    assert list(login["auths"]) == [HOST]


def test_another_image_is_refused(released: Released) -> None:
    """Somebody who can write to the registry puts another image beside guard's: it has no signature, and with guard's
    genuine signature laid beside it, that isn't of this image."""
    genuine, other = released.reference("guard"), released.reference("pod-checkpointer")
    repository, digest = genuine.split("@sha256:")
    copy = f"skopeo copy --quiet --all --preserve-digests docker://{other} docker://{repository}:other"
    verify = f"{_VERIFY} {_KEYS}/cosign.pub {repository}:other"
    copied, unsigned = released.ran(copy, verify)
    assert copied[0] and not unsigned[0] and "no signatures found" in unsigned[1], (copied, unsigned)

    tags = released.machine.registry / f"repositories/{repository.removeprefix(f'{HOST}/')}/_manifests/tags"
    moved_to = tags / f"sha256-{other.rpartition(':')[2]}"
    subprocess.run(["cp", "-r", tags / f"sha256-{digest}", moved_to], check=True)
    moved, still = released.ran(verify, f"{_VERIFY} {_KEYS}/cosign.pub {genuine}")
    assert not moved[0], moved
    assert still[0], still


def test_bytes_that_changed_are_refused(released: Released) -> None:
    """The registry answers for a digest that is signed with other bytes: no client takes them for that image."""
    reference = released.reference("upgrader-runner")
    digest = reference.rpartition(":")[2]
    stored = released.machine.registry / f"blobs/sha256/{digest[:2]}/{digest}/data"
    content = stored.read_bytes()
    assert b'"arm64"' in content
    stored.write_bytes(content.replace(b'"arm64"', b'"amd64"'))
    pull = f"rm -rf taken; skopeo copy --quiet docker://{reference} dir:taken"
    ((taken, said),) = released.ran(pull)
    stored.write_bytes(content)
    assert not taken and "does not match" in said, said
    ((restored, said),) = released.ran(pull)
    assert restored, said
