"""What all models of the document have in common, and the tree of keys that they form."""

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
    """The type of the core that it becomes, field by field, if there is one."""

    in_core: ClassVar[Mapping[str, Callable[[Any], object]]] = {}
    """What converts those fields that are of another type there, where they are not None."""

    model_config = ConfigDict(
        alias_generator=to_camel,
        # Built at the first use, so that importing this package costs little.
        defer_build=True,
        extra="forbid",
        frozen=True,
        strict=True,
        hide_input_in_errors=True,
        use_attribute_docstrings=True,
    )

    @classmethod
    def __pydantic_init_subclass__(cls, **_: object) -> None:
        """Put each description, the text below its field, into one line."""
        for field in cls.model_fields.values():
            field.description = " ".join(field.description.split()) if field.description else None

    def as_core(self, kind: type[Core]) -> Core:
        """Return a dataclass of the core, made of those of our fields that it has as well."""
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
    """Says in the JSON Schema that a field also takes another form, which a validator converts."""

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
    """Return the fields of a model by the keys that a mapping may have for them."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


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
        field = fields_by_key(model).get(str(key))
        return None if field is None else field.annotation
    arguments = get_args(annotation)
    if get_origin(annotation) in {dict, tuple}:
        return arguments[0 if get_origin(annotation) is tuple else 1]
    insides = (_inside(argument, key) for argument in arguments)
    return next((inside for inside in insides if inside is not None), None)


class InnerModel(NamedTuple):
    """A key of a model that leads to another model, or to many in a list or by name."""

    key: str
    model: type[BaseModel]
    many: type | None
    """tuple for a list, dict for a mapping by name, None for one model."""

    def values(self, around: object) -> Iterator[tuple[Location, object]]:
        """Yield the values at the key and their places; a wrong shape, which is told, has none."""
        value = child(around, self.key)
        if self.many is None:
            yield (self.key,), value
        elif self.many is tuple and isinstance(value, list | tuple):
            yield from (((self.key, index), one) for index, one in enumerate(value))
        elif self.many is dict and isinstance(value, Mapping):
            yield from (((self.key, str(name)), one) for name, one in value.items())


def inner_models(model: type[BaseModel]) -> Iterator[InnerModel]:
    """Yield the keys of a model that lead to others."""
    for key, field in fields_by_key(model).items():
        single, of_many = _as_model(field.annotation), _as_model(_inside(field.annotation, 0))
        inner = single or of_many
        if inner is not None:
            many = None if single is not None else _container(field.annotation)
            yield InnerModel(key, inner, many)


def without_unknown(value: object, model: type[BaseModel]) -> object:
    """Return what a model knows of a value, of which a later version may have more keys."""
    if not isinstance(value, Mapping):
        return value
    known = {key: inner for key, inner in value.items() if key in fields_by_key(model)}
    for key, of, many in inner_models(model):
        inner = known.get(key)
        if many is tuple and isinstance(inner, list):
            known[key] = [without_unknown(one, of) for one in inner]
        elif many is None and key in known:
            known[key] = without_unknown(inner, of)
    return known


def _container(annotation: object) -> type | None:
    """Return what holds the many values of an annotation, also out of Annotated and Optional."""
    origin: type | None = get_origin(annotation)
    if origin in {dict, tuple}:
        return origin
    return next(filter(None, map(_container, get_args(annotation))), None)
