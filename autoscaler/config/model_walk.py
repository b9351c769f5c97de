"""The models of the document as a tree: which keys and values a place of it takes."""

from collections.abc import Iterator, Sequence
from typing import Literal, get_args, get_origin

from pydantic import BaseModel
from pydantic.fields import FieldInfo

from autoscaler.config.problems import Location


def aliases(model: type[BaseModel]) -> Sequence[str]:
    """Return the keys of a mapping."""
    return [field.alias or name for name, field in model.model_fields.items()]


def required(model: type[BaseModel]) -> Sequence[str]:
    """Return the keys that a mapping must have."""
    fields = model.model_fields.items()
    return [field.alias or name for name, field in fields if field.is_required()]


def field_at(root: type[BaseModel], location: Location) -> FieldInfo | None:
    """Return the field at a location of the document."""
    model = model_at(root, location[:-1])
    if model is None:
        return None
    fields = model.model_fields.items()
    return next((field for name, field in fields if (field.alias or name) == location[-1]), None)


def model_at(root: type[BaseModel], location: Location) -> type[BaseModel] | None:
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
        field = field_at(model, (key,))
        return field.annotation if field is not None else None
    arguments = get_args(annotation)
    if get_origin(annotation) is dict:
        return arguments[1]
    if get_origin(annotation) is tuple:
        return arguments[0]
    insides = (_inside(argument, key) for argument in arguments)
    return next((inside for inside in insides if inside is not None), None)


def literals(annotation: object) -> tuple[object, ...]:
    """Return the words that a field takes, if it takes but a few."""
    arguments = get_args(annotation)
    if get_origin(annotation) is Literal:
        return arguments
    return next((found for argument in arguments if (found := literals(argument))), ())


def inner_models(model: type[BaseModel]) -> Iterator[tuple[str, type[BaseModel]]]:
    """Yield the mappings, and the lists of mappings, that a model's keys lead to."""
    for name, field in model.model_fields.items():
        key = field.alias or name
        one, of_list = _as_model(field.annotation), _as_model(_inside(field.annotation, 0))
        if one is not None:
            yield key, one
        elif of_list is not None and get_origin(field.annotation) is not dict:
            yield f"{key}[]", of_list
