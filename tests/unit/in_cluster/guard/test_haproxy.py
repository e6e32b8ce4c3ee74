"""What HAProxy's socket answers, as it is read."""

from __future__ import annotations

import asyncio

import pytest

from upgrader.in_cluster.guard.guard_errors import LoadBalancerAway
from upgrader.in_cluster.guard.runtime.haproxy import HAProxy, HAProxyServer

STATES = """1
# be_id be_name srv_id srv_name srv_addr srv_op_state srv_admin_state srv_uweight
3 ingress 1 worker-1 192.0.2.1 2 0 1
3 ingress 2 worker-2 192.0.2.2 2 8 1
3 ingress 3 worker-3 192.0.2.3 0 1 1
3 ingress 4 worker-4 192.0.2.4 2 0 1

"""
HEAD = "# pxname,svname,qcur,scur,status,check_status,"
STATISTICS = f"""{HEAD}
ingress,worker-1,0,7,UP,* L7OK,
ingress,worker-2,0,0,DRAIN,L7OK,
ingress,worker-3,0,1,MAINT,,
ingress,worker-4,0,0,UP,INI,
ingress,just-added,0,0,UP,L7OK,

"""


class Answering(HAProxy):
    """What each command is answered."""

    def __init__(self, **answers: str) -> None:
        super().__init__("/run/haproxy/admin.sock")
        self.answers, self.asked = answers, list[str]()

    async def _ask(self, command: str) -> str:
        self.asked.append(command)
        return self.answers[command.split()[1]]


def read(states: str = STATES, statistics: str = STATISTICS) -> list[HAProxyServer]:
    """The servers of such answers."""
    return asyncio.run(Answering(servers=states, stat=statistics).servers())


def test_servers_are_read() -> None:
    """By the names of the columns; what one of both answers doesn't have is left out."""
    found = {each.name: each for each in read()}
    assert found.keys() == {"worker-1", "worker-2", "worker-3", "worker-4"}
    assert found["worker-1"] == HAProxyServer("ingress", "worker-1", False, False, 7, "UP", "L7OK")
    assert found["worker-2"].drained and not found["worker-2"].maintenance
    assert found["worker-3"].maintenance and not found["worker-3"].drained


@pytest.mark.parametrize(
    ("status", "check", "good"),
    [
        ("UP", "L7OK", True),
        ("UP 1/2", "L4OK", True),
        ("UP", "INI", False),
        ("UP", "L4TOUT", False),
        ("UP", "", False),
        ("DOWN", "L7OK", False),
        ("DOWN 1/2", "L7OK", False),
        ("DRAIN", "L7OK", False),
        ("MAINT", "", False),
        ("no check", "", True),
        ("something new", "L7OK", False),
    ],
)
def test_a_good_check_is_one_that_was_made(status: str, check: str, good: bool) -> None:
    """HAProxy takes a server for up before its first check: that is none."""
    assert HAProxyServer("b", "s", False, False, 0, status, check).good is good


def test_what_serves_gets_new_sessions() -> None:
    """Up, or never checked; and neither drained nor in maintenance."""
    up = HAProxyServer("b", "s", False, False, 0, "UP", "INI")
    assert up.serves and HAProxyServer("b", "s", False, False, 0, "no check", "").serves
    assert not HAProxyServer("b", "s", False, False, 0, "DOWN", "L4CON").serves
    assert not HAProxyServer("b", "s", True, False, 0, "UP", "L7OK").serves
    assert not HAProxyServer("b", "s", False, True, 0, "no check", "").serves


@pytest.mark.parametrize(
    ("states", "statistics"),
    [
        ("", STATISTICS),
        ("Permission denied\n", STATISTICS),
        (STATES.replace("1\n#", "2\n#", 1), STATISTICS),
        ("1\n# be_id be_name\n3 ingress\n", STATISTICS),
        (STATES.replace(" 2 0 1\n", " 2\n", 1), STATISTICS),
        (STATES.replace(" 0 1\n", " zero 1\n", 1), STATISTICS),
        (STATES, STATISTICS.replace("scur", "sessions")),
        (STATES, STATISTICS.replace(",7,", ",many,")),
        (STATES, "Permission denied\nagain\n"),
    ],
)
def test_an_answer_that_can_not_be_read_is_none(states: str, statistics: str) -> None:
    """Rather than a guess."""
    with pytest.raises(LoadBalancerAway, match=r"/run/haproxy/admin\.sock: its answer can't be read"):
        read(states, statistics)


def test_a_refused_change_is_an_error() -> None:
    """HAProxy says nothing where it has done it."""
    (server, *_) = read()
    done = Answering(server="\n")
    asyncio.run(done.set_state(server, "drain"))
    assert done.asked == ["set server ingress/worker-1 state drain"]
    with pytest.raises(LoadBalancerAway, match="state ready': Permission denied"):
        asyncio.run(Answering(server="Permission denied\n").set_state(server, "ready"))


def test_a_socket_that_is_not_there() -> None:
    """The message names it."""
    with pytest.raises(LoadBalancerAway, match=r"/nowhere/admin\.sock: No such file or directory"):
        asyncio.run(HAProxy("/nowhere/admin.sock").servers())
