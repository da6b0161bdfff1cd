"""A function's annotations as pydantic can read them: strings resolved where they stand, types of before
Python 3.12 put in its terms. Knows no schema."""

from __future__ import annotations

import inspect
import sys
import types
import typing
from collections.abc import Callable
from typing import Annotated, Any, get_args, get_origin

import typing_extensions
from pydantic import EncodedBytes

from kogagent.errors import SchemaError


def hints_of(function: Callable[..., Any], tool: str, place: str) -> tuple[dict[str, Any], dict[str, Any]]:
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
    return {name: known_types(hint) for name, hint in hints.items()}, local


def known_types(hint: Any) -> Any:
    """The annotation with every typing.TypedDict as typing_extensions', for pydantic refuses the first before
    Python 3.12, and pydantic's Base64Bytes as the bytes they are, decoded already by the schema's config."""
    if (
        sys.version_info < (3, 12)
        and isinstance(hint, type)
        and type(hint).__name__ == "_TypedDictMeta"
        and type(hint).__module__ == "typing"
    ):
        fields = {}
        required: frozenset[str] = hint.__required_keys__  # type: ignore[attr-defined]
        for name, inner in typing_extensions.get_type_hints(hint, include_extras=True).items():
            inner = known_types(inner)
            origin: Any = get_origin(inner)
            # __required_keys__ misses a Required that stands in a postponed annotation
            needed = origin is typing.Required or (origin is not typing.NotRequired and name in required)
            if origin is typing.Required or origin is typing.NotRequired:
                inner = get_args(inner)[0]
            fields[name] = inner if needed else typing_extensions.NotRequired[inner]
        return typed_dict(hint.__name__, fields)
    origin = get_origin(hint)
    args = get_args(hint)
    if origin is None or origin is typing.Literal or not args:
        return hint
    if origin is Annotated:
        kept = tuple(one for one in args[1:] if args[0] is not bytes or not isinstance(one, EncodedBytes))
        return Annotated[(known_types(args[0]), *kept)] if kept else args[0]
    changed = tuple(known_types(arg) if not isinstance(arg, list) else arg for arg in args)
    if all(new is old for new, old in zip(changed, args, strict=True)):
        return hint
    if origin is types.UnionType:
        return typing.Union[changed]  # noqa: UP007
    return hint.copy_with(changed) if hasattr(hint, "copy_with") else origin[changed]


def typed_dict(name: str, fields: dict[str, Any]) -> Any:
    make: Any = typing_extensions.TypedDict  # a name known only now: mypy allows literals alone
    return make(name, fields)
