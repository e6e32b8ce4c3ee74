"""Whether kube-apiserver's etcd is on this host, as the kernel says it: addresses are given to a network of their own,
which needs root, as every lab does.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from testkit.waiting import stretched

ROOT = Path(__file__).parents[2]
ADDRESSES = (
    "ip link set lo up && ip address add 10.9.0.2/24 dev lo && ip address add 10.9.0.3/24 dev lo && "
    "ip route add 192.0.2.0/24 dev lo && "
    "ip address add fd00::2/64 dev lo nodad && ip address add fd00::3/64 dev lo nodad && "
    'echo 1 > /proc/sys/net/ipv4/ip_nonlocal_bind && exec "$@"'
)
ASK = "import sys; from upgrader.onhost.facts.named_etcd import _is_here; print(_is_here(sys.argv[1]))"


@pytest.mark.parametrize(
    ("address", "here"),
    [
        ("10.9.0.2", True),
        ("10.9.0.3", True),  # the second one of its network, from which the kernel sends nothing by itself
        ("fd00::2", True),
        ("fd00::3", True),
        ("192.0.2.7", False),
        ("fd00::4", False),
    ],
)
def test_each_address_of_a_host_is_its_own(address: str, here: bool) -> None:
    """Also where a load balancer may listen at addresses that the host doesn't have yet, as keepalived's hosts let."""
    words = ["unshare", "--net", "sh", "-c", ADDRESSES, "sh", sys.executable, "-c", ASK, address]
    done = subprocess.run(words, capture_output=True, text=True, check=True, cwd=ROOT, timeout=stretched(60))
    assert done.stdout.split() == [str(here)]
