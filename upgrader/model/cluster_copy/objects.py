"""The allow-list of a copy's objects: kind → the fields that are copied. What it doesn't name is never copied.

So no environment, argument, command or image of a container, no volume, no annotation, no content of a Secret, of a
ConfigMap or of a custom resource, no status, and no server or certificate of a webhook is in a copy. Expressions of
policies and schemas are: they are what an upgrade has to be tried with.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from upgrader.model.cluster_copy.allowed import (
    NOTHING,
    Rule,
    any_of,
    count,
    demanding,
    each,
    entries,
    fields,
    flag,
    name,
    number,
    text,
    word,
)
from upgrader.model.redaction.patterns import is_secret_name

__all__ = ["OBJECTS", "LABELS", "TAINTS", "copied_object"]


def _is_for_secrets(named: str) -> bool:
    """Whether a label, or a field of a schema, has a secret as its value, or several."""
    last = named.rpartition("/")[2]
    return is_secret_name(last) or is_secret_name(last.removesuffix("s"))


def _label(value: Any) -> Any:
    """A label's key, unless its value may be a secret."""
    return NOTHING if isinstance(value, str) and _is_for_secrets(value) else word(value)


def _about_label(rule: Rule) -> Rule:
    """What is said of the label `key`, or of the taint: nothing of one whose value may be a secret."""

    def copy(value: Any) -> Any:
        has_key = isinstance(value, Mapping) and "key" in value
        return NOTHING if has_key and _label(value["key"]) is NOTHING else rule(value)

    return copy


LABELS = entries(word, _label)
_WORDS = each(word)
_SHARE = any_of(number, word)
_VALUE = any_of(flag, number, word)
_EXPRESSION = _about_label(demanding(fields(key=word, operator=word, values=_WORDS), "key", "operator"))


def _of_objects(value: Any) -> Any:
    """An expression about labels of objects. Those about nodes may also compare numbers."""
    found = _EXPRESSION(value)
    known = ("In", "NotIn", "Exists", "DoesNotExist")
    return found if found is not NOTHING and found["operator"] in known else NOTHING


_EXPRESSIONS = each(_EXPRESSION)
_SELECTOR = fields(matchLabels=LABELS, matchExpressions=each(_of_objects))

TAINTS = each(_about_label(demanding(fields(key=word, value=word, effect=word), "key", "effect")))
_TOLERATIONS = each(_about_label(fields(key=word, operator=word, value=word, effect=word, tolerationSeconds=number)))
_NODE_TERM = fields(matchExpressions=_EXPRESSIONS, matchFields=_EXPRESSIONS)
_POD_TERM = fields(
    labelSelector=_SELECTOR,
    namespaceSelector=_SELECTOR,
    namespaces=_WORDS,
    topologyKey=word,
    matchLabelKeys=_WORDS,
    mismatchLabelKeys=_WORDS,
)
_AFFINE_PODS = fields(
    requiredDuringSchedulingIgnoredDuringExecution=each(_POD_TERM),
    preferredDuringSchedulingIgnoredDuringExecution=each(fields(weight=number, podAffinityTerm=_POD_TERM)),
)
_AFFINITY = fields(
    nodeAffinity=fields(
        requiredDuringSchedulingIgnoredDuringExecution=fields(nodeSelectorTerms=each(_NODE_TERM)),
        preferredDuringSchedulingIgnoredDuringExecution=each(fields(weight=number, preference=_NODE_TERM)),
    ),
    podAffinity=_AFFINE_PODS,
    podAntiAffinity=_AFFINE_PODS,
)
_SPREAD = each(
    fields(
        maxSkew=number,
        minDomains=number,
        topologyKey=word,
        whenUnsatisfiable=word,
        labelSelector=_SELECTOR,
        matchLabelKeys=_WORDS,
        nodeAffinityPolicy=word,
        nodeTaintsPolicy=word,
    )
)
_TEMPLATE = fields(
    metadata=fields(labels=LABELS),
    spec=fields(
        nodeSelector=LABELS,
        affinity=_AFFINITY,
        topologySpreadConstraints=_SPREAD,
        tolerations=_TOLERATIONS,
        priorityClassName=word,
        terminationGracePeriodSeconds=number,
    ),
)
_UPDATE = fields(type=word, rollingUpdate=fields(maxUnavailable=_SHARE, maxSurge=_SHARE, partition=number))


def _schema(value: Any) -> Any:
    """A JSON Schema of a CustomResourceDefinition, without its descriptions and examples.

    Of default values, only numbers and words are copied: the API server demands those of a list's keys.
    """
    return _SCHEMA(value)


def _secret_schema(value: Any) -> Any:
    """The schema of a field for secrets, and of all that is in it: without what may be one. No secret is an empty
    default, which the API server demands of a list's key, as in `imagePullSecrets`.
    """
    return _SECRET_SCHEMA(value)


def _properties(inner: Rule) -> Rule:
    """A schema's properties. What a field for secrets has as its default or its choices may be one."""

    def copy(value: Any) -> Any:
        if not isinstance(value, Mapping):
            return NOTHING
        kept = {field: schema for field, schema in value.items() if name(field) is not NOTHING}
        found = {field: (_secret_schema if _is_for_secrets(field) else inner)(schema) for field, schema in kept.items()}
        return {field: schema for field, schema in found.items() if schema is not NOTHING}

    return copy


def _empty(value: Any) -> Any:
    return value if value == "" else NOTHING


_NUMBERS = (
    *("multipleOf", "maximum", "minimum", "maxLength", "minLength"),
    *("maxItems", "minItems", "maxProperties", "minProperties"),
)


def _schema_rules(inner: Rule) -> dict[str, Rule]:
    """What is copied of any schema; `inner`: of those in it."""
    return {
        "type": word,
        "format": word,
        "nullable": flag,
        "uniqueItems": flag,
        "required": each(name),
        "properties": _properties(inner),
        "additionalProperties": any_of(flag, inner),
        "items": inner,
        "allOf": each(inner),
        "anyOf": each(inner),
        "oneOf": each(inner),
        "not": inner,
        **dict.fromkeys(_NUMBERS, number),
        "exclusiveMaximum": flag,
        "exclusiveMinimum": flag,
        "x__kubernetes__preserve__unknown__fields": flag,
        "x__kubernetes__embedded__resource": flag,
        "x__kubernetes__int__or__string": flag,
        "x__kubernetes__list__map__keys": each(name),
        "x__kubernetes__list__type": word,
        "x__kubernetes__map__type": word,
    }


_SCHEMA = fields(
    **_schema_rules(_schema),
    pattern=text,
    default=_VALUE,
    enum=each(_VALUE),
    x__kubernetes__validations=each(
        fields(rule=text, message=text, messageExpression=text, reason=word, fieldPath=text, optionalOldSelf=flag)
    ),
)
_SECRET_SCHEMA = fields(**_schema_rules(_secret_schema), default=any_of(flag, _empty))

_RULES = each(
    fields(
        apiGroups=_WORDS,
        apiVersions=_WORDS,
        resources=_WORDS,
        resourceNames=_WORDS,
        operations=_WORDS,
        scope=word,
    )
)
_MATCH = fields(
    resourceRules=_RULES,
    excludeResourceRules=_RULES,
    namespaceSelector=_SELECTOR,
    objectSelector=_SELECTOR,
    matchPolicy=word,
)
_CONDITIONS = each(fields(name=word, expression=text))
_WEBHOOK = each(
    fields(
        name=word,
        rules=_RULES,
        failurePolicy=word,
        matchPolicy=word,
        namespaceSelector=_SELECTOR,
        objectSelector=_SELECTOR,
        matchConditions=_CONDITIONS,
        sideEffects=word,
        timeoutSeconds=number,
        reinvocationPolicy=word,
        admissionReviewVersions=_WORDS,
    )
)
_METADATA = demanding(fields(name=word, namespace=word, labels=LABELS), "name")


def _object(**rules: Rule) -> Rule:
    return demanding(fields(apiVersion=word, kind=word, metadata=_METADATA, **rules), "metadata")


OBJECTS: Mapping[tuple[str, str], Rule] = {
    ("v1", "Namespace"): _object(),
    ("scheduling.k8s.io/v1", "PriorityClass"): _object(value=number, globalDefault=flag, preemptionPolicy=word),
    ("apiextensions.k8s.io/v1", "CustomResourceDefinition"): _object(
        spec=fields(
            group=word,
            scope=word,
            names=fields(plural=word, singular=word, kind=word, listKind=word, shortNames=_WORDS, categories=_WORDS),
            versions=each(
                fields(
                    name=word,
                    served=flag,
                    storage=flag,
                    deprecated=flag,
                    schema=fields(openAPIV3Schema=_schema),
                    subresources=fields(
                        status=fields(),
                        scale=fields(specReplicasPath=text, statusReplicasPath=text, labelSelectorPath=text),
                    ),
                    selectableFields=each(fields(jsonPath=text)),
                )
            ),
        )
    ),
    ("policy/v1", "PodDisruptionBudget"): _object(
        spec=fields(minAvailable=_SHARE, maxUnavailable=_SHARE, selector=_SELECTOR, unhealthyPodEvictionPolicy=word)
    ),
    ("apps/v1", "Deployment"): _object(
        spec=fields(
            replicas=count,
            selector=_SELECTOR,
            minReadySeconds=number,
            progressDeadlineSeconds=number,
            strategy=_UPDATE,
            template=_TEMPLATE,
        )
    ),
    ("apps/v1", "DaemonSet"): _object(
        spec=fields(selector=_SELECTOR, minReadySeconds=number, updateStrategy=_UPDATE, template=_TEMPLATE)
    ),
    ("apps/v1", "StatefulSet"): _object(
        spec=fields(
            replicas=count,
            selector=_SELECTOR,
            serviceName=word,
            podManagementPolicy=word,
            minReadySeconds=number,
            updateStrategy=_UPDATE,
            ordinals=fields(start=number),
            template=_TEMPLATE,
        )
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicy"): _object(
        spec=fields(
            failurePolicy=word,
            paramKind=fields(apiVersion=word, kind=word),
            matchConstraints=_MATCH,
            matchConditions=_CONDITIONS,
            variables=each(fields(name=word, expression=text)),
            validations=each(fields(expression=text, message=text, messageExpression=text, reason=word)),
            auditAnnotations=each(fields(key=word, valueExpression=text)),
        )
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingAdmissionPolicyBinding"): _object(
        spec=fields(policyName=word, validationActions=_WORDS, matchResources=_MATCH)
    ),
    ("admissionregistration.k8s.io/v1", "ValidatingWebhookConfiguration"): _object(webhooks=_WEBHOOK),
    ("admissionregistration.k8s.io/v1", "MutatingWebhookConfiguration"): _object(webhooks=_WEBHOOK),
}
"""(apiVersion, kind) → what is copied of such an object; in an order in which they can be created."""


def copied_object(found: Mapping[str, Any]) -> dict[str, Any] | None:
    """What is copied of an object that has its apiVersion and kind; None for other kinds, and without a name."""
    rule = OBJECTS.get((str(found.get("apiVersion")), str(found.get("kind"))))
    copied = rule(found) if rule else NOTHING
    return None if copied is NOTHING else copied
