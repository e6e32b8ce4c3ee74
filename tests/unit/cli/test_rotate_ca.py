"""What `upgrader certs rotate-ca` shows, asks and says."""

from __future__ import annotations

import json

from click.testing import CliRunner, Result

from tests.unit.app.test_ca_rotation import OLD, Place, place
from upgrader.cli.main import cli
from upgrader.errors import Blocked
from upgrader.onhost.certificates.bundles import fingerprint

__all__ = ["place"]


def rotate(place: Place, *arguments: str, answer: str = "") -> Result:
    """The command, in the cluster's folder."""
    return CliRunner().invoke(cli, ["-C", str(place.folder), "certs", "rotate-ca", *arguments], input=answer)


def test_declined(place: Place) -> None:
    """It says which file it would write, and asks first; then it shows the steps, and asks again. No is no."""
    ended = rotate(place, "trust", answer="n\n")
    assert ended.exit_code == 1 and "Will write `pki.signingCertificate` to kubernetes.yaml" in ended.output
    assert (place.folder / "kubernetes.yaml").read_text() == "a: b\n"
    ended = rotate(place, "trust", answer="y\nn\n")
    assert ended.exit_code == 1 and "trust worker-1" in ended.output and "Start?" in ended.output
    assert not place.hosts.made and not place.hosts.changed


def test_to_its_end(place: Place) -> None:
    """Each phase says what the operator has to do before the next; `show` says how far it is, and what comes next."""
    assert rotate(place, "trust", "--yes").output.endswith("Then run `upgrader certs rotate-ca sign`.\n")
    new = place.hosts.made["controller-1"]
    place.operator(OLD, OLD, new)
    place.world.clock.sleep(60)
    place.hosts.issued["worker-1"][""] = OLD
    ended = rotate(place, "sign", "--yes")
    assert ended.exit_code == 0, ended.output
    assert "copy client-certificate-data and client-key-data" in ended.output
    assert "From the old CA, and not managed by kubeadm: worker-1" in ended.output
    assert "Nothing to do: the new CA signs" in rotate(place, "sign", "--yes").output
    shown = rotate(place, "show").output
    assert "both CAs are trusted; the new one signs" in shown and "next      upgrader certs rotate-ca finish" in shown
    assert f"old       {fingerprint(OLD)[:16]}" in shown and "ISSUED BY" in shown
    told = json.loads(rotate(place, "show", "-o", "json").output)
    assert (told["stage"], told["signs"], told["old"]) == ("signed", fingerprint(new), fingerprint(OLD))
    assert {"node": "controller-1", "path": "apiserver", "issued_by": fingerprint(new)} in told["certificates"]
    del place.hosts.issued["worker-1"][""]
    assert isinstance(rotate(place, "finish", "--yes").exception, Blocked), "the operator would be locked out"
    place.operator(new, new)
    ended = rotate(place, "finish", "--yes")
    assert ended.exit_code == 0 and "The old CA is no longer trusted" in ended.output, ended.output
    assert place.all_is_new(new)


def test_trusted_shown_and_cancelled(place: Place) -> None:
    """Clients elsewhere are thought of; file by file is shown which CAs are trusted; a second time nothing is to do."""
    ended = rotate(place, "trust", "--yes")
    assert ended.exit_code == 0, ended.output
    assert "Kubeconfigs elsewhere still trust only the old CA" in ended.output
    new = fingerprint(place.hosts.made["controller-1"])
    shown = rotate(place, "show")
    assert f"new       {new[:16]}, its key is on controller-1" in shown.output
    assert "worker-1      the old one + the new one  /etc/kubernetes/pki/ca.crt" in shown.output
    assert "both CAs are trusted; the old one signs" in shown.output
    told = json.loads(rotate(place, "show", "-o", "json").output)
    assert told["new"] == new and told["trusted_everywhere"] and told["new_key_on"] == "controller-1"
    assert [item["node"] for item in told["files"]] == ["controller-1", "controller-2", "controller-3", "worker-1"]
    again = rotate(place, "trust", "--yes")
    assert again.exit_code == 0 and "Nothing to do" in again.output
    place.hosts.made.clear()
    assert "its key is missing" in rotate(place, "show").output
    ended = rotate(place, "cancel", "--yes")
    assert ended.exit_code == 0 and "elsewhere" not in ended.output, ended.output
    assert json.loads(rotate(place, "show", "-o", "json").output)["new"] == ""
    assert isinstance(rotate(place, "cancel", "--yes").exception, Blocked)
