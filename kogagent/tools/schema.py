"""A function's signature and docstring as JSON Schema, and its arguments' validator. Knows no models.

Types are read by pydantic; what it writes is then brought inside the schema subset that a grammar can
enforce, or refused with a SchemaError that names tool, parameter and keyword.
"""

from __future__ import annotations

import functools
import inspect
import json
import math
import re
import sys
import types
import typing
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from fractions import Fraction
from typing import Annotated, Any, get_args, get_origin

import docstring_parser
import typing_extensions
from pydantic import AfterValidator, ConfigDict, EncodedBytes, Field, TypeAdapter, ValidationError
from pydantic.errors import PydanticUndefinedAnnotation, PydanticUserError
from pydantic.fields import FieldInfo
from pydantic_core import SchemaError as CoreError
from pydantic_core import from_json, to_jsonable_python

from kogagent.errors import SchemaError
from kogagent.tools.narrowed import Narrowed
from kogagent.tools.subset import subset
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
    hints, names = _hints(function, tool, place)
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
    alias: Any = typing_extensions.TypeAliasType("Output", _known_types(annotation))  # which takes a config
    adapter = _adapter(alias, name, "the output type", {}, _BASE64)
    return adapter, subset(_raw_schema(adapter, name, "the output type"), name, "the output type")


def of_json_schema(
    parameters: Mapping[str, JSONValue], *, tool: str, description: str, place: str, context: bool = False
) -> Signature:
    """The signature of a tool that a JSON Schema describes; context: it takes the RunContext first.

    A schema that names no draft, and is one of 2020-12 but for tuples or open bounds as draft-07 or draft-04
    have them, is read as one of these. Raises SchemaError for what is no schema.
    """
    import jsonschema
    from referencing import Registry

    problem: jsonschema.SchemaError | None = None
    for kind in _drafts(parameters):
        try:
            kind.check_schema(dict(parameters), format_checker=_formats_for(parameters))
            break
        except jsonschema.SchemaError as error:
            problem = problem or error
    else:
        assert problem is not None
        path = "".join(f"/{part}" for part in problem.absolute_path)
        raise SchemaError(
            f"tool {tool!r} ({place}) has an invalid schema at {path or '/'}: {problem.message}",
            tool=tool,
            path=path,
        ) from problem
    if problem is not None:
        parameters = {"$schema": kind.META_SCHEMA["$schema"], **parameters}
    validator = _as_the_grammar(kind)(parameters, registry=Registry())  # an empty one: nothing is fetched

    def check(values: dict[str, Any]) -> dict[str, Any]:
        error = jsonschema.exceptions.best_match(validator.iter_errors(values))
        if error is not None:
            where = ".".join(str(part) for part in error.absolute_path)
            raise ValueError(f"{where}: {error.message}" if where else error.message)
        return values

    adapter = TypeAdapter(Annotated[dict[str, Any], AfterValidator(check)])
    if not context:
        return Signature(description, parameters, "", (), adapter, None)
    return Signature(description, parameters, _FIRST, ((_FIRST, None),), adapter, None)


def _drafts(parameters: Mapping[str, JSONValue]) -> Iterator[Any]:
    """The drafts that a schema may be of: the one it names, or 2020-12 and, where older ones have other words
    for all that is wrong there, those. They know fewer keywords: what is wrong in a newer one would pass."""
    from jsonschema import Draft4Validator, Draft7Validator, validators
    from jsonschema import Draft202012Validator as Newest

    if "$schema" in parameters:
        yield validators.validator_for(parameters, default=Newest)
        return
    yield Newest
    newest = Newest(Newest.META_SCHEMA, format_checker=_formats_for(parameters))
    paths = [error.absolute_path for error in newest.iter_errors(parameters)]
    if all(path and path[-1] in ("items", "exclusiveMinimum", "exclusiveMaximum") for path in paths):
        yield Draft7Validator
        yield Draft4Validator


@functools.cache
def _as_the_grammar(kind: Any) -> Any:
    """A validator class that reads as the grammar does: OpenAPI's nullable; multiples in decimals, for to
    doubles 120.32 is none of 0.01; keywords of draft-07 in draft-04 too; patterns as ECMA-262 has them."""
    from jsonschema import Draft4Validator, Draft7Validator, validators
    from jsonschema.exceptions import ValidationError as Unfit

    def multiple(validator: Any, of: Any, value: Any, schema: Any) -> Iterator[Any]:
        if not validator.is_type(value, "number"):
            return
        if value in (math.inf, -math.inf) or Fraction(str(value)) % Fraction(str(of)):
            yield Unfit(f"{value!r} is not a multiple of {of}")

    def pattern(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "string") and not (_to_python(said, value) or _occurs(said, value)):
            yield Unfit(f"{value!r} does not match {said!r}")

    def by_pattern(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
        if validator.is_type(value, "object"):
            for one, below in said.items():
                for key in filter(functools.partial(_occurs, one), value):
                    yield from validator.descend(value[key], below, path=key, schema_path=one)

    def additional(validator: Any, said: Any, value: Any, schema: Any) -> Iterator[Any]:
        patterns = schema.get("patternProperties")
        if patterns and validator.is_type(value, "object"):
            value = {key: v for key, v in value.items() if not any(_occurs(one, key) for one in patterns)}
            schema = {key: v for key, v in schema.items() if key != "patternProperties"}
        yield from kind.VALIDATORS["additionalProperties"](validator, said, value, schema)

    def allowing_null(check: Any) -> Any:
        def checked(validator: Any, said: Any, value: Any, schema: Any) -> Any:
            null = value is None and schema.get("nullable") is True
            return () if null else check(validator, said, value, schema)

        return checked

    newer = ("const", "contains", "if", "propertyNames") if kind is Draft4Validator else ()
    known = {keyword: Draft7Validator.VALIDATORS[keyword] for keyword in newer}
    own = {"multipleOf": multiple, "pattern": pattern, "patternProperties": by_pattern}
    checks = {**known, **kind.VALIDATORS, **own, "additionalProperties": additional}
    extend: Any = validators.extend
    return extend(kind, {keyword: allowing_null(check) for keyword, check in checks.items()})


def _occurs(pattern: str, text: str) -> bool:
    r"""Whether a pattern occurs in a text as the grammar reads it: to Python \W is no "é", \s is no U+FEFF,
    "foo$" fits "foo\n", and \p{L} is no pattern. As Python does where no grammar holds the pattern."""
    from kogagent.engine.grammar.regex import PatternError, compile_pattern

    try:
        dfa = compile_pattern(pattern)
    except PatternError:
        return _to_python(pattern, text)
    return dfa is not None and dfa.matches(text)


def _to_python(pattern: str, text: str) -> bool:
    """The same to Python, which is far quicker with long texts and finds a little more."""
    try:
        return re.search(pattern, text) is not None
    except re.error:
        return False


def _formats_for(parameters: Mapping[str, JSONValue]) -> Any:
    """What a schema's own words must look like: a pattern is one to Python, or to the grammar, unless there
    is a keyword for which jsonschema looks for patterns by itself."""
    from jsonschema import FormatChecker

    from kogagent.engine.grammar.regex import PatternError, read_pattern

    checker, python = FormatChecker(()), "unevaluatedProperties" in repr(parameters)

    @checker.checks("regex", raises=(re.error, PatternError))
    def _(text: object) -> bool:
        if isinstance(text, str):
            try:
                re.compile(text)
            except re.error:
                if python:
                    raise
                read_pattern(text)
        return True

    return checker


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


def _hints(function: Callable[..., Any], tool: str, place: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Annotations with their strings resolved, and the names of the enclosing functions and class they were
    resolved with: a local type's own annotations need them too."""
    target: Any = function
    while not (inspect.isfunction(target) or inspect.ismethod(target)):
        inner = getattr(target, "func", None) or getattr(target, "__wrapped__", None)
        if inner is None:
            if inspect.isbuiltin(target) or inspect.isclass(target):
                break
            inner = type(target).__call__
        target = inner
    target = inspect.unwrap(target)
    local: dict[str, Any] = {}
    home = getattr(target, "__globals__", {})
    frame = sys._getframe(1)
    frames = []
    while frame is not None:
        if frame.f_globals is home and frame.f_locals is not frame.f_globals:
            frames.append(frame)
        frame = frame.f_back  # type: ignore[assignment]
    for outer in reversed(frames):
        local.update(outer.f_locals)
    closure = getattr(target, "__closure__", None) or ()
    for name, cell in zip(
        getattr(getattr(target, "__code__", None), "co_freevars", ()), closure, strict=False
    ):
        try:
            local[name] = cell.cell_contents
        except ValueError:  # not filled yet
            continue
    try:
        hints = typing.get_type_hints(target, localns=local, include_extras=True)
    except NameError as error:
        raise SchemaError(
            f"tool {tool!r} ({place}) names the type {error.name!r} in an annotation, and no such name is "
            "known there. Define or import it before the tool, outside `if TYPE_CHECKING`.",
            tool=tool,
        ) from error
    except TypeError as error:
        raise SchemaError(
            f"the annotations of tool {tool!r} ({place}) cannot be read: {error}", tool=tool
        ) from error
    return {name: _known_types(hint) for name, hint in hints.items()}, local


def _known_types(hint: Any) -> Any:
    """The annotation with every typing.TypedDict as typing_extensions', for pydantic refuses the first before
    Python 3.12, and pydantic's Base64Bytes as the bytes they are, which _BASE64 has decoded already."""
    if (
        sys.version_info < (3, 12)
        and isinstance(hint, type)
        and type(hint).__name__ == "_TypedDictMeta"
        and type(hint).__module__ == "typing"
    ):
        fields = {}
        required: frozenset[str] = hint.__required_keys__  # type: ignore[attr-defined]
        for name, inner in typing_extensions.get_type_hints(hint, include_extras=True).items():
            inner = _known_types(inner)
            origin: Any = get_origin(inner)
            # __required_keys__ misses a Required that stands in a postponed annotation
            needed = origin is typing.Required or (origin is not typing.NotRequired and name in required)
            if origin is typing.Required or origin is typing.NotRequired:
                inner = get_args(inner)[0]
            fields[name] = inner if needed else typing_extensions.NotRequired[inner]
        return _typed_dict(hint.__name__, fields)
    origin = get_origin(hint)
    args = get_args(hint)
    if origin is None or origin is typing.Literal or not args:
        return hint
    if origin is Annotated:
        kept = tuple(one for one in args[1:] if args[0] is not bytes or not isinstance(one, EncodedBytes))
        return Annotated[(_known_types(args[0]), *kept)] if kept else args[0]
    changed = tuple(_known_types(arg) if not isinstance(arg, list) else arg for arg in args)
    if all(new is old for new, old in zip(changed, args, strict=True)):
        return hint
    if origin is types.UnionType:
        return typing.Union[changed]  # noqa: UP007
    return hint.copy_with(changed) if hasattr(hint, "copy_with") else origin[changed]


def _typed_dict(name: str, fields: dict[str, Any]) -> Any:
    make: Any = typing_extensions.TypedDict  # a name known only now: mypy allows literals alone
    return make(name, fields)


def _compile(
    tool: str, place: str, fields: dict[str, Any], names: dict[str, Any]
) -> tuple[TypeAdapter[dict[str, Any]], Mapping[str, JSONValue]]:
    # A TypedDict of the parameters: any parameter name is a legal key, and a missing optional stays missing,
    # so that the function's own default applies.
    record = _typed_dict(tool, fields)
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
            said = str(found).replace(
                f"tool {tool!r} ({place})", f"parameter {name!r} of tool {tool!r} ({place})"
            )
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
            f"tool {tool!r} ({place}) uses a type whose annotation names {error.name!r}, and no such name is "
            "known there. Define or import it before the tool, outside `if TYPE_CHECKING`.",
            tool=tool,
        ) from error
    except (PydanticUserError, NameError, TypeError, RecursionError, CoreError) as error:
        lines = str(error).splitlines()
        said = lines[-1].removeprefix("error: ") + "." if isinstance(error, CoreError) else lines[0]
        raise SchemaError(
            f"tool {tool!r} ({place}) has a type that no JSON value can be read as: {said} "
            "Use JSON types, dataclasses, TypedDicts, enums or pydantic models.",
            tool=tool,
        ) from error


def _raw_schema(adapter: TypeAdapter[Any], tool: str, place: str) -> dict[str, Any]:
    try:
        return adapter.json_schema(ref_template="#/$defs/{model}", schema_generator=Narrowed)
    except (PydanticUserError, RecursionError) as error:
        said = str(error).splitlines()[0]
        raise SchemaError(
            f"tool {tool!r} ({place}) has a type without a JSON Schema: {said} "
            "Use JSON types, dataclasses, TypedDicts, enums or pydantic models.",
            tool=tool,
        ) from error
