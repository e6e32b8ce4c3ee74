"""The keys of machines that SSH knows."""

from __future__ import annotations

from pathlib import Path

import paramiko
import pytest
from paramiko.hostkeys import HostKeys

from upgrader.adapters.known_hosts import file_with_key, load_known_hosts

KEY = "ssh-ed25519 AAAAC3NzaC1lZDI1NTE5AAAAIBsKnlpB1iTyvpDCNVVwoFyPjOBGN9MtwzLwQVWT5J3U"


@pytest.mark.parametrize("hashed", ["|1|bad|bad", "|1|", "|1|AAAA|AAAA", "|1|!|x"])
def test_a_damaged_hashed_name_hides_no_other_line(tmp_path: Path, hashed: str) -> None:
    """Each lookup compares a name with all hashed ones: the damaged one would end it, and the connection."""
    file = tmp_path / "known_hosts"
    file.write_text(f"{hashed} {KEY}\n{HostKeys.hash_host('cp-1')} {KEY}\n")
    assert file_with_key([file], "cp-1") == file
    assert file_with_key([file], "cp-2") is None
    client = paramiko.SSHClient()
    load_known_hosts(client, [file])
    known: HostKeys = vars(client)["_system_host_keys"]
    assert known.lookup("cp-1") and not known.lookup("cp-2")
