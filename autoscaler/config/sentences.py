"""pydantic's errors -> sentences of ours that say what would be right."""

import difflib
from bisect import bisect
from collections.abc import Iterable, Iterator, Sequence
from typing import Literal, get_args, get_origin

from pydantic import BaseModel, ValidationError
from pydantic.fields import FieldInfo
from pydantic_core import ErrorDetails

from autoscaler.config.problems import Finding, Location

_HINTS = {
    "spec": "write the fields of the HorizontalPodAutoscaler's `spec` here directly",
    "metadata": "write `namespace` here directly; the target has no name of its own",
    "status": "leave out the status of the HorizontalPodAutoscaler",
    "targetCPUUtilizationPercentage": "this is autoscaling/v1; in v2 write `metrics` with "
    "{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: N}}}",
    "targetAverageUtilization": "this is autoscaling/v2beta1; in v2 write "
    "target: {type: Utilization, averageUtilization: N}",
    "targetAverageValue": "this is autoscaling/v2beta1; in v2 write "
    "target: {type: AverageValue, averageValue: N}",
    "targetValue": "this is autoscaling/v2beta1; in v2 write target: {type: Value, value: N}",
    "metricName": "this is autoscaling/v2beta1; in v2 write metric: {name: NAME}",
    "password": "write the name of a file that holds it: passwordFile",
    "bearerToken": "write the name of a file that holds it: bearerTokenFile",
    "token": "write the name of a file that holds it: bearerTokenFile",
}
_TYPES = {
    "int_type": "must be a whole number",
    "int_from_float": "must be a whole number",
    "bool_type": "must be true or false",
    "tuple_type": "must be a list",
    "list_type": "must be a list",
    "dict_type": "must be a mapping of names to values",
    "model_type": "must be a mapping",
    "model_attributes_type": "must be a mapping",
    "recursion_loop": "must not contain itself",
}


_MOST_ERRORS = 10_000
"""Of one part: pydantic hands over all or none, and takes a second for 100,000."""

_MOST_COMPARED = 500
"""Names that a wrong one is compared with, which takes 20 microseconds each."""


def findings_of(error: ValidationError, root: type[BaseModel]) -> Iterator[Finding]:
    """Translate every error of a validation against ``root``, unless they are far too many."""
    if error.error_count() > _MOST_ERRORS:
        message = f"there are {error.error_count():,} mistakes in this, too many to tell them"
        yield Finding((), message, show_value=False)
        return
    for detail in error.errors(include_url=False):
        # pydantic also calls a list too short whose entries are all there, but faulty.
        if detail["type"] != "too_short" or not detail["input"]:
            yield _finding(detail, root)


def suggestion(word: str, known: Iterable[str], limit: int = 20) -> str:
    """Say which known word is close to one that is not known, and which are known."""
    names = sorted(known)
    folded = word.replace("_", "").lower()
    by_fold = {name.replace("_", "").lower(): name for name in names}
    close = difflib.get_close_matches(folded, _nearest(folded, by_fold), n=1, cutoff=0.6)
    meant = f"did you mean `{by_fold[close[0]]}`? " if close else ""
    if not names:
        return f"{meant}none is known here"
    more = f" and {len(names) - limit} more" if len(names) > limit else ""
    return f"{meant}known are {', '.join(names[:limit])}{more}"


def _nearest(word: str, names: Iterable[str]) -> list[str]:
    """Return the names to compare a word with: of very many those that begin like it."""
    ordered = sorted(names)
    first = max(0, bisect(ordered, word) - _MOST_COMPARED // 2)
    return ordered if len(ordered) <= _MOST_COMPARED else ordered[first : first + _MOST_COMPARED]


def _finding(detail: ErrorDetails, root: type[BaseModel]) -> Finding:
    location: Location = detail["loc"]
    if location[-1:] == ("[key]",):
        fault = detail.get("ctx", {}).get("error", "must be a text")
        return Finding(location[:-1], str(fault), show_value=False)
    if detail["type"] == "extra_forbidden":
        return Finding(location, _unknown_key(location, root), show_value=False)
    if detail["type"] == "missing":
        return Finding(location, _missing(location, root), show_value=False)
    return Finding(location, _sentence(detail, root))


def _sentence(detail: ErrorDetails, root: type[BaseModel]) -> str:
    kind, context, given = detail["type"], detail.get("ctx", {}), detail.get("input")
    if kind == "value_error":
        return str(context["error"])
    if kind == "literal_error":
        return _choice(given, _field(root, detail["loc"]))
    if kind == "string_type":
        return _text(given)
    return _typed(kind, given) if kind in _TYPES else _bound(kind, context, detail["msg"])


def _bound(kind: str, context: dict[str, object], fallback: str) -> str:
    sentences = {
        "greater_than_equal": "must be at least {ge}",
        "less_than_equal": "must be at most {le}",
        "too_short": "needs at least {min_length} entry; leave the key out for the default",
    }
    # An error type that this table lacks still reaches the operator, in pydantic's words.
    return sentences[kind].format(**context) if kind in sentences else fallback


def _typed(kind: str, given: object) -> str:
    sentence = _TYPES[kind]
    if kind == "int_type" and isinstance(given, str) and given.strip().lstrip("+-").isdigit():
        digits = given.strip()
        if len(digits.lstrip("+-")) > 1 and digits.lstrip("+-").startswith("0"):
            return f"{sentence}, without leading zeros"
        return f"{sentence}, without quotes"
    return sentence


def _text(given: object) -> str:
    if isinstance(given, bool):
        return "must be a text, and YAML reads this as a boolean: put it in quotes"
    if isinstance(given, int | float):
        return "must be a text, and YAML reads this as a number: put it in quotes"
    return "must be a text"


def _choice(given: object, field: FieldInfo | None) -> str:
    choices = [str(choice) for choice in _literals(field.annotation if field else None)]
    listed = f"{', '.join(choices[:-1])} or {choices[-1]}" if choices else "one of the known words"
    close = difflib.get_close_matches(
        str(given).lower(), [choice.lower() for choice in choices], n=1, cutoff=0.6
    )
    meant = [choice for choice in choices if close and choice.lower() == close[0]]
    return f"must be {listed}" + (f"; did you mean {meant[0]}?" if meant else "")


def _unknown_key(location: Location, root: type[BaseModel]) -> str:
    key = str(location[-1])
    if key in _HINTS:
        return f"is not known here: {_HINTS[key]}"
    model = _model(root, location[:-1])
    known = _aliases(model) if model is not None else ()
    return f"is not known here: {suggestion(key, known)}"


def _missing(location: Location, root: type[BaseModel]) -> str:
    field = _field(root, location)
    description = ((field.description if field else None) or "").partition(";")[0]
    return f"is missing: {description[:1].lower()}{description[1:].rstrip('.')}"


def _aliases(model: type[BaseModel]) -> Sequence[str]:
    return [field.alias or name for name, field in model.model_fields.items()]


def _field(root: type[BaseModel], location: Location) -> FieldInfo | None:
    model = _model(root, location[:-1])
    if model is None:
        return None
    fields = model.model_fields.items()
    return next((field for name, field in fields if (field.alias or name) == location[-1]), None)


def _model(root: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """Return the model that a location of the document is validated against."""
    annotation: object = root
    for key in location:
        annotation = _inside(annotation, key)
    return _as_model(annotation)


def _as_model(annotation: object) -> type[BaseModel] | None:
    """Return the model of an annotation, also out of Annotated and Optional."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if get_origin(annotation) in {dict, tuple}:
        return None
    models = (_as_model(argument) for argument in get_args(annotation))
    return next((model for model in models if model is not None), None)


def _inside(annotation: object, key: str | int) -> object:
    """Return the annotation of what a key or position leads to; None where it leads nowhere."""
    model = _as_model(annotation)
    if model is not None:
        field = _field(model, (key,))
        return field.annotation if field is not None else None
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    if get_origin(annotation) is tuple:
        return arguments[0]
    insides = (_inside(argument, key) for argument in arguments)
    return next((inside for inside in insides if inside is not None), None)


def _literals(annotation: object) -> tuple[object, ...]:
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return arguments
    return next((found for argument in arguments if (found := _literals(argument))), ())
