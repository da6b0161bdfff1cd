"""Reads JSON objects strictly: each field is taken by name and type, what is left over is an error."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeVar, overload

from kogagent.errors import InputError

T = TypeVar("T")
D = TypeVar("D")

_REQUIRED = object()

_KINDS = {
    type(None): "null", bool: "a boolean", int: "an integer", float: "a number", str: "a string",
    list: "a list", dict: "an object",
}  # fmt: skip


class RequestError(InputError):
    """A request that cannot be answered. param: the field, as a path; code: OpenAI's word for it."""

    def __init__(
        self, message: str, *, param: str | None = None, code: str | None = None, status: int = 400
    ) -> None:
        super().__init__(message)
        self.param = param
        self.code = code
        self.status = status


class Fields:
    """The fields of one JSON object. null is the same as absent; `end` refuses what nobody took."""

    def __init__(self, value: object, path: str) -> None:
        if not isinstance(value, dict):
            raise RequestError(
                f"{path or 'the body'} must be an object, not {kind_of(value)}", param=path or None
            )
        self._left: dict[str, Any] = dict(value)
        self._path = path

    def at(self, name: str) -> str:
        """The path of a field, for messages."""
        return f"{self._path}.{name}" if self._path else name

    @overload
    def take(self, name: str, kind: type[T]) -> T: ...
    @overload
    def take(self, name: str, kind: type[T], default: D) -> T | D: ...
    def take(self, name: str, kind: type[Any], default: Any = _REQUIRED) -> Any:
        """A field of one JSON type; a number may be written as an integer. Without default it is required."""
        value = self._left.pop(name, None)
        if value is None and default is not _REQUIRED:
            return default
        right = type(value) is kind or (kind is float and type(value) is int)
        if not right:
            if value is None:
                raise RequestError(
                    f"{self.at(name)} is missing: it must be {_KINDS[kind]}", param=self.at(name)
                )
            raise RequestError(
                f"{self.at(name)} must be {_KINDS[kind]}, not {kind_of(value)}", param=self.at(name)
            )
        return float(value) if kind is float else value

    def take_any(self, name: str) -> Any:
        """A field of any type, None when it is absent."""
        return self._left.pop(name, None)

    def neutral(self, name: str, *values: Any, instead: str = "Leave it out.") -> None:
        """A field that is not supported: it may be absent or say what happens anyway. instead: what to do."""
        value = self._left.pop(name, None)
        if value is None or any(type(value) is type(one) and value == one for one in values):
            return
        only = " or ".join(map(repr, values))
        raise RequestError(
            f"{self.at(name)} is not supported here" + (f" with any value but {only}" if values else "")
            + f". {instead}",
            param=self.at(name),
            code="unsupported_parameter",
        )  # fmt: skip

    def end(self) -> None:
        """Refuse what is left."""
        if self._left:
            names = [self.at(name) for name in self._left]
            raise RequestError(
                f"unknown or unsupported field{'s' if len(names) > 1 else ''} {', '.join(names)}. Leave "
                f"{'them' if len(names) > 1 else 'it'} out.",
                param=names[0],
                code="unknown_parameter",
            )


def kind_of(value: object) -> str:
    """What a JSON value is, in words."""
    return _KINDS.get(type(value), type(value).__name__)


def one_of(value: str, allowed: Sequence[str], path: str) -> str:
    """The value, or an error that lists what is allowed."""
    if value not in allowed:
        raise RequestError(f"{path}={value!r}: must be one of {', '.join(map(repr, allowed))}", param=path)
    return value
