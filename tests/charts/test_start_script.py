"""The script that starts kube-apiserver and passes on the kubelet's signal, by the shell that the chart copies."""

from __future__ import annotations

import os
import signal
import subprocess
from contextlib import ExitStack, suppress
from pathlib import Path

import pytest

from testkit.lab_cluster import until
from testkit.waiting import stretched
from tests.charts.test_proxy_script import stopped
from upgrader.built_in_files import charts_folder

FILES = charts_folder() / "kube-apiserver" / "files"

SERVER = """\
trap 'echo told >> {folder}/signals; [ -e {folder}/slow ] || exit 7' TERM
touch {folder}/running
while :; do sleep 0.05; done
"""


class Pod:
    """What address.sh leaves in a pod, and a server that writes down each signal and then exits with 7."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        environment = {"PATH": "/usr/bin:/bin", "ADDRESS_FILE": str(folder / "runtime" / "address.env")}
        (folder / "runtime").mkdir()
        subprocess.run(["/bin/sh", str(FILES / "address.sh")], env=environment, check=True, capture_output=True)
        (folder / "runtime-proxy").mkdir()
        (folder / "server").write_text(SERVER.format(folder=folder))

    def start(self, held: ExitStack, *server: str) -> subprocess.Popen[bytes]:
        """As the chart's container does, with this server or another one; once it runs."""
        files = self.folder / "runtime" / "files"
        shell = [str(files / "loader"), "--library-path", str(files), str(files / "sh"), str(files / "start.sh")]
        words = server or ("/bin/sh", str(self.folder / "server"))
        process = held.enter_context(subprocess.Popen([*shell, *words], start_new_session=True))
        held.callback(_kill_all, process.pid)
        if not server:
            until("the server", (self.folder / "running").exists, timeout_seconds=30, interval_seconds=0.02)
        return process

    def signals(self) -> int:
        """How often the server was told to end."""
        file = self.folder / "signals"
        return len(file.read_text().splitlines()) if file.exists() else 0


def _kill_all(group: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(group, signal.SIGKILL)


@pytest.fixture
def pod(tmp_path: Path) -> Pod:
    """A pod that is prepared."""
    return Pod(tmp_path)


def test_it_ends_with_its_server(pod: Pod) -> None:
    """The container's exit code is kube-apiserver's own, also of one that doesn't exist, or was killed."""
    for words, code in (("exit 3", 3), ("kill -9 $$", 137)):
        with ExitStack() as held:
            assert pod.start(held, "/bin/sh", "-c", words).wait(timeout=stretched(30)) == code
    with ExitStack() as held:
        assert pod.start(held, "no-such-program").wait(timeout=stretched(30)) == 127


@pytest.mark.parametrize("stop_signal", ["TERM", "INT", "HUP", "QUIT", "USR1", "USR2"])
def test_the_signal_is_passed_on_at_once_where_nothing_moves_clients(pod: Pod, stop_signal: str) -> None:
    """Without its proxy, a pod ends as kube-apiserver does: it is told once, and its exit code is the pod's. The stop
    signal that a vendor's image names is passed on as SIGTERM.
    """
    with ExitStack() as held:
        process = pod.start(held)
        process.send_signal(signal.Signals[f"SIG{stop_signal}"])
        assert process.wait(timeout=stretched(30)) == 7 and pod.signals() == 1


@pytest.mark.parametrize("left", ["{ended}\n", "x\n", "\n", ""])
def test_what_a_proxy_left_that_has_ended_holds_nothing_back(pod: Pod, left: str) -> None:
    """A proxy that was killed while it moved clients can't let the signal go on: kube-apiserver is told at once."""
    with ExitStack() as held:
        ended = held.enter_context(subprocess.Popen(["true"]))
        ended.wait()
        (pod.folder / "runtime-proxy" / "ending").write_text(left.format(ended=ended.pid))
        process = pod.start(held)
        process.terminate()
        assert process.wait(timeout=stretched(30)) == 7 and pod.signals() == 1


def test_the_proxy_finds_what_gets_the_signal(pod: Pod) -> None:
    """Another process by the same shell, as of `kubectl exec`, isn't taken for the one that passes the signal on."""
    files = pod.folder / "runtime" / "files"
    another = [f"{files}/loader", "--library-path", str(files), f"{files}/sh", "-c", "read wait"]
    words = f'source "{files}/proxy.sh" true; find_starter; echo "$STARTER"'
    environment = {"HOST_IP": "127.0.0.1", "ADDRESS_FILE": "/dev/null", "PRIVATE_ADDRESS": "", "PATH": "/usr/bin:/bin"}
    with ExitStack() as held:
        held.enter_context(subprocess.Popen(another, stdin=subprocess.PIPE))
        process = pod.start(held)
        held.enter_context(subprocess.Popen(another, stdin=subprocess.PIPE))
        found = subprocess.run(["bash", "-c", words], env=environment, stdout=subprocess.PIPE, text=True, check=True)
        assert found.stdout == f"{process.pid}\n"


def test_the_signal_waits_until_the_proxy_lets_it_go_on(pod: Pod) -> None:
    """While the proxy moves clients, kube-apiserver isn't told before the proxy says so; then it is told once: a second
    signal would end it at once, with what is in flight.
    """
    (pod.folder / "slow").touch()
    (pod.folder / "runtime-proxy" / "ending").write_text(f"{os.getpid()}\n")
    with ExitStack() as held:
        process = pod.start(held)
        process.terminate()
        until("it to stop", lambda: stopped(process), timeout_seconds=30, interval_seconds=0.02)
        assert pod.signals() == 0
        process.terminate()  # waits as well
        process.send_signal(signal.SIGCONT)
        until("the server to be told", lambda: pod.signals() > 0, timeout_seconds=30, interval_seconds=0.02)
        process.terminate()
        (pod.folder / "slow").unlink()
        server = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()[0]
        assert process.poll() is None and pod.signals() == 1
        os.kill(int(server), signal.SIGTERM)
        assert process.wait(timeout=stretched(30)) == 7
