"""A file of a controller that is no YAML, or not what its name says, ends adoption with a sentence."""

from __future__ import annotations

import pytest

from upgrader.adopt.files_as_yaml import mapping_in, servers_in
from upgrader.errors import Blocked
from upgrader.model.cluster import Host

_HOST, _PATH = Host("controller-1", "10.0.0.1"), "/etc/kubernetes/admin.conf"


@pytest.mark.parametrize(
    ("content", "why"),
    [
        (b"{{ server }}: [\n", "it is not valid YAML"),
        (b"- a\n", "it is not a mapping"),
        (b"clusters: [x]\n", "`clusters` isn't a kubeconfig's"),
        (b"clusters: 1\n", "`clusters` isn't a kubeconfig's"),
        (b"clusters: [{cluster: [x]}]\n", "`clusters` isn't a kubeconfig's"),
        (b"\xff\xfe\x00: \xff", "it is not valid YAML"),
    ],
    ids=["a template", "a list", "words", "a number", "a list of words", "bytes"],
)
def test_a_file_that_is_no_kubeconfig(content: bytes, why: str) -> None:
    """With the controller, the file, and the reason, but nothing of what is in it."""
    with pytest.raises(Blocked, match=f"controller-1: {_PATH} can't be read: {why}.*; nothing was changed") as no:
        list(servers_in(_HOST, _PATH, content))
    assert "server" not in no.value.message


def test_what_a_kubeconfig_may_lack() -> None:
    """Clusters, a server, or anything."""
    assert list(servers_in(_HOST, _PATH, b"clusters: [{name: x}, {cluster: {server: 'https://a'}}]")) == [
        "",
        "https://a",
    ]
    assert list(servers_in(_HOST, _PATH, b"clusters: null")) == [] == list(servers_in(_HOST, _PATH, b"\n"))
    assert mapping_in(_HOST, _PATH, b"") == {} and mapping_in(_HOST, _PATH, b"a: 1") == {"a": 1}


@pytest.mark.parametrize("more", [b"---\nclusters: [{cluster: {server: 'https://b'}}]\n", b"---\n- a\n", b"---\n"])
def test_only_the_first_document_counts(more: bytes) -> None:
    """As for the programs that read it: what follows may be another kubeconfig, or anything."""
    content = b"---\nclusters: [{cluster: {server: 'https://a'}}]\n" + more
    assert list(servers_in(_HOST, _PATH, content)) == ["https://a"]
