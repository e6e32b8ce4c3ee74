"""A token that the running version issues is reviewed by the target."""

from __future__ import annotations

from typing import Any

import pytest

from upgrader.onhost.rehearsal.api import Listed, Page, Resource
from upgrader.onhost.rehearsal.compare import Comparison
from upgrader.onhost.rehearsal.tokens import SERVICE_ACCOUNTS, refused_token
from upgrader.steps.rehearsal.differences import Difference, findings_of

ACCOUNTS = Resource("", "serviceaccounts", "v1", "ServiceAccount", True, ("list",))
REFUSED = "[invalid bearer token, oidc: issuer is not known]"


class Server:
    """Issues a token, and reviews those of others: `accepts` None: it answers neither."""

    name = "a"

    def __init__(self, accepts: bool | None = True, accounts: int = 1) -> None:
        self.accepts, self.accounts = accepts, accounts

    def page(self, *_: object, **__: object) -> Page:
        """As `Api.page`."""
        return Page([Listed.of({"metadata": {"namespace": "shop", "name": "web"}})] * self.accounts)

    def ask(self, method: str, path: str, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """As `Api.ask`."""
        assert method == "POST"
        if self.accepts is None:
            return 500, {"message": "no signing key"}
        if path == "/api/v1/namespaces/shop/serviceaccounts/web/token":
            return 201, {"status": {"token": "secret"}}
        assert path == "/apis/authentication.k8s.io/v1/tokenreviews" and body["spec"] == {"token": "secret"}
        return 201, {"status": {"authenticated": True} if self.accepts else {"error": REFUSED}}


@pytest.mark.parametrize(
    ("current", "target", "why"),
    [
        (Server(), Server(), None),
        (Server(), Server(accepts=False), REFUSED),
        (Server(), Server(accepts=None), "no signing key"),
        (Server(accepts=False), Server(accepts=False), None),
        (Server(accepts=None), Server(accepts=False), None),
        (Server(accounts=0), Server(accepts=False), None),
    ],
)
def test_a_token_that_only_the_target_refuses_is_told(current: Server, target: Server, why: str | None) -> None:
    """Another issuer, key or audience leaves every object as it is, and every pod's client without access."""
    assert refused_token(current, target, ACCOUNTS) == why  # type: ignore[arg-type]
    comparison = Comparison(current, target, 1, 0.0)  # type: ignore[arg-type]
    served = {SERVICE_ACCOUNTS: [ACCOUNTS]}
    comparison._tokens(served, served)
    found = comparison.findings()
    assert [each["what"] for each in found] == ([] if why is None else ["token"])
    for each in found:
        (finding,) = findings_of([Difference("token", each["resource"], each["reason"], 1, ())])
        assert finding.id == "rehearsal.token" and "secret" not in str(finding)
