"""The compilers: tools, a schema, an expression, rules or choices to a grammar over one vocabulary, cached.

Knows how the parts fit; no automaton details. Everything bad is refused here, before any token.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from functools import lru_cache
from typing import Any, Literal, overload

from kogagent.engine.grammar.automaton import END, FINISHED, Automaton
from kogagent.engine.grammar.builder import MAX_STATES, Builder, Conflict, TooLarge
from kogagent.engine.grammar.ebnf import read_ebnf
from kogagent.engine.grammar.fallback import FallbackGrammar, schema_fallback, turn_fallback
from kogagent.engine.grammar.library import library
from kogagent.engine.grammar.matcher import Grammar
from kogagent.engine.grammar.procedures import Procedures, check_depth
from kogagent.engine.grammar.references import REFERENCES
from kogagent.engine.grammar.regex import PatternError, compile_pattern, read_pattern
from kogagent.engine.grammar.schema import Schemas
from kogagent.engine.grammar.shapes import Bounds, check_json, error
from kogagent.engine.grammar.trie import TokenTrie, trie_of
from kogagent.engine.grammar.turn import Calls, Opening, opened
from kogagent.engine.grammar.values import Writer
from kogagent.engine.grammar.walker import Walker
from kogagent.errors import InputError, SchemaError
from kogagent.spec import HERMES, CallFormat, Vocabulary
from kogagent.spec.calls import BARE_NAME

_CACHE: OrderedDict[str, Grammar] = OrderedDict()
_CACHED = 32
_LOCK = threading.Lock()  # turns are compiled off the event loop, several at a time

# What makes a tool's parameters more than "no parameters at all".
OBJECT_SOURCES = (
    *("properties", "patternProperties", "additionalProperties", "unevaluatedProperties", "propertyNames"),
    *("allOf", "anyOf", "oneOf", "if", "dependentSchemas", "dependencies", *REFERENCES),
)


@overload
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
    fallback: Literal[False] = False,
) -> Grammar: ...


@overload
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
    fallback: bool,
) -> Grammar | FallbackGrammar: ...


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
    fallback: bool = False,
) -> Grammar | FallbackGrammar:
    """One turn of a model that may call tools.

    tools: name -> schema of its arguments, which is of type object. tool_choice: "auto" text, calls or both;
    "none" text alone; "required" at least one call; or the name of the one tool to call. lead_text: whether
    text may stand before required calls (default no). output_schema: the text is a JSON value of this schema.
    fallback: tools the automaton cannot hold are handed to llguidance instead of being refused; so is an
    output schema, where there are no tools beside it. Raises SchemaError naming tool, path and keyword,
    InputError for a bad choice.
    """
    bounds = bounds or Bounds()
    if tool_choice not in ("auto", "none", "required") and tool_choice not in tools:
        known = ", ".join(sorted(tools)) or "none at all"
        raise InputError(f"tool_choice {tool_choice!r} names no tool; there are {known}")
    if isinstance(max_calls, bool) or not isinstance(max_calls, int) or not 1 <= max_calls <= 65536:
        raise InputError(f"max_calls must be an integer from 1 to 65536, not {max_calls!r}")
    if tool_choice == "required" and not tools:
        raise InputError("tool_choice 'required' needs at least one tool")
    chosen = {n: s for n, s in tools.items() if tool_choice in ("auto", "required", n)}

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        mode = "none" if not chosen else "auto" if tool_choice == "auto" else "lead"
        opening = Opening(trie, format, mode, bounds, notes)
        builder, text, first = opening.builder, opening.text, opening.first
        trigger, rest = opening.trigger, opening.rest
        values = _Values(builder, trie, format, bounds, notes)
        if not chosen:
            if output_schema is not None:
                return builder.finish(first(values.answer(output_schema)), missing=trie.unspellable)
            return builder.finish(first(text), [builder.call(text, FINISHED)], missing=trie.unspellable)
        try:
            calls = Calls(builder, format, trie.names, max_calls)
        except Conflict:
            raise InputError(
                f"format {format.name!r}: `between` begins `end`, so calls cannot be told apart"
            ) from None
        try:
            calls.tools([(_name(n, format), values.arguments(n, s, calls.after)) for n, s in chosen.items()])
        except Conflict:
            raise SchemaError(
                f"tool names collide in format {format.name!r}: {', '.join(chosen)}. Rename one of them"
            ) from None
        frame = builder.call(calls.call, FINISHED, 0, max_calls - 1)
        if output_schema is None and (tool_choice == "auto" or lead_text) and not format.at_start:
            back = builder.literal(rest, calls.call)
            return builder.finish(first(text), [frame, builder.call(text, back)], missing=trie.unspellable)
        start = builder.literal((*trigger, *rest), calls.call)
        if output_schema is None and tool_choice == "auto":
            start = opened(builder, text, (*trigger, *rest), calls.call)
        if output_schema is not None and tool_choice == "auto":
            try:
                start = builder.union([values.answer(output_schema), start])
            except Conflict:
                raise InputError(
                    f"the output schema's JSON starts like the trigger {format.trigger!r}; use another format"
                ) from None
        return builder.finish(first(start), [frame], missing=trie.unspellable)

    key = {
        "turn": [[name, schema] for name, schema in chosen.items()],
        "format": _format_key(format),
        "choice": "auto" if tool_choice == "auto" else "none" if not chosen else "required",
        "calls": max_calls,
        "lead": bool(lead_text),
        "output": [output_schema] if output_schema is not None else [],
        "bounds": asdict(bounds),
    }
    try:
        return _cached(key, vocabulary, build)
    except SchemaError as refused:
        if not fallback or (chosen and output_schema is not None):
            raise
        if not chosen:
            return schema_fallback(output_schema, vocabulary, format if format.is_json else HERMES, refused)
        mode = "auto" if tool_choice == "auto" else "lead" if lead_text else None
        before = _up_to_calls(vocabulary, format, mode, bounds)
        return turn_fallback(chosen, vocabulary, format, max_calls, before, refused)


def _up_to_calls(vocabulary: Vocabulary, format: CallFormat, mode: str | None, bounds: Bounds) -> Grammar:
    """What comes before calls, their trigger included. mode: of the free text, None for no text at all."""

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        opening = Opening(trie, format, mode or "lead", bounds, notes)
        if mode is None or format.at_start:
            start = opening.builder.literal(opening.trigger, FINISHED)
            return opening.builder.finish(opening.first(start), missing=trie.unspellable)
        call = opening.builder.call(opening.text, FINISHED)
        return opening.builder.finish(opening.first(opening.text), [call], missing=trie.unspellable)

    key = {"up to calls": asdict(format), "mode": mode, "bounds": asdict(bounds)}
    return _cached(key, vocabulary, build)


@overload
def compile_schema(
    schema: Mapping[str, Any] | bool,
    vocabulary: Vocabulary,
    *,
    bounds: Bounds | None = None,
    format: CallFormat = HERMES,
    fallback: Literal[False] = False,
) -> Grammar: ...


@overload
def compile_schema(
    schema: Mapping[str, Any] | bool,
    vocabulary: Vocabulary,
    *,
    bounds: Bounds | None = None,
    format: CallFormat = HERMES,
    fallback: bool,
) -> Grammar | FallbackGrammar: ...


def compile_schema(
    schema: Mapping[str, Any] | bool,
    vocabulary: Vocabulary,
    *,
    bounds: Bounds | None = None,
    format: CallFormat = HERMES,
    fallback: bool = False,
) -> Grammar | FallbackGrammar:
    """One JSON value of a schema, then an end id; `format` gives the separators. Raises SchemaError.

    Without bounds an integer may be written 1.0, as the specification says; a tool's may not. fallback: what
    the automaton cannot hold is handed to llguidance (the extra `fallback`) instead of being refused.
    """
    bounds = bounds or Bounds(zero_fraction=True)

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        builder = Builder(library(bounds.digits, trie.unspellable).builder)
        answer = _Values(builder, trie, format, bounds, notes).answer(schema)
        return builder.finish(answer, missing=trie.unspellable)

    style = asdict(format.values) if format.is_json else None
    try:
        return _cached({"schema": schema, "bounds": asdict(bounds), "style": style}, vocabulary, build)
    except SchemaError as refused:
        if not fallback:
            raise
        return schema_fallback(schema, vocabulary, format if format.is_json else HERMES, refused)


def compile_regex(pattern: str, vocabulary: Vocabulary, *, max_length: int = 4096) -> Grammar:
    """A text that `pattern` (ECMA-262, see docs/grammar.md) matches from end to end, then an end id.

    max_length: in code points. Raises SchemaError for a pattern outside the subset.
    """
    check_regex(pattern, max_length)

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        try:
            dfa = compile_pattern(pattern, whole=True)
        except PatternError as problem:
            raise _bad_pattern(pattern, problem) from None
        if dfa is None or dfa.shortest[0] > max_length:
            what = "nothing" if dfa is None else f"no text of at most {max_length} code points"
            raise error(f"the pattern {pattern!r} matches {what}", "", "", "pattern")
        if dfa.longest is None or dfa.longest > max_length:
            notes[f"at most {max_length} code points"] = None
        builder = Builder(library(Bounds().digits, trie.unspellable).builder)
        done = builder.state({END: FINISHED})
        body = builder.embed(dfa, lambda number, _: builder.absorb(number, done), counted=True)
        frame = builder.call(body, FINISHED, 0, max_length)
        return builder.finish(body, [frame], missing=trie.unspellable)

    return _cached({"regex": pattern, "max_length": max_length}, vocabulary, build)


def check_regex(pattern: str, max_length: int = 4096) -> None:
    """Raise what `compile_regex` raises for a pattern that cannot be read, without compiling it."""
    if isinstance(max_length, bool) or not isinstance(max_length, int) or not 0 <= max_length < 2**31:
        raise InputError(f"max_length must be an integer of at least 0, not {max_length!r}")
    if not isinstance(pattern, str):
        raise InputError(f"a pattern is a text, not {pattern!r}")
    try:
        read_pattern(pattern)
    except PatternError as problem:
        raise _bad_pattern(pattern, problem) from None


def _bad_pattern(pattern: str, problem: PatternError) -> SchemaError:
    return error(f"bad or unsupported pattern {pattern!r}: {problem}", "", "", "pattern")


def check_choices(texts: Sequence[str]) -> None:
    """Raise InputError for what is no list of texts, SchemaError for a text that cannot be encoded."""
    if isinstance(texts, str | bytes) or not isinstance(texts, Sequence):
        raise InputError(f"choices must be a list of texts, not {texts!r}")
    if not texts or not all(isinstance(text, str) and text for text in texts):
        raise InputError(f"choices must be at least one non-empty text, not {texts!r}")
    check_json(list(texts), "", "", "")


def compile_choices(texts: Sequence[str], vocabulary: Vocabulary) -> Grammar:
    """Exactly one of several texts, then an end id."""
    check_choices(texts)

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        builder = Builder(library(Bounds().digits, trie.unspellable).builder)
        root = builder.state()
        for text in dict.fromkeys(texts):
            builder.insert(root, (*text.encode(), END), FINISHED)
        return builder.finish(root, missing=trie.unspellable)

    return _cached({"choices": list(texts)}, vocabulary, build)


def compile_ebnf(text: str, vocabulary: Vocabulary, *, start: str = "start", depth: int = 16) -> Grammar:
    """A text of the grammar's rule `start`, then an end id; docs/grammar.md says how rules are written.

    depth: how deep rules may nest inside themselves. Raises InputError naming rule and line for what is
    undefined, left-recursive, without a finite text, or ambiguous where a rule nests.
    """
    check_depth(depth)
    if not isinstance(text, str) or not isinstance(start, str):
        raise InputError(f"a grammar is a text of rules and the name of one, not {text!r} and {start!r}")
    check_json([text, start], "", "", "")

    def build(trie: TokenTrie, notes: dict[str, None]) -> Automaton:
        procedures = Procedures(read_ebnf(text, start))
        if procedures.nests:
            notes[f"rules nest inside themselves at most {depth} deep"] = None
        if procedures.endless:
            notes["a repetition without an upper limit: only the model or max_tokens ends it"] = None
        builder = Builder(library(Bounds().digits, trie.unspellable).builder)
        return builder.finish(procedures.build(builder, depth), missing=trie.unspellable)

    return _cached({"ebnf": text, "start": start, "depth": depth}, vocabulary, build)


class _Values:
    """Writes JSON values into one grammar; collects the notes of their schemas."""

    def __init__(
        self, builder: Builder, trie: TokenTrie, form: CallFormat, bounds: Bounds, notes: dict[str, None]
    ) -> None:
        self.builder = builder
        self.lib = library(bounds.digits, trie.unspellable)
        self.form = form
        self.names = trie.names
        self.symbols: dict[str, tuple[int, ...]] = {}
        self.bounds = bounds
        self.notes = notes

    def answer(self, schema: Any) -> int:
        """The state in front of a JSON value after which the text ends."""
        form = self.form if self.form.is_json else HERMES
        return self._value(Schemas(schema, self.bounds), self.builder.state({END: FINISHED}), form)

    def arguments(self, name: str, parameters: Any, follow: int) -> int:
        """The state in front of one tool's arguments."""
        if not isinstance(parameters, Mapping):
            raise error(f"parameters must be a JSON Schema object, not {parameters!r}", "", name, "")
        kind = parameters.get("type", "object")
        if kind != "object":
            raise error(f"parameters must be of type object, not {kind!r}", "", name, "type")
        root = {**parameters, "type": "object"}
        if root.keys().isdisjoint(OBJECT_SOURCES):
            root["properties"] = {}
        return self._value(Schemas(root, self.bounds, name), follow, self.form)

    def _value(self, schemas: Schemas, follow: int, form: CallFormat) -> int:
        writer = Writer(self.builder, self.lib, schemas, form, self.names, self.symbols)
        state = writer.arguments(schemas.goal(), follow)
        if state is None:
            raise schemas.refusal()
        schemas.vanished()
        self.notes.update(schemas.notes)
        return state


def _name(name: str, form: CallFormat) -> bytes:
    """A tool's name as calls write it."""
    if not isinstance(name, str) or not name:
        raise SchemaError(f"a tool's name must be a non-empty text, not {name!r}")
    check_json(name, "", name, "")
    if form.bare_names and BARE_NAME.fullmatch(name) is None:
        raise SchemaError(
            f"the call format {form.name!r} cannot write the tool's name {name!r}: only letters, digits, "
            "'_', '-' and '.'. Rename it",
            tool=name,
        )
    return (name if form.bare_names else json.dumps(name, ensure_ascii=False)[1:-1]).encode()


def _cached(
    key: Mapping[str, Any],
    vocabulary: Vocabulary,
    build: Callable[[TokenTrie, dict[str, None]], Automaton],
) -> Grammar:
    try:
        text = json.dumps(key, default=_plain)
    except (ValueError, RecursionError):
        raise SchemaError("the schema refers to itself as a Python object; use $ref for recursion") from None
    spelled = vocabulary.encode is not None
    digest = hashlib.sha256(f"{text}\n{vocabulary.digest}\n{spelled}".encode()).hexdigest()
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
            f"the grammar needs more than {MAX_STATES} states or calls. Offer fewer tools or simplify them"
        ) from None
    except RecursionError:
        raise SchemaError("this is nested too deeply to compile") from None
    if automaton.stuck:
        missing = ", ".join(f"0x{byte:02x}" for byte in sorted(trie.unspellable)[:32])
        raise SchemaError(f"this grammar needs bytes for which the vocabulary has no token, of: {missing}")
    grammar = Grammar(digest, tuple(notes), automaton, trie, Walker(automaton, trie))
    with _LOCK:
        grammar = _CACHE.setdefault(digest, grammar)  # another thread may have been faster
        while len(_CACHE) > _CACHED:
            _CACHE.popitem(last=False)
    return grammar


@lru_cache(maxsize=32)
def _format_key(format: CallFormat) -> dict[str, Any]:
    return asdict(format)


def _plain(value: Any) -> Any:
    if isinstance(value, Mapping):
        return dict(value)
    raise SchemaError(f"{value!r} in a schema is no JSON value")


__all__ = ["compile_choices", "compile_ebnf", "compile_regex", "compile_schema", "compile_turn"]
