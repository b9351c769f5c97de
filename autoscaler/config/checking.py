"""The shape of each file's document, and the rules within it."""

from collections.abc import Iterable
from itertools import islice
from typing import TypeVar

from pydantic import BaseModel, ValidationError

from autoscaler.config.document import Value
from autoscaler.config.document_rules import document_findings
from autoscaler.config.error_messages import findings_of
from autoscaler.config.manifests import advice_on
from autoscaler.config.model_walk import aliases
from autoscaler.config.problems import MOST_LOOKED_AT, Finding, Location, below
from autoscaler.config.service_rules import service_findings
from autoscaler.config.settings_model import DocumentModel, IncludedModel
from autoscaler.config.sources import Source
from autoscaler.config.spec_model import TargetModel

_Model = TypeVar("_Model", bound=BaseModel)
KEYS = frozenset(aliases(DocumentModel))
"""The keys at the top of a configuration."""

_INCLUDED = frozenset(aliases(IncludedModel))
_FREE = "x-"
"""Begins the keys at the top of a file that are the user's own, such as for anchors."""

_MANIFESTS = {"kind", "spec"}
"""One of these has every manifest that is told of, and no target."""


class Found:
    """Gathers findings, as many as are looked for."""

    def __init__(self, before: int) -> None:
        self.all: list[tuple[Source, Finding]] = []
        self._before = before

    @property
    def full(self) -> bool:
        """Whether no more are looked for."""
        return self._room <= 0

    def add(self, findings: Iterable[tuple[Source, Finding]]) -> None:
        """Take in as many as there is room for; the others are not even made."""
        self.all += islice(findings, max(0, self._room))

    def add_of(self, source: Source, findings: Iterable[Finding]) -> None:
        """Take in those of one file."""
        self.add((source, finding) for finding in findings)

    @property
    def _room(self) -> int:
        return MOST_LOOKED_AT - self._before - len(self.all)


def check_document(main: Source, namespace: str | None, found: Found) -> DocumentModel | None:
    """Check the main file; ``namespace`` is that of the pod that we run in."""
    folder = main.path.absolute().parent
    if is_included_one(main):
        message = "is missing: where the metrics come from; a file that another one includes is "
        message += "checked with that one"
        found.add_of(main, [Finding(("prometheus",), message, show_value=False)])
    form = "a configuration is a mapping with `prometheus`, `targets` and so on"
    document = _modelled(main, DocumentModel, form, found)
    if isinstance(main.value, dict):
        found.add_of(main, document_findings(main.value, folder))
        found.add_of(main, service_findings(main.value, folder, namespace))
    return document


def is_included_one(main: Source) -> bool:
    """Tell whether a main file has nothing but what included ones have."""
    return isinstance(main.value, dict) and bool(main.value) and main.value.keys() <= _INCLUDED


def check_included(source: Source, found: Found) -> IncludedModel | None:
    """Check a file that the main one includes."""
    message = "belongs in the main file: an included one has `queries` and `targets`"
    others = [
        Finding((key,), message, show_value=False)
        for key in sorted(KEYS - _INCLUDED)
        if isinstance(source.value, dict) and key in source.value
    ]
    found.add_of(source, others)
    form = "an included file is a mapping with `queries` and `targets`"
    return _modelled(source, IncludedModel, form, found)


def _modelled(source: Source, model: type[_Model], form: str, found: Found) -> _Model | None:
    """Check the shape of a file's document; what is wrong is added to ``found``."""
    if not isinstance(source.value, dict):
        found.add_of(source, [Finding((), form)])
        return None
    value = {key: inner for key, inner in source.value.items() if not key.startswith(_FREE)}
    targets = value.get("targets")
    manifests = _manifests(targets, ("targets",))
    if manifests or not isinstance(targets, list):
        found.add_of(source, manifests)
        return _valid(source, value | ({"targets": []} if manifests else {}), model, (), found)
    # One by one: pydantic makes errors of all that is wrong before it tells one.
    rest = _valid(source, {**value, "targets": []}, model, (), found)
    models = []
    for index, target in enumerate(targets):
        if found.full:
            return None
        place = ("targets", index)
        manifests = _manifests(target, place)
        found.add_of(source, manifests)
        if not manifests:
            models.append(_valid(source, target, TargetModel, place, found))
    return None if rest is None else rest.model_copy(update={"targets": tuple(models)})


def _manifests(value: Value, location: Location) -> list[Finding]:
    """Tell of manifests where targets belong."""
    if not isinstance(value, dict) or _MANIFESTS.isdisjoint(value):
        return []
    return [
        Finding(one.location, one.message, show_value=False, details=one.details, ready=one.ready)
        for one in advice_on(value, location)
    ]


def _valid(
    source: Source, value: object, model: type[_Model], location: Location, found: Found
) -> _Model | None:
    try:
        return model.model_validate(value)
    except ValidationError as error:
        findings = findings_of(error, model)
        found.add_of(source, (below(location, one) for one in findings))
    return None
