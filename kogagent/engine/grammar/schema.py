"""JSON Schema to shapes: one shape for each alternative of a goal. Knows no automaton, no bytes.

2020-12 and draft-04 to 07; keywords.py is the whole table. What a schema says by itself is narrow.py's; here
is what holds schemas together: references, alternatives, conditions. Recursion is cut by depth here:
everything behind is finite. A branch that nothing satisfies vanishes and leaves its reason.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

from kogagent.engine.grammar.fits import holds
from kogagent.engine.grammar.keywords import verdict
from kogagent.engine.grammar.logic import Alternatives, Part, alternatives
from kogagent.engine.grammar.narrow import Narrowing
from kogagent.engine.grammar.references import REFERENCES, References
from kogagent.engine.grammar.shapes import AsSpecified, Bounds, Goal, Seen, Shape, error, same
from kogagent.errors import SchemaError

MAX_ALTERNATIVES = 128
"""Most alternatives a schema may come to by one of `_LOGIC_WORDS`, or by an anyOf beside unevaluated…"""


class Schemas:
    """One schema document: references, recursion, expansion of goals to shapes. `notes` collects the default
    bounds that bite."""

    def __init__(self, root: Any, bounds: Bounds, tool: str = "") -> None:
        self.root = root
        self.bounds = bounds
        self.tool = tool
        self.notes: dict[str, None] = {}
        self.cut = False  # whether recursion was cut somewhere
        name = root.get("$schema", "") if isinstance(root, Mapping) else ""
        self.old = isinstance(name, str) and any(f"draft-0{n}" in name for n in (4, 6, 7))
        self._cut_goals: set[tuple[Any, ...]] = set()
        self._expanded: dict[tuple[Any, ...], tuple[Shape, ...]] = {}
        self._alternatives: dict[tuple[int, str, bool], Alternatives] = {}
        self._references = References(root, tool)
        self._narrowing = Narrowing(self)
        self._vanished: dict[tuple[str, str], str] = {}  # (path, keyword) -> why nothing fits there
        self._cause: tuple[str, str] | None = None  # which of them emptied something that must be there

    def goal(self) -> Goal:
        return Goal((("", self.root),), 0, self.bounds.depth)

    def error(self, what: str, path: str, keyword: str) -> SchemaError:
        return error(what, path, self.tool, keyword)

    def note(self, path: str, what: str) -> None:
        place = f"{self.tool}: " if self.tool else ""
        self.notes[f"{place}{path or '/'}: {what}"] = None

    # ── what nothing satisfies ──
    def vanish(self, what: str, path: str, keyword: str) -> None:
        """Nothing fits here, and why: a note, or the error where the whole has no value."""
        self._vanished.setdefault((path, keyword), what)

    def missing(self, what: str, path: str, keyword: str) -> None:
        """The same of what must be there: to blame is what was found at `path` or inside."""
        inner = (key for key in self._vanished if key[0] == path or key[0].startswith(f"{path}/"))
        self._cause = next(inner, (path, keyword))
        self._vanished.setdefault(self._cause, what)

    def vanished(self) -> None:
        """Note the branches that vanished."""
        for (path, keyword), what in self._vanished.items():
            self.note(path, f"{keyword}: {what}; never written")

    def refusal(self) -> SchemaError:
        """The whole has no value: why."""
        if self._vanished:
            path, keyword = self._cause or next(iter(self._vanished))
            return self.error(f"{self._vanished[path, keyword]}: no value fits", path, keyword)
        why = "its recursion has no base" if self.cut else "it contradicts itself"
        return self.error(f"no value satisfies this schema: {why}", "", "$ref" if self.cut else "")

    # ── expansion ──
    def expand(self, goal: Goal) -> tuple[Shape, ...]:
        """Its alternatives; none where nothing can satisfy it."""
        found = self._expanded.get(goal.key)
        if found is None:
            before, self.cut = self.cut, False
            shapes = [Shape(goal.path, depth=goal.depth, free=goal.free)]
            for path, schema in goal.parts:
                shapes = [out for shape in shapes for out in self.apply(shape, path, schema)]
            found = self._expanded[goal.key] = tuple(out for shape in shapes if (out := self._close(shape)))
            if self.cut:
                self._cut_goals.add(goal.key)
            self.cut |= before
        return found

    def was_cut(self, goal: Goal) -> bool:
        """Whether recursion has taken alternatives away from a goal that has been expanded."""
        return goal.key in self._cut_goals

    def without(self, shape: Shape, values: Sequence[Any]) -> list[Shape]:
        """A finished shape's alternatives that are none of some values; no arrays and objects among these,
        unless the shape's values are enumerated."""
        if shape.values is not None:
            kept = tuple(v for v in shape.values if not any(same(v, w) for w in values))
            return [shape.but(values=kept)] if kept else []
        found: list[Shape] = []
        no = {"not": {"enum": list(values)}}
        for conditions, _ in alternatives(no, "not", shape.path, self._negatable, self.error):
            narrowed = [shape]
            for part in conditions:
                narrowed = [out for s in narrowed for out in self.apply(s, shape.path, part, True)]
            found += narrowed
        return [out for narrowed in found if (out := self._close(narrowed))]

    def child(self, shape: Shape, path: str, schema: Any, spec: bool = False) -> Goal:
        return Goal(((path, AsSpecified(schema) if spec else schema),), shape.depth, shape.free)

    def anything(self, shape: Shape) -> Goal:
        """The goal of a value no schema speaks of, inside `shape`."""
        return Goal(((shape.path, True),), shape.depth, shape.free - 1)

    def _close(self, shape: Shape) -> Shape | None:
        """The finished shape: free-form depth applied, values filtered; None where nothing is left."""
        types = shape.types
        if shape.values is None and shape.implied and not shape.typed:
            self.note(shape.path, f"no type; taken as {' or '.join(sorted(shape.implied))} by its keywords")
            types = shape.likely
        if shape.free <= 0:
            types -= {"object", "array"}
        if shape.values is not None:
            bare = shape.but(values=None, types=types)
            values = tuple(v for v in shape.values if holds(self.expand, bare, v))
            return shape.but(values=values, types=types) if values else None
        if "object" in types and (never := self._never(shape)) is not None:
            self.missing(f"required {never!r} can have no value", shape.properties[never].path, "required")
            types -= {"object"}
        if types is not shape.types:
            shape = shape.but(types=types)
        return shape if types else None

    def _never(self, shape: Shape) -> str | None:
        """A required property that is false where it is listed."""
        return next(
            (
                name
                for name in shape.required
                if name in shape.properties
                and any(
                    part is False or (isinstance(part, AsSpecified) and part.schema is False)
                    for _, part in shape.properties[name].parts
                )
            ),
            None,
        )

    def apply(self, shape: Shape, path: str, schema: Any, spec: bool = False) -> list[Shape]:
        """`shape` narrowed by one schema, its alternatives; spec: it is read as the specification does."""
        if isinstance(schema, AsSpecified):
            return self.apply(shape, path, schema.schema, True)
        if isinstance(schema, Part):
            return schema.narrow(self, shape, path)
        if schema is True:
            return [shape]
        if schema is False:
            return []
        if not isinstance(schema, Mapping):
            raise self.error(f"a schema must be an object or a boolean, not {schema!r}", path, "")
        for keyword in schema:
            kind, why = verdict(keyword, self.old)
            if kind == "refused" and not (self.old and "$ref" in schema):
                raise self.error(why, path, keyword)
        unevaluated = not schema.keys().isdisjoint(("unevaluatedProperties", "unevaluatedItems"))
        outer = shape.seen
        if unevaluated:
            shape = shape.but(seen=Seen())
        shapes = [shape]
        for keyword in REFERENCES:
            if keyword in schema:
                target = schema[keyword]
                shapes = [out for s in shapes for out in self._reference(s, path, keyword, target, spec)]
                if self.old:
                    return shapes
        shapes = [self._narrowing.own(s, path, schema, spec) for s in shapes]
        for keyword in ("allOf", "anyOf", "oneOf"):
            if keyword in schema:
                shapes = self._several(shapes, path, keyword, schema[keyword], spec)
        for keyword in _LOGIC_WORDS:
            if keyword in schema:
                shapes = [out for s in shapes for out in self._either(s, path, schema, keyword, spec)]
                if len(shapes) > MAX_ALTERNATIVES:
                    raise self.error(f"makes more than {MAX_ALTERNATIVES} alternatives", path, keyword)
        if unevaluated:
            rest = self._narrowing.unevaluated
            shapes = [rest(s, outer, path, schema, spec) for s in shapes]
        return shapes

    def _several(self, shapes: list[Shape], path: str, keyword: str, parts: Any, spec: bool) -> list[Shape]:
        """The shapes under allOf, anyOf or oneOf."""
        if not isinstance(parts, list | tuple) or not parts:
            raise self.error("must be a list of at least one schema", path, keyword)
        at = [f"{path}/{keyword}/{i}" for i in range(len(parts))]
        if keyword == "allOf":
            for place, part in zip(at, parts, strict=True):
                shapes = [out for s in shapes for out in self.apply(s, place, part, spec)]
            return shapes
        found: list[Shape] = []
        for i, part in enumerate(parts):
            for shape in shapes:
                for out in self.apply(shape.but(path=at[i]), at[i], part, spec):
                    if keyword == "oneOf":
                        group = path, id(parts)
                        if out.choices.get(group, i) != i:
                            continue  # the same oneOf holds twice
                        out = out.but(choices={**out.choices, group: i})
                    found.append(out.but(split=keyword))
        if keyword == "anyOf":
            for shape in shapes:
                if shape.seen is not None:
                    found += self._together(shape, path, parts, spec)
        return found

    def _together(self, shape: Shape, path: str, parts: Sequence[Any], spec: bool) -> list[Shape]:
        """Several parts of an anyOf at once, where that speaks of more than one of them alone."""
        if 2 ** len(parts) > MAX_ALTERNATIVES:
            raise self.error(
                f"more than {MAX_ALTERNATIVES.bit_length() - 1} schemas beside unevaluatedProperties or "
                "unevaluatedItems: any of them may hold together",
                path,
                "anyOf",
            )
        found: list[Shape] = []
        for size in range(2, len(parts) + 1):
            for chosen in itertools.combinations(range(len(parts)), size):
                narrowed = [shape]
                for i in chosen:
                    narrowed = [
                        out
                        for s in narrowed
                        for out in self.apply(s, f"{path}/anyOf/{i}", parts[i], spec)
                        if s is shape or out.seen != s.seen
                    ]
                found += [out.but(split="anyOf") for out in narrowed]
        return found

    def _either(
        self, shape: Shape, path: str, schema: Mapping[str, Any], keyword: str, spec: bool
    ) -> list[Shape]:
        """The shapes under one of the alternatives a keyword stands for. What a condition lists closes no
        object; what must not hold speaks of nothing."""
        tracked = shape.seen is not None
        key = (id(schema), keyword, tracked)
        parts = self._alternatives.get(key)
        if parts is None:
            parts = alternatives(schema, keyword, path, self._negatable, self.error, tracked)
            self._alternatives[key] = parts
        found: list[Shape] = []
        for i, (conditions, consequence) in enumerate(parts):
            narrowed = [shape]
            for part in conditions:
                narrowed = [out for s in narrowed for out in self.apply(s, path, part, True)]
            unmet = keyword == "not" or (keyword == "if" and i > 0)
            narrowed = [
                out.but(listed=shape.listed, seen=shape.seen if unmet else out.seen) for out in narrowed
            ]
            at = f"{path}/{keyword}" if keyword != "if" else path
            found += [out for s in narrowed for out in self.apply(s, at, consequence, spec)]
        return found if len(parts) == 1 else [out.but(split=keyword) for out in found]

    # ── references ──
    def _negatable(self, target: Any, path: str) -> Any:
        """The schema a reference inside `not` points at."""
        if not isinstance(target, str):
            raise self.error(f"must be a string, not {target!r}", path, "$ref")
        at, schema = self._references.resolve(target, path)
        if self._references.is_recursive(at):
            raise self.error(f"{target!r} is recursive and stands inside not or if; refused", path, "$ref")
        return schema

    def _reference(self, shape: Shape, path: str, keyword: str, target: Any, spec: bool) -> list[Shape]:
        if not isinstance(target, str):
            raise self.error(f"must be a string, not {target!r}", path, keyword)
        at, schema = self._references.resolve(target, path, keyword)
        depth = shape.depth
        if self._references.is_recursive(at):
            depth += 1
            if depth > self.bounds.recursion:
                self.cut = True
                self.note(path, f"recursion is cut at {self.bounds.recursion} references")
                return []
        shape = shape.but(depth=depth, shared=True)
        return self.apply(shape, at, schema, spec)


_LOGIC_WORDS = ("not", "if", "dependentRequired", "dependentSchemas", "dependencies")
