"""`fleet.html`: what it says for five clusters and for 500, and what a hostile name can't make of it."""

from __future__ import annotations

import base64
import hashlib
import re
import shlex
from dataclasses import replace
from datetime import datetime
from html import unescape
from io import StringIO
from pathlib import Path

import pytest

from testkit.fleet_campaigns import BEGIN, HOSTILE, Shown, campaign_of
from tests.unit.reporting.report.test_html import Page
from upgrader.cli.ui.fleet import print_fleet_status
from upgrader.errors import ConfigError
from upgrader.fleet.campaigns import Campaign
from upgrader.fleet.decide import Decision, Held, decide
from upgrader.fleet.events import CampaignEvent, ClusterEnded, ClusterSkipped, ClusterStarting, Paused, RetryRequested
from upgrader.fleet.reports.page import fleet_html
from upgrader.fleet.state import Phase, fold
from upgrader.rendering import Templates


def html(shown: Shown, page: Path | None = None) -> str:
    return fleet_html(shown.status, shown.attempts, shown.now, page=page)


def with_state(shown: Shown, **changes: object) -> Shown:
    """The same campaign with other facts of its state, decided anew."""
    state = replace(shown.status.state, **changes)  # type: ignore[arg-type]
    decision = decide(shown.status.fleet, state, shown.now) if state.open else Decision(done=True)
    return replace(shown, status=replace(shown.status, state=state, decision=decision))


@pytest.mark.parametrize("number", [5, 500])
def test_page_loads_nothing_and_runs_nothing(number: int) -> None:
    """No script, image or form, no inline style or handler; its policy allows its own style alone, by its hash."""
    found = Page(html(campaign_of(number, reason=HOSTILE)))
    tags = [tag for tag, _ in found.elements]
    assert set(tags) & {"script", "img", "link", "iframe", "form", "object", "base", "input"} == set()
    assert [key for _, each in found.elements for key in each if key.startswith("on") or key == "style"] == []
    (policy,) = [each["content"] for _, each in found.elements if each.get("http-equiv") == "Content-Security-Policy"]
    digest = base64.b64encode(hashlib.sha256(found.style.encode()).digest()).decode()
    assert policy == f"default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'"
    assert tags.index("meta") < tags.index("style")


def test_hostile_texts_are_text() -> None:
    """What an error says is shown as it is, and is no markup and no template; control characters are gone."""
    page = html(campaign_of(40, reason=HOSTILE))
    assert "<script>" not in page and "\x1b" not in page
    assert "<script>alert(1)</script>" in Page(page).text and "{{ 7*7 }}" in Page(page).text


def test_hostile_names_are_text(tmp_path: Path) -> None:
    """A cluster's name, a stage's and a run's are text too, also in attributes and in links."""
    shown = campaign_of(5)
    state, name = shown.status.state, '"><script>alert(2)</script>'
    first = shown.status.fleet.clusters[0]
    run = tmp_path / 'clusters/a/runs/javascript:alert(3)"x'
    run.mkdir(parents=True)
    (run / "report.html").touch()
    cluster = replace(first, name=name, folder=tmp_path / "clusters/a")
    clusters = {name: replace(state.clusters[first.name], name=name, run=run.name), **state.clusters}
    fleet = shown.status.fleet
    stages = (replace(fleet.stages[0], name=name), *fleet.stages[1:])
    fleet = replace(fleet, clusters=(cluster, *fleet.clusters[1:]), stages=stages, excluded=(name,))
    state = replace(state, clusters=clusters)
    status = replace(shown.status, fleet=fleet, state=state, decision=decide(fleet, state, shown.now))
    page = html(replace(shown, status=status), tmp_path / "runs/campaign")
    found = Page(page)
    assert "<script>" not in page and name in found.text
    assert [each["href"] for tag, each in found.elements if tag == "a"] == [
        "../../clusters/a/runs/javascript%3Aalert%283%29%22x/report.html"
    ]


@pytest.mark.parametrize("run", ["..", "../../other", "/elsewhere", "link", "run"])
def test_report_elsewhere_is_not_linked(tmp_path: Path, run: str) -> None:
    """A run's name is from a journal, which others may write: no link leads out of the cluster's runs."""
    shown = campaign_of(5)
    state, first = shown.status.state, shown.status.fleet.clusters[0]
    folder = tmp_path / "clusters/a"
    for place in ("runs/run", "runs/link", "", "../other"):
        (folder / place).mkdir(parents=True, exist_ok=True)
        (folder / place / "report.html").touch()
    (folder / "runs/link/report.html").unlink()
    (folder / "runs/link/report.html").symlink_to("../../../other/report.html")
    fleet = replace(shown.status.fleet, clusters=(replace(first, folder=folder), *shown.status.fleet.clusters[1:]))
    clusters = {**state.clusters, first.name: replace(state.clusters[first.name], run=run)}
    status = replace(shown.status, fleet=fleet, state=replace(state, clusters=clusters))
    page = Page(html(replace(shown, status=status), tmp_path / "runs/campaign"))
    found = [each["href"] for tag, each in page.elements if tag == "a"]
    assert found == (["../../clusters/a/runs/run/report.html"] if run == "run" else [])


def test_five_clusters_are_all_there() -> None:
    """Each cluster, what it waits for and until when, and failures with what the first one said."""
    text = Page(html(campaign_of(5))).text
    for name in campaign_of(5).status.fleet.by_name:
        assert name in text
    assert "1 of 5" in text and "No answer" not in text
    assert "waits for its API to answer" in text and "until 2026-12-04 00:36Z" in text
    assert "waits for the stages before it, then an approval" in text
    assert "rolled-back 1 cluster: eu-central-001.example gate: etcd has an alarm: NOSPACE" in text
    assert "Not in this campaign: lab." in text


def test_500_clusters_begin_with_an_overview() -> None:
    """A large stage is folded, those that wait for the same are one row, failures are grouped and come first."""
    page = html(campaign_of(500))
    found = Page(page)
    assert len(page) < 600_000
    folded = [attributes for tag, attributes in found.elements if tag == "details"]
    assert sum("open" in each for each in folded) == 1, "only the canary is unfolded"
    assert "135 clusters waiting" in found.text and "and 130 more" in found.text
    assert "waits for its window, until 2026-12-02 21:00Z" in found.text
    assert "(closes 2026-12-02 23:00:00)" in found.text, "an exclusion begins at midnight in Berlin"
    rows = found.text.partition("Clusters of production")[0]
    assert rows and found.text.index("eu-central-008.example blocked") < found.text.index("eu-central-002.example")
    assert "rolled-back 2 clusters: eu-central-001.example, eu-central-004.example" in found.text


def test_colour_is_never_the_only_sign() -> None:
    """Each phase is said in words beside what is drawn."""
    found = Page(html(campaign_of(40)))
    for word in ("succeeded", "running", "blocked", "rolled-back", "waiting", "unreachable"):
        assert word in found.text


@pytest.mark.parametrize(
    ("said", "shown"),
    [
        (["Running", "ann@host-1, since 2026-11-30 21:00Z"], campaign_of(20)),
        (["Not being run", "no further run starts", "upgrader fleet run"], campaign_of(20, runs=False)),
        (
            ["No cluster begins", "paused by bob: audit"],
            with_state(campaign_of(20), paused=Paused("bob", "audit")),
        ),
        (["Done, with failures", "3 of 20 clusters have failed"], with_state(campaign_of(20), ended=BEGIN)),
    ],
    ids=["running", "no coordinator", "paused", "done with failures"],
)
def test_first_thing_is_how_far_it_is(said: list[str], shown: Shown) -> None:
    """The page begins with one sentence on the campaign, and with what to do."""
    text = Page(html(shown)).text
    for each in said:
        assert each in text.partition("Stages and clusters")[0]


@pytest.mark.parametrize("ended", [False, True])
def test_page_says_of_failures_what_the_terminal_does(*, ended: bool) -> None:
    """Also of a cluster whose plan has changed, which a `retry` alone would only have blocked again; and of one whose
    run is resumed no more. One that is resumed by itself needs nothing.
    """
    shown = campaign_of(20)
    changed, stuck, again = list(shown.status.state.clusters)[2:5]
    events: list[CampaignEvent] = [
        ClusterStarting(changed, 2),
        ClusterEnded(changed, 2, "blocked", 1.0, "", "PlanNotApproved: it", "the plan is another one"),
    ]
    for name, times in ((stuck, 5), (again, 1)):
        for attempt in range(2, 2 + times):
            events += [
                ClusterStarting(name, attempt),
                ClusterEnded(name, attempt, "interrupted", 1.0, "r", "", f"{name} was killed", True),
            ]
    known = dict(shown.status.state.clusters)
    known[changed] = replace(known[changed], changes=64 * "c")
    state = fold(((shown.now, each) for each in events), replace(shown.status.state, clusters=known))
    shown = with_state(shown, clusters=state.clusters, ended=BEGIN if ended else None)
    terminal = StringIO()
    print_fleet_status(shown.status, terminal)
    said = " ".join(terminal.getvalue().split())
    page = html(shown)
    text = Page(page).text.replace(" ; ", "; ")
    review = f"review its new plan: upgrader -C /none/{changed} plan --to v1.37.1"
    approve = f"approve it: upgrader fleet approve --changes {changed} --reason TEXT"
    for to_do in (
        f"{review}; {approve}; then: upgrader fleet retry {changed}",
        f"fix this, then resume its run: upgrader fleet retry {stuck}; or leave it out: upgrader fleet skip {stuck}",
    ):
        in_the_folder = to_do.replace("/none/", "")
        assert f"to do: {to_do}" in said and f"To do: {in_the_folder}" in text
    for command in (f"retry {stuck}", f"skip {stuck} --reason TEXT", f"approve --changes {changed} --reason TEXT"):
        assert f"<code>upgrader fleet {command}</code>" in page
    assert f"retry {again}" not in said + text
    assert ("What to do is shown below for each cause" in text.partition("Stages and clusters")[0]) is ended


@pytest.mark.parametrize("folder", ["it's $(reboot)", "`reboot`", "<img src=x>", "-x; reboot", "\x1b[2Ja"])
def test_command_with_any_folder(tmp_path: Path, folder: str) -> None:
    """Its name is one word of the command that a shell takes, and is no markup of the page."""
    shown, place = campaign_of(20), tmp_path / folder
    name = list(shown.status.state.clusters)[2]
    state = shown.status.state
    one = replace(
        state.clusters[name], phase="blocked", cause="PlanNotApproved: it", reason="other plan", changes=64 * "c"
    )
    clusters = tuple(replace(each, folder=place) if each.name == name else each for each in shown.status.fleet.clusters)
    status = replace(shown.status, fleet=replace(shown.status.fleet, clusters=clusters))
    shown = with_state(replace(shown, status=status), clusters={**state.clusters, name: one})
    terminal = StringIO()
    print_fleet_status(shown.status, terminal)
    (line,) = (each for each in terminal.getvalue().splitlines() if "review its new plan" in each)
    page = html(shown)
    (command,) = (each for each in re.findall("<code>(.*?)</code>", page, re.DOTALL) if "plan --to" in each)
    for said in (line.partition("plan: ")[2].partition("; approve")[0], unescape(command)):
        words = shlex.split(said)
        assert words[:2] == ["upgrader", "-C"] and words[3:] == ["plan", "--to", "v1.37.1"], said
        assert words[2] == str(place) or not place.name.isprintable()
    assert "<img" not in page and "\x1b" not in page + line


def test_commands_of_the_page_are_for_the_fleet_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of them, wherever the command was given that wrote the page: it may be a coordinator's elsewhere."""
    shown = campaign_of(20)
    name = list(shown.status.state.clusters)[2]
    known, home = shown.status.state.clusters, tmp_path / "fleet"
    one = replace(known[name], phase="blocked", cause="PlanNotApproved: it", reason="other plan", changes=64 * "c")
    clusters = tuple(replace(each, folder=home / "clusters" / each.name) for each in shown.status.fleet.clusters)
    status = replace(
        shown.status,
        fleet=replace(shown.status.fleet, clusters=clusters),
        campaign=Campaign(Path("fleet/runs/campaign")),
    )
    shown = with_state(replace(shown, status=status), clusters={**known, name: one})
    monkeypatch.chdir(tmp_path)
    assert f"<code>upgrader -C clusters/{name} plan --to v1.37.1</code>" in html(shown)
    terminal = StringIO()
    print_fleet_status(shown.status, terminal, "upgrader -C fleet")
    assert f"its new plan: upgrader -C fleet/clusters/{name} plan --to v1.37.1; approve" in terminal.getvalue()


def test_page_while_its_files_have_changed() -> None:
    """Then `retry` is refused, and isn't shown."""
    shown = campaign_of(20)
    assert "To do: fix this" in Page(html(shown)).text
    changed = replace(shown, status=replace(shown.status, changed="fleet.yaml:1: has changed"))
    assert "To do:" not in Page(html(changed)).text


@pytest.mark.parametrize(
    ("left", "ended", "said"),
    [
        ("running", None, "Restore it, or start a new campaign with the current files. upgrader fleet run --new"),
        ("succeeded", None, "Restore it, or start a new campaign with the current files. upgrader fleet run --new"),
        ("blocked", BEGIN, "Its files have changed since: start a new campaign with them. upgrader fleet run"),
        ("skipped", BEGIN, "Its files have changed since: start a new campaign with them. upgrader fleet run"),
    ],
)
def test_way_out_while_its_files_have_changed(left: Phase, ended: datetime | None, said: str) -> None:
    """As the terminal has it: `retry` would be refused, and so would `fleet run` of a campaign in progress."""
    shown = campaign_of(20)
    clusters = {
        name: replace(each, phase=left if each.failed or each.phase == "running" or left == "succeeded" else each.phase)
        for name, each in shown.status.state.clusters.items()
    }
    changed = "fleet.yaml:1: has changed"
    state = replace(shown.status.state, clusters=clusters, ended=ended)
    decision = Decision(done=True) if ended else decide(shown.status.fleet, state, shown.now, Held(changed))
    status = replace(shown.status, state=state, decision=decision, changed=changed)
    top = " ".join(Page(html(replace(shown, status=status))).text.partition("Stages and clusters")[0].split())
    assert said in top and "retry" not in top


def test_campaign_that_needs_a_person() -> None:
    """Blocked for good, the page says which person's act it waits for, and where it says what to do for failures."""
    shown = campaign_of(20)
    names = list(shown.status.state.clusters)
    ends = [ClusterEnded(name, 1, "succeeded", 1.0, "r") for name in names[1:-2]]
    state = fold(((shown.now, each) for each in ends), shown.status.state)
    text = Page(html(with_state(shown, clusters=state.clusters))).text
    assert "Needs an operator" in text and "an approval: upgrader fleet approve last --reason TEXT" in text
    state = fold(((shown.now, each) for each in ends[1:]), shown.status.state)
    text = Page(html(with_state(shown, clusters=state.clusters))).text
    assert "Needs an operator" in text and "What to do is shown below for each cause of failure; then" in text


def test_done_and_left_out() -> None:
    """A campaign without failures is done, and names what was left out and how it is run later."""
    shown = campaign_of(5)
    names = list(shown.status.state.clusters)
    events: list[CampaignEvent] = [RetryRequested(names[1], "me"), ClusterSkipped(names[1], "me", "later")]
    state = fold(((shown.now, each) for each in events), shown.status.state)
    text = Page(html(with_state(shown, clusters=state.clusters, ended=shown.now))).text
    assert "Done" in text and "Left out: eu-central-001.example." in text and "upgrader fleet retry CLUSTER" in text


def test_template_of_the_users_own(tmp_path: Path) -> None:
    """One that can't be rendered is named with its file and line."""
    (tmp_path / "upgrader/templates/fleet").mkdir(parents=True)
    templates = Templates.of_user({"XDG_CONFIG_HOME": str(tmp_path)})
    (tmp_path / "upgrader/templates/fleet/fleet.html.j2").write_text("{{ nothing_like_it }}")
    shown = campaign_of(5)
    with pytest.raises(ConfigError, match=r"fleet\.html\.j2:1: "):
        fleet_html(shown.status, shown.attempts, shown.now, templates=templates)
