"""Tools for a server in a process of its own. It prints where a careless module would."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from pydantic import Field

from kogagent import Retry, RunContext, ToolFailed, tool

print("imported")  # noqa: T201 - a server over standard streams must survive it


@dataclass
class Place:
    city: str
    country: str = "NO"


@tool
async def forecast(
    place: Place, days: Annotated[int, Field(ge=1, le=3)], unit: Literal["c", "f"] = "c"
) -> list[int]:
    """Forecast temperatures."""
    print("called")  # noqa: T201
    if place.city == "Atlantis":
        raise Retry("no such city")
    if unit == "f":
        raise ToolFailed("the service knows Celsius only")
    return [len(place.city)] * days


@tool
def broken() -> str:
    """Fails."""
    raise ZeroDivisionError("of its own")


@tool
def whose(context: RunContext[str]) -> str:
    """Whose deps these are."""
    return f"{context.deps} {context.call.name}"
