"""The compilers: tools, a schema, a regular expression or choices to a grammar over one vocabulary, cached.

Knows how the parts fit; no automaton details. Everything bad is refused here, before any token.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from typing import Any

from kogagent.engine.grammar.automaton import (
    COUNT,
    END,
    FINISHED,
    PUSH,
    SPECIAL,
    TARGET,
    Automaton,
    Builder,
    Conflict,
    TooLarge,
)
from kogagent.engine.grammar.library import library
from kogagent.engine.grammar.matcher import Grammar
from kogagent.engine.grammar.regex import PatternError, compile_pattern
from kogagent.engine.grammar.schema import Schemas
from kogagent.engine.grammar.shapes import Bounds, check_json, error
from kogagent.engine.grammar.trie import TokenTrie, trie_of
from kogagent.engine.grammar.turn import Calls, begin_rest, text_states
from kogagent.engine.grammar.values import Writer
from kogagent.engine.grammar.walker import Walker
from kogagent.errors import InputError, SchemaError
from kogagent.spec import HERMES, CallFormat, Vocabulary

_CACHE: OrderedDict[str, Grammar] = OrderedDict()
_CACHED = 32
_LOCK = threading.Lock()  # turns are compiled off the event loop, several at a time


def compile_turn(
    tools: Mapping[str, Mapping[str, Any]],
    vocabulary: Vocabulary,
    format: CallFormat = HERMES,
    *,
    tool_choice: str = "auto",
    max_calls: int = 8,
    lead_text: bool | None = None,
    output_schema: Mapping[str, Any] | bool | None = None,
    bounds: Bounds | None = None,
) -> Grammar:
    """One turn of a model that may call tools.

    tools: name -> schema of its arguments, which is of type object. tool_choice: "auto" text, calls or both;
    "none" text alone; "required" at least one call; or the name of the one tool to call. lead_text: whether
    text may stand before required calls (default no). output_schema: the text is a JSON value of this schema.
    Raises SchemaError naming tool, path and keyword, InputError for a bad choice.
    """
    bounds = bounds or Bounds()
    if tool_choice not in ("auto", "none", "required") and tool_choice not in tools:
        known = ", ".join(sorted(tools)) or "none at all"
        raise InputError(f"tool_choice {tool_choice!r} names no tool; there are {known}")
    if isinstance(max_calls, bool) or not isinstance(max_calls, int) or not 1 <= max_calls <= 65536:
        raise InputError(f"max_calls must be an integer from 1 to 65536, not {max_calls!r}")
    chosen = dict(tools)
    if tool_choice not in ("auto", "none", "required"):
        chosen = {tool_choice: tools[tool_choice]}
    if tool_choice == "required" and not chosen:
        raise InputError("tool_choice 'required' needs at least one tool")
    if tool_choice == "none":
        chosen = {}

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        trigger, rest = begin_rest(format, trie.names)
        if not trigger or (trigger[0] < END and any(symbol >= END for symbol in trigger)):
            raise InputError(f"format {format.name!r}: its trigger must be text or start with a special id")
        mode = "none" if not chosen else "auto" if tool_choice == "auto" else "lead"
        base, text = text_states(bounds.digits, trigger, mode)
        builder = Builder(base)
        if not chosen:
            if output_schema is None:
                return builder.finish(text, [builder.call(text, FINISHED)])
            return builder.finish(_answer(builder, output_schema, format, bounds, notes))
        try:
            calls = Calls(builder, format, trie.names, max_calls)
        except Conflict:
            raise InputError(
                f"format {format.name!r}: `between` begins `end`, so calls cannot be told apart"
            ) from None
        entries: list[tuple[bytes, int]] = []
        for name, parameters in chosen.items():
            entries.append(
                (_name(name), _arguments(builder, name, parameters, calls.after, format, bounds, notes))
            )
        try:
            calls.tools(entries)
        except Conflict:
            raise SchemaError(f"tool names collide in format {format.name!r}: {', '.join(chosen)}") from None
        frame = builder.call(calls.call, FINISHED, 0, max_calls - 1)
        begin = builder.literal((*trigger, *rest), calls.call)
        if output_schema is not None:
            answer = _answer(builder, output_schema, format, bounds, notes)
            if tool_choice == "auto":
                try:
                    begin = builder.union([answer, begin])
                except Conflict:
                    raise InputError(
                        f"the output schema's JSON starts like the trigger {format.trigger!r}"
                    ) from None
            return builder.finish(begin, [frame])
        if tool_choice != "auto" and not lead_text:
            return builder.finish(begin, [frame])
        return builder.finish(text, [frame, builder.call(text, builder.literal(rest, calls.call))])

    key = {
        "turn": [[name, schema] for name, schema in chosen.items()],
        "format": asdict(format),
        "choice": "auto" if tool_choice == "auto" else "none" if not chosen else "required",
        "calls": max_calls,
        "lead": bool(lead_text),
        "output": [output_schema] if output_schema is not None else [],
        "bounds": asdict(bounds),
    }
    return _cached(key, vocabulary, build)


def compile_schema(
    schema: Mapping[str, Any] | bool,
    vocabulary: Vocabulary,
    *,
    bounds: Bounds | None = None,
    format: CallFormat = HERMES,
) -> Grammar:
    """One JSON value of a schema, then an end id; `format` gives the separators. Raises SchemaError."""
    bounds = bounds or Bounds(zero_fraction=True)

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        builder = Builder(library(bounds.digits).builder)
        return builder.finish(_answer(builder, schema, format, bounds, notes))

    separators = [format.item_separator, format.key_separator]
    return _cached({"schema": schema, "bounds": asdict(bounds), "separators": separators}, vocabulary, build)


def compile_regex(pattern: str, vocabulary: Vocabulary, *, max_length: int = 4096) -> Grammar:
    """A text that `pattern` (ECMA-262, see docs/grammar.md) matches from end to end, then an end id.

    max_length: in code points. Raises SchemaError for a pattern outside the subset.
    """
    if isinstance(max_length, bool) or not isinstance(max_length, int) or not 0 <= max_length < 2**31:
        raise InputError(f"max_length must be an integer of at least 0, not {max_length!r}")

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        try:
            dfa = compile_pattern(pattern, whole=True)
        except PatternError as problem:
            raise error(f"bad or unsupported pattern {pattern!r}: {problem}", "", "", "pattern") from None
        if dfa is None or dfa.shortest[0] > max_length:
            what = "nothing" if dfa is None else f"no text of at most {max_length} code points"
            raise error(f"the pattern {pattern!r} matches {what}", "", "", "pattern")
        if dfa.longest is None or dfa.longest > max_length:
            notes[f"at most {max_length} code points"] = None
        builder = Builder(library(Bounds().digits).builder)
        done = builder.state({END: FINISHED})
        body = builder.embed(dfa, lambda state: builder.absorb(state, done), counted=True)
        return builder.finish(body, [builder.call(body, FINISHED, 0, max_length)])

    return _cached({"regex": pattern, "max_length": max_length}, vocabulary, build)


def compile_choices(texts: Sequence[str], vocabulary: Vocabulary) -> Grammar:
    """Exactly one of several texts, then an end id."""
    if isinstance(texts, str) or not texts or not all(isinstance(text, str) and text for text in texts):
        raise InputError("choices must be at least one non-empty text")
    check_json(list(texts), "", "", "")

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        builder = Builder(library(Bounds().digits).builder)
        root = builder.state()
        for text in dict.fromkeys(texts):
            builder.insert(root, (*text.encode(), END), FINISHED)
        return builder.finish(root)

    return _cached({"choices": list(texts)}, vocabulary, build)


def _answer(
    builder: Builder, schema: Any, form: CallFormat, bounds: Bounds, notes: dict[str, None], tool: str = ""
) -> int:
    done = builder.state({END: FINISHED})
    return _json(builder, Schemas(schema, bounds, tool), done, form, notes)


def _json(builder: Builder, schemas: Schemas, follow: int, form: CallFormat, notes: dict[str, None]) -> int:
    lib = library(schemas.bounds.digits)
    writer = Writer(builder, lib, schemas, form.item_separator, form.key_separator)
    state = writer.value(schemas.goal(), follow)
    notes.update(schemas.notes)
    if state is None:
        why = "its recursion has no base" if schemas.cut else "it contradicts itself"
        raise schemas.error(f"no value satisfies this schema: {why}", "", "$ref" if schemas.cut else "")
    return state


def _arguments(
    builder: Builder,
    name: str,
    parameters: Any,
    follow: int,
    form: CallFormat,
    bounds: Bounds,
    notes: dict[str, None],
) -> int:
    if not isinstance(parameters, Mapping):
        raise error(f"parameters must be a JSON Schema object, not {parameters!r}", "", name, "")
    kind = parameters.get("type", "object")
    if kind != "object":
        raise error(f"parameters must be of type object, not {kind!r}", "", name, "type")
    root = dict(parameters)
    if root.keys().isdisjoint(_OBJECT_SOURCES):
        root["properties"] = {}  # a tool without parameters
    root["type"] = "object"
    return _json(builder, Schemas(root, bounds, name), follow, form, notes)


_OBJECT_SOURCES = ("properties", "additionalProperties", "allOf", "anyOf", "oneOf", "$ref")


def _name(name: str) -> bytes:
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a tool's name must be a non-empty text, not {name!r}")
    check_json(name, "", name, "")
    return json.dumps(name, ensure_ascii=False).encode()[1:-1]


def _cached(
    key: Mapping[str, Any],
    vocabulary: Vocabulary,
    build: Callable[[TokenTrie, dict[str, None]], Automaton],
) -> Grammar:
    try:
        text = json.dumps(key, default=_refuse)
    except (ValueError, RecursionError):
        raise SchemaError("the schema refers to itself as a Python object; use $ref for recursion") from None
    spelled = vocabulary.encode is not None
    digest = hashlib.sha256(
        f"{text}\n{vocabulary.digest}\n{spelled}".encode("utf-8", "surrogatepass")
    ).hexdigest()
    with _LOCK:
        grammar = _CACHE.get(digest)
        if grammar is not None:
            _CACHE.move_to_end(digest)
            return grammar
    trie = trie_of(vocabulary)
    notes: dict[str, None] = {}
    try:
        automaton = build(trie, notes)
    except TooLarge:
        raise SchemaError(
            f"the grammar needs more than {TARGET} states or calls. Offer fewer tools or simplify schemas"
        ) from None
    except RecursionError:
        raise SchemaError("the schema is nested too deeply to compile") from None
    if trie.unspellable:
        automaton = _spellable(automaton, trie.unspellable)
    grammar = Grammar(digest, tuple(notes), automaton, trie, Walker(automaton, trie))
    with _LOCK:
        grammar = _CACHE.setdefault(digest, grammar)  # another thread may have been faster
        while len(_CACHE) > _CACHED:
            _CACHE.popitem(last=False)
    return grammar


def _refuse(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise SchemaError(f"{value!r} in a schema is no JSON value")


def _spellable(automaton: Automaton, missing: frozenset[int]) -> Automaton:
    """Without the bytes for which the vocabulary has no token of their own, and what then ends nowhere."""
    rows = [{s: m for s, m in row.items() if s not in missing} for row in automaton.rows]
    sites = automaton.sites
    alive: set[int] = {FINISHED, 2, *automaton.final}
    while True:
        before = len(alive)
        for state, row in enumerate(rows):
            if state in alive:
                continue
            for move in row.values():
                target = sites[move & TARGET] if move & PUSH else (move & TARGET & ~COUNT,)
                if all(t in alive for t in target[: 2 if move & PUSH else 1]):
                    alive.add(state)
                    break
        if len(alive) == before:
            break

    def lives(move: int) -> bool:
        if move & PUSH:
            entry, follow = sites[move & TARGET][:2]
            return entry in alive and follow in alive
        return move & TARGET in alive

    pruned = [{s: m for s, m in row.items() if lives(m)} for row in rows]
    if automaton.start not in alive:
        raise SchemaError(
            "the vocabulary has no single-byte token for bytes this grammar needs: "
            + ", ".join(f"0x{b:02x}" for b in sorted(missing)[:16])
        )
    return Automaton(
        pruned,
        automaton.final,
        automaton.need,
        sites,
        automaton.start,
        automaton.frames,
        f"{automaton.library}/without {sorted(missing)}",
        automaton.bodies,
    )


__all__ = ["SPECIAL", "Bounds", "compile_choices", "compile_regex", "compile_schema", "compile_turn"]
