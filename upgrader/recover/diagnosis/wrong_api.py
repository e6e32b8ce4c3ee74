"""Whether an API server that answers is wrong: it refuses those whom it has to serve.

Evidence counts, absence of evidence doesn't, and a refusal counts only where it can't be the client's own fault. Two
clients of a kind must agree: the certificates of components that are valid, or the tokens of running pods; but what no
right API server refuses to a client that it accepts is conclusive by itself. The operator's credentials alone prove
nothing: they may have expired.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from http import HTTPStatus

from upgrader.gates.rollback_needs import NOT_ACCEPTED
from upgrader.model.finding import Finding
from upgrader.onhost.sending.host_facts import Client, HostFacts, Unit, Unknown

__all__ = ["ApiSeen", "known_to_accept", "refused_clients", "right_pods", "wrong_finding"]

_AGREEING = 2


@dataclass(frozen=True)
class ApiSeen:
    """Whether the API answered, asked from here; `answer`: what it answered, or why it didn't.

    `refuses`: what it refused of what a rollback needs, "" for nothing; `credentials`: because it didn't accept the
    kubeconfig's.
    """

    answers: bool
    answer: str = ""
    refuses: str = ""
    credentials: bool = False


def wrong_finding(api: ApiSeen, refused: Mapping[str, tuple[Client, ...]]) -> Finding | None:
    """What an API server that answers does wrong; None for nothing that is certain.

    `refused`: the clients that it refuses, by controller.
    """
    evidence = list(_evidence(api, refused)) if api.answers else []
    if not evidence:
        return None
    return Finding(
        "apiserver.wrong",
        "error",
        f"kube-apiserver is ready, but does not work correctly: {evidence[0]}",
        "\n".join(evidence[1:]),
        "`upgrader recover` starts the last-known-good generation in its place, and rolls its Helm release back.",
    )


def _evidence(api: ApiSeen, refused: Mapping[str, tuple[Client, ...]]) -> Iterator[str]:
    if api.refuses and not api.credentials:
        yield api.refuses
    for name, clients in refused.items():
        # Two instances may refuse the same clients.
        named = dict.fromkeys(f"{client.name} (HTTP {client.status})" for client in clients)
        yield f"on {name} it rejects {', '.join(named)}"
    if refused and api.refuses and api.credentials:
        yield api.refuses


def refused_clients(facts: HostFacts, *, credentials: bool = False) -> tuple[Client, ...]:
    """The clients that an instance on a controller refuses, not by their own fault; () for none, or if only some are.

    Each instance is judged by itself: while one is being replaced by another, one of them may be right. Certificates
    that have expired don't count, one component may have lost its rights, and a single token may be of a pod that was
    deleted. Without a kubelet, many may be: their containers still run, and their tokens have ended. A token that is
    forbidden something may be so on purpose. `credentials`: the operator's are refused as
    well, so that one component's certificate is enough.
    """
    if isinstance(facts.clients, Unknown):
        return ()
    kept = isinstance(facts.kubelet, Unit) and facts.kubelet.running
    clients = [client for client in facts.clients if kept or not client.is_token]
    instances = dict.fromkeys(client.address for client in clients)
    agreeing = 1 if credentials else _AGREEING
    return tuple(
        refused
        for address in instances
        for refused in _refused_by([c for c in clients if c.address == address], facts.taken, agreeing)
    )


def known_to_accept(facts: HostFacts) -> bool:
    """Whether each instance on a controller accepted one of the cluster's own clients at least, of each kind that was
    asked; False also if that isn't known.

    Stricter than the opposite of `refused_clients`: a single token that isn't accepted may be the first to tell of
    tokens that are signed with another key.
    """
    if isinstance(facts.clients, Unknown):
        return False
    clients = [client for client in facts.clients if client.is_token or client.valid(facts.taken)]
    asked = {client.address for client in facts.clients}
    kinds = {(client.address, client.is_token) for client in clients}
    accepted = {(client.address, client.is_token) for client in clients if _is_accepted(client)}
    return bool(asked) and asked == {address for address, _ in kinds} and kinds == accepted


def right_pods(facts: HostFacts, refused: Iterable[Client]) -> frozenset[str]:
    """The UIDs of the pods on a controller that answered, and refuse no client that has to be served."""
    if isinstance(facts.clients, Unknown):
        return frozenset()
    wrong = {client.pod for client in refused}
    return frozenset(client.pod for client in facts.clients if client.pod and client.pod not in wrong)


def _refused_by(clients: list[Client], taken: float, agreeing: int) -> list[Client]:
    """The same for one instance."""
    tokens = [client for client in clients if client.is_token]
    certificates = [c for c in clients if not c.is_token and not c.conclusive and c.valid(taken)]
    found = [client for client in clients if client.conclusive]
    if len(certificates) >= agreeing and all(client.status in NOT_ACCEPTED for client in certificates):
        found += certificates
    if len(tokens) >= _AGREEING and all(client.status == HTTPStatus.UNAUTHORIZED for client in tokens):
        found += tokens
    return found


def _is_accepted(client: Client) -> bool:
    """A token that is forbidden something was accepted; a certificate without rights may count as anonymous."""
    return client.status == HTTPStatus.OK or (client.is_token and client.status == HTTPStatus.FORBIDDEN)
