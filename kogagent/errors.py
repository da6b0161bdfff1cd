"""Every error of the package. The class says whose fault it is; the last sentence says what to do.

    KogagentError
    ├── InputError            the caller's: a value, a path, a schema, a prompt
    │   ├── ConfigError         a model's config or tensors are not what the code can run
    │   ├── SchemaError         a tool's signature or a JSON Schema outside the grammar
    │   ├── ContextError        more tokens than the model's context or the session's room
    │   └── MissingExtraError   an optional package is not installed
    ├── ModelError            the model's: output that cannot be used (NaN logits, no legal token)
    ├── ToolError             a tool's
    │   ├── Retry               raised by a tool: the model may try again with other arguments
    │   ├── ToolFailed          raised by a tool: tell the model and go on
    │   └── Deferred            raised by a tool or an approver: the result comes later
    ├── GuardrailError        what a guardrail does not let pass
    └── DeviceError           the device's: a launch, a deadline, a dead kernel; the engine is closed
        └── EngineClosedError   the engine or session was closed or poisoned before

A class is also a ValueError or RuntimeError where Python code would expect one.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, ParamSpec, TypeVar, cast

P = ParamSpec("P")
R = TypeVar("R")
C = TypeVar("C", bound=type)


class KogagentError(Exception):
    """Base of every error raised on purpose by this package."""


class InputError(KogagentError, ValueError):
    """The caller passed something that cannot be used. Raised before any work is done."""


class ConfigError(InputError):
    """A checkpoint's config, tensors or tokenizer are missing, unknown or of the wrong shape."""


class SchemaError(InputError):
    """A signature or JSON Schema outside what the grammar enforces; names the tool, path, keyword.

    path: JSON pointer into the schema, "" for its root.
    """

    def __init__(self, message: str, *, tool: str = "", path: str = "", keyword: str = "") -> None:
        super().__init__(message)
        self.tool = tool
        self.path = path
        self.keyword = keyword


class ContextError(InputError):
    """A prompt or an appended message does not fit the context."""


class MissingExtraError(InputError):
    """An optional package is missing. The message names the extra to install."""

    def __init__(self, what: str, package: str, extra: str) -> None:
        super().__init__(
            f"{what} needs the package {package!r}, which is not installed. "
            f"Install it with: pip install 'kogagent[{extra}]'"
        )
        self.package = package
        self.extra = extra


class ModelError(KogagentError, RuntimeError):
    """The model's output cannot be used: NaN logits, or no token the grammar allows."""


class ToolError(KogagentError, RuntimeError):
    """Base of what a tool may raise on purpose."""


class Retry(ToolError):
    """Raised by a tool: the arguments were usable but wrong; the model is told why and may retry."""

    advice: ClassVar[str] = "Correct the call and try again."  # the model reads it behind the message


class ToolFailed(ToolError):
    """Raised by a tool: it could not do its work; the model is told why and goes on."""


class Deferred(ToolError):
    """Raised by a tool, or by what approves calls: the result comes later, from `agent.run(answers=…)`.

    The run ends when the other calls of its turn are done. The message is for who looks at the waiting call.
    """


class GuardrailError(KogagentError, RuntimeError):
    """A guardrail did not let a prompt or an answer pass. guardrail: its name; why: what it said."""

    def __init__(self, message: str, *, guardrail: str = "", why: str = "") -> None:
        super().__init__(message)
        self.guardrail = guardrail
        self.why = why


class DeviceError(KogagentError, RuntimeError):
    """The device failed or missed a deadline. The engine is closed; a new one can be loaded."""


class EngineClosedError(DeviceError):
    """The engine or session is closed, or an earlier device error closed it."""


# ── names that nothing has ───────────────────────────────────────────────────────────────────


# What other SDKs call the same thing, or what holds it here, in the order of likelihood, where the words have
# little in common or a word of ours that means something else is nearer.
_ELSEWHERE = {
    "after_tool": "after_call",
    "before_tool": "before_call",
    "context": "deps",
    "deps_type": "deps",
    "handoff_description": "description",
    "input": "prompt",
    "input_guardrails": "guardrails",
    "max_steps": "limits max_turns",
    "max_iterations": "limits max_turns",
    "max_tool_calls": "limits max_calls",
    "max_turns": "limits",
    "request_limit": "limits max_turns",
    "timeout": "limits max_seconds",
    "mcp_servers": "tools",
    "model_settings": "sampling",
    "output_guardrails": "guardrails",
    "prompt": "instructions",
    "response_format": "output_type",
    "result_type": "output_type",
    "retries": "limits tool_retries",
    "session": "history",
    "system": "instructions",
    "system_message": "instructions",
    "system_prompt": "instructions",
    "temperature": "sampling",
    "toolsets": "tools",
    "user_prompt": "prompt",
    "usage_limits": "limits",
}


def nearest(name: str, known: Iterable[str]) -> str:
    """ " Did you mean 'x'?" for a name much like a known one, or another SDK's for it, else nothing."""
    import difflib

    known = list(known)
    if name in _ELSEWHERE:
        close = [one for one in _ELSEWHERE[name].split() if one in known]
    else:
        close = difflib.get_close_matches(name, known, n=1)
        close += [one for one in known if len(name) > 2 and one.startswith(name)]
    return f" Did you mean {close[0]!r}?" if close else ""


def check_takes(function: Callable[..., Any], what: str, *given: str) -> None:
    """Raises InputError for a function that cannot be called with so many arguments, told in words: when it
    is handed over, not when a run comes to need it. what: the option it was given for."""
    try:
        # What a wrapper takes itself counts. Where annotations are read late they may name what is not there.
        signature = inspect.signature(function, follow_wrapped=False)
    except (TypeError, ValueError, NameError):  # a built-in one tells nobody
        return
    try:
        signature.bind(*given)
    except TypeError:
        name = getattr(function, "__name__", type(function).__name__)
        raise InputError(f"{what}: {name}{signature} must take {' and '.join(given)}") from None


def named_options(function: Callable[P, R]) -> Callable[P, R]:
    """Above a function: a keyword that it does not have is an InputError with the name of the nearest one it
    has, in place of Python's TypeError. Nothing is looked at until a call fails."""
    if inspect.iscoroutinefunction(function):

        @functools.wraps(function)
        async def awaited(*args: P.args, **keywords: P.kwargs) -> Any:
            try:
                begun: Any = function(*args, **keywords)
            except TypeError as error:
                raise _told(function, keywords, error) from None
            return await begun

        return cast(Callable[P, R], awaited)

    @functools.wraps(function)
    def called(*args: P.args, **keywords: P.kwargs) -> R:
        try:
            return function(*args, **keywords)
        except TypeError as error:
            told = _told(function, keywords, error)
            if told is error:
                raise
            raise told from None

    return called


def named_fields(cls: C) -> C:
    """`named_options` for the fields of a dataclass: write it above `@dataclass`."""
    type.__setattr__(cls, "__init__", named_options(vars(cls)["__init__"]))
    return cls


def _told(function: Callable[..., Any], keywords: Iterable[str], error: TypeError) -> Exception:
    """The error of a call with a keyword that the function does not have; the one there is for any other."""
    known = [name for name in inspect.signature(function).parameters if name not in ("self", "cls")]
    for name in keywords:
        if name not in known:
            what = function.__qualname__.removesuffix(".__init__")
            return InputError(
                f"{what} has no option {name!r}.{nearest(name, known)} Its options are: {', '.join(known)}."
            )
    return error
