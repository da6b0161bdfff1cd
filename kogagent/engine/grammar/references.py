"""References inside one schema document: what they point at, and which lead back to themselves."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any
from urllib.parse import unquote

from kogagent.engine.grammar.shapes import error, pointer


class References:
    """The targets of $ref in one document. Raises SchemaError for those that lead out of it or nowhere."""

    def __init__(self, root: Any, tool: str) -> None:
        self.root = root
        self.tool = tool
        self._targets: dict[str, tuple[str, Any]] = {}
        self._recursive: dict[str, bool] = {}

    def resolve(self, target: str, path: str, keyword: str = "$ref") -> tuple[str, Any]:
        """(pointer, schema) a reference leads to."""
        known = self._targets.get(target)
        if known is not None:
            return known
        if not self._targets and (inner := next(_embedded(self.root, ""), None)) is not None:
            what = f"references below an $id of their own ({inner}) would lead elsewhere; refused"
            raise error(what, path, self.tool, keyword)
        base = self.root.get("$id", "") if isinstance(self.root, Mapping) else ""
        place, _, fragment = target.partition("#")
        if place and place != base:
            what = f"{target!r} points outside this document; only '#…' can be used"
            raise error(what, path, self.tool, keyword)
        fragment = unquote(fragment)
        schema = self.root
        if fragment and not fragment.startswith("/"):
            found = list(_anchors(self.root, fragment, ""))
            if len(found) != 1:
                raise error(f"{target!r}: no single $anchor of that name", path, self.tool, keyword)
            at, schema = found[0]
        else:
            at = fragment
            for token in fragment.split("/")[1:]:
                token = token.replace("~1", "/").replace("~0", "~")
                if isinstance(schema, Mapping) and token in schema:
                    schema = schema[token]
                elif isinstance(schema, list | tuple) and token.isdecimal() and int(token) < len(schema):
                    schema = schema[int(token)]
                else:
                    raise error(f"{target!r} points at nothing", path, self.tool, keyword)
                if isinstance(schema, Mapping) and "$id" in schema:
                    raise error(f"{target!r} passes an embedded $id; refused", path, self.tool, keyword)
        self._targets[target] = (at, schema)
        return at, schema

    def is_recursive(self, at: str) -> bool:
        known = self._recursive.get(at)
        if known is None:
            reached: set[str] = set()
            queue = [at]
            while queue:
                schema = self.resolve("#" + queue.pop(), at)[1]
                for target in _references(schema):
                    next_at = self.resolve(target, at)[0]
                    if next_at not in reached:
                        reached.add(next_at)
                        queue.append(next_at)
            # A reference to a schema around another one comes back to it as well.
            known = any(at == r or at.startswith(r + "/") for r in reached)
            self._recursive[at] = known
        return known


REFERENCES = ("$ref", "$dynamicRef", "$recursiveRef")
"""All of them lead to the same place in a document without embedded $id."""

_NO_SCHEMAS = frozenset({"enum", "const", "default", "examples", "example"})


def _references(schema: Any) -> Iterator[str]:
    queue: list[Any] = [schema]
    while queue:
        item = queue.pop()
        if isinstance(item, Mapping):
            yield from (item[word] for word in REFERENCES if isinstance(item.get(word), str))
            queue += [v for k, v in item.items() if k not in _NO_SCHEMAS]
        elif isinstance(item, list | tuple):
            queue += item


def _anchors(schema: Any, name: str, path: str) -> Iterable[tuple[str, Any]]:
    if isinstance(schema, Mapping):
        if name in (schema.get("$anchor"), schema.get("$dynamicAnchor")) or schema.get("$id") == f"#{name}":
            yield path, schema
        if path and _is_base(schema):
            return
        for key, part in schema.items():
            if key not in _NO_SCHEMAS:
                yield from _anchors(part, name, f"{path}/{pointer(key)}")
    elif isinstance(schema, list | tuple):
        for i, part in enumerate(schema):
            yield from _anchors(part, name, f"{path}/{i}")


def _is_base(schema: Mapping[str, Any]) -> bool:
    """Whether a schema has an $id that references in it are relative to."""
    name = schema.get("$id")
    return isinstance(name, str) and not name.startswith("#")


def _embedded(schema: Any, path: str) -> Iterator[str]:
    """Where a schema below the root has an $id of its own and references inside."""
    queue: list[tuple[str, Any]] = [(path, schema)]
    while queue:
        at, item = queue.pop()
        if isinstance(item, Mapping):
            if at and _is_base(item) and next(_references(item), None) is not None:
                yield at
            queue += [(f"{at}/{pointer(str(k))}", v) for k, v in item.items() if k not in _NO_SCHEMAS]
        elif isinstance(item, list | tuple):
            queue += [(f"{at}/{i}", v) for i, v in enumerate(item)]
