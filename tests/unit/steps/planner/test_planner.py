"""The planner: the observed state, the intended state, and the difference in words."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from upgrader.model.etcd_settings import EtcdSettings
from upgrader.model.etcd_version import EtcdVersion
from upgrader.model.kubeadm_config import KubeadmConfig
from upgrader.model.kubelet_config import KubeletConfig
from upgrader.model.masked_manifest import masked_text
from upgrader.model.node_configuration import NodeConfiguration
from upgrader.model.node_settings import NodePool, NodeSource
from upgrader.model.observed import Observed, ObservedNode, ObservedRelease
from upgrader.model.release import ReleaseSpec, Revision
from upgrader.model.settings import ReleaseSettings, Settings
from upgrader.model.surge import Surge
from upgrader.model.version import KubernetesVersion
from upgrader.steps.etcd.plan import EtcdChange, PlannedEtcd
from upgrader.steps.intended import emulation_after, plan_run, wanted_steps
from upgrader.steps.kubeadm_config.plan import PlannedKubeadmConfig, plan_kubeadm_config
from upgrader.steps.kubelet_config.plan import plan_kubelet_config
from upgrader.steps.nodes.plan import PlannedNodes
from upgrader.steps.plan import Plan, observed_after
from upgrader.steps.release.plan import IntendedRelease, PlannedRelease, object_changes
from upgrader.steps.step_document import NodeChange
from upgrader.steps.surge.plan import PlannedSurge

V136, V137 = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)


def deployment(tag: str) -> str:
    """A manifest with one Deployment."""
    return f"""
apiVersion: apps/v1
kind: Deployment
metadata: {{name: web, namespace: kube-system}}
spec: {{template: {{spec: {{containers: [{{name: web, image: "registry.example/web:{tag}"}}]}}}}}}
"""


def planned(before: str, after: str, *history: Revision) -> PlannedRelease:
    """The plan for one release that was `before` and should be `after`."""
    observed = Observed(V136, {}, {"web": ObservedRelease(history, before)})
    wanted = IntendedRelease(ReleaseSpec("web", "kube-system", Path("/charts/web")), after)
    step = plan_run([wanted], observed, V137).steps[0]
    assert isinstance(step, PlannedRelease)
    return step


def test_same_manifest_is_nothing_to_do() -> None:
    """A release that renders to what is deployed is left alone, so a second run changes nothing."""
    assert planned(deployment("v1"), deployment("v1"), Revision(1, "deployed")).action == "unchanged"


def test_the_note_of_a_revision_is_no_change() -> None:
    """A chart that annotates its own revision renders differently each time; that alone is no change."""
    before, after = (
        f"kind: Deployment\nmetadata:\n  name: web\n  annotations:\n    checkpointer.upgrader.io/helm-revision: {r}\n"
        for r in ('"3"', '"1"')
    )
    assert planned(before, after, Revision(3, "deployed")).action == "unchanged"


def test_failed_attempt_on_top_is_applied_again() -> None:
    """Equal manifests don't count while the newest revision is a failed one: the cluster may hold part of it."""
    step = planned(deployment("v1"), deployment("v1"), Revision(1, "superseded"), Revision(2, "failed"))
    assert (step.action, step.revision) == ("upgrade", 1)


def test_uninstalled_release_is_installed_again() -> None:
    """A release that was removed manually is planned as an install."""
    assert planned("", deployment("v1")).action == "install"


def test_summary_names_the_images_that_move() -> None:
    """The line that an operator reads first names the old and the new image."""
    step = planned(deployment("v1"), deployment("v2"), Revision(1, "deployed"))
    assert step.summary == "web: v1 → v2 (1 object)"
    assert "+" in step.changes[0].diff and "web:v2" in step.changes[0].diff


def test_secrets_are_masked_in_diffs() -> None:
    """A plan can be pasted anywhere: it never has a Secret's values."""
    secret = "kind: Secret\nmetadata: {name: s}\ndata: {key: %s}\n"
    changes = object_changes(secret % "b2xkLXBhc3N3b3Jk", secret % "bmV3LXBhc3N3b3JkIQ==")
    assert len(changes) == 1
    assert "bmV3" not in changes[0].diff and "b2xk" not in changes[0].diff


def test_another_secret_of_the_same_length_is_a_change() -> None:
    """A rotation shows which key has another value, and which has not; neither a value nor its length."""
    secret = "kind: Secret\nmetadata: {name: s}\nstringData: {key: %s, other: same-as-before}\n"
    diff = object_changes(secret % "old-value", secret % "new-value")[0].diff
    assert "-  key: '[masked] (another value)'\n+" in diff or "+  key: '[masked] (another value)'" in diff
    assert " other: '[masked]'" in diff
    assert "old-value" not in diff and "new-value" not in diff and "same-as-before" not in diff
    assert diff == object_changes(secret % "old", secret % "new-value")[0].diff


def test_secrets_outside_of_secrets_are_masked_in_diffs() -> None:
    """A password in a container's environment, or in a ConfigMap's file, is shown as a change without its value."""
    web = """
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: web, image: "w:1", env: [{name: DB_PASSWORD, value: %s}]}]}}}
---
kind: ConfigMap
metadata: {name: web}
data: {"app.ini": "[db]\\npassword=%s\\n", token: %s}
"""
    changes = object_changes(web % (("letmein",) * 3), web % (("sesame7",) * 3))
    assert [change.object for change in changes] == ["Deployment web", "ConfigMap web"]
    for change in changes:
        assert "letmein" not in change.diff and "sesame7" not in change.diff
        assert change.diff.count("[masked]") >= 2


def test_added_and_removed_objects_are_told_apart() -> None:
    """An object that only the new chart has is added; one that only the old one has is removed."""
    other = "kind: ConfigMap\nmetadata: {name: c}\n"
    changes = object_changes(deployment("v1"), other)
    assert [(change.object, change.change) for change in changes] == [
        ("ConfigMap c", "added"),
        ("Deployment kube-system/web", "removed"),
    ]


def test_digest_moves_with_the_cluster() -> None:
    """Two plans have the same digest only when they start from the same state and lead to the same state."""
    spec = ReleaseSpec("web", "kube-system", Path("/charts/web"))
    wanted = [IntendedRelease(spec, deployment("v2"))]
    one, other = (
        plan_run(
            wanted, Observed(V136, {}, {"web": ObservedRelease((Revision(1, "deployed"),), deployment(tag))}), V137
        )
        for tag in ("v1", "v0")
    )
    assert one.digest != other.digest


def test_digest_gives_no_secret_away() -> None:
    """A plan in a CI log lets nobody try guesses of a password: its value is not in the digest, all else is."""
    web = """\
kind: Secret
metadata: {name: %s}
stringData: {pin: "%s"}
---
kind: Deployment
metadata: {name: web}
spec: {template: {spec: {containers: [{name: app, image: app:v1, env: [{name: DB_PASSWORD, value: "%s"}]}]}}}
"""
    spec = ReleaseSpec("web", "kube-system", Path("/charts/web"))

    def digest(name: str, secret: str) -> str:
        wanted = [IntendedRelease(spec, web % (name, secret, secret))]
        return plan_run(wanted, Observed(V136, {}, {"web": ObservedRelease((), "")}), V137).digest

    assert digest("web", "1234") == digest("web", "5678") != digest("other", "1234")


def test_what_looks_like_a_key_hides_nothing_else() -> None:
    """An annotation above a pod's spec must not be able to hide the spec from whoever approves the plan."""

    def pod(note: str, **spec: Any) -> str:
        return json.dumps({"kind": "Pod", "metadata": {"name": "d", "annotations": {"note": note}}, "spec": spec})

    (change,) = object_changes(pod("x"), pod("-----BEGIN PRIVATE KEY-----\nMIIE", hostPID=True))
    assert "hostPID: true" in change.diff
    assert "MIIE" not in change.diff


def test_secret_by_its_form_that_changes_is_shown_as_changed() -> None:
    """Another password in a text: neither value is shown, and that it is another one is."""

    def script(password: str) -> str:
        data = {"run.sh": f"curl -u admin --password={password} https://x"}
        return json.dumps({"kind": "ConfigMap", "metadata": {"name": "c"}, "data": data})

    (change,) = object_changes(script("tr0ub4dor"), script("correcthorse"))
    assert "another value" in change.diff
    assert "tr0ub4dor" not in change.diff and "correcthorse" not in change.diff


def test_digest_of_keys_that_are_no_texts() -> None:
    """YAML has numbers and booleans as keys, which Helm takes for texts."""
    after = "kind: ConfigMap\nmetadata: {name: tcp}\ndata: {8080: a/b:80, no: x, name: x}\n"
    assert masked_text(after) != masked_text(after.replace("8080", "9090"))


def settings(*, emulation: bool, target: KubernetesVersion = V137) -> Settings:
    """The built-in charts; kube-apiserver's values file names an emulated version of its own."""
    values = {"emulatedVersion": "1.30"}
    pipeline = (
        ReleaseSettings("kube-apiserver", "kube-system", values=values),
        ReleaseSettings("kubernetes", "kube-system"),
        ReleaseSettings("pod-checkpointer", "kube-system"),
    )
    return Settings(Path("/c"), target, Path("/c/k"), Path("/c/h"), pipeline, emulation=emulation)


@pytest.mark.parametrize(
    ("server", "emulates", "target", "asked", "then"),
    [
        (V136, None, V137, True, (1, 36)),
        (V136, None, V137, False, None),
        (V136, None, KubernetesVersion(1, 36, 9), True, None),
        (V137, None, V137, True, None),
        (V137, (1, 36), V137, True, (1, 36)),
        (V137, (1, 36), KubernetesVersion(1, 37, 4), False, (1, 36)),
        (V137, (1, 36), V136, True, None),
    ],
)
def test_only_finalize_ends_an_emulation(
    server: KubernetesVersion,
    emulates: tuple[int, int] | None,
    target: KubernetesVersion,
    asked: bool,
    then: tuple[int, int] | None,
) -> None:
    """A run to the next minor begins it where it is asked for; later runs keep it, even where it isn't any more."""
    observed = Observed(server, {}, {}, emulates)
    assert emulation_after(settings(emulation=asked, target=target), observed) == then


def test_only_the_last_of_several_hops_emulates() -> None:
    """The next hop would need a finalize first, which nobody but an operator decides."""
    wanted = settings(emulation=True)
    assert emulation_after(wanted, Observed(V136, {}, {}), last=False) is None
    emulates = Observed(V137, {}, {}, (1, 36))
    later = replace(wanted, target=KubernetesVersion(1, 38, 0))
    assert emulation_after(later, emulates, last=False) == (1, 36)


def test_charts_are_told_what_to_emulate() -> None:
    """The run's decision reaches both charts of components, and replaces what a values file says."""

    def told(emulated: tuple[int, int] | None) -> list[object]:
        steps = wanted_steps(settings(emulation=True), Path("/charts"), emulated)
        return [step.values.get("emulatedVersion") for step in steps if isinstance(step, ReleaseSpec)]

    assert told((1, 36)) == ["1.36", "1.36", None]
    assert told(None) == [None, None, None]


def test_forecast_knows_the_kubelets_that_a_hop_upgrades() -> None:
    """The next hop's checks of the skew ask about the kubelets as they will be then."""
    old, new = KubernetesVersion(1, 36, 3), KubernetesVersion(1, 37, 1)
    step = PlannedNodes(
        NodePool("workers"), (NodeChange("worker-1", old, new),), new, NodeSource("packages"), 60.0, 1, Path("/p")
    )
    before = Observed(old, {"worker-1": old, "worker-2": old}, {})
    assert observed_after(Plan(old, new, (step,)), before).kubelets == {"worker-1": new, "worker-2": old}


def test_kubeadm_is_told_which_version_a_run_of_the_control_plane_leads_to() -> None:
    """A run of other releases decides nothing, a text that can't be changed is left, and other clusters have none."""

    def kubeadm(
        text: str | None, release: str = "kube-apiserver", *, immutable: bool = False
    ) -> tuple[PlannedKubeadmConfig, ...]:
        releases = {release: ObservedRelease((), "")}
        config = KubeadmConfig(text, immutable) if text is not None else None
        observed = Observed(V136, {}, releases, kubeadm=config)
        wanted = IntendedRelease(ReleaseSpec(release, "kube-system", Path("/charts/c")), "")
        return plan_kubeadm_config(plan_run([wanted], observed, V137), observed)

    (step,) = kubeadm("kubernetesVersion: v1.36.3")
    assert (step.before, step.after, step.action) == (V136, V137, "upgrade")
    assert "+kubernetesVersion: v1.37.1" in step.changes[0].diff
    (done,) = kubeadm("kubernetesVersion: v1.37.1")
    assert (done.action, done.changes, done.summary) == ("unchanged", (), "nothing to change")
    assert kubeadm("kubernetesVersion: v1.36.3", immutable=True) == ()
    assert kubeadm("kubernetesVersion: v1.36.3", "web") == kubeadm("a: 1") == kubeadm(None) == ()


def test_next_hop_finds_what_kubeadm_was_told() -> None:
    """The forecast of a later hop begins where the one before it ends; and a plan with such a step is another one."""
    before = Observed(V136, {}, {}, kubeadm=KubeadmConfig("kubernetesVersion: v1.36.3"))
    plan = Plan(V136, V137, (PlannedKubeadmConfig(V136, V137),))
    assert observed_after(plan, before).kubeadm == KubeadmConfig("kubernetesVersion: v1.37.1")
    assert plan.digest != replace(plan, steps=(PlannedKubeadmConfig(V137, V137),)).digest


def test_approved_changes_are_the_same_whichever_nodes_there_are() -> None:
    """A campaign takes weeks: controllers are replaced, a surge node of another run is there or not. Another image of
    etcd, or another playbook that adds nodes, is another change.
    """
    settings, old = EtcdSettings("r/etcd:3.6.8-0", EtcdVersion(3, 6, 8), 60.0), "r/etcd:3.6.5-0"
    pool = NodePool("workers", surge=Surge(1, Path("/p/add.yml"), Path("/p/remove.yml")))

    def digest(*members: str, image: str = old, there: tuple[str, ...] = (), add: str = "add.yml") -> str:
        etcd = PlannedEtcd(settings, tuple(EtcdChange(name, image) for name in members), len(members))
        surge = Surge(1, Path("/p") / add, Path("/p/remove.yml"))
        step = PlannedSurge(replace(pool, surge=surge), False, V137, needed=True, there=there)
        return Plan(V136, V137, (etcd, step)).changes_digest

    approved = digest("c1", "c2", "c3")
    assert {digest("c1", "c2", "c4"), digest("c1", "c2", there=("s1",))} == {approved}
    assert len({approved, digest(), digest("c1", image="r/etcd:3.5.9-0"), digest("c1", add="other.yml")}) == 4


def test_next_hop_finds_what_nodes_and_joining_ones_are_configured_with() -> None:
    """A later hop has nothing to configure again; and a plan with another configuration is another one."""
    wanted = NodeConfiguration({"maxPods": 150, "evictionHard": {"memory.available": "1Gi"}})
    text = "kind: KubeletConfiguration\nevictionHard: {memory.available: 100Mi}\n"
    before = Observed(V136, {"w": V136}, {}, nodes={"w": ObservedNode()}, kubelet=KubeletConfig(text))
    (step,) = plan_kubelet_config(wanted.kubelet, before)
    assert step.summary == "set maxPods, evictionHard.memory.available"
    assert step.changes[0].diff.splitlines()[2:] == ["+maxPods: 150", '+evictionHard.memory.available: "1Gi"']
    source, change = NodeSource("packages"), NodeChange("w", V136, V137)
    pool = PlannedNodes(NodePool("workers"), (change,), V137, source, 60.0, 1, Path("/p"), configuration=wanted)
    plan = Plan(V136, V137, (pool, step))
    after = observed_after(plan, before)
    assert after.nodes["w"].configured == wanted.fingerprint
    (again,) = plan_kubelet_config(wanted.kubelet, after)
    assert (again.action, again.summary, again.changes) == ("unchanged", "nothing to change", ())
    assert plan_kubelet_config({}, before) == plan_kubelet_config(wanted.kubelet, replace(before, kubelet=None)) == ()
    assert plan_kubelet_config(wanted.kubelet, replace(before, kubelet=KubeletConfig("a: 1"))) == ()
    other = replace(pool, configuration=NodeConfiguration({"maxPods": 1}))
    nodes = tuple(NodeChange(name, V136, V137) for name in ("x", "y"))
    old = NodeChange("w", KubernetesVersion.release("v1.35.0"), V137)
    kept = (replace(plan, steps=(replace(pool, nodes=nodes), step)), replace(plan, steps=(pool, step)))
    assert {each.changes_digest for each in kept} == {plan.changes_digest}, "nodes come and go"
    changed = (replace(plan, steps=(replace(pool, nodes=(change, old)), step)), replace(plan, steps=(other, step)))
    assert len({each.changes_digest for each in (plan, *changed)}) == 3
    assert len({plan.digest, replace(plan, steps=(other, step)).digest, replace(plan, steps=(pool, again)).digest}) == 3
