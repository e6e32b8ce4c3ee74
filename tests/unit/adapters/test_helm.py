"""How the Helm adapter asks again, with a Helm that answers by script."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.waiting import stretched, until
from upgrader.adapters import helm as adapters_helm
from upgrader.adapters.helm import HelmAdapter
from upgrader.errors import ApiUnavailable, HelmError, HelmUnfinished, Interrupted, StepFailed, UpgraderError
from upgrader.model.redaction.known_secrets import KNOWN
from upgrader.model.release import ReleaseSpec, Revision
from upgrader.model.version import KubernetesVersion as V

ROW = {"revision": 4, "status": "deployed", "chart": "web-1.0.0", "description": "", "updated": ""}


@pytest.fixture(autouse=True)
def _looks_often(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(adapters_helm, "_WATCH_SECONDS", 0.02)


@pytest.fixture
def asked(tmp_path: Path) -> Path:
    """A file with a line for each time that Helm was started."""
    return tmp_path / "asked"


@pytest.fixture
def helm(tmp_path: Path) -> Iterator[Callable[..., HelmAdapter]]:
    """Makes an adapter whose Helm fails with each of these words in turn, the last one for ever; "" succeeds."""
    made: list[HelmAdapter] = []

    def make(*words: str) -> HelmAdapter:
        for number, text in enumerate(words, 1):
            (tmp_path / f"{number}.words").write_text(text)
        program = tmp_path / "helm"
        program.write_text(
            f"""#!/bin/sh
[ "$1" != version ] || {{ printf v4.0.0; exit; }}
cd {tmp_path}
echo "$*" >> asked
n=$(wc -l < asked)
[ "$n" -le {len(words)} ] || n={len(words)}
if [ -s "$n.words" ]; then echo "Error: $(cat "$n.words")" >&2; exit 1; fi
[ "$1" = template ] || echo '{json.dumps([ROW])}'
"""
        )
        program.chmod(0o755)
        made.append(HelmAdapter(tmp_path / "kubeconfig", executable=program, clock=FakeClock()))
        return made[-1]

    yield make
    for adapter in made:
        adapter.close()


def tries(asked: Path) -> int:
    return len(asked.read_text().splitlines())


@pytest.mark.parametrize(
    "words",
    [
        'Kubernetes cluster unreachable: Get "https://10.0.0.11:6443/version": connection refused',
        'Get "https://10.0.0.11:6443/api/v1/secrets": read tcp: connection reset by peer',
        'Get "https://10.0.0.11:6443/api/v1/secrets": unexpected EOF',
        "the server has received too many requests and has asked us to try again later",
        'an error on the server ("internal") has prevented the request from succeeding',
        "query: failed to query with labels: unexpected end of JSON input",
        'Get "https://api:6443/version": dial tcp: lookup api on 10.0.0.1:53: no such host',
        'http2: server sent GOAWAY and closed the connection; LastStreamID=7, ErrCode=NO_ERROR, debug=""',
        "stream error: stream ID 7; INTERNAL_ERROR; received from peer",
        'Get "https://10.0.0.11:6443/api/v1/secrets": dial tcp 10.0.0.11:6443: connect: no route to host',
        'Get "https://10.0.0.11:6443/api/v1/secrets": dial tcp 10.0.0.11:6443: connect: network is unreachable',
        "the server was unable to return a response in the time allotted, but may still be processing the request",
        "query: failed to query with labels: etcdserver: leader changed",
        "query: failed to query with labels: etcdserver: server stopped",
        "query: failed to query with labels: rpc error: code = Unavailable desc = transport is closing",
        "Timeout: request did not complete within requested timeout - context deadline exceeded",
        'Get "https://10.0.0.11:6443/api/v1/secrets": dial tcp 10.0.0.11:6443: connect: operation timed out',
        'Get "https://10.0.0.11:6443/api/v1/secrets": dial tcp 10.0.0.11:6443: connect: network is down',
        'Get "https://10.0.0.11:6443/api/v1/secrets": dial tcp 10.0.0.11:6443: connect: host is down',
        'Get "https://10.0.0.11:6443/api/v1/secrets": write tcp 10.0.0.9:33000: use of closed network connection',
        'Get "https://10.0.0.11:6443/api/v1/secrets": Bad Gateway',
        'Get "https://10.0.0.11:6443/api/v1/secrets": Service Unavailable',
        'Get "https://10.0.0.11:6443/api/v1/secrets": Gateway Timeout',
    ],
)
def test_a_read_is_tried_again(helm: Callable[..., HelmAdapter], asked: Path, words: str) -> None:
    """A connection that a stopping kube-apiserver breaks doesn't end the run at its next look at a release."""
    (revision,) = helm(words, words, "").history("web", "kube-system")
    assert revision.number == 4
    assert tries(asked) == 3


def test_tries_come_to_an_end(helm: Callable[..., HelmAdapter], asked: Path) -> None:
    """An API that stays away is told as that, in Helm's words, after four tries."""
    with pytest.raises(ApiUnavailable, match=r"could not reach the API server for release 'web': .*connection refused"):
        helm("Kubernetes cluster unreachable: connection refused").history("web", "kube-system")
    assert tries(asked) == 4


@pytest.mark.parametrize(
    "words",
    [
        'Kubernetes cluster unreachable: Get "https://a/version": tls: private key does not match public key',
        'Kubernetes cluster unreachable: error loading config file "kubeconfig": yaml: line 9: could not find',
    ],
)
def test_a_kubeconfig_that_is_half_renewed_is_not_an_api_that_is_away(
    helm: Callable[..., HelmAdapter], asked: Path, words: str
) -> None:
    """Helm says the same of both. Reads are tried again, as that passes too; but there is nothing to recover."""
    with pytest.raises(
        ApiUnavailable, match=r"Helm can't use the kubeconfig for release 'web': .*unreachable"
    ) as caught:
        helm(words).history("web", "kube-system")
    assert "try again in a minute" in caught.value.remedy and "recover" not in caught.value.remedy
    assert tries(asked) == 4


_NO_WEBHOOK = (
    'server-side apply failed: Internal error occurred: failed calling webhook "x.example.com": failed to call '
    'webhook: Post "https://x.x.svc:443/x?timeout=10s": dial tcp 10.0.0.1:443: connect: connection refused && '
    'failed calling webhook "y.example.com": failed to call webhook: Post "https://y.x.svc:443/y": EOF'
)


_WEBHOOK_ANSWERS = (
    'server-side apply failed: Internal error occurred: failed calling webhook "x.example.com": failed to call '
    "webhook: the server is currently unable to handle the request"
)


@pytest.mark.parametrize(
    ("words", "kind"),
    [
        ("Kubernetes cluster unreachable: tls: failed to verify certificate: x509: unknown authority", ApiUnavailable),
        ('secrets is forbidden: User "bob" cannot list resource', HelmError),
        (_NO_WEBHOOK, HelmError),
        (_WEBHOOK_ANSWERS, HelmError),
        ("create: failed to create: etcdserver: request is too large", HelmError),
    ],
)
def test_what_waiting_does_not_mend(
    helm: Callable[..., HelmAdapter], asked: Path, words: str, kind: type[Exception]
) -> None:
    """A certificate that can't be trusted, or a refusal, is said at once. An API server that can't reach a webhook
    answers: there is nothing to recover.
    """
    with pytest.raises(kind):
        helm(words).history("web", "kube-system")
    assert tries(asked) == 1


def test_a_revision_that_another_helm_has_removed(helm: Callable[..., HelmAdapter]) -> None:
    """Helm says of it what it says of a release that isn't installed; the error names the revision, and what to do."""
    without = helm("release: not found")
    with pytest.raises(HelmError, match="revision 4 of release 'web' is not in Helm's history") as caught:
        without.manifest("web", "shop", 4)
    assert "helm history web -n shop" in caught.value.remedy
    with pytest.raises(HelmError, match="revision 4 of release 'web' is not in Helm's history"):
        without.rollback("web", "shop", 4, timeout_seconds=60)
    with pytest.raises(HelmError, match="release 'web' is not installed"):
        without.manifest("web", "shop")


@pytest.mark.parametrize(
    ("statuses", "left"),
    [
        (("superseded", "uninstalled"), []),
        (("uninstalled",), []),
        (("superseded", "uninstalled", "failed", "deployed"), [3, 4]),
    ],
)
def test_history_that_an_uninstall_has_kept(tmp_path: Path, statuses: tuple[str, ...], left: list[int]) -> None:
    """After `helm uninstall --keep-history` a release isn't installed: no run goes back to its earlier revisions, and
    none takes them for what is there now.
    """
    rows = json.dumps([{**ROW, "revision": number, "status": each} for number, each in enumerate(statuses, 1)])
    program = tmp_path / "helm"
    program.write_text(f"#!/bin/sh\n[ \"$1\" != version ] || {{ printf v4.0.0; exit; }}\necho '{rows}'\n")
    program.chmod(0o755)
    adapter = HelmAdapter(tmp_path / "kubeconfig", executable=program, clock=FakeClock())
    try:
        assert [each.number for each in adapter.history("web", "shop")] == left
    finally:
        adapter.close()


@dataclass
class PendingHelm:
    """A Helm 4 whose newest revision, 4, has this status for an hour by its own machine's clock, and these hooks."""

    place: Path
    status: str = "pending-upgrade"
    hooks: str = ""
    age: Callable[[str, str, int], float | None] = lambda *_: None
    clock: FakeClock = field(default_factory=FakeClock)

    def newest(self) -> tuple[Revision, Revision]:
        """As it is told now, and once more a minute later; it is asked for its hooks once."""
        row = {**ROW, "status": self.status, "updated": (self.clock.now() - timedelta(hours=1)).isoformat()}
        (self.place / "hooks").write_text(self.hooks)
        program = self.place / "helm"
        program.write_text(
            f"""#!/bin/sh
[ "$1" != version ] || {{ printf v4.0.0; exit; }}
[ "$1" != get ] || {{ cat {self.place}/hooks; echo "$*" >> {self.place}/asked; exit; }}
echo '{json.dumps([row])}'
"""
        )
        program.chmod(0o755)
        adapter = HelmAdapter(self.place / "kubeconfig", executable=program, clock=self.clock, record_age=self.age)
        try:
            first = adapter.history("web", "shop")[-1]
            self.clock.sleep(60)
            return first, adapter.history("web", "shop")[-1]
        finally:
            adapter.close()


def test_pending_revision_is_as_old_as_the_api_server_says(tmp_path: Path) -> None:
    """Of a Helm on a machine whose clock is an hour behind: it works since five seconds, and isn't given up."""
    asked: list[object] = []

    def age(*of: object) -> float:
        asked.append(of)
        return 5.0

    helm = PendingHelm(tmp_path, age=age)
    first, later = helm.newest()
    assert first.age_seconds(helm.clock.now() - timedelta(seconds=60)) == 5.0
    assert later.age_seconds(helm.clock.now()) == 65.0
    assert not later.abandoned(helm.clock.now(), 300)
    assert asked == [("web", "shop", 4)]


def test_pending_revision_of_unknown_age(tmp_path: Path) -> None:
    """While the API doesn't tell, it counts as young; where its records are elsewhere, Helm's own date stands."""

    def unknown(*_: object) -> float:
        raise ApiUnavailable("no answer")

    helm = PendingHelm(tmp_path, age=unknown)
    assert not helm.newest()[1].abandoned(helm.clock.now(), 300)
    elsewhere = PendingHelm(tmp_path)
    assert elsewhere.newest()[0].abandoned(elsewhere.clock.now(), 300)


@pytest.mark.parametrize(
    ("status", "waits"),
    [("pending-install", 1), ("pending-upgrade", 3), ("pending-rollback", 2), ("uninstalling", 1), ("failed", 1)],
)
def test_helm_at_work_has_the_time_of_its_hooks(tmp_path: Path, status: str, waits: int) -> None:
    """Of those that it waits for while a revision has this status: it is no dead Helm that waits for a migration."""
    hooks = f"{hook('migrate', 'pre-upgrade,post-upgrade')}\n{hook('back', 'post-rollback')}"
    helm = PendingHelm(tmp_path, status, hooks)
    assert [each.waits for each in helm.newest()] == [waits, waits]
    asked = (tmp_path / "asked").read_text().splitlines() if status != "failed" else []
    assert len(asked) == (status != "failed")


def test_changes_are_made_once(helm: Callable[..., HelmAdapter], asked: Path) -> None:
    """A rollback whose connection broke may have been carried out: whether to repeat it isn't for the adapter."""
    with pytest.raises(ApiUnavailable):
        helm("read tcp: connection reset by peer").rollback("web", "kube-system", 3, timeout_seconds=5)
    assert tries(asked) == 1


def test_helm_that_is_killed_has_not_succeeded(tmp_path: Path) -> None:
    """It can't say so itself; and what it wrote before is not the cause."""
    program = tmp_path / "helm"
    program.write_text('#!/bin/sh\n[ "$1" != version ] || { printf v4.0.0; exit; }\necho "Error: x" >&2\nkill -9 $$\n')
    program.chmod(0o755)
    adapter = HelmAdapter(tmp_path / "kubeconfig", executable=program, clock=FakeClock())
    try:
        with pytest.raises(HelmError, match=r"'web': Helm was killed \(signal 9\)"):
            adapter.rollback("web", "kube-system", 3, timeout_seconds=5)
    finally:
        adapter.close()


@dataclass
class Endless:
    """A Helm whose changes don't end by themselves, beside a clock that every look at them sets on by ten seconds."""

    place: Path
    hooks: str = ""
    """What the chart has, and the release's revision."""
    silent: bool = False
    """Whether the API doesn't answer Helm."""
    clock: FakeClock = field(default_factory=FakeClock)

    def upgrade(self, *, wait: bool = True) -> float:
        """After how many seconds it is ended."""
        return self._ended(lambda helm: helm.upgrade(self._spec, timeout_seconds=60, watch=self._look, wait=wait))

    def roll_back(self) -> float:
        """After how many seconds it is ended."""
        return self._ended(lambda helm: helm.rollback("web", "default", 3, timeout_seconds=60, watch=self._look))

    @property
    def asked(self) -> list[str]:
        """What Helm was started for, in order."""
        return (self.place / "asked").read_text().splitlines()

    @property
    def _spec(self) -> ReleaseSpec:
        return ReleaseSpec("web", "default", self.place)

    def _look(self) -> None:
        self.clock.sleep(10.0)

    def _ended(self, change: Callable[[HelmAdapter], object]) -> float:
        (self.place / "hooks").write_text(self.hooks)
        (self.place / "Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}")
        program = self.place / "helm"
        answer = "echo 'Error: Kubernetes cluster unreachable: EOF' >&2; exit 1" if self.silent else "cat hooks"
        program.write_text(
            f"""#!/bin/sh
[ "$1" != version ] || {{ printf v4.0.0; exit; }}
cd {self.place}
echo "$*" >> asked
case $1 in
template|get) {answer};;
*) exec sleep 600;;
esac
"""
        )
        program.chmod(0o755)
        adapter = HelmAdapter(self.place / "kubeconfig", executable=program, clock=self.clock)
        begun = self.clock.monotonic()
        try:
            with pytest.raises(HelmUnfinished, match="did not complete release 'web' within") as caught:
                change(adapter)
        finally:
            adapter.close()
        (seconds,) = re.findall(r"within (\d+) s", caught.value.message)
        assert self.clock.monotonic() - begun >= float(seconds)
        return float(seconds)


def upgraded(
    place: Path,
    description: str = "",
    *,
    wait: bool = True,
    release: str = "web",
    chart: str = "{apiVersion: v2, name: web, version: 1.0.0}",
    answer: str = "",
) -> tuple[Revision, list[str]]:
    """The revision of an upgrade by a Helm 4, and what that was called with. `chart` is its Chart.yaml; `answer` is
    what Helm prints in place of the release.
    """
    (place / "Chart.yaml").write_text(chart)
    info = {"status": "deployed", "last_deployed": "2026-01-01T00:00:00Z", "description": "as it was described"}
    done = answer or json.dumps({"name": release, "namespace": "default", "version": 2, "info": info, "manifest": ""})
    program = place / "helm"
    program.write_text(
        f"""#!/bin/sh
case $1 in
version) printf v4.0.0;;
show) cat {place}/Chart.yaml;;
upgrade) printf '%s\\n' "$@" > {place}/asked; echo '{done}';;
esac
"""
    )
    program.chmod(0o755)
    adapter = HelmAdapter(place / "kubeconfig", executable=program, clock=FakeClock())
    try:
        spec = ReleaseSpec(release, "default", place)
        made = adapter.upgrade(spec, timeout_seconds=60, watch=lambda: None, description=description, wait=wait)
    finally:
        adapter.close()
    return made, (place / "asked").read_text().splitlines()


def test_history_tells_whose_revision_it_is(tmp_path: Path) -> None:
    """What is described is passed on in characters that any locale has, and no longer than Helm takes."""
    made, asked = upgraded(tmp_path, description=f"upgrader: v1 → v2 {'x' * 300}")
    assert asked[asked.index("--description") + 1] == f"upgrader: v1 -> v2 {'x' * 300}"[:256]
    assert (made.number, made.description) == (2, "as it was described")


def test_release_that_helm_3_wrote_is_upgraded_by_helm_4(tmp_path: Path) -> None:
    """Helm 4 applies it on the client's side otherwise, and refuses --force-conflicts there."""
    _, asked = upgraded(tmp_path)
    assert {"--server-side=true", "--force-conflicts"} <= {*asked}


def test_upgrade_that_does_not_wait_rolls_nothing_back(tmp_path: Path) -> None:
    """To Helm, a rollback on failure is a wish to wait."""
    waits = {"--wait", "--wait-for-jobs", "--rollback-on-failure"}
    assert waits <= {*upgraded(tmp_path)[1]}
    assert not waits & {*upgraded(tmp_path, wait=False)[1]}


@pytest.mark.parametrize(
    ("release", "chart"),
    [
        ("shop.web", "{apiVersion: v2, name: web, version: 1.0.0}"),
        ("web", "{apiVersion: v2, name: Web_App, version: 1.0.0}"),
        ("web", '{apiVersion: v2, name: web, version: "1.0"}'),
        ("web", "{apiVersion: v2, name: web, version: 1.0.0, home: example.com, sources: [github.com/x/web]}"),
        ("web", '{apiVersion: v2, name: web, version: 1.0.0, icon: web.png, maintainers: [{name: x, email: ""}]}'),
    ],
    ids=["name with a dot", "chart's name", "short version", "no URLs", "icon and e-mail"],
)
def test_what_helm_takes_is_upgraded(tmp_path: Path, release: str, chart: str) -> None:
    """Helm itself judges names and what a Chart.yaml says: the plan has rendered such a chart, and the step upgrades
    it.
    """
    made, asked = upgraded(tmp_path, release=release, chart=chart)
    assert made.number == 2 and asked[:3] == ["upgrade", release, str(tmp_path)]


@pytest.mark.parametrize("answer", ["done", "{}", '{"version": 2} done'])
def test_upgrade_whose_answer_cannot_be_read_has_failed(tmp_path: Path, answer: str) -> None:
    """A plugin of Helm's may print beside the release; which revision was written is unknown then, and the step is
    rolled back.
    """
    with pytest.raises(HelmError, match="upgraded release 'web', but its output is not the release as JSON") as caught:
        upgraded(tmp_path, answer=answer)
    assert "helm history web" in caught.value.remedy


@pytest.fixture
def ended_by_its_watch(tmp_path: Path) -> Iterator[Callable[[UpgraderError], bool]]:
    """Starts an upgrade on the same adapter each time, raises this error once Helm works, and tells whether Helm has
    rolled back by the time that the error arrives.
    """
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}")
    begun, rolled_back = tmp_path / "pid", tmp_path / "rolled-back"
    program = tmp_path / "helm"
    program.write_text(
        f"""#!/bin/bash
case $1 in
version) printf v4.0.0;;
upgrade) trap 'touch {rolled_back}; exit 1' TERM; echo $$ > {begun}.new; mv {begun}.new {begun}
  until [ -e {tmp_path}/never ]; do read -rt 0.05 <> <(:) || :; done;;
esac
"""
    )
    program.chmod(0o755)
    adapter = HelmAdapter(tmp_path / "kubeconfig", executable=program, clock=FakeClock())

    def end(error: UpgraderError) -> bool:
        begun.unlink(missing_ok=True)

        def watch() -> None:
            wait_for(begun)
            raise error

        with pytest.raises(type(error)):
            adapter.upgrade(ReleaseSpec("web", "default", tmp_path), timeout_seconds=60, watch=watch)
        assert not Path(f"/proc/{begun.read_text().strip()}").exists()
        return rolled_back.exists()

    yield end
    adapter.close()


_LOST = Interrupted("the cluster's lock was taken over by ben")


def test_helm_of_a_lost_lock_writes_nothing_more(ended_by_its_watch: Callable[[UpgraderError], bool]) -> None:
    """Asked to end, it would roll the release back, on which another machine works by now: it is killed."""
    assert not ended_by_its_watch(_LOST)


def test_helm_is_killed_for_its_own_call_only(ended_by_its_watch: Callable[[UpgraderError], bool]) -> None:
    """A later upgrade by the same adapter that can't succeed ends as always: Helm is asked to, and rolls back."""
    assert not ended_by_its_watch(_LOST)
    assert ended_by_its_watch(StepFailed("its pod can't be pulled"))


def hook(name: str, events: str) -> str:
    """A Job that Helm runs as a hook, as a chart renders it."""
    meta = {"name": name, "annotations": {"helm.sh/hook": events}}
    return "---\n" + json.dumps({"apiVersion": "batch/v1", "kind": "Job", "metadata": meta})


@pytest.mark.parametrize(
    ("hooks", "waits"),
    [
        ("", 1),
        (hook("migrate", "pre-upgrade"), 2),
        (hook("migrate", "pre-install, pre-upgrade") + "\n" + hook("index", "post-upgrade"), 3),
        (hook("both", "pre-upgrade,post-upgrade"), 3),
        (hook("check", "test") + "\n" + hook("count", "pre-install,test"), 2),
    ],
)
def test_hooks_have_their_time(tmp_path: Path, hooks: str, waits: int) -> None:
    """Helm waits as long as its timeout for each hook, and again for the workloads: an upgrade whose migration takes
    four minutes of five isn't stopped in the middle. One that Helm doesn't wait for isn't rolled back.
    """
    assert Endless(tmp_path, hooks).upgrade(wait=False) == 60.0 * waits + 60.0


@pytest.mark.parametrize(
    ("hooks", "waits"),
    [
        ("", 2),
        (hook("migrate", "pre-upgrade"), 3),
        (hook("back", "pre-rollback"), 3),
        (hook("clean", "pre-delete,post-delete"), 4),
        (hook("all", "pre-upgrade,post-rollback"), 4),
    ],
)
def test_rollback_of_a_failed_upgrade_has_its_time(tmp_path: Path, hooks: str, waits: int) -> None:
    """Helm waits for it as long as for the upgrade, with the same timeout, and heeds no SIGTERM meanwhile: ended
    earlier, it would be killed, and leave the release pending.
    """
    assert Endless(tmp_path, hooks).upgrade() == 60.0 * waits + 60.0


@pytest.mark.parametrize(
    ("hooks", "waits"),
    [
        ("", 1),
        (hook("back", "pre-rollback"), 2),
        (hook("back", "pre-rollback,post-rollback") + "\n" + hook("index", "post-rollback"), 4),
        (hook("migrate", "pre-upgrade") + "\n" + hook("first", "post-install"), 1),
    ],
)
def test_hooks_of_a_rollback_have_their_time(tmp_path: Path, hooks: str, waits: int) -> None:
    """Those of the revision that it returns to, as Helm has stored them: it runs these, and not the new chart's."""
    helm = Endless(tmp_path, hooks)
    assert helm.roll_back() == 60.0 * waits + 30.0
    assert helm.asked[1].startswith("get hooks web --namespace default --revision 3")


def test_helm_runs_before_anything_is_asked_for_its_time(tmp_path: Path) -> None:
    """An API that doesn't answer just at that moment ends no step, and a slow one delays none: how long Helm may take
    is asked once it has taken longer than without hooks.
    """
    for change in (Endless.upgrade, Endless.roll_back):
        helm = Endless(tmp_path)
        change(helm)
        assert [each.partition(" ")[0] for each in helm.asked] in (["upgrade", "template"], ["rollback", "get"])
        (tmp_path / "asked").unlink()


def test_hooks_that_can_not_be_read(tmp_path: Path) -> None:
    """Helm gets the time of one hook, and they are read again before it is ended: none is stopped in the middle because
    the API didn't answer once.
    """
    helm = Endless(tmp_path, silent=True)
    assert helm.upgrade() == 60.0 * 3 + 60.0
    reads = [each for each in helm.asked if each.startswith("template ")]
    assert 4 < len(reads) <= 2 * 4, "each time with its retries, for which the clock may leave less time"


def test_lost_lock_is_seen_while_hooks_are_read(tmp_path: Path) -> None:
    """Reading them takes up to a minute where the API is slow, and Helm changes the release meanwhile."""
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}")
    program = tmp_path / "helm"
    program.write_text(
        f"""#!/bin/bash
cd {tmp_path}
case $1 in
version) printf v4.0.0;;
upgrade) until [ -e over ]; do read -rt 0.05 <> <(:) || :; done;;
template) touch reading; for _ in {{1..100}}; do [ -e seen ] && exit 1; read -rt 0.05 <> <(:) || :; done; touch unseen;;
esac
"""
    )
    program.chmod(0o755)
    clock = FakeClock()

    def watch() -> None:
        if clock.monotonic() >= 180.0:
            wait_for(tmp_path / "reading")
            (tmp_path / "seen").touch()
            raise _LOST
        clock.sleep(180.0)

    adapter = HelmAdapter(tmp_path / "kubeconfig", executable=program, clock=clock)
    try:
        with pytest.raises(Interrupted, match="taken over by ben"):
            adapter.upgrade(ReleaseSpec("web", "default", tmp_path), timeout_seconds=60, watch=watch)
    finally:
        adapter.close()
        (tmp_path / "over").touch()
    assert not (tmp_path / "unseen").exists()


_STARTER = """
import signal, sys, time
from contextlib import nullcontext
from pathlib import Path
from upgrader.adapters.helm import HelmAdapter
from upgrader.engine.execution.stop_request import StopRequest, stop_on_signals
from upgrader.errors import HelmError
from upgrader.model.release import ReleaseSpec
signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell has what it starts in the background ignore it
folder = Path(sys.argv[1])
helm = HelmAdapter(folder / "kubeconfig", executable=folder / "helm")

def watch():
    (folder / "watched").touch()
    while not (folder / "closed").exists():
        time.sleep(0.02)

def tell(_):
    (folder / "told").touch()

try:
    with stop_on_signals(StopRequest(), tell) if sys.argv[2:] else nullcontext():
        helm.upgrade(ReleaseSpec("web", "default", folder, {}), timeout_seconds=60.0, watch=watch)
except HelmError:
    (folder / "ended").touch()  # it has waited for this Helm, which prints no release
except KeyboardInterrupt:
    pass
helm.close()
(folder / "closed").touch()
"""


@pytest.fixture
def slow_helm(tmp_path: Path) -> Path:
    """A folder with a Helm whose upgrade completes once there is a file `killed`."""
    (tmp_path / "Chart.yaml").write_text("{apiVersion: v2, name: web, version: 1.0.0}")
    program = tmp_path / "helm"
    program.write_text(
        f"""#!/bin/bash
case $1 in
version) printf v4.0.0;;
show) cat {tmp_path}/Chart.yaml;;
upgrade) touch {tmp_path}/begun
  until [ -e {tmp_path}/killed ]; do read -rt 0.05 <> <(:) || :; done
  echo warning >&2; echo '{{}}'; touch {tmp_path}/completed;;
esac
"""
    )
    program.chmod(0o755)
    return tmp_path


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGINT])
def test_helm_completes_what_it_began_when_its_starter_ends(slow_helm: Path, number: signal.Signals) -> None:
    """Its output has no reader any more, which doesn't end it; a second Ctrl-C leaves no traceback."""
    command = [sys.executable, "-c", _STARTER, str(slow_helm)]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as starter:
        try:
            wait_for(slow_helm / "begun")
            wait_for(slow_helm / "watched")
            starter.send_signal(number)
            _, said = starter.communicate(timeout=stretched(30))
        finally:
            starter.kill()
    (slow_helm / "killed").touch()
    wait_for(slow_helm / "completed")
    assert said == ""


@pytest.mark.parametrize("twice", [False, True])
def test_helm_is_not_ended_by_the_sigterm_of_its_starter(slow_helm: Path, *, twice: bool) -> None:
    """As a run handles it: after the first one it waits for its Helm to complete; the second one ends the run, and not
    its Helm.
    """
    command = [sys.executable, "-c", _STARTER, str(slow_helm), "as a run"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as starter:
        try:
            wait_for(slow_helm / "begun")
            wait_for(slow_helm / "watched")
            starter.terminate()
            wait_for(slow_helm / "told")
            if twice:
                starter.terminate()
                starter.communicate(timeout=stretched(30))
                assert not (slow_helm / "completed").exists()
            (slow_helm / "killed").touch()
            wait_for(slow_helm / "completed")
            (slow_helm / "closed").touch()
            starter.communicate(timeout=stretched(30))
        finally:
            starter.kill()
    assert (slow_helm / "ended").exists() is not twice


def wait_for(file: Path) -> None:
    """Another process makes this file."""
    until(str(file), file.exists, timeout_seconds=30, interval_seconds=0.02)


@pytest.mark.parametrize(
    ("offline", "options"), [(False, "--no-hooks --dry-run=server"), (True, "--no-hooks --kube-version v1.33.13")]
)
def test_chart_is_rendered_as_it_is_stored(
    helm: Callable[..., HelmAdapter], asked: Path, offline: bool, options: str
) -> None:
    """Without hooks, which `get manifest` leaves out, and with what the API answers to `lookup` and `.Capabilities`;
    offline for the target's version, not for that of Helm's own library.
    """
    helm("").render(ReleaseSpec("web", "default", Path("/charts/web")), target=V(1, 33, 13), offline=offline)
    assert f"--is-upgrade {options} --values" in asked.read_text()


def secret_manifest(value: str) -> str:
    """A Secret, as a chart renders it."""
    return json.dumps({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "s"}, "stringData": {"key": value}})


def test_secrets_of_a_release_are_masked(tmp_path: Path) -> None:
    """Those that it renders, and those that any of its revisions has: no pattern knows a plain word."""
    rendered, stored = "tbwqkzvrnmplds", "plzvkqhwtbmrns"
    program = tmp_path / "helm"
    program.write_text(
        f"""#!/bin/sh
case $1 in
version) printf v4.0.0;;
template) echo '{secret_manifest(rendered)}';;
get) echo '{secret_manifest(stored)}';;
esac
"""
    )
    program.chmod(0o755)
    adapter = HelmAdapter(tmp_path / "kubeconfig", executable=program, clock=FakeClock())
    try:
        adapter.render(ReleaseSpec("web", "default", tmp_path))
        adapter.manifest("web", "default", 3)
    finally:
        adapter.close()
    assert KNOWN.mask(f"{rendered} {stored}") == "[masked] [masked]"


def test_values_that_helm_refuses_are_masked(helm: Callable[..., HelmAdapter]) -> None:
    """Its complaint quotes them, and there is no manifest to learn them from."""
    value = "zrkvhbqtwnmpls"
    with pytest.raises(HelmError, match="refused") as caught:
        helm(f"password {value} is refused").render(ReleaseSpec("web", "default", Path("/web"), {"password": value}))
    assert "password [masked] is refused" in KNOWN.mask(caught.value.message)


def test_chart_whose_kinds_are_not_installed_yet(helm: Callable[..., HelmAdapter], asked: Path) -> None:
    """The API refuses objects of a chart's own kinds until their definitions are there: it is not asked then."""
    helm('unable to build kubernetes objects: no matches for kind "Web"', "").render(
        ReleaseSpec("web", "default", Path("/charts/web")), target=V(1, 33, 13)
    )
    again = asked.read_text().splitlines()[1]
    assert tries(asked) == 2 and "--dry-run" not in again and "--kube-version v1.33.13" in again
    with pytest.raises(HelmError, match="values don't meet"):
        helm("values don't meet the schema").render(ReleaseSpec("web", "default", Path("/charts/web")))


def test_offline_schemas_are_checked_first(helm: Callable[..., HelmAdapter], asked: Path, tmp_path: Path) -> None:
    """A chart whose schema would make Helm open a connection is not given to it."""
    (tmp_path / "values.schema.json").write_text('{"$ref": "http://evil.example"}')
    with pytest.raises(HelmError, match="nothing outside the chart"):
        helm("").render(ReleaseSpec("web", "kube-system", tmp_path), offline=True)
    assert not asked.exists()


def test_environment_takes_helm_to_no_other_cluster(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Helm's own variables for a server, a token or a context would win over the kubeconfig that it is given."""
    for name in ("HELM_KUBEAPISERVER", "HELM_KUBETOKEN", "HELM_KUBECONTEXT", "HELM_CACHE_HOME"):
        monkeypatch.setenv(name, str(tmp_path / "elsewhere"))
    program = tmp_path / "helm"
    answers = f"env > {tmp_path}/seen; echo '{json.dumps([ROW])}'"
    program.write_text(f'#!/bin/sh\n[ "$1" != version ] || {{ printf v4.0.0; exit; }}\n{answers}\n')
    program.chmod(0o755)
    adapter = HelmAdapter(tmp_path / "kubeconfig", executable=program, clock=FakeClock())
    try:
        adapter.history("web", "shop")
    finally:
        adapter.close()
    seen = (tmp_path / "seen").read_text()
    assert "HELM_KUBE" not in seen and "HELM_CACHE_HOME" in seen
