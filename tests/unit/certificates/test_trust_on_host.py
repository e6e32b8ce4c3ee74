"""What a node does to the files in which it trusts the cluster's CA: one more, one less, and never a torn one."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization

from testkit.pki import CertificateAuthority
from upgrader.onhost.certificates import authority, new_authority, trust_files
from upgrader.onhost.certificates.bundles import added, certificates, fingerprint, in_kubeconfig, removed, trusted_by
from upgrader.onhost.certificates.kept_files import install
from upgrader.onhost.certificates.trust_files import Places, change, mend, read
from upgrader.onhost.common.questions import Failed

OLD, NEW = CertificateAuthority.named("kubernetes"), CertificateAuthority.named("kubernetes")
OLD_PEM, NEW_PEM = OLD.pem, NEW.pem
OLD_PRINT, NEW_PRINT = fingerprint(OLD_PEM), fingerprint(NEW_PEM)


def kubeconfig(pem: str) -> str:
    """With a cluster's CA, and whatever else one has."""
    data = base64.b64encode(pem.encode()).decode()
    return (
        f"clusters:\n- cluster:\n    certificate-authority-data: {data}\n    server: https://x\n# end\nkind: Config\n"
    )


class Node:
    """Its folders, as kubeadm leaves them, with a CA that isn't the cluster's beside it."""

    def __init__(self, root: Path) -> None:
        self.kubernetes, self.pki, self.kept = root / "kubernetes", root / "kubernetes" / "pki", str(root / "kept")
        self.pki.mkdir(parents=True)
        self.elsewhere, self.other = root / "clients.crt", root / "other.crt"
        files = {
            self.pki / "ca.crt": OLD_PEM,
            self.elsewhere: OLD_PEM.rstrip("\n"),
            self.other: CertificateAuthority.named("etcd").pem,
            self.kubernetes / "kubelet.conf": kubeconfig(OLD_PEM),
            self.kubernetes / "scheduler.conf": kubeconfig(OLD_PEM),
            self.kubernetes / "etcd.conf": f"clusters: [{{cluster: {{certificate-authority: {self.other}}}}}]\n",
            root / "config.yaml": f"authentication:\n  x509:\n    clientCAFile: {self.elsewhere}\n",
        }
        for path, text in files.items():
            path.write_text(text)
            path.chmod(0o640)
        self.files = list(files)
        self.places = Places(str(self.pki), str(self.kubernetes), str(root / "config.yaml"))

    def trust(self) -> list[str]:
        """The new CA beside the old one."""
        return change(self.kept, self.places, old=OLD_PRINT, add=NEW_PEM)

    def distrust(self) -> list[str]:
        """No more."""
        return change(self.kept, self.places, old=OLD_PRINT, remove=NEW_PRINT)

    def content(self) -> dict[str, bytes]:
        """Of every file."""
        return {str(path): path.read_bytes() for path in self.files}


@pytest.fixture
def node(tmp_path: Path) -> Node:
    """One that trusts the old CA."""
    return Node(tmp_path)


def test_one_more_and_no_more(node: Node) -> None:
    """Everything that trusts the old CA trusts both, the old one first, as kubeadm signs with the first; the way back
    leads to the same bytes where a file ended with its line. Another cluster's CA stays as it is.
    """
    before = node.content()
    changed = node.trust()
    names = ["ca.crt", "clients.crt", "scheduler.conf", "kubelet.conf"]
    assert [os.path.basename(path) for path in changed] == names
    for item in read(node.places):
        if item["path"] == str(node.other):
            assert len(item["trusts"]) == 1 and OLD_PRINT not in item["trusts"]
        else:
            assert item["trusts"] == [OLD_PRINT, NEW_PRINT], item
    assert (node.pki / "ca.crt").read_text() == OLD_PEM + NEW_PEM
    assert (node.pki / "ca.crt").stat().st_mode & 0o777 == 0o640
    assert node.trust() == [], "a second time there is nothing to do"
    assert len(node.distrust()) == 4
    assert {path: text.rstrip() for path, text in node.content().items()} == {
        path: text.rstrip() for path, text in before.items()
    }
    assert node.distrust() == []
    assert not Path(node.kept, "point.json").exists() and not Path(node.kept, "content").exists(), "it had keys"


def test_mounts_of_single_files_see_it(node: Node) -> None:
    """kube-apiserver's pod mounts ca.crt, a leader's its kubeconfig: the same inodes have the new content."""
    mounted = [node.pki / "ca.crt", node.kubernetes / "scheduler.conf"]
    before = [path.stat().st_ino for path in mounted]
    node.trust()
    node.distrust()
    assert [path.stat().st_ino for path in mounted] == before


@pytest.mark.parametrize("written", range(4))
def test_power_cut_between_files(node: Node, written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was written then is put back by the next look, whole or not, and the next attempt goes through."""
    before, done = node.content(), 0

    def cut(files: list[tuple[str, bytes, Any]]) -> None:
        nonlocal done
        for path, data, owner in files:
            if done == written:
                Path(path).write_bytes(data[: len(data) // 2])
                raise KeyboardInterrupt
            done += 1
            install([(path, data, owner)])
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(trust_files, "install", cut)
        with pytest.raises(KeyboardInterrupt):
            node.trust()
    assert OLD_PEM.strip() in (node.pki / "ca.crt").read_text() or written == 0
    mend(node.kept)
    assert node.content() == before
    assert mend(node.kept) == []
    assert len(node.trust()) == 4


def test_power_cut_after_the_last_file(node: Node, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is written stays; the copies of keys go with the next look."""
    with monkeypatch.context() as patch:
        patch.setattr(trust_files, "forget", lambda _: (_ for _ in ()).throw(KeyboardInterrupt))
        with pytest.raises(KeyboardInterrupt):
            node.trust()
    after = node.content()
    assert mend(node.kept) == [] and node.content() == after
    assert not Path(node.kept, "content").exists()


def test_texts() -> None:
    """What is no certificate is left alone, what is cut off is none, and nothing is added twice."""
    text = f"# ours\n{OLD_PEM}"
    assert added(text, NEW_PEM) == text + NEW_PEM and added(text, OLD_PEM) == text
    assert added("", NEW_PEM) == NEW_PEM
    assert removed(added(text, NEW_PEM), NEW_PRINT) == text
    assert certificates(OLD_PEM + NEW_PEM[:200]) == [OLD_PEM]
    assert certificates("-----BEGIN CERTIFICATE-----\n***\n-----END CERTIFICATE-----\n") == []
    with pytest.raises(ValueError, match="no certificate"):
        fingerprint("none")
    json = f'{{"certificate-authority-data": "{base64.b64encode(OLD_PEM.encode()).decode()}"}}'
    both = in_kubeconfig(json, lambda pem: added(pem, NEW_PEM))
    assert trusted_by(both) == [[OLD_PRINT, NEW_PRINT]]
    assert in_kubeconfig("certificate-authority-data: abc", lambda _: "x") == "certificate-authority-data: eA=="
    assert trusted_by("certificate-authority-data: abc") == [[]]


def write_ca(folder: Path, ca: CertificateAuthority, pem: str, name: str = "ca") -> None:
    """As kubeadm writes one."""
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    (folder / f"{name}.key").write_bytes(ca.key.private_bytes(*form))
    (folder / f"{name}.crt").write_text(pem)


def test_which_one_signs(tmp_path: Path) -> None:
    """The one whose key is there, wherever it is among several; nobody where the key is elsewhere."""
    write_ca(tmp_path, NEW, OLD_PEM + NEW_PEM)
    assert authority.signs(str(tmp_path)) == NEW_PEM
    (tmp_path / "ca.crt").write_text(OLD_PEM)
    assert authority.signs(str(tmp_path)) == ""
    (tmp_path / "ca.key").unlink()
    assert authority.signs(str(tmp_path)) == ""
    with pytest.raises(Failed, match="an external CA signs"):
        authority.signing(str(tmp_path))


def test_signing_certificate_has_its_own_file(tmp_path: Path) -> None:
    """kube-controller-manager signs with no file that has several certificates."""
    write_ca(tmp_path, OLD, OLD_PEM + NEW_PEM)
    authority.signing(str(tmp_path))
    file = tmp_path / authority.SIGNING
    assert file.read_text() == OLD_PEM and file.stat().st_mode & 0o777 == 0o644
    authority.signing(str(tmp_path))


def fake_kubeadm(fails: str = "") -> Callable[..., str]:
    """kubeadm, as far as a new CA needs it."""

    def kubeadm(*words: str) -> str:
        if words[0] == "version":
            return "v1.36.3\n"
        phase, config = words[3], Path(words[5])
        if phase == fails:
            raise Failed(f"kubeadm {phase}: no")
        text = config.read_text()
        assert f'"certificatesDir": "{config.parent}"' in text and '"kubernetesVersion": "v1.36.3"' in text
        assert '"encryptionAlgorithm": "ECDSA-P256"' in text
        write_ca(config.parent, NEW, NEW_PEM, phase)
        return ""

    return kubeadm


def test_new_ca_is_made_once(tmp_path: Path) -> None:
    """With the form that the cluster's configuration asks for, in a folder for its owner alone; half a one is none."""
    folder, settings = tmp_path / "new-ca", '{"encryptionAlgorithm": "ECDSA-P256"}'
    with pytest.raises(Failed, match="no"):
        new_authority.make(str(folder), settings, fake_kubeadm(new_authority.CLIENT))
    assert list(tmp_path.iterdir()) == [] and new_authority.made(str(folder)) == ""
    assert new_authority.make(str(folder), settings, fake_kubeadm()) == NEW_PEM
    assert folder.stat().st_mode & 0o777 == 0o700
    assert sorted(path.name for path in folder.iterdir()) == [
        "apiserver-kubelet-client.crt",
        "apiserver-kubelet-client.key",
        "ca.crt",
        "ca.key",
    ]
    assert new_authority.make(str(folder), settings, fake_kubeadm("ca")) == NEW_PEM, "the one that is there stays"
    new_authority.forget(str(folder))
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(Failed, match="can't be parsed"):
        new_authority.make(str(folder), "[]", fake_kubeadm())
