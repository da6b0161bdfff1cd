"""Frozen dataclasses that are made in half the time. Knows dataclasses only."""

from __future__ import annotations

from dataclasses import MISSING, FrozenInstanceError, fields
from typing import Any, Final, Generic, NoReturn, TypeVar

T = TypeVar("T", bound=type)

_LATER: Final = object()  # in place of a default that a factory makes
_MANY: Final = 5  # fields from which on the detour over a class that is not frozen pays


def quick(cls: T) -> T:
    """Write above `@dataclass(frozen=True, slots=True)`: the same class with a faster `__init__`.

    A turn of the loop makes some twenty values, and a frozen class is slow to fill: the standard `__init__`
    has `object.__setattr__` look up the slot of every field. This one calls the slots' own setters; a value
    of many fields is, until it is filled, of a twin class with the same slots that is not frozen. Raises
    TypeError for a field that `__init__` does not take.
    """
    plain = vars(cls)["__init__"]
    known: dict[str, Any] = {"_LATER": _LATER, "_own": cls, "_plain": plain}
    ordered, named = ["self"], list[str]()
    values: dict[str, str] = {}
    for field in fields(cls):
        name, given = field.name, f"_given_{field.name}"
        if not field.init:
            raise TypeError(f"{cls.__name__}.{name}: quick() takes no field that __init__ does not take")
        values[name] = name
        parameter = name
        if field.default_factory is not MISSING:
            known[given] = field.default_factory
            parameter, values[name] = f"{name}=_LATER", f"{given}() if {name} is _LATER else {name}"
        elif field.default is not MISSING:
            known[given] = field.default
            parameter = f"{name}={given}"
        (named if field.kw_only else ordered).append(parameter)
    twin = _twin(cls) if len(values) >= _MANY else None
    known |= {"_twin": twin, "_become": vars(object)["__class__"].__set__}
    if twin is None:
        known |= {f"_set_{name}": getattr(cls, name).__set__ for name in values}
        body = [f"_set_{name}(self, {value})" for name, value in values.items()] or ["pass"]
    else:
        body = [
            "if self.__class__ is not _own:",
            f" return _plain(self, {', '.join(f'{name}={value}' for name, value in values.items())})",
            "_become(self, _twin)",
            *(f"self.{name} = {value}" for name, value in values.items()),
            "self.__class__ = _own",
        ]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    heads = ", ".join([*ordered, *(["*", *named] if named else [])])
    exec(f"def __init__({heads}):\n " + "\n ".join(body), known)
    made = known["__init__"]
    made.__qualname__, made.__module__, made.__annotations__ = (
        plain.__qualname__,
        cls.__module__,
        plain.__annotations__,
    )
    type.__setattr__(cls, "__init__", made)
    type.__setattr__(cls, "__setattr__", _frozen)
    return cls


def _frozen(self: object, name: str, value: object) -> NoReturn:
    """The standard one raises TypeError for names that are no fields, since it knows the class that slots
    replaced; `RunContext[int](…)` sets such a one, and takes only an AttributeError for a no."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


def _twin(cls: type) -> type | None:
    """A class of the same layout whose instances can be changed, None for one that is generic."""
    if Generic in cls.__bases__:
        return None
    # Both: setting goes by a call of its own where a base has its own way for either.
    plainly = {"__setattr__": object.__setattr__, "__delattr__": object.__delattr__}
    return type(cls.__name__, cls.__bases__, {"__slots__": vars(cls)["__slots__"], **plainly})
