"""The base of all models of the document, and the tree of their keys."""

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields
from enum import EnumType
from typing import Annotated, Any, ClassVar, NamedTuple, TypeVar, get_args, get_origin

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, GetJsonSchemaHandler, Strict
from pydantic.alias_generators import to_camel
from pydantic.fields import FieldInfo
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema, PydanticUseDefault

from autoscaler.config import durations
from autoscaler.config.documents import Location, child

Core = TypeVar("Core")


class Model(BaseModel):
    """A part of the document: camelCase keys, no unknown ones, strict types, never changed."""

    core: ClassVar[Any] = None
    """The corresponding type of the core, if there is one with the same fields."""

    in_core: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    """Converters of fields that have another type there, for values that are not None."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        # Built on first use, so that importing this package is cheap.
        defer_build=True,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        """Put each field's docstring on one line, as its description."""
        for field in cls.model_fields.values():
            field.description = " ".join(field.description.split()) if field.description else None

    def as_core(self, kind: type[Core]) -> Core:
        """Return a dataclass of the core with the fields that both have."""
        names = _in_both(kind, type(self))  # type: ignore[arg-type] # a class has a hash
        values = ((name, convert, getattr(self, name)) for name, convert in names)
        return kind(**{name: v if v is None else convert(v) for name, convert, v in values})


@functools.cache
def _in_both(kind: type, model: type[Model]) -> tuple[tuple[str, Callable[[Any], object]], ...]:
    enums = {field.name: field.type for field in fields(kind) if isinstance(field.type, EnumType)}
    own = {**enums, **model.in_core}
    common = (field.name for field in fields(kind) if field.name in model.model_fields)
    return tuple((name, own.get(name, _as_core)) for name in common)


def _as_core(value: object) -> object:
    if isinstance(value, Model) and value.core is not None:
        return value.as_core(value.core)
    return tuple(map(_as_core, value)) if isinstance(value, tuple) else value


@dataclass(frozen=True, slots=True, eq=False)
class SchemaAlternative:
    """Adds another form of a field to the JSON Schema, which a validator converts."""

    schema: JsonSchemaValue
    first: bool = True
    """Whether it is the first alternative; else it is the last."""

    def __get_pydantic_json_schema__(
        self, core_schema: CoreSchema, handler: GetJsonSchemaHandler
    ) -> JsonSchemaValue:
        form = handler(core_schema)
        others = form["anyOf"] if form.keys() == {"anyOf"} else [form]
        own = dict(self.schema)
        return {"anyOf": [own, *others] if self.first else [*others, own]}


def _default_for_null(value: object) -> object:
    if value is None:
        raise PydanticUseDefault
    return value


Item = TypeVar("Item")
Items = Annotated[tuple[Item, ...], Strict(strict=False)]
"""A list; strictness ends at the container, since YAML has no tuples."""

OrDefault = Annotated[
    Item, BeforeValidator(_default_for_null), SchemaAlternative({"type": "null"}, first=False)
]
"""A field whose default also replaces null: an empty value of YAML counts as absent."""


def seconds(default: float) -> Any:  # what pydantic's Field returns
    """Return a field of seconds; the JSON Schema has its default as a duration."""
    return Field(default, json_schema_extra={"default": durations.format_seconds(default)})


def fields_by_key(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the fields of a model by their keys in a mapping."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def model_at(root: type[BaseModel], location: Location) -> type[BaseModel] | None:
    """Return the model for a location of the document."""
    model: type[BaseModel] | None = root
    many: type | None = None
    for key in location:
        if many is not None:
            many = None
        else:
            field = None if model is None else fields_by_key(model).get(str(key))
            model, many = (None, None) if field is None else _model_in(field.annotation)
    return model if many is None else None


def _model_in(annotation: object) -> tuple[type[BaseModel] | None, type | None]:
    """Return the model in an annotation, and its container: tuple, dict or None."""
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation, None
    found = (_model_in(argument) for argument in get_args(annotation))
    model, many = next((form for form in found if form[0] is not None), (None, None))
    origin = get_origin(annotation)
    return model, origin if origin in {dict, tuple} else many


class InnerModel(NamedTuple):
    """A key of a model that leads to another model, or to many in a list or by name."""

    key: str
    model: type[BaseModel]
    many: type | None
    """tuple for a list, dict for a mapping by name, None for one model."""

    def values(self, around: object) -> Iterator[tuple[Location, object]]:
        """Yield the values at the key and their places; nothing for a wrong form."""
        value = child(around, self.key)
        if self.many is None:
            yield (self.key,), value
        elif self.many is tuple and isinstance(value, list | tuple):
            yield from (((self.key, index), item) for index, item in enumerate(value))
        elif self.many is dict and isinstance(value, Mapping):
            yield from (((self.key, str(name)), item) for name, item in value.items())


def inner_models(model: type[BaseModel]) -> Iterator[InnerModel]:
    """Yield the keys of a model that lead to others."""
    for key, field in fields_by_key(model).items():
        inner, many = _model_in(field.annotation)
        if inner is not None:
            yield InnerModel(key, inner, many)
