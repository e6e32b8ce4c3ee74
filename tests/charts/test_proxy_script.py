"""The proxy's script that closes a listener, with real sockets on loopback addresses."""

from __future__ import annotations

import re
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from threading import Thread

import pytest

from testkit.lab_cluster import until
from testkit.waiting import stretched
from upgrader.built_in_files import charts_folder

SCRIPT = charts_folder() / "kube-apiserver" / "files" / "proxy.sh"
NODE, PRIVATE = "127.77.0.1", "127.77.0.2"


class Node:
    """Listening sockets on a loopback address in place of a node."""

    def __init__(self, held: ExitStack, address: str = NODE) -> None:
        self._held = held
        self._address = address
        self.port = 0

    def listen(self, address: str) -> None:
        """One more listener at the address, on the one port of this node."""
        listener = self._held.enter_context(socket.socket(socket.AF_INET6 if ":" in address else socket.AF_INET))
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        listener.bind((address, self.port))
        listener.listen()
        self.port = listener.getsockname()[1]

    def lost(self, check: str, seconds: int = 0) -> bool:
        """Whether the script closes a listener, by the result of the last check and the seconds since it changed."""
        return self.holds(f"CHECK={check} LASTS={seconds}; lost")

    def holds(self, words: str) -> bool:
        """Whether a function of the script succeeds."""
        return self._script(words).returncode == 0

    def output(self, words: str) -> str:
        """What a function of the script prints."""
        return self._script(words).stdout

    def _script(self, words: str) -> subprocess.CompletedProcess[str]:
        environment = {"HOST_IP": self._address, "ADDRESS_FILE": "/dev/stdin", "API_PORT": str(self.port)}
        environment["PATH"] = "/usr/bin:/bin"
        command = ["bash", "-c", f'source "{SCRIPT}" true; {words}']
        chosen = f"PRIVATE_ADDRESS='{PRIVATE}'\n"
        done = subprocess.run(command, env=environment, input=chosen, capture_output=True, text=True, check=False)
        assert not done.stderr, done.stderr
        return done


@pytest.fixture
def node() -> Iterator[Node]:
    """A node on which this pod's HAProxy listens."""
    with ExitStack() as held:
        made = Node(held)
        made.listen(NODE)
        yield made


def test_a_server_that_ended_gets_no_more_connections(node: Node) -> None:
    """A listener with no server behind it closes at once, whatever the last check found."""
    assert node.lost("L7OK")


@pytest.mark.parametrize("check", ["L6TOUT", "L7TOUT", "L7STS"])
def test_a_slow_answer_beats_none(node: Node, check: str) -> None:
    """The only listener on a node stays open, however long its server is slow or not ready."""
    node.listen(PRIVATE)
    assert not node.lost(check, seconds=3600)


def test_another_instance_takes_over_from_one_that_is_not_ready(node: Node) -> None:
    """With another listener on the node it closes after ten seconds, not earlier, as both may be short of CPU."""
    node.listen(PRIVATE)
    node.listen(NODE)
    assert not node.lost("L7TOUT", seconds=9)
    assert node.lost("L7TOUT", seconds=10)


@pytest.mark.parametrize(
    ("address", "shown"),
    [
        ("192.0.2.11", "0B0200C0"),
        ("::1", "00000000000000000000000001000000"),
        ("fd00::11", "000000FD000000000000000011000000"),
        ("2001:db8:1:2:3:4:5:6", "B80D0120020001000400030006000500"),
        ("fe80::", "000080FE000000000000000000000000"),
    ],
)
def test_an_address_as_the_kernel_shows_it(node: Node, address: str, shown: str) -> None:
    """IPv4 and IPv6 addresses are found in /proc/net/tcp and tcp6."""
    assert node.output(f"in_hexadecimal {address}") == shown


@pytest.mark.parametrize(("listeners", "another"), [(1, False), (2, True)])
def test_a_successor_on_an_ipv6_address(listeners: int, another: bool) -> None:
    """On an IPv6 node, another instance is noticed when it listens, and not before."""
    with ExitStack() as held:
        node = Node(held, "::1")
        for _ in range(listeners):
            node.listen("::1")
        assert node.holds("succeeded") is another


def test_pod_of_an_earlier_chart_understands_the_script(node: Node) -> None:
    """Its volume gets the new script, and its probes run it, while the next pod isn't ready: its address is in its
    environment, and its listener's state where it was.
    """
    command = ["bash", "-c", f'source "{SCRIPT}" true; echo "$PRIVATE_ADDRESS $opened"']
    environment = {"HOST_IP": NODE, "PRIVATE_ADDRESS": PRIVATE, "PATH": "/usr/bin:/bin"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    assert done.stdout == f"{PRIVATE} /run/kube-apiserver/open\n"


def test_unknown_is_no_reason_to_close(node: Node) -> None:
    """A checker that doesn't answer closes no listener, even beside another instance."""
    node.listen(PRIVATE)
    node.listen(NODE)
    assert not node.lost("", seconds=3600)


def test_connections_that_are_not_http2_are_counted(node: Node) -> None:
    """What HAProxy forwards from the private address counts; HTTP/2's connections, and checks, come from another."""
    node.listen(PRIVATE)
    assert node.output("others") == "0\n"
    with (
        socket.create_connection((PRIVATE, node.port), source_address=(PRIVATE, 0)),
        socket.create_connection((PRIVATE, node.port)),
    ):
        assert node.output("others") == "1\n"


@pytest.mark.parametrize(("listeners", "opened", "followed"), [(1, True, False), (2, True, True), (1, False, True)])
def test_a_successor_is_known_after_the_own_listener_has_closed(
    node: Node, tmp_path: Path, listeners: int, opened: bool, followed: bool
) -> None:
    """Its own listener counts only while it is open."""
    for _ in range(1, listeners):
        node.listen(NODE)
    file = tmp_path / "open"
    if opened:
        file.touch()
    assert node.holds(f"opened={file}; followed") is followed


@pytest.mark.parametrize(
    ("check", "code", "told"),
    [
        ("L7STS", "403", "not listening: kube-apiserver is not ready (/readyz: L7STS 403)"),
        ("* L4CON", "", "not listening: kube-apiserver is not ready (/readyz: L4CON)"),
        ("", "", "not listening: kube-apiserver is not ready (/readyz: unknown)"),
    ],
)
def test_readiness_probe_says_what_the_check_got(tmp_path: Path, check: str, code: str, told: str) -> None:
    """The kubelet's event of it has HAProxy's result, and the HTTP status that kube-apiserver answered with."""
    columns = ["readyz", "own", *[""] * 60]
    columns[17], columns[23], columns[36], columns[37] = "DOWN", "5", check, code
    with ExitStack() as held:
        page = held.enter_context(socket.create_server((PRIVATE, 0)))
        page.settimeout(stretched(30))
        ready = Ending(held, tmp_path, "ready", STATUS_PORT=str(page.getsockname()[1])).script
        with page.accept()[0] as asked:
            assert asked.recv(1000)
            asked.sendall(f"HTTP/1.0 200 OK\r\n\r\n{','.join(columns)}\n".encode())
        assert ready.communicate(timeout=stretched(30))[0] == f"proxy: {told}\n"
        assert ready.returncode == 1


class Ending:
    """A script that moves clients from a server which ends at once; `relay` is in place of HTTP/2's process."""

    def __init__(self, held: ExitStack, tmp_path: Path, words: str = "move $(now)", **environment: str) -> None:
        self.relay = held.enter_context(subprocess.Popen(["sleep", "600"]))
        held.callback(self.relay.kill)
        self.server = held.enter_context(socket.create_server((PRIVATE, 0)))
        port = self.server.getsockname()[1]
        self.successor = held.enter_context(socket.create_server((NODE, port)))
        address = tmp_path / "address.env"
        address.write_text(f"PRIVATE_ADDRESS='{PRIVATE}'\n")
        own = " ".join(f"{name}={tmp_path}/{name}" for name in ("ending", "running", "stopping"))
        own += f" opened={tmp_path}/open STARTER=''"
        self.script = held.enter_context(
            subprocess.Popen(
                ["bash", "-c", f'source "{SCRIPT}" true; {own} relay={self.relay.pid}; {words}'],
                env={"HOST_IP": NODE, "ADDRESS_FILE": str(address), "API_PORT": str(port), "DRAIN_SECONDS": "0"}
                | {"HOLD_SECONDS": "60", "PATH": "/usr/bin:/bin"}
                | environment,
                stdout=subprocess.PIPE,
                text=True,
            )
        )
        held.callback(self.script.kill)

    def paused(self) -> bool:
        """Whether HTTP/2's process is stopped."""
        return stopped(self.relay)


def stopped(process: subprocess.Popen[bytes]) -> bool:
    """Whether it waits for SIGCONT."""
    return Path(f"/proc/{process.pid}/stat").read_text().rpartition(")")[2].split()[0] == "T"


def test_the_servers_signal_waits_for_the_pause(tmp_path: Path) -> None:
    """However late a busy node delivers it, kube-apiserver gets its signal after HTTP/2 clients have paused, and they
    don't pause before its starter has got it.
    """
    with ExitStack() as held:
        starter = held.enter_context(subprocess.Popen(["sleep", "600"]))
        held.callback(starter.kill)
        waits = f"sleep() {{ touch {tmp_path}/waits; command sleep $1; }}; kill() {{ echo $*; command kill $*; }}"
        ending = Ending(held, tmp_path, f"{waits}; STARTER={starter.pid}; move 0")
        until("the script to wait for the signal", (tmp_path / "waits").exists, timeout_seconds=30)
        assert not ending.paused()
        starter.send_signal(signal.SIGSTOP)
        until("HTTP/2 to pause", ending.paused, timeout_seconds=30, interval_seconds=0.01)
        until("the starter to go on", lambda: not stopped(starter), timeout_seconds=30, interval_seconds=0.01)
        ending.server.close()
        sent = ending.script.communicate(timeout=stretched(30))[0].splitlines()
        relay = ending.relay.pid
        assert sent[:2] == [f"-STOP {relay}", f"-CONT {starter.pid}"] and sent[-1] == f"-CONT {relay}"


def test_a_server_that_ends_on_its_own_needs_no_signal(tmp_path: Path) -> None:
    """A pod whose kube-apiserver has crashed meanwhile ends without waiting for it."""
    with ExitStack() as held:
        starter = held.enter_context(subprocess.Popen(["true"]))
        starter.wait()
        ending = Ending(held, tmp_path, f"STARTER={starter.pid}; move $(now)")
        ending.server.close()
        assert "was not held back" in ending.script.communicate(timeout=stretched(30))[0]


def test_http2_pauses_until_its_goaway(tmp_path: Path) -> None:
    """HTTP/2 clients ask nothing of a server that ends until it listens no more: no request is answered with 429."""
    with ExitStack() as held:
        ending = Ending(held, tmp_path)
        until("HTTP/2 to pause", ending.paused, timeout_seconds=30, interval_seconds=0.01)
        ending.server.close()
        assert "was not held back: 0 connections" in ending.script.communicate(timeout=stretched(30))[0]
        assert not ending.paused()


def test_http2_does_not_pause_for_ever(tmp_path: Path) -> None:
    """A server that doesn't end in time, as it has much in flight, gets HTTP/2's requests again."""
    with ExitStack() as held:
        ending = Ending(held, tmp_path)
        ending.script.communicate(timeout=stretched(30))
        assert not ending.paused()


def test_http2_goes_on_without_a_successor(tmp_path: Path) -> None:
    """Nothing pauses where no other instance could take the clients: "try again later" is better than silence."""
    with ExitStack() as held:
        ending = Ending(held, tmp_path, "followed() { false; }; pause_http2() { echo paused; }; move $(now)")
        assert "paused" not in ending.script.communicate(timeout=stretched(30))[0]


def test_the_hold_ends_with_the_last_connection_that_needs_it(tmp_path: Path) -> None:
    """The body of the held request follows as soon as only HTTP/2 connections are open, which pause until then."""
    with ExitStack() as held:
        page = held.enter_context(socket.create_server((PRIVATE, 0)))
        page.settimeout(stretched(30))
        (tmp_path / "tokens.csv").write_text("t0ken,proxy,proxy\n")
        tokens, status = str(tmp_path / "tokens.csv"), str(page.getsockname()[1])
        other = "touch counted; others() { if [[ -e counted ]]; then echo 1; else echo 0; fi; }"
        words = f"cd {tmp_path}; {other}; move $(now)"
        ending = Ending(held, tmp_path, words, TOKEN_FILE=tokens, STATUS_PORT=status)
        connection = held.enter_context(page.accept()[0])
        until("HTTP/2 to pause", ending.paused, timeout_seconds=30, interval_seconds=0.01)
        request = connection.recv(4096)
        (tmp_path / "counted").unlink()
        while b"SelfSubjectReview" not in request:
            request += connection.recv(4096)
        connection.sendall(b"HTTP/1.1 201 Created\r\n\r\n")
        ending.server.close()
        assert "held kube-apiserver's end back" in ending.script.communicate(timeout=stretched(30))[0]
        assert not ending.paused()


def running(held: ExitStack, tmp_path: Path, **environment: str) -> Ending:
    """A script that runs, with idle processes in place of HAProxy's, and waits for the checker's page."""
    (tmp_path / "haproxy").write_text("#!/bin/sh\nexec sleep 600\n")
    (tmp_path / "haproxy").chmod(0o755)
    page = held.enter_context(socket.create_server((PRIVATE, 0)))
    page.settimeout(stretched(30))  # it never answers
    environment = {"DRAIN_SECONDS": "3", "HOLD_SECONDS": "0", **environment}
    environment |= {"STATUS_PORT": str(page.getsockname()[1]), "PATH": f"{tmp_path}:/usr/bin:/bin"}
    ending = Ending(held, tmp_path, "pause_http2() { :; }; run", **environment)
    held.callback(page.accept()[0].close)
    return ending


@pytest.mark.parametrize("stop_signal", ["TERM", "USR1", "INT", "HUP", "QUIT", "USR2", "WINCH", "PWR", "RTMIN+3"])
def test_an_end_that_is_told_during_a_check(tmp_path: Path, stop_signal: str) -> None:
    """The script ends when it is told to while it waits for the checker's page, whose time-out ends nothing else; by
    the stop signal of HAProxy's official image, and of other images, as by SIGTERM, which a runtime sends where the
    image names none.
    """
    with ExitStack() as held:
        ending = running(held, tmp_path)
        subprocess.run(["bash", "-c", f"kill -{stop_signal} {ending.script.pid}"], check=True)
        assert ending.script.communicate(timeout=stretched(30))[0].endswith("proxy: done\n")


def test_the_hook_tells_the_script_and_waits_for_it(tmp_path: Path) -> None:
    """The kubelet's hook begins the end, returns once it is over, and is not cut off by it: the container would end
    with a failed hook.
    """
    with ExitStack() as held:
        ending = running(held, tmp_path)
        hook = stop_hook(tmp_path)
        assert hook.wait(timeout=stretched(30)) == 0
        assert not (tmp_path / "running").exists()
        assert ending.script.communicate(timeout=stretched(30))[0].endswith("proxy: done\n")


def test_the_container_outlives_its_hook(tmp_path: Path) -> None:
    """A script whose work is done ends after its hook, on a busy node, too."""
    with ExitStack() as held:
        hook = held.enter_context(subprocess.Popen(["sleep", "600"]))
        held.callback(hook.kill)
        ending = running(held, tmp_path)
        (tmp_path / "stopping").write_text(f"{hook.pid}\n")
        ending.script.terminate()
        until("its work to be done", lambda: not (tmp_path / "running").exists(), timeout_seconds=30)
        assert ending.script.poll() is None
        hook.kill()
        hook.wait()
        assert ending.script.communicate(timeout=stretched(30))[0].endswith("proxy: done\n")


def test_a_hook_without_a_script_ends(tmp_path: Path) -> None:
    """A container that is stopped before its script runs, or after it has ended, waits for nothing."""
    assert stop_hook(tmp_path).wait(timeout=stretched(30)) == 0
    ended = subprocess.Popen(["true"])
    ended.wait()
    (tmp_path / "running").write_text(f"{ended.pid}\n")
    assert stop_hook(tmp_path).wait(timeout=stretched(30)) == 0


def stop_hook(folder: Path) -> subprocess.Popen[bytes]:
    """What the kubelet runs in the container before it sends a signal."""
    own = f"running={folder}/running stopping={folder}/stopping"
    return subprocess.Popen(
        ["bash", "-c", f'source "{SCRIPT}" true; {own}; stop'],
        env={"HOST_IP": NODE, "PRIVATE_ADDRESS": PRIVATE, "PATH": "/usr/bin:/bin"},
    )


def test_a_grace_period_that_ends_before_the_drain(tmp_path: Path) -> None:
    """kube-apiserver's signal that comes early is passed on at once, as the pod has two seconds left: nothing is held
    back, and HTTP/2 clients get an answer rather than a pause that ends with their connection.
    """
    with ExitStack() as held:
        starter = held.enter_context(subprocess.Popen(["sleep", "600"]))
        held.callback(starter.kill)
        words = f"kill() {{ echo $*; command kill $*; }}; STARTER={starter.pid}; move $(($(now) + 3600000))"
        ending = Ending(held, tmp_path, words)
        starter.send_signal(signal.SIGSTOP)
        until("the starter to go on", lambda: not stopped(starter), timeout_seconds=30, interval_seconds=0.01)
        said = ending.script.communicate(timeout=stretched(30))[0].splitlines()
        assert said[0] == f"-CONT {starter.pid}" and len(said) == 2
        assert re.fullmatch(r"proxy: the pod's grace period was over 3\d{3} s before .*drainSeconds: .*", said[1])


def test_all_processes_are_told_at_once(tmp_path: Path) -> None:
    """At a shutdown without the kubelet, systemd sends SIGTERM to each process of a container, and SIGCONT: HAProxy's
    end at once, and with them all connections. The script ends with kube-apiserver, and doesn't wait for its drain.
    """
    with ExitStack() as held:
        ending = running(held, tmp_path, DRAIN_SECONDS="3600")
        ending.script.terminate()
        ending.script.send_signal(signal.SIGCONT)
        ending.server.close()
        assert ending.script.communicate(timeout=stretched(30))[0].endswith("proxy: done\n")


class Api:
    """A kube-apiserver behind the checker's page, which admits a request or refuses it; `request` is what came. The
    later ones are answered with 429 once `accepted` of them were admitted, or refused by a server that is `busy`.
    """

    def __init__(
        self, held: ExitStack, tmp_path: Path, accepted: int = 0, hold_seconds: int = 1, *, busy: bool = False
    ) -> None:
        self._listener = held.enter_context(socket.create_server((PRIVATE, 0)))
        self.tokens = tmp_path / "tokens.csv"
        self.tokens.write_text("t0ken,proxy,proxy\n")
        address = tmp_path / "address.env"
        address.write_text(f"PRIVATE_ADDRESS='{PRIVATE}'\n")
        self.script = subprocess.Popen(
            ["bash", "-c", f'source "{SCRIPT}" true; relay= STARTER=; move $(now)'],
            env={
                "HOST_IP": NODE,
                "ADDRESS_FILE": str(address),
                "API_PORT": "9",
                "STATUS_PORT": str(self._listener.getsockname()[1]),
                "TOKEN_FILE": str(self.tokens),
                "DRAIN_SECONDS": "0",
                "HOLD_SECONDS": str(hold_seconds),
                "PATH": "/usr/bin:/bin",
            },
            stdout=subprocess.PIPE,
            text=True,
        )
        held.callback(self.script.kill)
        self.connection = held.enter_context(self._listener.accept()[0])
        self.request = b""
        while b"\r\n\r\n" not in self.request:
            self.request += self.connection.recv(4096)
        self._accepted = accepted
        self._before = b"429 Too Many Requests" if busy else b"201 Created"
        Thread(target=self._refuse, daemon=True).start()

    def _refuse(self) -> None:
        while True:
            try:
                later, _ = self._listener.accept()
            except OSError:  # the test has ended
                return
            with later:
                while b"SelfSubjectReview" not in later.recv(4096):
                    pass
                self._accepted -= 1
                why = b"Too many requests" if self._accepted >= 0 else b"The apiserver is shutting down"
                status = self._before if self._accepted >= 0 else b"429 Too Many Requests"
                later.sendall(b"HTTP/1.1 %s\r\n\r\n%s, please try again later.\n" % (status, why))

    def answer(self, status: str) -> str:
        """Answer the request; what the script says of it."""
        self.connection.sendall(f"HTTP/1.1 {status}\r\n\r\n".encode())
        return self.script.communicate(timeout=stretched(30))[0]


def test_the_body_is_held_back(tmp_path: Path) -> None:
    """The request that keeps kube-apiserver from closing arrives with its token and without its body, which follows."""
    with ExitStack() as held:
        api = Api(held, tmp_path)
        head, _, body = api.request.partition(b"\r\n\r\n")
        assert body == b"" and b"\r\nAuthorization: Bearer t0ken\r\n" in head
        length = int(head.partition(b"Content-Length: ")[2].split()[0])
        assert api.script.poll() is None  # it waits
        assert len(api.connection.recv(4096)) == length
        said = api.answer("201 Created")
        assert re.search(r"back, [1-9]\d* s from its signal: HTTP/1.1 201 Created; it answered 429 from", said)


@pytest.mark.parametrize("busy", [False, True])
def test_the_hold_begins_with_the_429(tmp_path: Path, busy: bool) -> None:
    """kube-apiserver answers 429 after its pre-shutdown hooks, which take seconds where etcd is slow: a client that
    writes within `holdSeconds` of that is told, so the signal isn't where the time begins. A busy server's 429, of API
    Priority and Fairness, isn't taken for it.
    """
    hold_seconds = round(stretched(3))  # it asks for so long, and a second: enough for seven requests
    with ExitStack() as held:
        api = Api(held, tmp_path, accepted=6, hold_seconds=hold_seconds, busy=busy)  # one in at least 0.1 s
        assert api.connection.recv(4096)
        said = api.answer("201 Created")
    found = re.search(r"held kube-apiserver's end back, (\d+) s .* it answered 429 from ([1-9]\d*) s on", said)
    assert found and int(found[1]) > hold_seconds, said


def test_hooks_that_do_not_end(tmp_path: Path) -> None:
    """Where no 429 comes, HTTP/2 clients wait no more than a second longer than `holdSeconds`."""
    with ExitStack() as held:
        api = Api(held, tmp_path, accepted=10**6)
        assert api.connection.recv(4096)
        assert "it answered no 429" in api.answer("201 Created")


def test_a_server_that_admits_no_such_request(tmp_path: Path) -> None:
    """A refusal doesn't keep the pod from ending, and is in its log with the status."""
    with ExitStack() as held:
        said = Api(held, tmp_path).answer("403 Forbidden")
        assert "refused the request that holds its end back: HTTP/1.1 403 Forbidden" in said


def test_a_hook_that_began_late(tmp_path: Path) -> None:
    """A busy node may begin the proxy's hook seconds after kube-apiserver's: its signal is early then, and the pod has
    all of its time, so that clients are moved as always.
    """
    with ExitStack() as held:
        starter = held.enter_context(subprocess.Popen(["sleep", "600"]))
        held.callback(starter.kill)
        ending = Ending(held, tmp_path, f"STARTER={starter.pid}; move $(($(now) + 4500))")
        starter.send_signal(signal.SIGSTOP)
        until("HTTP/2 to pause", ending.paused, timeout_seconds=30, interval_seconds=0.01)
        ending.server.close()
        assert "grace period" not in ending.script.communicate(timeout=stretched(30))[0]
        assert not ending.paused()
