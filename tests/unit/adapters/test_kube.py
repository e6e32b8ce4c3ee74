"""How the API adapter asks, asks again, and says in whose words it failed."""

from __future__ import annotations

import base64
import json
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from testkit.fakes.clock import FakeClock
from testkit.memory import TracedMemory
from tests.unit.adapters.conftest import ScriptedServer, write_kubeconfig
from upgrader.adapters import paging
from upgrader.adapters.kube import KubeAdapter
from upgrader.cli.ui.errors import print_error
from upgrader.errors import ApiError, ApiUnavailable, ConfigError, CredentialsRefused
from upgrader.ports import Kind

PODS = Kind("v1", "pods")
DEPLOYMENTS = Kind("apps/v1", "deployments")
NODES = Kind("v1", "nodes", namespaced=False)


@pytest.fixture
def clock() -> FakeClock:
    """Time that passes only in the pauses between tries."""
    return FakeClock()


@pytest.fixture
def kube(kubeconfig: Path, clock: FakeClock) -> Iterator[KubeAdapter]:
    """The adapter in front of the scripted server."""
    adapter = KubeAdapter(kubeconfig, clock=clock)
    yield adapter
    adapter.close()


def test_paths_and_queries(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Core and group kinds, namespaced and not, with selectors: what the API expects."""
    server.answers(200)
    kube.get(PODS, "a", "ns")
    kube.list(PODS, labels="app=web,tier", fields="metadata.name=a")
    kube.get(NODES, "n1")
    kube.delete(PODS, "a", "ns")
    kube.delete(PODS, "a", "ns", at_once=True)
    kube.apply(DEPLOYMENTS, {"metadata": {"name": "web"}}, "ns")
    assert [f"{method} {path}" for method, path, _ in server.asked] == [
        "GET /api/v1/namespaces/ns/pods/a",
        "GET /api/v1/pods?labelSelector=app%3Dweb%2Ctier&fieldSelector=metadata.name%3Da&limit=500",
        "GET /api/v1/nodes/n1",
        "DELETE /api/v1/namespaces/ns/pods/a",
        "DELETE /api/v1/namespaces/ns/pods/a?gracePeriodSeconds=0",
        "PATCH /apis/apps/v1/namespaces/ns/deployments/web?fieldManager=upgrader&force=true",
    ]
    assert server.headers[-1]["Content-Type"] == "application/apply-patch+yaml"
    assert server.headers[0]["authorization"] == "Bearer s3cret-token"


def test_end_of_a_log_is_not_cut_off(kube: KubeAdapter, server: ScriptedServer) -> None:
    """The kubelet counts bytes from the first of the last lines: more lines need more bytes."""
    server.answers((200, {}, b"line\n"))
    assert kube.logs("ns", "a", "main", lines=300) == "line\n"
    ((_, path, _),) = server.asked
    assert path == f"/api/v1/namespaces/ns/pods/a/log?container=main&tailLines=300&limitBytes={300 * 2048}"


@pytest.mark.parametrize("trouble", [None, 500, 502, 503, 504, 429])
def test_reads_are_tried_again(kube: KubeAdapter, server: ScriptedServer, trouble: int | None) -> None:
    """A broken connection or a moment's trouble doesn't reach the caller of a read."""
    server.answers(trouble, trouble, trouble, (200, {}, b'{"kind": "Pod"}'))
    assert kube.get(PODS, "a", "ns") == {"kind": "Pod"}


def test_tries_are_counted(kube: KubeAdapter, server: ScriptedServer) -> None:
    """After four tries it is over, and the error says how many there were."""
    server.answers(None)
    with pytest.raises(ApiUnavailable, match=r"get pods ns/a\) \(4 tries\)"):
        kube.get(PODS, "a", "ns")
    assert len(server.asked) == 4


def test_retry_after_is_heeded_within_bounds(kube: KubeAdapter, server: ScriptedServer, clock: FakeClock) -> None:
    """A server that asks for 5 s gets one: it is stopping, and the next connection reaches another."""
    server.answers((429, {"Retry-After": "5", "Connection": "close"}, b""), 200)
    kube.list(PODS)
    assert clock.monotonic() == 1.0


def page(*names: str, more: str = "", version: str = "1") -> tuple[int, dict[str, str], bytes]:
    """One page of a list."""
    items = [{"metadata": {"name": name}} for name in names]
    body = {"kind": "List", "metadata": {"continue": more, "resourceVersion": version}, "items": items}
    return 200, {}, json.dumps(body).encode()


@pytest.mark.parametrize("body", [b'{"error": "please log in"}', b"{}", b'{"kind": 1}'])
def test_json_of_something_else_is_no_empty_list(kube: KubeAdapter, server: ScriptedServer, body: bytes) -> None:
    """A proxy's answer of 200 to whom it doesn't know: a node without pods would count as drained."""
    server.answers((200, {}, body))
    for ask in (kube.list, kube.count, lambda kind: list(kube.each(kind)), lambda kind: kube.get(kind, "a", "ns")):
        with pytest.raises(ApiError, match="is not from a Kubernetes API"):
            ask(PODS)


def test_object_is_no_list(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Nor is it an empty one."""
    server.answers((200, {}, b'{"kind": "Status", "status": "Success"}'))
    with pytest.raises(ApiError, match="is not from a Kubernetes API"):
        kube.list(PODS)


@pytest.mark.parametrize(("kind", "kept"), [(PODS, False), (NODES, False), (DEPLOYMENTS, True)])
def test_lists_of_what_there_are_thousands_are_kept_without_their_writers(
    kube: KubeAdapter, server: ScriptedServer, kind: Kind, kept: bool
) -> None:
    """Of a workload they are read, to find who has changed it; those of a thousand pods would be 10 MiB."""
    item = {"metadata": {"name": "a", "managedFields": [{"manager": "kubelet"}]}, "spec": {"x": 1}}
    server.answers((200, {}, json.dumps({"kind": "List", "items": [item]}).encode()))
    (found,) = kube.list(kind)
    assert ("managedFields" in found["metadata"]) == kept
    assert found["spec"] == {"x": 1}


def test_a_page_of_nodes_is_kept_in_little_memory(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Of 200 nodes with fifty images each, no more is there at a time than what differs: not the answer, and not who
    wrote which field.
    """
    images = [{"names": [f"registry.example/service-{number}@sha256:{number:064x}"]} for number in range(50)]
    written: dict[str, object] = {f"f:{'x' * 50}-{number}": {} for number in range(100)}
    nodes = [
        {
            "metadata": {"name": f"worker-{number}", "managedFields": [{"fieldsV1": written}]},
            "status": {"images": images},
        }
        for number in range(200)
    ]
    body = json.dumps({"kind": "NodeList", "metadata": {}, "items": nodes}).encode()
    server.answers((200, {}, body))
    kube.count(NODES)
    with TracedMemory() as memory:
        assert sum(1 for _ in kube.each(NODES)) == 200
        most, limit = memory.most, 1.5 * len(body)
    assert most < limit, "three times that if they were parsed together"


def test_truncated_list_is_asked_for_again(kube: KubeAdapter, server: ScriptedServer) -> None:
    """However long it is: what was read of it before its end was missing is not told."""
    _, _, whole = page(*(f"pod-{number:05}" for number in range(5000)))
    server.answers((200, {}, whole[:-100]), (200, {}, whole))
    assert len(kube.list(PODS)) == 5000
    assert len(server.asked) == 2


@pytest.mark.parametrize(
    ("before", "place"), [(["a", "b"], "the object after ns/b"), ([], "the first object of its page")]
)
def test_an_object_that_is_too_large_is_told(
    kube: KubeAdapter, server: ScriptedServer, before: list[str], place: str
) -> None:
    """The answer is whole, so nobody asks again; the error says which object it is, and how large it may be."""
    items: list[dict[str, object]] = [{"metadata": {"name": name, "namespace": "ns"}} for name in before]
    items.append({"metadata": {"name": "large", "annotations": {"x": "x" * (17 << 20)}}})
    server.answers((200, {}, json.dumps({"kind": "PodList", "metadata": {}, "items": items}).encode()))
    with pytest.raises(
        ApiError, match=f"'list pods': the response has an object of more than 16 MiB.* it is {place}"
    ) as caught:
        kube.list(PODS)
    assert "--max-request-bytes" in caught.value.remedy and len(server.asked) == 1


def test_list_comes_in_pages(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Thousands of pods in one answer would exceed the deadline: all pages together are the list."""
    server.answers(page("a", "b", more="next"), page("c"))
    assert [item["metadata"]["name"] for item in kube.list(PODS, labels="x=y")] == ["a", "b", "c"]


@pytest.mark.parametrize(
    ("ask", "before"),
    [
        (lambda kube: len(kube.list(PODS)), 0),
        (lambda kube: kube.count(PODS, labels="a=b"), 0),
        (lambda kube: kube.count(PODS), 1),
        (lambda kube: len(kube.listed(PODS, keep=lambda item: item)[0]), 0),
    ],
    ids=["list", "count", "count of all", "listed"],
)
def test_a_list_whose_pages_are_forgotten(
    kube: KubeAdapter, server: ScriptedServer, ask: Callable[[KubeAdapter], int], before: int
) -> None:
    """An API that no longer knows the moment of the first page is asked for all of it at once; other errors stay."""
    first = page("a", more="next", version="8")
    server.answers(*[first] * (before + 1), 410, page("a", "b", "c", version="9"))
    assert ask(kube) == 3
    assert "limit=" not in server.asked[-1][1] and "continue=" not in server.asked[-1][1]
    server.answers(*[first] * (before + 1), 403)
    with pytest.raises(ApiError, match="403"):
        ask(kube)


def test_the_version_of_a_list_in_one_piece_is_its_own(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Changes are followed from the list that was returned, not from the pages that were forgotten."""
    server.answers(page("a", more="next", version="8"), 410, page("b", version="9"))
    items, version = kube.listed(PODS, keep=lambda item: {"name": item["metadata"]["name"]})
    assert (items, version) == (({"name": "b"},), "9")


@pytest.mark.parametrize(
    "ask",
    [
        lambda kube: kube.list(PODS),
        lambda kube: list(kube.each(PODS)),
        lambda kube: kube.count(PODS),
        lambda kube: kube.listed(PODS, keep=lambda item: item),
    ],
    ids=["list", "each", "count", "listed"],
)
def test_a_list_without_an_end_is_an_error(
    kube: KubeAdapter, server: ScriptedServer, ask: Callable[[KubeAdapter], object]
) -> None:
    """Of a server that continues with the same page again and again, each way to list says so, and names both."""
    server.answers(*(page("a", more="next"),) * 9, 500)
    with pytest.raises(ApiError, match=f"at {server.url} returned a list without an end.*(list|count) pods") as caught:
        ask(kube)
    assert caught.value.status == 0 and len(server.asked) <= 3


def test_each_comes_in_pages(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A page is read when its first object is asked for, and none that nobody asks for."""
    server.answers(page("a", "b", more="next"), page("c"))
    items = kube.each(PODS, "ns", labels="x=y")
    assert server.asked == []
    assert [next(items)["metadata"]["name"] for _ in range(2)] == ["a", "b"]
    assert [path for _, path, _ in server.asked] == ["/api/v1/namespaces/ns/pods?labelSelector=x%3Dy&limit=500"]
    assert [item["metadata"]["name"] for item in items] == ["c"]
    assert server.asked[1][1].endswith("&limit=500&continue=next")


def test_each_whose_pages_are_forgotten(kube: KubeAdapter, server: ScriptedServer) -> None:
    """It begins once more, and hands out nothing twice; what is forgotten before anything new came is an error, and so
    is any other.
    """
    server.answers(page("a", more="next"), 410, page("a", "b", more="next"), page("c"))
    assert [item["metadata"]["name"] for item in kube.each(PODS)] == ["a", "b", "c"]
    first = page("a", more="next")
    for answers, status in (([410, first, 410], 410), ([403], 403)):
        server.answers(first, *answers)
        items = kube.each(PODS)
        assert next(items)["metadata"]["name"] == "a"
        with pytest.raises(ApiError, match=str(status)):
            next(items)


def test_each_of_more_than_is_handed_out_before_its_pages_are_forgotten(
    kube: KubeAdapter, server: ScriptedServer
) -> None:
    """An API forgets a page's moment after five minutes: whoever writes 50,000 objects meanwhile begins often."""
    server.answers(
        page("a", more="next"),
        410,
        page("a", "b", more="next"),
        410,
        page("a", "b", "c", more="next"),
        410,
        page("a", "b", "c", more="next"),
        page("d"),
    )
    assert [item["metadata"]["name"] for item in kube.each(PODS)] == ["a", "b", "c", "d"]


def test_each_that_is_forgotten_again_and_again_has_an_end(
    kube: KubeAdapter, server: ScriptedServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The limit of a list counts for all its passes together, and is one: where each brings something new, they end
    with the error of a list without an end.
    """
    monkeypatch.setattr(paging, "MOST_OBJECTS", 3)
    server.answers(*(answer for name in "abcd" for answer in (page(name, more="next"), 410)), page("e"))
    items = kube.each(PODS, at_once=1)
    assert [next(items)["metadata"]["name"] for _ in range(3)] == ["a", "b", "c"]
    with pytest.raises(
        ApiError, match=f"at {server.url} returned a list without an end.*after 3 objects .list pods"
    ) as caught:
        next(items)
    assert "Check that the kubeconfig" in caught.value.remedy


def test_dry_run_is_asked_for(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A creation that is only tried says so to the API."""
    server.answers(201, 201)
    kube.create(PODS, {"metadata": {"name": "a"}}, "ns", dry_run=True)
    kube.create(PODS, {"metadata": {"name": "a"}}, "ns")
    assert ["dryRun=All" in str(asked) for asked in server.asked] == [True, False]


@pytest.mark.parametrize("trouble", [None, 500, 503])
def test_writes_are_not_tried_again(kube: KubeAdapter, server: ScriptedServer, trouble: int | None) -> None:
    """Whether a write that went wrong was carried out isn't known: only the caller can decide to repeat it."""
    server.answers(trouble)
    with pytest.raises(ApiError):
        kube.create(PODS, {"metadata": {"name": "a"}}, "ns")
    assert len(server.asked) == 1


def test_refused_for_now_may_be_written_again(kube: KubeAdapter, server: ScriptedServer) -> None:
    """429 means that nothing was done: the one error after which a write is safe to repeat."""
    server.answers(429, 201)
    kube.create(PODS, {"metadata": {"name": "a"}}, "ns")
    assert len(server.asked) == 2


@pytest.mark.parametrize(("answered", "known"), [(429, 429), (504, 504), (503, 0), (None, 0)])
def test_status_of_what_was_not_served(
    kube: KubeAdapter, server: ScriptedServer, answered: int | None, known: int
) -> None:
    """That the time of a request is over may be a webhook's fault, so that it is told from an API that is away."""
    server.answers(answered)
    with pytest.raises(ApiUnavailable) as caught:
        kube.raw("/readyz")
    assert caught.value.status == known


@pytest.mark.parametrize(("status", "kind"), [(503, ApiUnavailable), (429, ApiUnavailable), (403, ApiError)])
def test_answers_become_errors(kube: KubeAdapter, server: ScriptedServer, status: int, kind: type[ApiError]) -> None:
    """What nobody could serve is unavailable; what was refused isn't; both carry the server's own words."""
    words = json.dumps({"kind": "Status", "message": "because of this"}).encode()
    server.answers((status, {}, words))
    with pytest.raises(ApiError, match=f"'list pods ns'.*HTTP {status} because of this") as caught:
        kube.list(PODS, "ns")
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("said", "right"),
    [
        ('pods is forbidden: User "x" cannot list resource "pods" in API group "" in the namespace "ns"', True),
        ('forbidden: User "x" cannot get path "/metrics"', True),
        ('pods "a" is forbidden: exceeded quota: compute, requested: pods=1, used: pods=5, limited: pods=5', False),
        ('pods "a" is forbidden: violates PodSecurity "restricted:latest": host namespaces', False),
        ('admission webhook "w.example" denied the request: no', False),
    ],
)
def test_a_missing_right_is_told_from_a_refusal_by_admission(
    kube: KubeAdapter, server: ScriptedServer, said: str, right: bool
) -> None:
    """Both have one status; more rights help only against the first."""
    server.answers((403, {}, json.dumps({"kind": "Status", "message": said}).encode()))
    with pytest.raises(ApiError) as caught:
        kube.list(PODS, "ns")
    assert caught.value.lacks_right is right
    assert ("lacks this permission" in caught.value.remedy) is right


def test_direct_probe_is_asked_once(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A question to one instance is about this moment: asking again would hide what it said."""
    server.answers((500, {}, b"[-]etcd failed"))
    with pytest.raises(ApiError, match=r"\[-\]etcd failed"):
        kube.raw("/readyz", server=server.url)
    assert len(server.asked) == 1


def _token(folder: Path, kind: str) -> dict[str, object]:
    """A user with a token of one of the three kinds that a kubeconfig may have."""
    if kind == "exec":
        api = "client.authentication.k8s.io/v1"
        answer = json.dumps({"apiVersion": api, "kind": "ExecCredential", "status": {"token": "t"}})
        return {"exec": {"apiVersion": api, "command": "echo", "args": [answer], "interactiveMode": "Never"}}
    (folder / "token").write_text("t")
    return {"token": "t"} if kind == "token" else {"tokenFile": str(folder / "token")}


@pytest.mark.parametrize("kind", ["token", "tokenFile", "exec"])
def test_direct_probe_with_a_token_reaches_its_instance(
    tmp_path: Path, server: ScriptedServer, clock: FakeClock, kind: str
) -> None:
    """Whatever kind of token a kubeconfig has, a question to one instance doesn't go to the load balancer."""
    server.answers(200)
    path = write_kubeconfig(tmp_path, {"server": "http://127.0.0.1:1"}, _token(tmp_path, kind))
    KubeAdapter(path, clock=clock).raw("/readyz", server=server.url)
    assert [path for _, path, _ in server.asked] == ["/readyz"]
    assert server.headers[-1]["authorization"] == "Bearer t"


def test_a_renewed_token_is_read_after_a_401(tmp_path: Path, server: ScriptedServer, clock: FakeClock) -> None:
    """A token file that was replaced meanwhile is read again, by clients of single instances, too."""
    path = write_kubeconfig(tmp_path, {"server": server.url}, _token(tmp_path, "tokenFile"))
    kube = KubeAdapter(path, clock=clock)
    server.answers(200)
    kube.list(PODS)
    (tmp_path / "token").write_text("renewed")
    server.answers(401, 200)
    kube.raw("/readyz", server=server.url)
    kube.list(PODS)
    assert [headers["authorization"] for headers in server.headers] == ["Bearer t"] * 2 + ["Bearer renewed"] * 2


def test_a_watch_renews_its_token_too(tmp_path: Path, server: ScriptedServer, clock: FakeClock) -> None:
    """A watch that meets a 401 begins again with the renewed token."""
    path = write_kubeconfig(tmp_path, {"server": server.url}, _token(tmp_path, "tokenFile"))
    kube = KubeAdapter(path, clock=clock)
    server.answers(200)
    kube.list(PODS)
    (tmp_path / "token").write_text("renewed")
    server.answers(401, (200, {}, b'{"type": "ADDED"}\n'))
    assert [event["type"] for event in kube.watch(PODS, "ns", "a", timeout_seconds=1)] == ["ADDED"]


def test_refused_credentials_are_not_sent_twice(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A 401 for credentials that nobody has replaced is an answer, at once."""
    server.answers(401)
    with pytest.raises(ApiError) as caught:
        kube.list(PODS)
    assert (caught.value.status, len(server.asked)) == (401, 1)


@pytest.mark.parametrize(
    ("ends_after", "said"), [(3600, "credentials of user 'me' in "), (-3600, "expired at 2025-12-31 23:00 UTC")]
)
def test_a_401_says_whose_credentials_are_refused(
    tmp_path: Path, server: ScriptedServer, clock: FakeClock, ends_after: int, said: str
) -> None:
    """The file and its user, and when they ended if they say so: that is what has to be renewed."""
    claims = json.dumps({"exp": clock.now().timestamp() + ends_after}).encode()
    token = f"e30.{base64.urlsafe_b64encode(claims).decode().rstrip('=')}.c2ln"
    path = write_kubeconfig(tmp_path, {"server": server.url}, {"token": token})
    server.answers(401)
    with pytest.raises(CredentialsRefused, match=r"refused 'list pods': HTTP 401") as caught:
        KubeAdapter(path, clock=clock).list(PODS)
    assert said in caught.value.message and str(path) in caught.value.message
    assert ("expired at" in caught.value.message) is (ends_after < 0)


def test_an_unreadable_renewal_is_no_reason_to_crash(tmp_path: Path, server: ScriptedServer, clock: FakeClock) -> None:
    """Credentials that end and can't be read again are an answer that gates know, with the cause."""
    path = write_kubeconfig(tmp_path, {"server": server.url}, _token(tmp_path, "tokenFile"))
    kube = KubeAdapter(path, clock=clock)
    server.answers(200)
    kube.list(PODS)
    (tmp_path / "token").unlink()
    server.answers(401)
    with pytest.raises(ApiError, match=r"credentials have expired.*tokenFile.*No such file") as caught:
        kube.list(PODS)
    assert caught.value.status == 401


def test_a_proxy_is_used(
    tmp_path: Path, server: ScriptedServer, clock: FakeClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The kubeconfig's proxy gets the requests, with its own login; the environment's exceptions don't count there."""
    monkeypatch.setenv("NO_PROXY", "*")
    server.answers(200)
    proxy = server.url.replace("http://", "http://me:pass@")
    path = write_kubeconfig(tmp_path, {"server": "http://api.example:6443", "proxy-url": proxy})
    KubeAdapter(path, clock=clock).list(PODS)
    assert server.asked[0][1] == "http://api.example:6443/api/v1/pods?limit=500"
    assert server.headers[0]["proxy-authorization"] == "Basic bWU6cGFzcw=="


def test_token_stands_in_for_all_credentials(kube: KubeAdapter, server: ScriptedServer) -> None:
    """With a token of its own a request carries nothing of the kubeconfig's, also after a 401."""
    server.answers(401)
    with pytest.raises(ApiError) as caught:
        kube.raw("/api", token="other-token")
    assert caught.value.status == 401
    assert [headers["authorization"] for headers in server.headers] == ["Bearer other-token"]
    server.answers(200)
    kube.raw("/api")
    assert server.headers[-1]["authorization"] == "Bearer s3cret-token"


def test_count_reads_no_content(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Counting asks for the metadata of one object, and adds what the server says is left."""
    page = {"kind": "List", "metadata": {"continue": "c", "remainingItemCount": 41}, "items": [{}]}
    server.answers((200, {}, json.dumps(page).encode()))
    assert kube.count(PODS, "ns") == 42
    assert [path for _, path, _ in server.asked] == ["/api/v1/namespaces/ns/pods?limit=1"]
    assert "PartialObjectMetadataList" in server.headers[0]["Accept"]


def test_count_without_a_remainder_turns_the_pages(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A server that doesn't say how many are left is asked for all pages."""
    server.answers(page("a", more="c1"), page("a", "b", more="c2"), page("c"))
    assert kube.count(PODS) == 3
    assert server.asked[-1][1] == "/api/v1/pods?limit=500&continue=c2"


def test_count_with_a_selector_is_one_request(kube: KubeAdapter, server: ScriptedServer) -> None:
    """No server says how many are left of what a selector matches: all of a page are asked for at once."""
    server.answers((200, {}, json.dumps({"kind": "Pods", "metadata": {}, "items": [{}, {}]}).encode()))
    assert kube.count(PODS, "ns", labels="a=b") == 2
    assert [path for _, path, _ in server.asked] == ["/api/v1/namespaces/ns/pods?labelSelector=a%3Db&limit=500"]


def test_dry_run_and_token_request(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A dry run says so in the query; a token is requested for as long as asked, bound to the Secret's uid."""
    server.answers(200, (201, {}, b'{"kind": "TokenRequest", "status": {"token": "t"}}'))
    kube.create(PODS, {"metadata": {"name": "a"}}, "ns", dry_run=True)
    secret = {"metadata": {"name": "s", "uid": "u"}}
    assert kube.request_token("sa", "ns", seconds=60, bound_to=secret) == "t"
    (_, dry, _), (method, path, body) = server.asked
    assert dry == "/api/v1/namespaces/ns/pods?fieldManager=upgrader&dryRun=All"
    assert (method, path) == ("POST", "/api/v1/namespaces/ns/serviceaccounts/sa/token")
    assert json.loads(body)["spec"] == {
        "expirationSeconds": 60,
        "boundObjectRef": {"apiVersion": "v1", "kind": "Secret", "name": "s", "uid": "u"},
    }


def test_something_else_than_json_is_no_api(kube: KubeAdapter, server: ScriptedServer) -> None:
    """A proxy's login page is not taken for an object."""
    server.answers((200, {}, b"<html>Log in</html>"))
    with pytest.raises(ApiError, match="not from a Kubernetes API"):
        kube.list(PODS)


def test_an_unserved_path_without_its_header_is_told_as_what_it_may_be(
    kube: KubeAdapter, server: ScriptedServer, capsys: pytest.CaptureFixture[str]
) -> None:
    """A proxy has these words in its own name, or removes the header of an API server that says them: the user reads
    both, and that no API server is known to have failed.
    """
    server.answers((404, {"Content-Type": "text/plain"}, b"404 page not found\n"))
    with pytest.raises(ApiUnavailable) as caught:
        kube.raw("/apis/example.com/v1")
    print_error(caught.value, sys.stderr)
    said = " ".join(capsys.readouterr().err.split())
    assert "'get /apis/example.com/v1' might not be from a Kubernetes API: HTTP 404 '404 page not found'" in said
    assert "without the header Audit-Id" in said
    assert "sent this response itself, or it removes response headers" in said
    assert "did not answer" not in said and "doesn't answer" not in said


@pytest.mark.parametrize("kept", [True, False])
def test_an_object_that_is_gone_needs_no_header(kube: KubeAdapter, server: ScriptedServer, *, kept: bool) -> None:
    """A proxy that removes response headers hides no object's 404: that is told by its own kind."""
    headers = {"Audit-Id": "a", "Content-Type": "application/json"} if kept else {}
    server.answers((404, headers, b'{"kind": "Status", "reason": "NotFound"}'))
    assert kube.get(PODS, "a", "ns") is None


PAGE = {"Content-Type": "text/html; charset=utf-8"}
OTHERS = {
    "page": (404, PAGE, b"<html>404 Not Found</html>"),
    "page-403": (403, PAGE, b"<html>Blocked</html>"),
    "json": (404, {"Content-Type": "application/json"}, b'{"message": "no Route matched"}'),
    "aggregated": (404, {"Audit-Id": "a", "Content-Type": "application/json"}, b'{"code": 404, "error": "no such"}'),
    "empty": (404, {}, b""),
    "words": (404, {"Content-Type": "text/plain"}, b"default backend - 404"),
    "go": (404, {"Content-Type": "text/plain"}, b"404 page not found\n"),
    "mesh": (403, {"Content-Type": "text/plain"}, b"RBAC: access denied"),
    "cut off": (404, {"Content-Type": "application/json"}, b'{"kind": "Status", "rea'),
    "redirect": (302, {"Location": "https://sso.example/login"}, b""),
    "login": (200, PAGE, b"<html>Log in</html>"),
}


@pytest.mark.parametrize("answer", OTHERS.values(), ids=OTHERS)
def test_what_something_else_answers_is_no_answer_of_the_api(
    kube: KubeAdapter, server: ScriptedServer, answer: tuple[int, dict[str, str], bytes]
) -> None:
    """A load balancer whose backend is away, or an aggregated API that doesn't use Kubernetes' library: no object is
    gone for its 404, nothing was deleted or evicted, the API isn't ready for its 200, and hasn't refused anything for
    its 403.
    """
    server.answers(answer)
    pod = {"kind": "Pod", "metadata": {"name": "a", "uid": "u"}}
    for ask in (
        lambda: kube.get(PODS, "a", "ns"),
        lambda: kube.list(PODS),
        lambda: kube.delete(PODS, "a", "ns"),
        lambda: kube.evict("a", "ns", uid="u"),
        lambda: kube.raw("/readyz"),
        lambda: kube.logs("ns", "a", "main"),
        lambda: kube.create(PODS, pod, "ns"),
        lambda: list(kube.watch(PODS, "ns", "a", timeout_seconds=1)),
    ):
        with pytest.raises(ApiUnavailable, match=r"not (be )?from a Kubernetes API") as caught:
            ask()
        assert caught.value.status == 0


@pytest.mark.parametrize(
    "body", [b'{"kind": "Status", "reason": "NotFound"}', b"404 page not found\n"], ids=["object", "group"]
)
def test_what_the_api_does_not_have_is_none(kube: KubeAdapter, server: ScriptedServer, body: bytes) -> None:
    """The API server's own 404, of an object or of a group that it doesn't serve."""
    server.answers((404, {"Audit-Id": "0b1c"}, body))
    assert kube.get(PODS, "a", "ns") is None
    kube.delete(PODS, "a", "ns")


def test_token_is_in_no_error(kube: KubeAdapter, server: ScriptedServer) -> None:
    """Errors go into logs and reports: credentials must not."""
    server.answers(401)
    with pytest.raises(ApiError) as caught:
        kube.list(PODS)
    assert "s3cret" not in caught.value.message + caught.value.remedy


def test_refused_connection_is_said_at_once(tmp_path: Path, clock: FakeClock) -> None:
    """Nobody listens: that doesn't pass in a fifth of a second, so it isn't tried again."""
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        url = f"https://127.0.0.1:{unused.getsockname()[1]}"
        with pytest.raises(ApiUnavailable, match=r"did not answer: Connection refused \(list pods\)") as caught:
            KubeAdapter(write_kubeconfig(tmp_path, {"server": url}), clock=clock).list(PODS)
    assert url in caught.value.message and "upgrader recover --dry-run" in caught.value.remedy
    assert clock.monotonic() == 0.0


def test_unverified_tls_is_refused(tmp_path: Path) -> None:
    """A kubeconfig that turns verification off is a mistake here: the admin credentials would go to anybody."""
    path = write_kubeconfig(tmp_path, {"server": "https://127.0.0.1:1", "insecure-skip-tls-verify": True})
    with pytest.raises(ConfigError, match="insecure-skip-tls-verify"):
        KubeAdapter(path).raw("/readyz")


def test_unknown_context_is_named(kubeconfig: Path) -> None:
    """A context that the kubeconfig doesn't have is an error of configuration, with the file's name."""
    with pytest.raises(ConfigError, match=r"kubeconfig.*production"):
        KubeAdapter(kubeconfig, "production").raw("/readyz")


def test_nothing_heavy_is_imported_before_it_is_used() -> None:
    """`upgrader --help` must stay quick: the libraries come with the first request."""
    code = (
        "import sys, upgrader.adapters.kube, upgrader.adapters.hosts, upgrader.adapters.playbooks;"
        "sys.exit(' '.join({'kubernetes', 'urllib3', 'paramiko', 'ansible_runner'} & set(sys.modules)) or 0)"
    )
    ended = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
