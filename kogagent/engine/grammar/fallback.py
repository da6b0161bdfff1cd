"""Schemas outside the automaton's subset, on llguidance (an optional extra): the same walk, on the host.

Knows llguidance's grammars and ids. Only what llguidance is known to enforce is handed over, for it passes
over keywords it does not know; its reading is the specification's, but for `closed`, and without the default
bounds of here. The free text and the trigger of a turn stay ours: the calls behind the trigger are one of
their grammars, so that no token goes across the trigger's end.
"""

from __future__ import annotations

import hashlib
import json
import threading
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from kogagent.engine.grammar.formats import FORMATS
from kogagent.engine.grammar.keywords import CARRIED, verdict
from kogagent.engine.grammar.matcher import Grammar, Matcher
from kogagent.errors import InputError, MissingExtraError, ModelError, SchemaError
from kogagent.spec import CallFormat, Vocabulary

if TYPE_CHECKING:
    from llguidance import LLMatcher, LLTokenizer

_EXACT = 2**53
"""Bounds beyond it llguidance clips to 64 bits."""

_TOKENIZERS: OrderedDict[str, LLTokenizer] = OrderedDict()
_GRAMMARS: OrderedDict[str, FallbackGrammar] = OrderedDict()
_LOCK = threading.Lock()


@dataclass(frozen=True, slots=True)
class FallbackGrammar:
    """A TokenGrammar on llguidance. notes: why it was handed over. lead: what comes before the calls of a
    turn, up to their trigger; None where the text is theirs from the start."""

    digest: str
    notes: tuple[str, ...]
    vocabulary: Vocabulary = field(repr=False)
    source: str = field(repr=False)
    lead: Grammar | None = field(repr=False)

    def start(self) -> FallbackMatcher:
        lead = None if self.lead is None else self.lead.start()
        return FallbackMatcher(self, lead, None if lead is not None else self.theirs(), False)

    def theirs(self) -> LLMatcher:
        """A walk of theirs from its start."""
        from llguidance import LLMatcher

        return LLMatcher(_tokenizer(self.vocabulary), self.source, log_level=0)


class FallbackMatcher:
    """A TokenMatcher: one walk, not shared between sequences."""

    def __init__(
        self, grammar: FallbackGrammar, lead: Matcher | None, theirs: LLMatcher | None, finished: bool
    ) -> None:
        self.grammar = grammar
        self._lead, self._theirs, self._finished = lead, theirs, finished
        self._run: tuple[int, ...] = ()
        self._known: npt.NDArray[np.uint32] | None = None

    @property
    def finished(self) -> bool:
        return self._finished

    def forced(self) -> tuple[int, ...]:
        if self._finished:
            return ()
        if self._lead is not None:
            return self._lead.forced()
        if not self._run:
            assert self._theirs is not None
            self._run = tuple(self._theirs.compute_ff_tokens())
            if not self._run:
                mask = self._legal()
                words = np.flatnonzero(mask)
                if len(words) == 1 and int(mask[words[0]]).bit_count() == 1:
                    self._run = (int(words[0]) * 32 + int(mask[words[0]]).bit_length() - 1,)
        return self._run

    def mask(self) -> npt.NDArray[np.uint32]:
        """Legal next ids [words]; read-only."""
        if self._lead is not None and not self._finished:
            return self._lead.mask()
        run = self.forced()
        if run or self._finished:
            mask = np.zeros((len(self.grammar.vocabulary) + 31) // 32, np.uint32)
            if run:
                mask[run[0] // 32] = np.uint32(1 << (run[0] % 32))
            return mask
        return self._legal()

    def _legal(self) -> npt.NDArray[np.uint32]:
        if self._known is None:
            assert self._theirs is not None
            mask = np.frombuffer(self._theirs.compute_bitmask(), np.uint32).copy()
            first, *others = self.grammar.vocabulary.end_ids
            if mask[first // 32] >> (first % 32) & 1:
                for end in others:
                    mask[end // 32] |= np.uint32(1 << (end % 32))
            mask.setflags(write=False)
            self._known = mask
        return self._known

    def advance(self, token: int) -> None:
        """Take one id. Raises ModelError, and stays where it is, if it is not legal here."""
        vocabulary = self.grammar.vocabulary
        if self._lead is not None:
            self._lead.advance(token)
            if self._lead.finished:
                self._lead = None
                if token in vocabulary.end_ids:
                    self._finished = True
                else:
                    self._theirs = self.grammar.theirs()
            return
        legal = self.mask()
        if not 0 <= token < len(vocabulary) or not legal[token // 32] >> (token % 32) & 1:
            raise ModelError(f"token {token} is not legal here; the grammar's mask was not applied")
        self._known, self._run = None, self._run[1:]
        if token in vocabulary.end_ids:
            self._finished = True
            return
        assert self._theirs is not None
        if not self._theirs.consume_token(token):
            raise ModelError(f"llguidance refuses token {token}, which its mask allows")

    def fork(self) -> FallbackMatcher:
        lead = None if self._lead is None else self._lead.fork()
        theirs = None if self._theirs is None else self._theirs.deep_copy()
        other = FallbackMatcher(self.grammar, lead, theirs, self._finished)
        other._run = self._run
        return other


def carried(schema: Any) -> bool:
    """Whether llguidance enforces all that a schema says."""
    if isinstance(schema, bool):
        return True
    if not isinstance(schema, Mapping):
        return False
    for word, value in schema.items():
        kind = verdict(word)[0]
        if kind == "annotation" and word not in ("contentEncoding", "contentMediaType", "$id"):
            continue
        if word not in CARRIED or (word == "format" and value not in FORMATS):
            return False
        number = isinstance(value, int | float) and not isinstance(value, bool)
        if number and not -_EXACT < value < _EXACT:
            return False
        parts: list[Any] = []
        if word in ("properties", "patternProperties", "$defs", "definitions"):
            parts = list(value.values()) if isinstance(value, Mapping) else [None]
        elif word in ("anyOf", "allOf", "prefixItems"):
            parts = list(value) if isinstance(value, list | tuple) else [None]
        elif word in ("items", "additionalProperties"):
            parts = [value]
        if not all(map(carried, parts)):
            return False
    return True


def closed(schema: Any, alone: bool = True) -> Any:
    """The schema with every object closed that lists properties and does not say otherwise, as it is read
    here. Where other schemas hold beside one, closing it would shut out what they list: it stays open."""
    if not isinstance(schema, Mapping):
        return schema
    alone = alone and schema.keys().isdisjoint(("allOf", "anyOf", "$ref"))
    apart = "allOf" not in json.dumps(schema)
    out: dict[str, Any] = {}
    for word, value in schema.items():
        if word in ("properties", "patternProperties"):
            out[word] = {name: closed(part) for name, part in value.items()}
        elif word in ("$defs", "definitions"):
            out[word] = {name: closed(part, apart) for name, part in value.items()}
        elif word in ("anyOf", "allOf"):
            out[word] = [closed(part, word == "anyOf" and "properties" not in schema) for part in value]
        elif word == "prefixItems":
            out[word] = [closed(part) for part in value]
        else:
            out[word] = closed(value) if word in ("items", "additionalProperties") else value
    if alone and "properties" in schema and schema.keys().isdisjoint(_OPENING):
        out["additionalProperties"] = False
    return out


_OPENING = ("additionalProperties", "patternProperties")


def schema_fallback(
    schema: Any, vocabulary: Vocabulary, form: CallFormat, refused: SchemaError
) -> FallbackGrammar:
    """One JSON value of a schema the automaton refused. Raises `refused` where llguidance cannot take it."""
    return _made(f"start: {_json(schema, form, refused)}", vocabulary, None, refused)


def turn_fallback(
    tools: Mapping[str, Any],
    vocabulary: Vocabulary,
    form: CallFormat,
    max_calls: int,
    lead: Grammar,
    refused: SchemaError,
) -> FallbackGrammar:
    """The calls of a turn behind what `lead` leads to. Raises `refused` where llguidance cannot take them."""
    if not form.is_json:
        raise refused
    special = {vocabulary.tokens[i].decode(): i for i in vocabulary.special if vocabulary.tokens[i]}

    def said(text: str) -> str:
        """A format's text as a part of a rule."""
        parts, at = [], 0
        names = sorted((name for name in special if name in text), key=len, reverse=True)
        plain = ""
        while at < len(text):
            name = next((name for name in names if text.startswith(name, at)), None)
            if name is None:
                plain, at = plain + text[at], at + 1
                continue
            parts += [json.dumps(plain, ensure_ascii=False)] if plain else []
            parts.append(f"<[{special[name]}]>")
            plain, at = "", at + len(name)
        return " ".join([*parts, *([json.dumps(plain, ensure_ascii=False)] if plain else [])])

    # A trigger that starts with a special id is that id alone.
    names = [name for name in special if form.trigger.startswith(name)]
    trigger = max(names, key=len, default=form.trigger)
    options, rules = [], []
    for i, (name, schema) in enumerate(tools.items()):
        head = json.dumps(name, ensure_ascii=False)[1:-1] + form.middle
        options.append(f"{said(head)} arguments_{i}")
        root = {**schema, "type": "object"} if isinstance(schema, Mapping) else schema
        if isinstance(root, dict) and root.keys() <= {"type", "required", "title", "description"}:
            root["additionalProperties"] = False
        rules.append(f"arguments_{i}: {_json(root, form, refused)}")
    more = max_calls - 1 if form.parallel else 0
    again = f"({said(form.between)} call){{0,{more}}}" if more else ""
    start = f"start: {said(form.begin[len(trigger) :])} call {again} {said(form.end)}"
    call = f"call: {said(form.prefix)} ({' | '.join(options)}) {said(form.suffix)}"
    return _made("\n".join([start, call, *rules]), vocabulary, lead, refused)


def _json(schema: Any, form: CallFormat, refused: SchemaError) -> str:
    if not carried(schema):
        raise refused
    options = {
        "whitespace_flexible": False,
        "item_separator": form.item_separator,
        "key_separator": form.key_separator,
    }
    body = {**closed(schema), "x-guidance": options} if isinstance(schema, Mapping) else schema
    return "%json " + json.dumps(body)


def _made(rules: str, vocabulary: Vocabulary, lead: Grammar | None, refused: SchemaError) -> FallbackGrammar:
    try:
        from llguidance import LLMatcher
    except ImportError:
        raise MissingExtraError("a grammar with fallback=True", "llguidance", "fallback") from refused
    source = f"%llguidance {{}}\n{rules}\n"
    spelled = vocabulary.encode is not None
    key = f"{source}\n{vocabulary.digest}\n{spelled}\n{'' if lead is None else lead.digest}"
    digest = hashlib.sha256(key.encode()).hexdigest()
    with _LOCK:
        found = _GRAMMARS.get(digest)
    if found is not None:
        return found
    problem = LLMatcher.validate_grammar(source, _tokenizer(vocabulary))
    if problem:
        raise SchemaError(
            f"{refused}. llguidance does not take it either: {problem.splitlines()[0]}",
            tool=refused.tool,
            path=refused.path,
            keyword=refused.keyword,
        ) from refused
    notes = (f"held on the host by llguidance, without default bounds: {refused}",)
    made = FallbackGrammar(digest, notes, vocabulary, source, lead)
    with _LOCK:
        _GRAMMARS[digest] = made
        while len(_GRAMMARS) > 32:
            _GRAMMARS.popitem(last=False)
    return made


class _Tokens:
    """The vocabulary as llguidance asks for it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.eos_token_id = vocabulary.end_ids[0]
        self.bos_token_id = None
        self.tokens = list(vocabulary.tokens)
        self.special_token_ids = sorted(vocabulary.special)
        self._encode = vocabulary.encode
        known = {text: i for i, text in enumerate(vocabulary.tokens) if i not in vocabulary.special}
        self._known = {text: i for text, i in known.items() if text}
        self._longest = max(map(len, self._known), default=1)

    def __call__(self, text: str | bytes) -> Sequence[int]:
        if self._encode is not None:
            return list(self._encode(text.decode() if isinstance(text, bytes) else text))
        data = text.encode() if isinstance(text, str) else text
        out, at = [], 0
        while at < len(data):  # without a tokenizer: the longest token each time
            size = min(self._longest, len(data) - at)
            while size and data[at : at + size] not in self._known:
                size -= 1
            if not size:
                raise InputError(f"the vocabulary has no token for the byte 0x{data[at]:02x}")
            out.append(self._known[data[at : at + size]])
            at += size
        return out


def _tokenizer(vocabulary: Vocabulary) -> LLTokenizer:
    from llguidance import LLTokenizer, TokenizerWrapper

    key = f"{vocabulary.digest}/{vocabulary.encode is not None}"
    with _LOCK:
        found = _TOKENIZERS.get(key)
        if found is None:
            made: Any = TokenizerWrapper(_Tokens(vocabulary))
            found = _TOKENIZERS[key] = LLTokenizer(made, eos_token=vocabulary.end_ids[0])
            while len(_TOKENIZERS) > 4:
                _TOKENIZERS.popitem(last=False)
        return found
