"""Where a container's file is on its node."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.model.host_path import on_node

SPEC = {"volumes": [{"name": "etc", "hostPath": {"path": "/srv/etc"}}, {"name": "secret", "secret": {}}]}


def place(path: str, *mounts: dict[str, Any]) -> str | None:
    """Of a container with these mounts."""
    return on_node(SPEC, {"volumeMounts": mounts}, path)


def test_below_the_deepest_mount() -> None:
    """Wherever that is in the list, with its subPath; another folder that begins alike is none."""
    etc, deeper = {"name": "etc", "mountPath": "/etc"}, {"name": "etc", "mountPath": "/etc/k/", "subPath": "sub"}
    assert place("/etc/k/a.conf", etc, deeper) == place("/etc/k/a.conf", deeper, etc) == "/srv/etc/sub/a.conf"
    assert place("/etc/kubernetes/a", etc, deeper) == "/srv/etc/kubernetes/a"
    assert place("/etc", etc) == "/srv/etc"
    assert place("/etcd", etc) is None


@pytest.mark.parametrize("named", [{"name": "secret"}, {"name": "etc", "subPathExpr": "$(NODE)"}, {"name": "none"}])
def test_no_file_of_the_node(named: dict[str, str]) -> None:
    """It isn't taken for one."""
    with pytest.raises(KeyError):
        place("/etc/a", {"mountPath": "/etc", **named})
