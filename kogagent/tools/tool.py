"""`@tool`: a function with a name, a schema and limits. Knows nothing of models."""

from __future__ import annotations

import dis
import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Generic, ParamSpec, TypeVar, overload

from typing_extensions import Unpack

from kogagent.errors import InputError, SchemaError
from kogagent.tools import schema
from kogagent.tools.options import DEFAULTS, Options, checked
from kogagent.types import JSONValue, ToolSpec

P = ParamSpec("P")
R = TypeVar("R")

_SHARED = ("place", "signature", "spec", *DEFAULTS)
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")


class Tool(Generic[P, R]):
    """A function a model may call. Calling it is calling the function.

    spec is what a model is told; place is where the function was defined, "file:line". The options are as
    in `Options`, None where the toolbox or the run decides. Immutable.
    """

    timeout: float | None
    max_result_chars: int | None
    max_result_tokens: int | None
    needs_approval: bool
    group: str | None
    pure: bool

    def __init__(
        self,
        function: Callable[P, R],
        *,
        name: str | None = None,
        description: str | None = None,
        **options: Unpack[Options],
    ) -> None:
        """Raises SchemaError for a signature no grammar can enforce, InputError for an option."""
        inner = function.__func__ if isinstance(function, staticmethod | classmethod) else function
        if isinstance(function, staticmethod):
            function = inner
        place = _place(inner)
        name = _name_of(inner, place) if name is None else name
        _check_words(name, description, place)
        self._set(checked(options, name))
        _refuse_generators(inner, name, place)
        self._bound = not (isinstance(function, classmethod) or _is_method(inner))
        self.function = function
        self.place = place
        self.signature = schema.of_function(
            inner, tool=name, place=place, fixed=_fixed(function), method=not self._bound
        )
        if description is None:
            description = self.signature.description
        self.spec = ToolSpec(name, description, self.signature.parameters)
        self.__doc__ = inspect.getdoc(inner)

    @classmethod
    def of_schema(
        cls,
        function: Callable[..., Any],
        *,
        name: str,
        description: str,
        parameters: Mapping[str, JSONValue],
        place: str,
        context: bool = False,
        **options: Unpack[Options],
    ) -> Tool[..., Any]:
        """A tool that a JSON Schema describes in place of a signature: one that another program offers.

        function(**arguments) is called with JSON values that the schema allows; with context=True it gets
        the RunContext before them, by position. place says in messages where it comes from. Raises
        SchemaError for the name and for what is no schema.
        """
        _check_words(name, description, place)
        made: Tool[..., Any] = object.__new__(cls)
        made.function, made._bound, made.place = function, True, place
        made._set(checked(options, name))
        made.signature = schema.of_json_schema(
            parameters, tool=name, description=description, place=place, context=context
        )
        made.spec = ToolSpec(name, description, made.signature.parameters)
        made.__doc__ = description
        return made

    def _set(self, options: dict[str, Any]) -> None:
        for option, value in options.items():
            setattr(self, option, value)

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def is_bound(self) -> bool:
        """False for a method of a class: an instance must be given first."""
        return self._bound

    @property
    def is_async(self) -> bool:
        """Whether calling it gives a coroutine; then it runs on the event loop, else in a thread."""
        function = self.function
        return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
            getattr(function, "__call__", None)  # noqa: B004 - the method is wanted, not whether there is one
        )

    @property
    def never_waits(self) -> bool:
        """Whether it is a coroutine function without an await: it runs in one step, and needs no task."""
        function = getattr(self.function, "__func__", self.function)
        return (
            inspect.isfunction(function)
            and inspect.iscoroutinefunction(function)
            and all(step.opname != "YIELD_VALUE" for step in dis.get_instructions(function))
        )

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R:
        return self.function(*args, **kwargs)

    def __get__(self, instance: object, owner: type | None = None) -> Tool[..., R]:
        """Read through an instance, a method is bound to it: the schema is not made again."""
        if self._bound or (instance is None and not isinstance(self.function, classmethod)):
            return self
        bound: Tool[..., R] = object.__new__(Tool)
        bound.function = self.function.__get__(instance, owner)
        bound._bound = True
        for name in (*_SHARED, "__doc__"):
            setattr(bound, name, getattr(self, name))
        return bound

    def __repr__(self) -> str:
        return f"<Tool {self.name} ({self.place})>"


@overload
def tool(
    function: Callable[P, R],
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> Tool[P, R]: ...


@overload
def tool(
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> Callable[[Callable[P, R]], Tool[P, R]]: ...


def tool(
    function: Callable[P, R] | None = None,
    /,
    *,
    name: str | None = None,
    description: str | None = None,
    **options: Unpack[Options],
) -> Tool[P, R] | Callable[[Callable[P, R]], Tool[P, R]]:
    """Make a tool of a function, sync or async: `@tool`, or `@tool(name=…, timeout=…)`.

    The schema comes from the annotations, the descriptions from the docstring (google, numpy or sphinx) or
    from `Annotated[type, "description"]`. A parameter annotated RunContext is injected. An async function
    runs on the event loop, a sync one in a thread. The options are those of `Options`: timeout,
    max_result_chars, max_result_tokens, needs_approval, group, pure. Raises SchemaError where the function is
    defined, never later.
    """
    if isinstance(function, Tool):
        raise InputError(f"{function!r} is a tool already. Apply @tool once.")

    def make(function: Callable[P, R]) -> Tool[P, R]:
        return Tool(function, name=name, description=description, **options)

    if function is None:
        return make
    if not callable(function) and not isinstance(function, staticmethod | classmethod):
        raise InputError(f"@tool takes a function, not {function!r}. Name options by keyword: @tool(name=…).")
    return make(function)


def collect(tools: Iterable[Any]) -> tuple[Tool[..., Any], ...]:
    """Tools, functions and toolkits as tools, in order; a set, which has none, by name.

    A toolkit is an instance of a class with @tool methods. Raises SchemaError for two tools of one name.
    """
    if isinstance(tools, str | bytes) or not isinstance(tools, Iterable):
        raise InputError(f"tools must be a list of functions, Tools or toolkits, not {tools!r}")
    found: list[Tool[..., Any]] = [one for thing in tools for one in _tools_of(thing)]
    if isinstance(tools, set | frozenset):
        found.sort(key=lambda one: one.name)  # a fixed order: the tools are part of the prompt prefix
    places: dict[str, str] = {}
    for one in found:
        if one.name in places:
            raise SchemaError(
                f"two tools have the name {one.name!r}: {places[one.name]} and {one.place}. "
                "Give one of them another with @tool(name=…).",
                tool=one.name,
            )
        places[one.name] = one.place
    return tuple(found)


def _tools_of(thing: Any) -> list[Tool[..., Any]]:
    if isinstance(thing, Tool):
        if not thing.is_bound:
            raise SchemaError(
                f"tool {thing.name!r} ({thing.place}) is a method without its object. "
                "Pass an instance of the class, or instance.method.",
                tool=thing.name,
            )
        return [thing]
    if inspect.isclass(thing):
        raise SchemaError(
            f"{thing!r} is a class. Pass an instance of it, or a function.", tool=thing.__name__
        )
    # Definition order, a base class first.
    names: dict[str, None] = {}
    for cls in reversed(type(thing).__mro__):
        for name, value in vars(cls).items():
            if isinstance(getattr(value, "__func__", value), Tool):
                names[name] = None
    methods = [getattr(thing, name) for name in names]
    kit = [method for method in methods if isinstance(method, Tool)]  # an override may be no tool any more
    if kit:
        return kit
    if not callable(thing):
        more = " Its `tools` are." if hasattr(type(thing), "tools") else ""  # not asked for: it may be closed
        raise SchemaError(
            f"{thing!r} is no function, no Tool and has no @tool methods: it cannot be a tool.{more}"
        )
    return [Tool(thing)]


def _check_words(name: object, description: object, place: str) -> None:
    """Raises SchemaError for a name or a description that no tool can have."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise SchemaError(
            f"{name!r} ({place}) cannot be a tool's name: 1 to 64 letters, digits, '_' or '-', not "
            "starting with a digit. Pass another as name=….",
            tool=str(name),
        )
    if description is not None and not isinstance(description, str):
        raise SchemaError(
            f"the description of tool {name!r} ({place}) must be text, not {description!r}", tool=name
        )


# ── about functions ──────────────────────────────────────────────────────────────────────────


def _core(function: Any) -> Any:
    """The function below partials and wrappers; of an object, its `__call__`."""
    while True:
        if isinstance(function, functools.partial):
            function = function.func
        elif inspect.isroutine(function):
            return inspect.unwrap(function)
        elif hasattr(function, "__wrapped__"):
            function = function.__wrapped__
        else:
            return type(function).__call__


def _place(function: Any) -> str:
    code = getattr(_core(function), "__code__", None)
    if code is None:
        return f"{getattr(function, '__module__', None) or type(function).__module__}, not Python source"
    return f"{code.co_filename}:{code.co_firstlineno}"


def _name_of(function: Any, place: str) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    name = getattr(function, "__name__", None) or type(function).__name__
    if name == "<lambda>":
        raise SchemaError(f"a lambda ({place}) has no name a model could call. Pass name=… to tool().")
    return str(name)


def _fixed(function: Any) -> frozenset[str]:
    """Parameters a partial gives: the model must not choose them."""
    names: set[str] = set()
    while isinstance(function, functools.partial):
        names |= set(function.keywords)
        function = function.func
    return frozenset(names)


def _is_method(function: Any) -> bool:
    """Whether a plain function stands in a class body: it has an untyped self."""
    if not inspect.isfunction(function):
        return False
    outer = function.__qualname__.rpartition(".")[0]
    first = next(iter(inspect.signature(function).parameters.values()), None)
    return (
        bool(outer)
        and not outer.endswith("<locals>")
        and first is not None
        and first.name == "self"
        and first.annotation is first.empty
    )


def _refuse_generators(function: Any, name: str, place: str) -> None:
    core = _core(function)
    if inspect.isgeneratorfunction(core) or inspect.isasyncgenfunction(core):
        raise SchemaError(
            f"tool {name!r} ({place}) is a generator: a call has one result. Return a list.", tool=name
        )
