"""The tables of flags and feature gates, compared with real programs of both versions: what they know and refuse."""

from __future__ import annotations

import re
import ssl
import subprocess
from contextlib import suppress
from pathlib import Path
from urllib.request import urlopen

import pytest

from testkit.lab_cluster import OLD, TARGET
from testkit.ports import free_port
from testkit.waiting import stretched, until
from upgrader.lab.binaries import kubernetes
from upgrader.lab.progress_port import Silent
from upgrader.model.version import KubernetesVersion
from upgrader.preflight.flag_lifecycle import FlagLifecycle, GateStage, known_flags, known_gates

COMPONENTS = ("kube-apiserver", "kube-controller-manager", "kube-scheduler", "kube-proxy")
OF_CADVISOR = re.compile(
    r"allow-dynamic-housekeeping|application-metrics-count-limit|container-hints|containerd.*|crio-client-timeout|"
    r"disable-root-cgroup-stats|docker.*|enable-load-reader|event-storage-.*|.*housekeeping-interval|"
    r"initial-splay-factor|jitter-factor|log-cadvisor-usage|referenced-reset-interval|storage-driver-.*|"
    r"update-machine-info-interval"
)
"""kube-proxy takes over all flags of Go's own package `flag`. In the lab, one program is all components, the kubelet
too, so that its kube-proxy has those of cAdvisor; Kubernetes' own has none of these.
"""

_NO_API = """\
apiVersion: v1
kind: Config
clusters: [{name: none, cluster: {server: "https://127.0.0.1:1"}}]
users: [{name: none, user: {}}]
contexts: [{name: none, context: {cluster: none, user: none}}]
current-context: none
"""

each_program = pytest.mark.parametrize(
    ("version", "component"), [(version, component) for version in (OLD, TARGET) for component in COMPONENTS]
)
each_version = pytest.mark.parametrize("version", [OLD, TARGET])


class Program:
    """A component of one version; it never gets so far that it asks an API server."""

    def __init__(self, folder: Path, version: str, component: str) -> None:
        self.version = KubernetesVersion.parse(version)
        self.component = component
        self._program = folder / component
        self._program.symlink_to(kubernetes(version, Silent()) / "kubernetes")
        # kube-apiserver misses the address of etcd.
        self._ends = () if component == "kube-apiserver" else ("--kubeconfig=/nowhere",)

    def says(self, *arguments: str) -> str:
        """All that it prints until it ends, with an error unless it is asked for help."""
        command = [str(self._program), *arguments, *self._ends]
        done = subprocess.run(command, capture_output=True, text=True, timeout=stretched(60), check=False)
        assert (done.returncode == 0) is ("--help" in arguments), done.stderr
        return done.stdout + done.stderr

    def metrics(self) -> str:
        """Of kube-scheduler: it serves them before it reaches an API server, which there is none of."""
        kubeconfig, log, port = self._program.with_name("kubeconfig"), self._program.with_name("log"), free_port()
        kubeconfig.write_text(_NO_API)
        command = [str(self._program), f"--kubeconfig={kubeconfig}", "--bind-address=127.0.0.1"]
        command += [f"--secure-port={port}", "--authorization-always-allow-paths=/metrics", "--leader-elect=false"]
        anyones = ssl.create_default_context()
        anyones.check_hostname, anyones.verify_mode = False, ssl.CERT_NONE  # it makes itself a certificate
        with log.open("w") as file, subprocess.Popen(command, stdout=file, stderr=file) as process:
            found: list[str] = []

            def answers() -> bool:
                assert process.poll() is None, log.read_text()
                with suppress(OSError), urlopen(f"https://127.0.0.1:{port}/metrics", context=anyones) as answer:
                    found.append(answer.read().decode())
                return bool(found)

            try:
                until("its metrics", answers, timeout_seconds=60, interval_seconds=0.1)
            finally:
                process.kill()
        return found[0]

    def flags(self) -> dict[str, FlagLifecycle]:
        """The flags of this component, of all versions."""
        return {name: flag for (component, name), flag in known_flags().items() if component == self.component}

    def stages(self) -> dict[str, GateStage]:
        """The feature gates of this version."""
        stages = {name: gate.stage_at(self.version) for name, gate in known_gates().items()}
        return {name: stage for name, stage in stages.items() if stage}


@each_program
def test_every_flag_that_help_shows_is_known(tmp_path: Path, version: str, component: str) -> None:
    """One that the table lacks would block a run for nothing. Short ones are the same for all."""
    program = Program(tmp_path, version, component)
    shown = re.findall(r"^ {2,6}(?:-(\w), )?--([\w.-]+)", program.says("--help"), re.MULTILINE)
    assert len(shown) > 50
    lacking = {name for _, name in shown} - {
        name for name, flag in program.flags().items() if flag.known_by(program.version)
    }
    assert {name for name in lacking if component != "kube-proxy" or not OF_CADVISOR.fullmatch(name)} == set()
    assert {short for short, _ in shown if short} == {"h", "v"}


@each_program
def test_every_flag_of_the_table_is_a_flag(tmp_path: Path, version: str, component: str) -> None:
    """Also those that help hides, which are all deprecated: the program warns of each, in the words of the newest."""
    program = Program(tmp_path, version, component)
    known = {name: flag for name, flag in program.flags().items() if flag.known_by(program.version)}
    shown = set(re.findall(r"^ {2,6}(?:-\w, )?--([\w.-]+)", program.says("--help"), re.MULTILINE))
    warned = {name for name, flag in known.items() if flag.deprecated_by(program.version)}
    assert known.keys() - shown <= warned
    said = program.says(*(f"--{name}=0" for name in warned))  # an unknown one ends it before it warns of the next
    for name in warned:
        words = known[name].message if version == TARGET else ""
        assert f"Flag --{name} has been deprecated, {words}" in said


@each_program
def test_flag_that_the_table_calls_gone_is_refused(tmp_path: Path, version: str, component: str) -> None:
    """The program ends at once, as the finding says; so it does at one that never was, and at a single dash."""
    program = Program(tmp_path, version, component)
    gone = [name for name, flag in program.flags().items() if not flag.known_by(program.version)]
    for name in (*gone, "bogus"):
        assert f"unknown flag: --{name}" in program.says(f"--{name}=1")
    assert "unknown shorthand flag: 'b'" in program.says("-bogus=1")
    if (version, component) == (TARGET, "kube-controller-manager"):
        assert "concurrent-service-syncs" in gone


@each_program
def test_every_feature_gate_of_the_table_may_be_set(tmp_path: Path, version: str, component: str) -> None:
    """All at once: one that the program doesn't know, or has locked to another value, would end it."""
    program = Program(tmp_path, version, component)
    given = {name: stage.locked is not False for name, stage in program.stages().items()}
    said = program.says("--feature-gates=" + ",".join(f"{name}={str(value).lower()}" for name, value in given.items()))
    assert "unrecognized feature gate" not in said and "feature is locked" not in said
    shown = set(re.findall(r"\b(\w+)=true\|false \(", program.says("--help")))
    assert len(shown) > 100 and shown - {"AllAlpha", "AllBeta"} <= given.keys()
    assert "unrecognized feature gate: Bogus" in program.says("--feature-gates=Bogus=true")


@each_version
def test_feature_gates_of_the_table_are_those_that_there_are(tmp_path: Path, version: str) -> None:
    """All that a component has, as its metrics name them, by one component: all have the same. Another is refused."""
    program = Program(tmp_path, version, "kube-scheduler")
    has = set(re.findall(r'^kubernetes_feature_enabled\{name="(\w+)"', program.metrics(), re.MULTILINE))
    assert has - {"AllAlpha", "AllBeta"} == program.stages().keys()
    gone = min(known_gates().keys() - has)
    assert f"unrecognized feature gate: {gone}" in program.says(f"--feature-gates={gone}=true")


@each_version
def test_feature_gate_that_the_table_calls_locked_is_refused(tmp_path: Path, version: str) -> None:
    """With the other value; the program names all of them at once."""
    program = Program(tmp_path, version, "kube-scheduler")
    wrong = {
        name: str(not stage.locked).lower() for name, stage in program.stages().items() if stage.locked is not None
    }
    assert len(wrong) > 50
    said = program.says("--feature-gates=" + ",".join(f"{name}={value}" for name, value in wrong.items()))
    for name, value in wrong.items():
        assert f"cannot set feature gate {name} to {value}, feature is locked" in said


@each_version
def test_what_else_decides_of_feature_gates(tmp_path: Path, version: str) -> None:
    """An emulated version unlocks; kube-proxy reads its configuration, and then not the flag."""
    scheduler, proxy = Program(tmp_path, version, "kube-scheduler"), Program(tmp_path, version, "kube-proxy")
    locked = "--feature-gates=InOrderInformers=false"
    assert "feature is locked" in scheduler.says(locked)
    assert "feature is locked" not in scheduler.says(locked, "--emulated-version=1.35")
    configuration = tmp_path / "config.conf"
    text = "apiVersion: kubeproxy.config.k8s.io/v1alpha1\nkind: KubeProxyConfiguration\n"
    text += "clientConnection: {kubeconfig: /nowhere}\n"
    configuration.write_text(text)
    said = proxy.says(f"--config={configuration}", "--feature-gates=Bogus=true")
    assert "/nowhere" in said and "unrecognized" not in said
    configuration.write_text(text + "featureGates: {Bogus: true}\n")
    assert "unrecognized feature gate: Bogus" in proxy.says(f"--config={configuration}")
