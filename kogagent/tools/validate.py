"""Whether arguments fit a JSON Schema somebody else wrote, as the grammar reads it. Knows no functions."""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any, TypeAlias

from kogagent.errors import SchemaError
from kogagent.types import JSONValue

Check: TypeAlias = Callable[[dict[str, Any]], dict[str, Any]]


def checked(
    parameters: Mapping[str, JSONValue], tool: str, place: str
) -> tuple[Mapping[str, JSONValue], Check]:
    """The schema with the draft it is read as, and what returns arguments that fit or raises a ValueError
    that names the place in them.

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

    return parameters, check


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
