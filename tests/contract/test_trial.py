"""What a trial of planned programs relies on: what real ones read, and what they say, before they get nowhere.

They run on this machine, as no cluster is needed for that: tests/e2e/test_trial.py has the pods.
"""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from testkit.certificates import Authority
from testkit.lab_cluster import OLD, TARGET
from testkit.ports import free_port
from upgrader.lab.binaries import kubernetes
from upgrader.lab.progress_port import Silent
from upgrader.steps.trial.harmless import SCRATCH, got_through, harmless
from upgrader.steps.trial.reading import last_words

VERSIONS = (OLD, TARGET)
KUBECONFIG = """apiVersion: v1
kind: Config
clusters: [{name: c, cluster: {server: "https://192.0.2.1:6443", insecure-skip-tls-verify: true}}]
users: [{name: u, user: {token: none}}]
contexts: [{name: x, context: {cluster: c, user: u}}]
current-context: x
"""
CONFIGURATION = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"


class Programs:
    """Programs of one version, in a folder that has what their flags name."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._scratch = folder / "scratch"
        self._scratch.mkdir()
        Authority(folder / "ca").issue(folder / "own", "own")
        key = rsa.generate_private_key(65537, 2048)
        (folder / "sa.key").write_bytes(
            key.private_bytes(
                serialization.Encoding.PEM, serialization.PrivateFormat.TraditionalOpenSSL, serialization.NoEncryption()
            )
        )
        (folder / "kubeconfig").write_text(KUBECONFIG)
        (folder / "proxy.conf").write_text(CONFIGURATION)

    def given(self, component: str) -> list[str]:
        """Flags with which it could start."""
        kubeconfig = [f"--kubeconfig={self.folder}/kubeconfig", f"--authentication-kubeconfig={self.folder}/kubeconfig"]
        if component == "kube-proxy":
            return [f"--config={self.folder}/proxy.conf"]
        if component != "kube-apiserver":
            return [*kubeconfig, f"--authorization-kubeconfig={self.folder}/kubeconfig", "--secure-port=0"]
        port = free_port()
        return [
            "--etcd-servers=https://192.0.2.1:2379",
            f"--etcd-cafile={self.folder}/ca.pem",
            f"--etcd-certfile={self.folder}/own.pem",
            f"--etcd-keyfile={self.folder}/own.key",
            "--bind-address=127.0.0.1",
            f"--secure-port={port}",
            f"--tls-cert-file={self.folder}/own.pem",
            f"--tls-private-key-file={self.folder}/own.key",
            "--service-cluster-ip-range=10.96.0.0/16",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={self.folder}/sa.key",
            f"--service-account-signing-key-file={self.folder}/sa.key",
            "--authorization-mode=Node,RBAC",
        ]

    def tried(self, version: str, component: str, *more: str) -> tuple[bool, str]:
        """Whether it got through, and its last words. One that runs on is ended as soon as it got through."""
        program = self.folder / version / component
        program.parent.mkdir(exist_ok=True)
        program.symlink_to(kubernetes(version, Silent()) / "kubernetes")
        arguments = harmless(component, [*self.given(component), *more])
        command = [str(program), *(each.replace(SCRATCH, str(self._scratch)) for each in arguments)]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as started:
            assert started.stdout is not None
            said = ""
            for line in started.stdout:
                said += line.replace(str(self._scratch), SCRATCH)
                if component == "kube-controller-manager" and got_through(component, said, None):
                    started.kill()
                    return True, said
            code = started.wait()
        return got_through(component, last_words(said), code), last_words(said)


@pytest.fixture
def programs(tmp_path: Path) -> Programs:
    return Programs(tmp_path)


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("component", ["kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy"])
def test_program_that_reads_all_gets_through(programs: Programs, version: str, component: str) -> None:
    """It says so in the words, or with the exit code, that the trial waits for, and reaches nobody."""
    through, said = programs.tried(version, component)
    assert through, said
    assert "192.0.2.1" not in said


@pytest.mark.parametrize(
    ("component", "more", "words"),
    [
        ("kube-apiserver", ("--no-such-flag=1",), "unknown flag: --no-such-flag"),
        ("kube-apiserver", ("--feature-gates=AllAlpha=perhaps",), "invalid value of AllAlpha=perhaps"),
        ("kube-apiserver", ("--audit-policy-file={wrong}", "--audit-log-path=/no/a.log"), "loading audit policy file"),
        ("kube-apiserver", ("--encryption-provider-config={wrong}",), "encryption provider configuration"),
        ("kube-apiserver", ("--authentication-config={wrong}",), "Nonsense"),
        ("kube-apiserver", ("--etcd-certfile=/nowhere.pem",), "/nowhere.pem"),
        ("kube-controller-manager", ("--concurrent-gc-syncs=many",), "invalid argument"),
        ("kube-controller-manager", ("--kubeconfig=/nowhere.yaml",), "/nowhere.yaml"),
        ("kube-scheduler", ("--config={wrong}",), "Nonsense"),
        ("kube-proxy", ("--config={wrong}",), "Nonsense"),
    ],
)
def test_program_that_refuses_says_why(programs: Programs, component: str, more: tuple[str, ...], words: str) -> None:
    """A flag that isn't one, a value of another type, a file that isn't there, or has something else in it."""
    wrong = programs.folder / "wrong.yaml"
    wrong.write_text("apiVersion: v1\nkind: Nonsense\n")
    through, said = programs.tried(TARGET, component, *(each.format(wrong=wrong) for each in more))
    assert not through
    assert words in said
