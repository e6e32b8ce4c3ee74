"""What runs on a controller, with a kubeadm that does as the real one: all or nothing, and a way back from anywhere."""

from __future__ import annotations

import base64
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from testkit.pki import CertificateAuthority
from upgrader.onhost.certificates import kept_files
from upgrader.onhost.certificates.kept_files import keep, mend, put_back
from upgrader.onhost.certificates.renewed_by_kubeadm import fault, files_of
from upgrader.onhost.certificates.staged import forget_copy, renew
from upgrader.onhost.common.private_folder import locked
from upgrader.onhost.common.questions import Failed

NAMES = ("apiserver", "etcd-server", "scheduler.conf")
CA = CertificateAuthority.named("kubernetes")


def pair() -> tuple[bytes, bytes]:
    """A new key, and its certificate."""
    key = ec.generate_private_key(ec.SECP256R1())
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    certificate = CA._signed(x509.Name([]), key.public_key()).encode()
    return key.private_bytes(*form), certificate


def write(name: str, kubernetes: Path, certificates: Path) -> None:
    """As kubeadm writes one: key and certificate, or both in a kubeconfig."""
    key, certificate = pair()
    first, *more = map(Path, files_of(name, str(kubernetes), str(certificates)))
    first.parent.mkdir(parents=True, exist_ok=True)
    if more:
        first.write_bytes(key)
        more[0].write_bytes(certificate)
        return
    data = {"certificate": certificate, "key": key}
    lines = [f"    client-{kind}-data: {base64.b64encode(text).decode()}" for kind, text in data.items()]
    first.write_text("users:\n- name: x\n  user:\n" + "\n".join(lines) + "\n")


class Controller:
    """Its folders. `kubeadm` writes where it is told to see /etc/kubernetes."""

    def __init__(self, root: Path) -> None:
        self.kubernetes, self.pki = root / "kubernetes", root / "kubernetes" / "pki"
        self.kept = str(root / "kept")
        self.ran: list[str] = []
        for name in NAMES:
            write(name, self.kubernetes, self.pki)
        for path in self.files():
            path.chmod(0o640)
        (self.pki / "ca.key").write_text("the CA's")
        (self.kubernetes / "tmp").mkdir()
        (self.kubernetes / "tmp" / "member.crt").write_text("kubeadm's copy of etcd may be gigabytes")

    def files(self) -> list[Path]:
        """Of every certificate."""
        return [Path(path) for name in NAMES for path in files_of(name, str(self.kubernetes), str(self.pki))]

    def content(self) -> dict[str, tuple[bytes, int, int]]:
        """Of every file: what is in it, its mode and when it changed."""
        found = {str(path): (path.read_bytes(), path.stat()) for path in self.files()}
        return {path: (text, stat.st_mode, stat.st_mtime_ns) for path, (text, stat) in found.items()}

    def kubeadm(self, stage: str, arguments: Sequence[str]) -> None:
        """`kubeadm certs renew NAME --cert-dir …`, with the stage as its /etc/kubernetes."""
        name = arguments[2]
        self.ran.append(name)
        assert Path(stage, "pki", "ca.key").exists() and not Path(stage, "tmp").exists()
        write(name, Path(stage), Path(stage, "pki"))

    def renew(self, run: Callable[[str, Sequence[str]], None] | None = None, renewal: str = "one") -> list[str]:
        """All of them."""
        with locked(self.kept, 1, "busy"):
            return renew(self.kept, renewal, str(self.kubernetes), str(self.pki), NAMES, run or self.kubeadm)


@pytest.fixture
def controller(tmp_path: Path) -> Controller:
    """One with three certificates."""
    return Controller(tmp_path)


def test_renewed_and_put_back(controller: Controller) -> None:
    """Every file is new, with the mode that it had; the way back leads to the same bytes and the same times."""
    before = controller.content()
    changed = controller.renew()
    after = controller.content()
    assert sorted(changed) == sorted(before) and controller.ran == list(NAMES)
    for path, (text, mode, _) in after.items():
        assert text != before[path][0] and mode == before[path][1]
    assert not Path(controller.kept, "stage").exists()  # it had the CA's key
    assert sorted(put_back(controller.kept, "one")) == sorted(before)
    assert controller.content() == before
    assert put_back(controller.kept, "one") == []


def test_a_kubeadm_that_fails_changes_nothing(controller: Controller) -> None:
    """Not even the certificates that it had renewed before; and nothing of an earlier renewal is put back then."""
    controller.renew()
    before = controller.content()

    def failing(stage: str, arguments: Sequence[str]) -> None:
        if arguments[2] == "scheduler.conf":
            raise Failed("kubeadm ended with 1: no such CA")
        controller.kubeadm(stage, arguments)

    with pytest.raises(Failed, match="no such CA"):
        controller.renew(failing, "two")
    assert controller.content() == before
    assert put_back(controller.kept, "two") == [] and controller.content() == before


def test_kubeadm_that_only_says_so(controller: Controller) -> None:
    """With an external CA it ends with 0, and has renewed nothing."""
    before = controller.content()
    with pytest.raises(Failed, match="kubeadm did not renew apiserver"):
        controller.renew(lambda _stage, _arguments: None)
    assert controller.content() == before


def test_key_of_another_certificate_never_gets_in(controller: Controller) -> None:
    """What kubeadm wrote is tried before anything is replaced."""
    before = controller.content()

    def odd(stage: str, arguments: Sequence[str]) -> None:
        controller.kubeadm(stage, arguments)
        Path(stage, "pki", "apiserver.key").write_bytes(pair()[0])

    with pytest.raises(Failed, match="can't be used"):
        controller.renew(odd)
    assert controller.content() == before


@pytest.mark.parametrize("written", range(5))
def test_power_cut_between_files(controller: Controller, written: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Afterwards, what doesn't fit any more is put back, what fits stays, and a renewal goes through."""
    before = controller.content()
    done = 0
    overwrite = kept_files._overwrite

    def cut(path: str, data: bytes, owner: Any) -> None:
        nonlocal done
        if done == written:
            raise KeyboardInterrupt
        done += 1
        overwrite(path, data, owner)

    with monkeypatch.context() as patch:
        patch.setattr(kept_files, "_overwrite", cut)
        with pytest.raises(KeyboardInterrupt):
            controller.renew()
    with locked(controller.kept, 1, "busy"):
        mended = mend(controller.kept)
    assert mended == {1: ["apiserver"], 3: ["etcd-server"]}.get(written, [])
    places = [files_of(name, str(controller.kubernetes), str(controller.pki)) for name in NAMES]
    assert [fault(files) for files in places] == ["", "", ""]
    with locked(controller.kept, 1, "busy"):
        assert mend(controller.kept) == []
    controller.renew(renewal="two")
    now = controller.content()
    assert all(now[path][0] != text for path, (text, _, _) in before.items())


@pytest.mark.parametrize("name", ["apiserver.crt", "apiserver.key", "../scheduler.conf"])
def test_torn_file_is_put_back(controller: Controller, name: str) -> None:
    """As a disk that lost its last writes has it: empty, or half."""
    file = controller.pki / name
    before = controller.content()
    keep(
        controller.kept,
        "one",
        {each: files_of(each, str(controller.kubernetes), str(controller.pki)) for each in NAMES},
    )
    file.write_bytes(file.read_bytes()[:40])
    assert mend(controller.kept) == ["scheduler.conf" if "scheduler" in name else "apiserver"]
    assert controller.content() == before


def test_nothing_of_the_old_content_is_behind_the_new(controller: Controller, monkeypatch: pytest.MonkeyPatch) -> None:
    """Killed between writing a shorter kubeconfig and cutting its file, a renewal leaves YAML, and no torn end."""
    path = controller.kubernetes / "scheduler.conf"
    old = path.read_bytes()
    path.write_bytes(old + b"# " + b"x" * 300 + b"\n")

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(os, "ftruncate", killed)
    with pytest.raises(KeyboardInterrupt):
        kept_files.install([(str(path), old, {"mode": 0o600, "uid": 0, "gid": 0})])
    assert path.read_bytes().rstrip(b"\n") == old.rstrip(b"\n")


def test_copy_of_keys_does_not_outlive_a_kill(controller: Controller) -> None:
    """The next look at the controller removes it, also when nobody renews again."""
    stage = Path(controller.kept) / "stage" / "pki"
    stage.mkdir(parents=True)
    (stage / "ca.key").write_text("the CA's")
    forget_copy(controller.kept)
    assert not stage.parent.exists()
    forget_copy(controller.kept)


def test_nothing_is_mended_after_the_end(controller: Controller) -> None:
    """What an operator does with the files later is theirs."""
    controller.renew()
    (controller.pki / "apiserver.crt").write_text("theirs")
    assert mend(controller.kept) == []


def test_damaged_copy_is_never_put_back(controller: Controller) -> None:
    """It is verified first."""
    controller.renew()
    for file in Path(controller.kept, "content").iterdir():
        file.write_text("damaged")
    with pytest.raises(Failed, match="is damaged"):
        put_back(controller.kept, "one")


def test_folder_that_others_can_read(controller: Controller) -> None:
    """Keys are kept there: anybody's folder isn't used."""
    Path(controller.kept).mkdir(mode=0o755)
    with pytest.raises(Failed, match="only root can read"):
        controller.renew()


def test_links_stay_links(controller: Controller, tmp_path: Path) -> None:
    """Where an administrator keeps a file elsewhere, its content is replaced there, and kept from there."""
    file, elsewhere = controller.kubernetes / "scheduler.conf", tmp_path / "elsewhere.conf"
    file.rename(elsewhere)
    file.symlink_to(elsewhere)
    before = elsewhere.read_bytes()
    controller.renew()
    assert file.is_symlink() and elsewhere.read_bytes() != before
    put_back(controller.kept, "one")
    assert elsewhere.read_bytes() == before


def test_mounts_of_single_files_see_the_change(controller: Controller) -> None:
    """kube-apiserver's pod mounts each file: the same inode has the new content, and the old one again."""
    inodes = [path.stat().st_ino for path in controller.files()]
    controller.renew()
    assert [path.stat().st_ino for path in controller.files()] == inodes
    put_back(controller.kept, "one")
    assert [path.stat().st_ino for path in controller.files()] == inodes


def test_deleted_file_is_put_back(controller: Controller) -> None:
    """With its content, mode and time."""
    before = controller.content()
    controller.renew()
    (controller.pki / "apiserver.key").unlink()
    put_back(controller.kept, "one")
    assert controller.content() == before


def test_folder_that_is_elsewhere(controller: Controller, tmp_path: Path) -> None:
    """Of it kubeadm would see no copy."""
    with locked(controller.kept, 1, "busy"), pytest.raises(Failed, match="is not a folder below"):
        renew(controller.kept, "one", str(controller.kubernetes), str(tmp_path), NAMES, controller.kubeadm)


def test_unknown_name(controller: Controller) -> None:
    """A newer kubeadm's: where its files are isn't guessed."""
    with pytest.raises(Failed, match="unknown to this version of upgrader"):
        files_of("new-client", str(controller.kubernetes), str(controller.pki))
