"""Which types a tool's arguments may have: how a text without quotes is read. Knows schemas; no automaton."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kogagent.engine.grammar.schema import Schemas
from kogagent.engine.grammar.shapes import TYPES, Bounds, kinds_of
from kogagent.errors import SchemaError

_ALL = frozenset(TYPES)


class ArgumentKinds:
    """(tool, argument) -> names of types, "integer" for numbers that must be integers; all of them for what
    no schema speaks of, and for a tool whose schema no grammar could hold."""

    def __init__(self, tools: Mapping[str, Mapping[str, Any]], bounds: Bounds | None = None) -> None:
        self._tools = tools
        self._bounds = bounds or Bounds()
        self._schemas: dict[str, Schemas] = {}
        self._known: dict[tuple[str, str], frozenset[str]] = {}

    def __call__(self, tool: str, argument: str) -> frozenset[str]:
        key = (tool, argument)
        if key not in self._known:
            try:
                self._known[key] = self._kinds(tool, argument)
            except SchemaError:
                self._known[key] = _ALL
        return self._known[key]

    def _kinds(self, tool: str, argument: str) -> frozenset[str]:
        parameters = self._tools.get(tool)
        if parameters is None:
            return _ALL
        if tool not in self._schemas:
            self._schemas[tool] = Schemas({**parameters, "type": "object"}, self._bounds, tool)
        return property_kinds(self._schemas[tool], argument)


def property_kinds(schemas: Schemas, name: str) -> frozenset[str]:
    """The types of one property of the root, over all alternatives."""
    out: set[str] = set()
    for shape in schemas.expand(schemas.goal()):
        goal = shape.property(name)
        if goal is None:
            return _ALL
        out.update(*(kinds_of(part) for part in schemas.expand(goal)))
    return frozenset(out) or _ALL
