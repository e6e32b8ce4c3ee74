"""What is seen of failures of a real cluster, on a terminal of 80×24: object, cause and next command.

All of them, and what the screens look like: tests/unit/screens, docs/reference/failures.md.
"""

from __future__ import annotations

from pathlib import Path

import yaml
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from testkit.bad_changes import BAD_CHANGES, rolled_back
from testkit.lab_cluster import TARGET, LabCluster
from testkit.terminal import Shown, upgrader_on_terminal
from upgrader.config.yaml_document import shown
from upgrader.ports import Kind

WEBHOOKS = Kind("admissionregistration.k8s.io/v1", "validatingwebhookconfigurations", namespaced=False)


def looks(folder: Path, *command: str) -> Shown:
    """Type it, and look at the terminal."""
    return upgrader_on_terminal("-C", folder, *command)


def assert_seen(screen: Shown, exit_code: int, *words: str) -> None:
    """All of it is on the screen, broken into lines or not."""
    assert screen.lacks(*words) == [], f"\n{screen}"
    assert screen.exit_code == exit_code, f"\n{screen}"


def test_value_that_kube_apiserver_dies_of(cluster: LabCluster) -> None:
    """Rolled back, without a failed request, although a check was skipped that told it: the pod, its last words, the
    file of the values, and the command to run again.
    """
    change = BAD_CHANGES["dies at start"]
    skip = ("--skip", change.told, "--reason", "a test")
    with rolled_back(cluster):
        cluster.change_values(change.release, change.values)
        screen = looks(cluster.folder, "run", "--to", TARGET, "--yes", *skip)
    run_again = f"upgrader -C {cluster.folder} run --to {TARGET}"
    values = shown(cluster.folder / "values/kube-apiserver.yaml")
    assert_seen(screen, 4, "kube-apiserver", *change.causes, values, run_again)


def test_webhook_without_a_backend(cluster: LabCluster) -> None:
    """However much else follows from it: the webhook, the Service that isn't there, and how to see it."""
    rule = {"apiGroups": [""], "apiVersions": ["v1"], "resources": ["pods"], "operations": ["CREATE"]}
    webhook = {
        "name": "pods.policy.example",
        "clientConfig": {"service": {"namespace": "policy", "name": "policy"}},
        "rules": [rule],
        "sideEffects": "None",
        "admissionReviewVersions": ["v1"],
        "timeoutSeconds": 1,
    }
    configuration = {"apiVersion": WEBHOOKS.api_version, "kind": "ValidatingWebhookConfiguration"}
    cluster.kube.create(WEBHOOKS, {**configuration, "metadata": {"name": "policy"}, "webhooks": [webhook]})
    try:
        screen = looks(cluster.folder, "check", "--to", TARGET)
    finally:
        cluster.kube.delete(WEBHOOKS, "policy")
    see = "kubectl get validatingwebhookconfiguration"  # of it alone, or of all
    assert_seen(screen, 3, "webhook pods.policy.example", "Service policy/policy doesn't exist", see)


def test_host_key_that_has_changed(cluster: LabCluster, tmp_path: Path) -> None:
    """The controller, the new key, and how the old one is removed."""
    folder = cluster.copy_to(tmp_path / "copy")
    key = Ed25519PrivateKey.generate().public_key().public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH).decode()
    known = folder / "ssh/known_hosts"
    names = [line.split()[0] for line in known.read_text().splitlines()]
    known.write_text("".join(f"{name} {key}\n" for name in names))
    screen = looks(folder, "check", "--to", TARGET)
    assert_seen(screen, 3, "controller-1", "the host key has changed", "ssh-keygen -f", "-R")


def test_api_that_can_not_be_reached(cluster: LabCluster, tmp_path: Path) -> None:
    """Its address, why, and the command that asks the controllers; which says that it serves there."""
    folder = cluster.copy_to(tmp_path / "copy")
    config = yaml.safe_load((folder / "kubeconfig").read_text())
    config["clusters"][0]["cluster"]["server"] = "https://127.0.0.1:1"
    (folder / "kubeconfig").write_text(yaml.safe_dump(config))
    recover = f"upgrader -C {folder} recover --dry-run"
    assert_seen(looks(folder, "run", "--yes"), 5, "127.0.0.1:1", "onnection refused", recover)
    assert_seen(looks(folder, "recover", "--dry-run"), 7, "kube-apiserver answers on every controller", "kubeconfig")
