"""Objects to states: names in schema order, unnamed ones behind them. Knows no keywords, no tokens.

The names that may follow a property form a trie. The tries of all positions share their states, since each
is the next one grown by one name: cost is linear in the text of the names. Unnamed properties leave that trie
where their name differs from every listed one.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kogagent.engine.grammar.automaton import COUNT, RETURN, TARGET, UNBOUNDED
from kogagent.engine.grammar.library import QUOTE
from kogagent.engine.grammar.shapes import Goal, Shape

if TYPE_CHECKING:
    from kogagent.engine.grammar.values import Writer


class Objects:
    """Writes the objects of one schema, for its `Writer`. Equal bodies in own frames are made once."""

    def __init__(self, writer: Writer) -> None:
        self.writer = writer
        self._bodies: dict[tuple[Any, ...], int | None] = {}

    def write(self, shape: Shape, follow: int, common: int) -> int | None:
        """The state in front of an object. common: the default bound of all alternatives, or 0."""
        extra = shape.additional
        if extra is None and (self.writer.bounds.open_objects or not shape.listed):
            extra = self.writer.schemas.anything(shape)
        if extra is not None and not self.writer.schemas.expand(extra):
            extra = None
        named = [(n, g, n in shape.required) for n, g in shape.properties.items()]
        for name in shape.required:
            if name not in shape.properties:
                if extra is None:
                    if shape.types == {"object"} and not shape.choices:
                        raise self.writer.schemas.error(
                            f"{name!r} is no property and no others may stand", shape.path, "required"
                        )
                    return None
                named.append((name, extra, True))
        named, extra = self._limited(shape, named, extra)
        low, high = shape.min_properties, shape.max_properties
        if high is None and extra is not None:
            high = common or self.writer.default(shape, "object")
            self.writer.schemas.note(shape.path, f"at most {high - len(named)} unnamed properties")
        if high is None:
            high = common
        counted = high > 0 and (extra is not None or high < len(named) or common > 0)
        nonempty = low > 0
        if not (counted or shape.shared):
            body = self._members(named, None, nonempty, False, follow)
            return None if body is None else self.writer.builder.state({ord("{"): body})
        key = (
            tuple((n, g.key, r) for n, g, r in named),
            None if extra is None else extra.key,
            nonempty,
            counted,
        )
        if key not in self._bodies:
            self._bodies[key] = self._members(named, extra, nonempty, counted, RETURN)
        entry = self._bodies[key]
        if entry is None:
            return None
        most = max(high - 1, 0) if counted else UNBOUNDED
        least = max(low - 1, 0) if extra is not None else 0
        return self.writer.builder.state({ord("{"): self.writer.builder.call(entry, follow, least, most)})

    def _limited(
        self, shape: Shape, named: list[tuple[str, Goal, bool]], extra: Goal | None
    ) -> tuple[list[tuple[str, Goal, bool]], Goal | None]:
        """The properties under minProperties and maxProperties, as far as those need no memory."""
        needed = sum(required for _, _, required in named)
        low, high = shape.min_properties, shape.max_properties
        if high is not None and high < needed:
            raise self.writer.schemas.error(f"{needed} properties are required", shape.path, "maxProperties")
        if high is not None and high == needed:
            named, extra = [n for n in named if n[2]], None
        elif high is not None and high < len(named) and needed:
            raise self.writer.schemas.error(
                f"between the {needed} required and all {len(named)} properties; refused",
                shape.path,
                "maxProperties",
            )
        if extra is None and low > needed:
            if low == len(named):
                named, needed = [(n, g, True) for n, g, _ in named], len(named)
            elif low > len(named):
                raise self.writer.schemas.error(
                    f"only {len(named)} properties can stand", shape.path, "minProperties"
                )
            elif low > 1:
                raise self.writer.schemas.error(
                    f"{low} of {len(named)} properties, {needed} of them required; refused",
                    shape.path,
                    "minProperties",
                )
        if extra is not None and low > needed + 1:
            raise self.writer.schemas.error(
                f"{low} properties of which {needed} are named as required: nothing keeps track of whether "
                "unnamed ones are all different; refused",
                shape.path,
                "minProperties",
            )
        return named, extra

    def _members(
        self,
        named: Sequence[tuple[str, Goal, bool]],
        extra: Goal | None,
        nonempty: bool,
        counted: bool,
        follow: int,
    ) -> int | None:
        """The state behind "{"; None where a required property cannot be written."""
        builder, rows, close = self.writer.builder, self.writer.builder.rows, ord("}")
        flag = COUNT if counted else 0
        quote = self.writer.item_separator + b'"'
        quoted = [json.dumps(name, ensure_ascii=False).encode()[1:] for name, _, _ in named]
        texts = [text + self.writer.key_separator for text in quoted]
        names = self._unnamed(texts, extra, flag, follow) if extra is not None else None
        closes = True
        for (name, goal, required), text in zip(reversed(named), reversed(texts), strict=True):
            after = builder.state({close: follow} if closes else {})
            if names is not None:
                rows[after][quote[0]] = self.writer.tail(quote, names) | flag
            value = self.writer.value(goal, after) if rows[after] else None
            if value is None:
                if required:
                    if not self.writer.schemas.cut:
                        raise self.writer.schemas.error(
                            f"nothing can satisfy required {name!r}", goal.path, "required"
                        )
                    return None
                continue
            names = builder.grown(None if required else names, text, value)
            closes = closes and not required
        entry = builder.state()
        if names is not None:
            rows[entry][QUOTE] = names
        if closes and not nonempty:
            rows[entry][close] = follow
        return entry if rows[entry] else None

    def _unnamed(self, texts: Sequence[bytes], extra: Goal, flag: int, follow: int) -> int | None:
        """The move by the opening quote of a name that is none of `texts`; a state where there are any."""
        builder, rows = self.writer.builder, self.writer.builder.rows
        after = builder.state({ord("}"): follow})
        colon = builder.state()
        start = (
            builder.state() if texts else builder.call(self.writer.lib.key, colon, 0, self.writer.bounds.key)
        )
        quote = self.writer.item_separator + b'"'
        rows[after][quote[0]] = self.writer.tail(quote, start) | flag
        value = self.writer.value(extra, after)
        if value is None:
            return None
        rows[colon] = rows[builder.literal(self.writer.key_separator, value)]
        if not texts:
            return start

        def fill(state: int, body: int, taken: Sequence[bytes]) -> None:
            row = rows[state]
            heads = {text[0] for text in taken}
            for symbol, move in rows[body].items():
                if symbol in heads:
                    continue
                if symbol == QUOTE:
                    row[symbol] = colon
                else:
                    row[symbol] = builder.call(move & TARGET, colon, 0, self.writer.bounds.key)
            for head in heads - {QUOTE}:
                inner = row[head] = builder.state()
                fill(inner, rows[body][head] & TARGET, [t[1:] for t in taken if t[0] == head])

        fill(start, self.writer.lib.key, [text[: -len(self.writer.key_separator)] for text in texts])
        return start
