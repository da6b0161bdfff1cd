"""What may be set of a tool besides its function. Knows numbers and names only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypedDict

from kogagent.errors import InputError, nearest


class Options(TypedDict, total=False):
    """Options of `@tool`; what is left out is as the toolbox or the run has it.

    timeout: seconds a call may take, math.inf for no limit. max_result_chars, max_result_tokens: a longer
    result keeps head and tail. needs_approval: each call is asked about before it runs. group: calls of
    tools of one group run one at a time, or as many as `Toolbox(groups=…)` says. pure: a call changes
    nothing, so it may be started before the model has ended its turn, and thrown away.
    """

    timeout: float | None
    max_result_chars: int | None
    max_result_tokens: int | None
    needs_approval: bool
    group: str | None
    pure: bool


DEFAULTS: Mapping[str, Any] = {
    "timeout": None,
    "max_result_chars": None,
    "max_result_tokens": None,
    "needs_approval": False,
    "group": None,
    "pure": False,
}


def checked(options: Options, tool: str) -> dict[str, Any]:
    """Every option with its value. Raises InputError that names the one that cannot be used."""
    given: dict[str, Any] = {**options}
    unknown = given.keys() - DEFAULTS.keys()
    if unknown:
        name, known = min(unknown), ("name", "description", *DEFAULTS)
        said = f"tool {tool!r} has no option {name!r}.{nearest(name, known)}"
        raise InputError(f"{said} Its options are: {', '.join(known)}.")
    whole = {**DEFAULTS, **given}
    timeout, group = whole["timeout"], whole["group"]
    if timeout is not None and not (
        isinstance(timeout, int | float) and not isinstance(timeout, bool) and timeout > 0
    ):
        raise InputError(f"timeout={timeout!r} of tool {tool!r} must be a number of seconds > 0 (inf: none)")
    for name in ("max_result_chars", "max_result_tokens"):
        value = whole[name]
        if value is not None and (type(value) is not int or value < 1):
            raise InputError(f"{name}={value!r} of tool {tool!r} must be a positive integer")
    for name in ("needs_approval", "pure"):
        if type(whole[name]) is not bool:
            raise InputError(f"{name}={whole[name]!r} of tool {tool!r} must be True or False")
    if group is not None and (not isinstance(group, str) or not group):
        raise InputError(f"group={group!r} of tool {tool!r} must be a name, the same for all of the group")
    if whole["pure"] and whole["needs_approval"]:
        raise InputError(f"tool {tool!r} is pure and needs approval: what may run unasked needs none")
    return whole
