"""Frozen dataclasses that are made in half the time, or a third. Knows dataclasses only."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import MISSING, FrozenInstanceError, fields
from functools import cache
from typing import Any, Final, Generic, NoReturn, ParamSpec, TypeVar

T = TypeVar("T", bound=type)
P = ParamSpec("P")
R = TypeVar("R")

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
    parameters, values, known = _signature(cls)
    known |= {"_own": cls, "_plain": plain}
    if len(values) < _MANY or Generic in cls.__bases__:
        known |= {f"_set_{name}": getattr(cls, name).__set__ for name in values}
        body = [f"_set_{name}(self, {value})" for name, value in values.items()] or ["pass"]
    else:
        known |= {"_twin": _twin(cls), "_become": vars(object)["__class__"].__set__}
        body = [
            "if self.__class__ is not _own:",
            f" return _plain(self, {', '.join(f'{name}={value}' for name, value in values.items())})",
            "_become(self, _twin)",
            *(f"self.{name} = {value}" for name, value in values.items()),
            "self.__class__ = _own",
        ]
    if hasattr(cls, "__post_init__"):
        body.append("self.__post_init__()")
    made = _function("__init__", ["self", *parameters], body, known)
    made.__qualname__, made.__module__, made.__annotations__ = (
        plain.__qualname__,
        cls.__module__,
        plain.__annotations__,
    )
    type.__setattr__(cls, "__init__", made)
    type.__setattr__(cls, "__setattr__", _frozen)
    return cls


def maker(cls: Callable[P, R]) -> Callable[P, R]:
    """A function that makes values of a class under `quick`, as calling the class does, in half its time: it
    begins with the twin, where a call of the class is two calls and two changes of class.

    For the few places that make values in every turn; what they make cannot be told apart. A field that goes
    by keyword alone is not taken, it has its default: Python keeps its fast calls for functions without such.
    """
    own: Any = cls
    parameters, values, known = _signature(own, named=False)
    known |= {"_own": own, "_twin": _twin(own)}
    body = ["self = _twin()", *(f"self.{name} = {value}" for name, value in values.items())]
    body.append("self.__class__ = _own")
    if hasattr(own, "__post_init__"):
        body.append("self.__post_init__()")
    made: Callable[P, R] = _function(f"make_{own.__name__}", parameters, [*body, "return self"], known)
    return made


def _signature(cls: Any, *, named: bool = True) -> tuple[list[str], dict[str, str], dict[str, Any]]:
    """(the parameters of `__init__`, the expression of each field, the names these use). named: whether
    fields that go by keyword alone are parameters; else each has its default."""
    known: dict[str, Any] = {"_LATER": _LATER}
    ordered, by_name = list[str](), list[str]()
    values: dict[str, str] = {}
    for field in fields(cls):
        name, given = field.name, f"_given_{field.name}"
        if not field.init:
            raise TypeError(f"{cls.__name__}.{name}: quick() takes no field that __init__ does not take")
        parameter = value = name
        if field.default_factory is not MISSING:
            known[given] = field.default_factory
            parameter, value = f"{name}=_LATER", f"{given}() if {name} is _LATER else {name}"
        elif field.default is not MISSING:
            known[given] = field.default
            parameter = f"{name}={given}"
        if not field.kw_only:
            ordered.append(parameter)
        elif named:
            by_name.append(parameter)
        elif parameter is name:
            raise TypeError(f"{cls.__name__}.{name}: maker() takes no keywords, and it has no default")
        else:
            value = given if field.default_factory is MISSING else f"{given}()"
        values[name] = value
    return [*ordered, *(["*", *by_name] if by_name else [])], values, known


def _function(name: str, parameters: list[str], body: list[str], known: dict[str, Any]) -> Any:
    exec(f"def {name}({', '.join(parameters)}):\n " + "\n ".join(body), known)
    return known[name]


def _frozen(self: object, name: str, value: object) -> NoReturn:
    """The standard one raises TypeError for names that are no fields, since it knows the class that slots
    replaced; `RunContext[int](…)` sets such a one, and takes only an AttributeError for a no."""
    raise FrozenInstanceError(f"cannot assign to field {name!r}")


@cache
def _twin(cls: type) -> type:
    """A class of the same layout whose instances begin empty and can be changed. It is below the other, which
    Python sees to be of one layout sooner than two classes with equal slots."""
    plainly: dict[str, Any] = {
        "__slots__": (),
        "__init__": object.__init__,
        # Both: setting goes by a call of its own where a base has its own way for either.
        "__setattr__": object.__setattr__,
        "__delattr__": object.__delattr__,
    }
    return type(cls.__name__, (cls,), plainly)
