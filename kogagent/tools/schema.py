"""A function's signature and docstring as JSON Schema, and its arguments' validator. Knows no models.

Types are read by pydantic; what it writes is then brought inside the schema subset that a grammar can
enforce, or refused with a SchemaError that names tool, parameter and keyword.
"""

from __future__ import annotations

import functools
import inspect
import json
import typing
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, get_args, get_origin

import docstring_parser
import typing_extensions
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError as CoreError
from pydantic_core import from_json, to_jsonable_python

from kogagent.errors import SchemaError
from kogagent.tools.annotations import hints_of, known_types, typed_dict
from kogagent.tools.narrowed import Narrowed
from kogagent.tools.subset import OUTPUT, owner, subset
from kogagent.tools.validate import checked
from kogagent.types import JSONValue, RunContext

_FIRST = "\0context"  # a name for what has none: any other may be an argument's


@dataclass(frozen=True, slots=True)
class Signature:
    """What a function asks for: its documentation, the JSON Schema of its arguments, how to read them.

    context is the parameter that takes the RunContext, "" for none; positional holds name and default of each
    parameter that the function takes by position only.
    """

    description: str
    parameters: Mapping[str, JSONValue]
    context: str
    positional: tuple[tuple[str, Any], ...]
    _adapter: TypeAdapter[dict[str, Any]]
    _extra: typing.Literal["forbid"] | None

    def read(self, arguments: str) -> dict[str, Any]:
        """The arguments of one call, as annotated. Raises ValueError: pydantic's, or one for NaN."""
        values: dict[str, Any] = read_json(self._adapter, arguments, self._extra)
        return values

    def take_positional(self, values: dict[str, Any]) -> list[Any]:
        """Remove from values what must be passed by position, in order, and return it."""
        return [values.pop(name, default) for name, default in self.positional]


def read_json(adapter: TypeAdapter[Any], text: str, extra: typing.Literal["forbid"] | None) -> Any:
    """One JSON text as the adapter's type, strictly: no "1" for an int, no unknown field, no NaN."""
    if "NaN" in text or "Infinity" in text:  # rarely: JSON has no such numbers, pydantic's parser has
        from_json(text, allow_inf_nan=False)
    return adapter.validator.validate_json(text, strict=True, extra=extra)


def explain(error: ValueError) -> str:
    """What is wrong with arguments or an answer, in one short line a model can act on."""
    if not isinstance(error, ValidationError):
        return f"not valid JSON: {error}"
    found = error.errors(include_url=False, include_context=False)
    said = []
    for one in found[:8]:
        where = ".".join(str(part) for part in one["loc"])
        text = one["msg"].removeprefix("Value error, ")
        if one["type"] == "value_error" and not where:  # a validator of the whole names what is wrong
            said.append(text)
            continue
        text = text if text[1:2].isupper() else text[:1].lower() + text[1:]  # not "uRL"
        value = repr(one["input"]) if one["type"] not in ("missing", "json_invalid") else ""
        value = value if len(value) <= 60 else value[:57] + "…"
        said.append(f"{where or 'value'}: {text}" + (f" (got {value})" if value else ""))
    if len(found) > len(said):
        said.append(f"and {len(found) - len(said)} more")
    return "; ".join(said)


# ── from a function ──────────────────────────────────────────────────────────────────────────


def of_function(
    function: Callable[..., Any], *, tool: str, place: str, fixed: frozenset[str], method: bool
) -> Signature:
    """The signature of a function as a tool.

    fixed: parameters a partial has already given; method: the first parameter is `self`. Raises SchemaError.
    """
    parameters = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    hints, names = hints_of(function, tool, place)
    docs = docstring_parser.parse(inspect.getdoc(_documented(function)) or "")
    told = {
        name.strip(): doc.description
        for doc in docs.params
        for name in doc.arg_name.split(",")  # numpy: "x, y : float"
        if doc.description
    }
    fields: dict[str, Any] = {}
    context = ""
    positional: list[tuple[str, Any]] = []
    for parameter in parameters:
        name, hint = parameter.name, hints.get(parameter.name, inspect.Parameter.empty)
        if name in fixed:
            continue
        where = f"parameter {name!r} of tool {tool!r} ({place})"
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            raise SchemaError(
                f"{where} takes any number of arguments, which no schema can bound. "
                "Take a list or a dict as an ordinary parameter.",
                tool=tool,
                path=f"/properties/{name}",
            )
        if hint is inspect.Parameter.empty:
            if name == "cls":
                advice = "Write @tool above @classmethod."
            elif name == "self":
                advice = "Write @tool in the class, or pass the bound method."
            else:
                advice = "Annotate it, with typing.Any if any JSON value will do."
            raise SchemaError(f"{where} has no type. {advice}", tool=tool, path=f"/properties/{name}")
        if _is_context(hint):
            if context:
                raise SchemaError(f"{where} is a second RunContext. Keep one.", tool=tool)
            context = name
            continue
        if parameter.kind is parameter.POSITIONAL_ONLY:
            positional.append((name, parameter.default))
        default = parameter.default
        if isinstance(default, FieldInfo):
            raise SchemaError(
                f"{where} has pydantic's Field as its default. Write Annotated[type, Field(…)] = default.",
                tool=tool,
                path=f"/properties/{name}",
            )
        fields[name] = _field(hint, default, told.get(name))
    if context and context in (p.name for p in parameters if p.kind is p.POSITIONAL_ONLY):
        raise SchemaError(f"the RunContext of tool {tool!r} ({place}) must not be positional-only", tool=tool)
    adapter, schema = _compile(tool, place, fields, names)
    description = "\n\n".join(p for p in (docs.short_description, docs.long_description) if p)
    extra = _extra(schema)
    return Signature(description, schema, context, tuple(positional), adapter, extra)


def of_type(annotation: Any, *, name: str) -> tuple[TypeAdapter[Any], Mapping[str, JSONValue]]:
    """The validator and schema of an output type, a JSON value of any type. Raises SchemaError."""
    alias: Any = typing_extensions.TypeAliasType("Output", known_types(annotation))  # which takes a config
    adapter = _adapter(alias, name, OUTPUT, {}, _BASE64)
    return adapter, subset(_raw_schema(adapter, name, OUTPUT), name, OUTPUT)


def of_json_schema(
    parameters: Mapping[str, JSONValue], *, tool: str, description: str, place: str, context: bool = False
) -> Signature:
    """The signature of a tool that a JSON Schema describes; context: it takes the RunContext first.

    A schema that names no draft is read as `validate.checked` says. Raises SchemaError for what is no schema.
    """
    parameters, check = checked(parameters, tool, place)
    adapter = TypeAdapter(Annotated[dict[str, Any], AfterValidator(check)])
    if not context:
        return Signature(description, parameters, "", (), adapter, None)
    return Signature(description, parameters, _FIRST, ((_FIRST, None),), adapter, None)


def _extra(schema: Mapping[str, JSONValue]) -> typing.Literal["forbid"] | None:
    """Forbid unknown fields everywhere, unless a model in the signature says that it is open."""

    def open_somewhere(node: Any) -> bool:
        if isinstance(node, dict):
            if "properties" in node and node.get("additionalProperties", False) is not False:
                return True
            return any(open_somewhere(below) for below in node.values())
        return isinstance(node, list) and any(open_somewhere(below) for below in node)

    return None if open_somewhere(dict(schema)) else "forbid"


def output_extra(schema: Mapping[str, JSONValue]) -> typing.Literal["forbid"] | None:
    """How strict to be with unknown fields of an output type."""
    return _extra(schema)


def _documented(function: Callable[..., Any]) -> Callable[..., Any]:
    while isinstance(function, functools.partial):
        function = function.func
    if inspect.isroutine(function):
        return function
    call = type(function).__call__  # an object that can be called: its method's docstring, else its class's
    return call if inspect.getdoc(call) else type(function)


def _field(hint: Any, default: Any, told: str | None) -> Any:
    """One parameter as a field: its own description wins over the docstring's."""
    origin = get_origin(hint)
    if origin is Annotated:
        plain = [m for m in get_args(hint)[1:] if isinstance(m, str | typing_extensions.Doc)]
        if plain:
            told = plain[0] if isinstance(plain[0], str) else plain[0].documentation
        described = any(isinstance(m, FieldInfo) and m.description for m in get_args(hint)[1:])
        told = None if described else told
    extra: dict[str, Any] = {}
    if default is not inspect.Parameter.empty and default is not None:
        value = _as_json(default)
        if value is not _NO_JSON:
            extra["default"] = value
    if told:
        hint = Annotated[hint, Field(description=" ".join(told.split()))]
    if extra:
        hint = Annotated[hint, Field(json_schema_extra=extra)]
    return hint if default is inspect.Parameter.empty else typing_extensions.NotRequired[hint]


_NO_JSON = object()
# bytes are base64url in arguments, answers and results; a pydantic model has its own rule for all three.
_BASE64 = ConfigDict(val_json_bytes="base64", ser_json_bytes="base64")


def _as_json(value: Any) -> Any:
    """A default as the model may read it; a private object is not shown."""
    try:
        return json.loads(json.dumps(to_jsonable_python(value, bytes_mode="base64"), allow_nan=False))
    except (ValueError, TypeError):
        return _NO_JSON


def _is_context(hint: Any) -> bool:
    return hint is RunContext or get_origin(hint) is RunContext


def _compile(
    tool: str, place: str, fields: dict[str, Any], names: dict[str, Any]
) -> tuple[TypeAdapter[dict[str, Any]], Mapping[str, JSONValue]]:
    # A TypedDict of the parameters: any parameter name is a legal key, and a missing optional stays missing,
    # so that the function's own default applies.
    record = typed_dict(tool, fields)
    strict = ConfigDict(extra="forbid", allow_inf_nan=False, arbitrary_types_allowed=False)
    record.__pydantic_config__ = strict | _BASE64
    try:
        adapter = _adapter(record, tool, place, names)
        raw = _raw_schema(adapter, tool, place)
    except SchemaError as error:
        raise _of_parameter(error, tool, place, fields, names) from error.__cause__
    schema = subset(raw, tool, place)
    return adapter, {"type": "object", "properties": {}, "additionalProperties": False, **schema}


def _of_parameter(
    error: SchemaError, tool: str, place: str, fields: Mapping[str, Any], names: dict[str, Any]
) -> SchemaError:
    """The error of a signature, told of the one parameter that makes it."""
    for name, hint in fields.items():
        if get_origin(hint) is typing_extensions.NotRequired:
            (hint,) = get_args(hint)
        try:
            _raw_schema(_adapter(hint, tool, place, names), tool, place)
        except SchemaError as found:
            said = str(found).replace(owner(tool, place), f"parameter {name!r} of {owner(tool, place)}")
            return SchemaError(said, tool=tool, path=f"/properties/{name}")
    return error


def _adapter(
    annotation: Any, tool: str, place: str, names: dict[str, Any], config: ConfigDict | None = None
) -> TypeAdapter[Any]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation, config=config)
        if not adapter.pydantic_complete:
            adapter.rebuild(_types_namespace=names, raise_errors=True)
        return adapter
    except PydanticUndefinedAnnotation as error:
        raise SchemaError(
            f"{owner(tool, place)} uses a type whose annotation names {error.name!r}, and no such name is "
            "known there. Define or import it before the tool, outside `if TYPE_CHECKING`.",
            tool=tool,
        ) from error
    except (PydanticUserError, NameError, TypeError, RecursionError, CoreError) as error:
        lines = str(error).splitlines()
        said = lines[-1].removeprefix("error: ") + "." if isinstance(error, CoreError) else lines[0]
        raise SchemaError(
            f"{owner(tool, place)} has a type that no JSON value can be read as: {said} "
            "Use JSON types, dataclasses, TypedDicts, enums or pydantic models.",
            tool=tool,
        ) from error


def _raw_schema(adapter: TypeAdapter[Any], tool: str, place: str) -> dict[str, Any]:
    try:
        return adapter.json_schema(ref_template="#/$defs/{model}", schema_generator=Narrowed)
    except (PydanticUserError, RecursionError) as error:
        said = str(error).splitlines()[0].rstrip(".") + "."
        raise SchemaError(
            f"{owner(tool, place)} has a type without a JSON Schema: {said} "
            "Use JSON types, dataclasses, TypedDicts, enums or pydantic models.",
            tool=tool,
        ) from error
