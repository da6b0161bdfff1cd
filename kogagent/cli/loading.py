"""What a command line names, loaded: an engine, tools. Knows import paths; runs nothing."""

from __future__ import annotations

import gc
import importlib
import os
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kogagent.errors import InputError, nearest

if TYPE_CHECKING:
    from kogagent.local import Engine


def load_engine(model: str, device: str, dtype: str, *, keep_prompts: bool = False) -> Engine:
    """The engine of a name or path. Raises the InputError of whatever is wrong with it."""
    gc.disable()  # what loading makes stays: looking through it again and again is a tenth of its time
    try:
        from kogagent.local import Engine

        return Engine.load(model, device=device, dtype=dtype, keep_prompts=keep_prompts)
    finally:
        gc.enable()
        gc.freeze()


def load_tools(names: Sequence[str], option: str = "--tools") -> list[Any]:
    """The tools that `module:name` stands for, `module` alone for every @tool in it; option is what messages
    call them. Looks in the current directory first, as python -m does. Raises InputError naming what was not
    found."""
    return [one for name in names for one in _load(name, option)]


def load_object(name: str, option: str) -> Any:
    """What `module:path` names; option is what messages call it. Raises InputError naming what was not
    found."""
    module_name, _, path = name.partition(":")
    if not module_name or not path:
        raise InputError(f"{option} {name!r}: write module:name, for example my_module:thing")
    return _attribute(_module(name, module_name, option), path, name, option)


def _load(name: str, option: str) -> list[Any]:
    from kogagent.tools.tool import Tool

    module_name, _, path = name.partition(":")
    if not module_name:
        raise InputError(f"{option} {name!r}: write module:function, for example my_tools:weather")
    module = _module(name, module_name, option)
    if not path:
        found = [value for value in vars(module).values() if isinstance(value, Tool)]
        if not found:
            raise InputError(f"{option} {name!r}: the module has no @tool. Name a function: {name}:function")
        return found
    thing = _attribute(module, path, name, option)
    return list(thing) if isinstance(thing, list | tuple) else [thing]


def _module(name: str, module: str, option: str) -> Any:
    if os.getcwd() not in sys.path:
        sys.path.insert(0, os.getcwd())
    try:
        return importlib.import_module(module)
    except Exception as error:  # a user's module may fail in any way; which one, and how, is what they need
        raise InputError(
            f"{option} {name!r}: importing {module!r} failed: {type(error).__name__}: {error}"
        ) from error


def _attribute(thing: Any, path: str, name: str, option: str) -> Any:
    for part in path.split("."):
        if not hasattr(thing, part):
            public = [key for key in vars(thing) if not key.startswith("_")]
            known = ", ".join(public) or "nothing"
            raise InputError(
                f"{option} {name!r}: there is no {part!r}.{nearest(part, public)} There is {known}."
            )
        thing = getattr(thing, part)
    return thing
