"""What of a server's words leaves the host: its reason, and no content of an object."""

from __future__ import annotations

import base64
import json
import random
import re
import string
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.unit.steps.rehearsal.fake_api import DEPLOYMENTS, FakeApi
from upgrader.onhost.rehearsal.fields import FieldNames
from upgrader.onhost.rehearsal.words import reason, stripped

OBJECT = {
    "apiVersion": "example.com/v1",
    "kind": "Account",
    "metadata": {"name": "one", "namespace": "default", "annotations": {"tier-of-customer": "gold"}},
    "spec": {"password": "hunter2", "pin": 4711, "hosts": ["db.example.com"], "on": True, "word": "quota"},
    "data": {"key-of-user": "x"},
}


@pytest.mark.parametrize(
    ("said", "left"),
    [
        ('Invalid value: "hunter2": must be longer', "Invalid value: …: must be longer"),
        ("Invalid value: 4711: must be positive", "Invalid value: …: must be positive"),
        ('Invalid value: {"password": "hunter2"}: no', "Invalid value: …"),
        ("the value hunter2 of db.example.com. It is invalid", "the value … of …. It is invalid"),
        ("exceeded quota: hunter", "exceeded …: …"),
        ("HUNTER2, value 4711, tier-of-customer gold, key-of-user", "…, value …"),
        ("password=hunter2 is <hunter2> or /hunter2/ (hunter2)", "… is … or … (…)"),
        ("must not be\nset", "must not be set"),
        ("spec[12] is invalid, and so is spec[4711]", "spec[12] is invalid, and so is …"),
        ("must not be set", "must not be set"),
    ],
)
def test_values_are_left_out(said: str, left: str) -> None:
    """Quoted or not, whole or a part, also where a rule of a custom resource puts them into its own message; and each
    word that no message of the server's own has.
    """
    assert stripped(said, OBJECT) == left


DECLARED = FieldNames(FakeApi(), set()).of(DEPLOYMENTS)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("path", "left"),
    [
        ("spec.template.containers[0].image", "spec.template.containers[0].image"),
        ("spec.template.containers[0].hunter2", "spec.template.containers[0][…]"),
        ("spec.selector[hunter2]", "spec.selector[…]"),
        ("spec.selector.image", "spec.selector[…]"),
        ("spec.selector[4711]", "spec.selector[…]"),
        ("spec.selector[1].name", "spec.selector[…]"),
        ("spec.selector[image]", "spec.selector[…]"),
        ("metadata.annotations[a.b/c]", "metadata.annotations[…]"),
        ("hunter2", "[…]"),
        ("<nil>", "[…]"),
        ("", ""),
    ],
)
def test_only_declared_fields_are_named(path: str, left: str) -> None:
    """A key of a map is a user's choice, whatever it is called and however the path is written."""
    assert DECLARED.shown(path) == left


def test_fields_of_custom_resources_are_not_named() -> None:
    """A user has declared them. What can't be read isn't declared either."""
    custom = FieldNames(FakeApi(), {"deployments.apps"}).of(DEPLOYMENTS)  # type: ignore[arg-type]
    unread = FieldNames(FakeApi(status=500), set()).of(DEPLOYMENTS)  # type: ignore[arg-type]
    for fields in (custom, unread):
        assert fields.shown("spec.template.containers[0].image") == "spec[…]"
        assert fields.place(("metadata", "labels", "x")) == "metadata[…]"
        assert "template" not in fields.names


def test_causes_of_an_invalid_object_are_named_by_field() -> None:
    """Keys that users choose are not shown, numbers in lists are."""
    causes = [
        {"field": "spec.template.containers[0]", "message": 'Invalid value: "db.example.com": must be a valid path'},
        {"field": "data[key-of-user]", "message": "Required value"},
        {"message": "is invalid"},
        {"field": "more", "message": "more"},
    ]
    said = reason({"reason": "Invalid", "message": "hunter2", "details": {"causes": causes}}, OBJECT, DECLARED)
    left = "spec.template.containers[0]: Invalid value: …: must be a valid path; […]: Required value; is invalid"
    assert said == left
    assert reason({"reason": "Forbidden"}, None) == "Forbidden"
    assert reason({}, None) == "no reason"
    assert len(reason({"message": "must " * 1000}, None)) <= 300


@pytest.mark.parametrize(
    "said",
    [
        "ValidatingAdmissionPolicy 'limits' with binding 'all.x' denied request: the value of user must be invalid",
        "pods \"web\" is forbidden: ValidatingAdmissionPolicy 'limits' with binding 'all.x' denied request: no",
    ],
)
def test_a_policys_own_message_is_not_shown(said: str) -> None:
    """It may have what an expression reads elsewhere, such as a ConfigMap's values. The policy is named."""
    left = "ValidatingAdmissionPolicy limits with binding all.x denied request: …"
    assert reason({"message": said}, None) == left
    assert reason({"message": said, "reason": "Invalid", "details": {"causes": [{"message": said}]}}, None) == left
    cause = {"field": "spec", "message": said}
    assert "limits" not in reason({"message": said, "reason": "Invalid", "details": {"causes": [cause]}}, None)


SECRETS = random.Random(7)
"""Always the same secrets: a test that fails, fails again."""


def secret() -> str:
    """No word of a server's: with signs that messages have, too."""
    letters = "".join(SECRETS.choices(string.ascii_letters + string.digits, k=SECRETS.randint(6, 14)))
    for _ in range(SECRETS.randint(0, 3)):
        at = SECRETS.randint(1, len(letters))
        letters = letters[:at] + SECRETS.choice("=<>/.:;,-_[]{}()\"'`\\ \n|&%$@") + letters[at:]
    return letters


FORMS: tuple[Callable[[str], str], ...] = (
    str,
    str.upper,
    json.dumps,
    lambda text: f"'{text}'",
    lambda text: f"key={text}",
    lambda text: f"<{text}>",
    lambda text: f"/{text}/",
    lambda text: f"map[a:{text} b:{text}]",
    lambda text: f"spec.{text}.name",
    lambda text: f'{{"a":"{text}"}}',
    lambda text: f'"unterminated {text}',
    lambda text: f"{text[:-1]}…",
    lambda text: text[2:],
    lambda text: base64.b64encode(text.encode()).decode(),
    lambda text: f"Invalid value: {text}: {text}: must be valid",
)
"""How a message may quote a value."""
TEMPLATES = (
    "{} must be valid",
    "admission webhook denied the request: {}",
    "exceeded quota: {}, requested: {}, used: {}",
    'pods "web" is forbidden: violates PodSecurity "{}": {}',
    "failed rule: {}",
    "compilation failed: ERROR: <input>:1:2: undeclared reference to '{}' (in container '{}')",
    'Unsupported value: {}: supported values: "{}", "{}"',
)


def planted(text: str) -> Iterator[dict[str, Any]]:
    """Objects that have it in each place."""
    for item in (text, [text], {"a": text}, {text: "a"}, {"a": [{text: [text]}]}, {"metadata": {"name": text}}):
        for place in ("spec", "data", "status", "anything", text):
            yield {"apiVersion": "v1", "kind": "K", "metadata": {"name": "web"}, place: item}
    yield {"metadata": {"name": "web", "annotations": {text: text}, "labels": {text: text}, "managedFields": [text]}}


def pieces(text: str) -> set[str]:
    """What no output may have of it: each run of at least four letters and digits."""
    return {found.lower() for found in re.findall(r"[A-Za-z0-9]{4,}", text)}


@pytest.mark.parametrize("number", range(12))
def test_no_secret_passes(number: int) -> None:
    """Wherever an object has it, and also where it is another object's, in whatever form a message quotes it."""
    text = secret()
    for template in TEMPLATES:
        for form in FORMS:
            said = template.replace("{}", form(text))
            about = [None, *planted(text)][number % 3 :: 3]
            for each in about:
                causes = [{"field": f"spec.a[{text}].{text}", "message": said}, {"field": text, "message": text}]
                answer = {"reason": "Invalid", "message": said, "details": {"causes": causes}}
                for shown in (reason(answer, each, DECLARED), reason({"message": said}, each), stripped(said)):
                    assert not any(piece in shown.lower() for piece in pieces(text)), (text, said, shown)
    for each in planted(text):
        assert not any(piece in DECLARED.place(tuple(map(str, each))).lower() for piece in pieces(text))
