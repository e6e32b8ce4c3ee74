"""How a scratch kube-apiserver is asked: on kept connections, and reading no JSON that tells nothing."""

from __future__ import annotations

import http.client
import io
import json
import ssl
import time
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from upgrader.onhost.common.questions import Failed
from upgrader.onhost.rehearsal import api
from upgrader.onhost.rehearsal.api import Api, Listed, Page, Resource
from upgrader.onhost.rehearsal.unwatched import first

PODS = Resource("", "pods", "v1", "Pod", True, ("list", "update"))
WIDGETS = Resource("example.com", "widgets", "v1", "Widget", True, ("list", "update"))
ANNOTATIONS = '{"a":"x\\"items\\":[]","b":"\\u003c"}'
ITEM = f'{{"metadata":{{"name":"é","resourceVersion":"5","annotations":{ANNOTATIONS}}},"spec":{{"n":1e21}}}}'
CUSTOM = '{"apiVersion":"example.com/v1","kind":"Widget","metadata":{"name":"a"}}'


class Connections:
    """Stands in for HTTPSConnection: gives these answers, one after the other, and counts connections."""

    def __init__(self, *answers: tuple[int, str] | OSError) -> None:
        self.answers = list(answers)
        self.opened = 0
        self.sent: list[tuple[str, str, bytes | None]] = []
        self.headers: list[tuple[str, str | bytes]] = []

    def __call__(self, *_: Any, **__: Any) -> Connections:
        self.opened += 1
        return self

    def request(self, method: str, path: str, body: bytes | None, headers: dict[str, str]) -> None:
        """As HTTPConnection.request."""
        assert headers["Authorization"] == "Bearer token"
        self.sent.append((method, path, body))

    def putrequest(self, method: str, path: str) -> None:
        """As HTTPConnection.putrequest."""
        self.sent.append((method, path, None))

    def putheader(self, name: str, value: str | bytes) -> None:
        """As HTTPConnection.putheader."""
        if b"\n" in (value if isinstance(value, bytes) else value.encode()):
            raise ValueError("Invalid header value")
        self.headers.append((name, value))

    def endheaders(self) -> None:
        """As HTTPConnection.endheaders."""

    def getresponse(self) -> SimpleNamespace:
        """As HTTPConnection.getresponse."""
        answer = self.answers.pop(0)
        if isinstance(answer, OSError):
            raise answer
        return SimpleNamespace(status=answer[0], read=io.BytesIO(answer[1].encode()).read)

    def close(self) -> None:
        """As HTTPConnection.close."""


@pytest.fixture
def connections(monkeypatch: pytest.MonkeyPatch) -> Connections:
    """Of all servers of a test."""
    made = Connections()
    monkeypatch.setattr(http.client, "HTTPSConnection", made)
    monkeypatch.setattr(ssl, "create_default_context", lambda **_: ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT))
    return made


def server() -> Api:
    """One, at no port."""
    return Api("target", 1, "token", "a certificate")


def typed(*items: str, at: str = "") -> str:
    """A list of built-in objects, as a server writes it."""
    return f'{{"kind":"PodList","apiVersion":"v1","metadata":{{"continue":"{at}"}},"items":[{",".join(items)}]}}\n'


def test_objects_are_sent_as_they_were_listed(connections: Connections) -> None:
    """Byte by byte, with what lists leave out: so nothing is changed by reading and writing it here."""
    connections.answers = [(200, typed(ITEM, ITEM, at="more")), (200, '{"metadata":')]
    page = server().page(PODS, "a/b")
    assert connections.sent[0][1] == "/api/v1/pods?limit=25&continue=a/b"
    assert (len(page.found), page.at, page.refused) == (2, "more", None)
    found = page.found[1]
    assert found.body.decode() == f'{{"kind":"Pod","apiVersion":"v1",{ITEM[1:]}'
    assert found.item == json.loads(found.body) and found.item["metadata"]["name"] == "é"


def test_lists_of_pods_begin_after_what_keeps_them_out_of_memory(connections: Connections) -> None:
    """Of a server whose etcd has that: the first page would be refused."""
    connections.answers = [(200, typed(ITEM))] * 2
    for resource in (PODS, WIDGETS):
        Api("target", 1, "token", "a certificate", 7).page(resource, "")
    assert [path for _, path, _ in connections.sent] == [
        f"/api/v1/pods?limit=25&continue={first('', 'pods', 7)}",
        "/apis/example.com/v1/widgets?limit=25&continue=",
    ]


def test_pages_of_large_objects_have_few() -> None:
    """Some Secrets have a megabyte each: 100 of them in memory, twice, would be a part of what a rehearsal may have."""
    limits = [Page([]).next_limit]
    limits += [Page([Listed({}, b"")] * 25, text="x" * size).next_limit for size in (25_000, 25_000_000, 250_000_000)]
    assert limits == [25, 100, 4, 1]


def test_a_page_of_large_objects_after_small_ones_is_read_in_parts(connections: Connections) -> None:
    """Helm's records come after other Secrets of a namespace: what is too much is not read, on another connection, and
    fewer are asked for. A single object is read whatever its size.
    """
    large = typed(ITEM.replace("1e21", f'"{"x" * (17 << 20)}"'), at="b")
    connections.answers = [(200, large), (200, typed(ITEM, at="a")), (200, large)]
    asked = server()
    page = asked.page(PODS, "", limit=100)
    assert (len(page.found), page.at) == (1, "a") and connections.opened == 2
    assert [path for _, path, _ in connections.sent] == [f"/api/v1/pods?limit={limit}&continue=" for limit in (100, 12)]
    assert asked.page(PODS, "", limit=1).at == "b"


def test_custom_objects_have_their_kind_in_lists(connections: Connections) -> None:
    """And the list's own fields come after them."""
    text = f'{{"apiVersion":"example.com/v1","items":[{CUSTOM}],"kind":"WidgetList","metadata":{{"continue":"x"}}}}'
    connections.answers = [(200, text)]
    page = server().page(WIDGETS, "")
    assert [each.body.decode() for each in page.found] == [CUSTOM] and page.at == "x"


def test_lists_without_objects_and_refused_ones(connections: Connections) -> None:
    """`null` is an empty list, too."""
    connections.answers = [(200, typed()), (200, '{"metadata":{},"items":null}'), (403, '{"message":"no"}')]
    assert server().page(PODS, "") == Page([], text="[]") and server().page(PODS, "") == Page([])
    assert server().page(PODS, "") == Page([], refused={"message": "no"})


def test_what_both_servers_list_alike_is_read_once(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only objects that the second one writes otherwise are read again."""
    read = list[int]()
    scan = api._SCAN

    def counted(text: str, at: int) -> tuple[Any, int]:
        read.append(at)
        return scan(text, at)

    monkeypatch.setattr(api, "_SCAN", counted)
    other = ITEM.replace("1e21", "2")
    connections.answers = [(200, typed(ITEM, at="a")), (200, typed(ITEM, at="b")), (200, typed(ITEM, other))]
    before = server().page(PODS, "")
    after = server().page(PODS, "", before)
    assert after.found is before.found and (before.at, after.at) == ("a", "b") and len(read) == 1
    changed = server().page(PODS, "", before)
    assert [each.item["spec"]["n"] for each in changed.found] == [1e21, 2]


def test_an_object_that_is_accepted_as_it_is_is_not_read_again(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The answer to a write is the whole object: only a refusal, or what differs, says anything. All is sent on one
    connection.
    """
    read = list[bytes]()
    parse = json.loads

    def counted(text: bytes) -> Any:
        read.append(text)
        return parse(text)

    monkeypatch.setattr(json, "loads", counted)
    sent = b'{"a":1}'
    connections.answers = [(200, '{"a":1}\n'), (201, '{"a":2}\n'), (422, '{"reason":"Invalid"}'), (500, "a text")]
    asked = server()
    answers = [asked.write("PUT", "/x", sent) for _ in range(4)]
    assert answers == [(200, {}), (201, {"a": 2}), (422, {"reason": "Invalid"}), (500, {"message": "a text"})]
    assert len(read) == 3, "not the first"
    assert connections.opened == 1 and connections.sent[0] == ("PUT", "/x", sent)


def test_a_connection_that_is_lost_is_opened_again_once(connections: Connections) -> None:
    """A server may close one that was idle; one that never answers has ended."""
    connections.answers = [OSError("reset"), (200, '{"a":1}')]
    assert server().ask("GET", "/x") == (200, {"a": 1}) and connections.opened == 2
    connections.answers = [OSError("reset"), TimeoutError()]
    with pytest.raises(Failed, match="the target kube-apiserver no longer answers: no answer within 60 s"):
        server().ask("POST", "/x", {})


BUSY = [
    (429, '{"reason":"TooManyRequests"}'),
    (503, ""),
    (504, '{"reason":"Timeout"}'),
    (500, '{"kind":"Status","reason":"ServerTimeout"}'),
]


def test_a_server_that_is_busy_is_asked_again(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """That it has no time, or its etcd, says nothing about an object. Each pause is longer."""
    pauses = list[float]()
    monkeypatch.setattr(time, "sleep", pauses.append)
    for busy in BUSY:
        connections.answers = [busy, busy, (200, '{"a":1}')]
        assert server().write("PUT", "/x", b"{}") == (200, {"a": 1})
    assert len(pauses) == 8 and pauses[0] < pauses[1]
    connections.answers = [(504, ""), (403, '{"message":"no"}')]
    assert server().get_as("/x", "jane", ())[0] == 403, "that it had no time is no permission"
    connections.answers = [(500, '{"reason":"InternalError"}')]
    assert server().write("PUT", "/x", b"{}")[0] == 500, "this may be what is looked for"


def test_a_server_that_stays_busy_has_not_refused_an_object(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is known of what it would do, whether it was to read an object, to list or to write it."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    for busy in BUSY:
        asked = server()
        for request in (
            partial(asked.write, "PUT", "/x", b"{}"),
            partial(asked.ask, "GET", "/x"),
            partial(asked.page, PODS, ""),
            partial(asked.get_as, "/x", "jane", ()),
        ):
            connections.answers = [busy] * 10
            with pytest.raises(Failed, match=f"the target kube-apiserver is overloaded: it keeps answering {busy[0]}"):
                request()


def test_a_server_that_has_no_time_on_a_busy_host(connections: Connections, monkeypatch: pytest.MonkeyPatch) -> None:
    """The error has what was measured there, as that is why; where a connection is lost, there is another reason."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    monkeypatch.setattr(api, "busy_host", lambda: ". The host was busy")
    asked = server()
    late = (TimeoutError(), TimeoutError())
    for request, answers in (
        (partial(asked.ask, "GET", "/x"), late),
        (partial(asked.page, PODS, ""), late),
        (partial(asked.get_as, "/x", "jane", ()), late[:1]),
        (partial(asked.ask, "GET", "/x"), [(504, "")] * 5),
    ):
        connections.answers = [*answers]
        with pytest.raises(Failed, match=r"(no answer within 60 s|answering 504)\. The host was busy$"):
            request()
    connections.answers = [OSError("reset"), OSError("reset")]
    with pytest.raises(Failed, match=r"no longer answers: reset$"):
        asked.ask("GET", "/x")


@pytest.mark.parametrize("answer", [*BUSY, TimeoutError()])
def test_a_server_whose_etcd_has_ended_is_not_asked_again(
    answer: tuple[int, str] | OSError, connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each answer takes a minute without it, and its copies stay on a disk that may be full of them meanwhile."""

    def broken() -> None:
        raise Failed("etcd-target exited with code 1")

    monkeypatch.setattr(time, "sleep", lambda _: pytest.fail("it waits"))
    connections.answers = [answer] * 10
    with pytest.raises(Failed, match="etcd-target exited"):
        Api("target", 1, "token", "a certificate", unbroken=broken).ask("GET", "/x")
    assert len(connections.answers) == 9


def test_a_list_by_labels_of_what_a_server_can_not_read_is_refused(
    connections: Connections, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A server takes it from a cache that it never has if one object is unreadable, and says that it has no time."""
    monkeypatch.setattr(time, "sleep", lambda _: None)
    connections.answers = [BUSY[0]] * 10
    page = server().page(PODS, "", selector="owner=helm")
    assert page.refused == {"reason": "TooManyRequests"} and not page.found


def test_an_object_that_is_nested_too_deeply_is_known_by_its_outer_levels(connections: Connections) -> None:
    """Its name, its owner and what it was sent as; the objects before and after it are read as always. Braces within a
    text are none, and its metadata is nested as deeply as its spec.
    """
    deep = f"{'[' * 5000}1,{{}}{']' * 5000}"
    metadata = f'{{"managedFields":[{{"fieldsV1":{deep}}}],"name":"a\\"}}]","namespace":"team"}}'
    nested = f'{{"apiVersion":"example.com/v1","kind":"Widget","metadata":{metadata},"spec":{deep},"status":"x"}}'
    text = f'{{"metadata":{{"continue":"more"}},"items":[{CUSTOM},{nested},{CUSTOM}],"kind":"WidgetList"}}'
    connections.answers = [(200, text)]
    page = server().page(WIDGETS, "")
    assert [each.nested for each in page.found] == [False, True, False]
    assert page.found[0].item == page.found[2].item == json.loads(CUSTOM)
    found = page.found[1]
    assert (found.item["metadata"]["name"], found.item["metadata"]["namespace"]) == ('a"}]', "team")
    assert found.item["status"] == "x" and found.body.decode() == nested
    assert page.at == "more"


def test_a_resource_whose_status_is_updated_by_itself_is_known(connections: Connections) -> None:
    """By a version that serves it so; a subresource is no resource that can be listed."""

    def resources(*names: str) -> str:
        listed = [
            {"name": name, "kind": "Widget", "namespaced": True, "verbs": ["get", "list", "update"]} for name in names
        ]
        return json.dumps({"resources": listed})

    versions = [{"version": "v1"}, {"version": "v2"}]
    group = {"name": "example.com", "preferredVersion": {"version": "v2"}, "versions": versions}
    connections.answers = [(200, json.dumps({"groups": [group]})), (200, resources("pods"))]
    connections.answers += [(200, resources("widgets", "widgets/status")), (200, resources("widgets"))]
    found = server().resources()
    assert [(each.version, each.status) for each in found["example.com", "widgets"]] == [("v2", True), ("v1", False)]
    assert [each.status for each in found["", "pods"]] == [False] and len(found) == 2


def test_another_user_is_asked_for(connections: Connections) -> None:
    """With its groups, and nothing is sent for a name that no header can have."""
    connections.answers = [(403, '{"message":"no"}'), OSError("refused")]
    assert server().get_as("/x", "jane", ("people", "ü")) == (403, {"message": "no"})
    assert connections.headers == [
        ("Authorization", "Bearer token"),
        ("Impersonate-User", b"jane"),
        ("Impersonate-Group", b"people"),
        ("Impersonate-Group", "ü".encode()),
    ]
    assert server().get_as("/x", "ja\nne", ()) == (0, {})
    with pytest.raises(Failed, match="the target kube-apiserver no longer answers: refused"):
        server().get_as("/x", "jane", ())
