"""Fuzzes the grammar compiler: random schemas, patterns, rules, turns and texts. Test support only.

    python -m tests.fuzz.grammar --seconds 600 [--seed N]

A finding is an error that is no KogagentError, a case of more than 30 s of processor time, a walk that gets
stuck, or an accepted text that is no JSON, that jsonschema rejects, or that the turn parser reads otherwise.
Inputs whose outcome is new are kept and mutated further. Prints each kind of finding once, with its input.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import secrets
import signal
import sys
import time
import traceback
import warnings
from collections import Counter
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import jsonschema

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "grammar"))

from grammar_rules import random_grammar, recognises, short_walk
from grammar_schemas import conditional_schema, overlapping_schema, random_schema
from grammar_vocabularies import byte_vocabulary

from kogagent.chat import TurnParser
from kogagent.chat.formats import FORMATS as CALL_FORMATS
from kogagent.engine.grammar import (
    ArgumentKinds,
    Bounds,
    Grammar,
    compile_ebnf,
    compile_regex,
    compile_schema,
    compile_turn,
)
from kogagent.engine.grammar.automaton import END, FINISHED, SPECIAL, Automaton
from kogagent.engine.grammar.compile import OBJECT_SOURCES
from kogagent.engine.grammar.ebnf import read_ebnf
from kogagent.engine.grammar.formats import FORMATS
from kogagent.engine.grammar.keywords import KEYWORDS
from kogagent.engine.grammar.tables import begin, make_tables, step
from kogagent.errors import KogagentError, ModelError
from kogagent.spec import Vocabulary

CASE_SECONDS = 30.0
KEPT = 400  # inputs kept for mutation
LONGEST = 4000  # symbols of one walk
_CLOSING = frozenset(b'"}]>')

PLAIN = byte_vocabulary()
TAGGED = byte_vocabulary(b"<tool_call>", b"</tool_call>", b"[TOOL_CALLS]", b"<think>", b"</think>")
VALUES: list[Any] = [
    None, True, False, 0, 1, -1, 2, 3.5, 1e300, 0.1, 10**30, "", "a", "^a*$", "date", "string", "object",
    "array", "#", "#/$defs/a", "#/properties/a", "integer", "number", "null", "é\u0000", "😀", [], {}, ["a"],
    [1, 1.0, True], {"a": {}}, {"type": "string"}, {"type": ["integer", "null"]},
    [{"const": 1}, {"const": 2}],
]  # fmt: skip
_SPELLED = r"""
a b [a-c] [^a] \d \w \W . (ab|c) (?:a|ab) x{2,3} x{0} ^ $ é [é-ü] \u00e9 \x41 \. [\]] * + ? {3} | ( ) [ ] \ \b
(?=a) \1 😀 \p{L} {2,1} \n " \\ [z-a] {9999} (a*)* (?i) \cJ
"""
PATTERNS = _SPELLED.split()
SAFE = b' {}[]",:\\0123456789.eE+-tfnu\x00\xff\xc3<'


class Hang(BaseException):
    """A case took too long. No Exception, so that nothing on the way takes it for its own."""


class Finding(Exception):
    """Something is wrong that raised no error of its own."""


def exact(text: str) -> int | Fraction:
    value = Fraction(text)
    return int(value) if value.denominator == 1 else value


def _pattern(_: Any, pattern: str, instance: Any, __: Any) -> Any:
    """ECMA's classes are ASCII; what Python cannot compile it cannot judge."""
    if not isinstance(instance, str):
        return
    try:
        found = re.search(pattern, instance, re.ASCII)
    except re.error:
        return
    if found is None:
        yield jsonschema.ValidationError(f"{instance!r} does not match {pattern!r}")


def judge_of(schema: Any) -> Callable[[str], None]:
    """What raises Finding for a text that is no JSON or no value of the schema, read with exact numbers."""
    text = json.dumps(schema)
    old = isinstance(schema, dict) and "draft-07" in str(schema.get("$schema"))
    base = jsonschema.Draft7Validator if old else jsonschema.Draft202012Validator
    kind = jsonschema.validators.extend(base, {"pattern": _pattern})  # type: ignore[no-untyped-call]
    checker = None
    try:
        read = json.loads(text, parse_float=exact)
        base.check_schema(read)
        checker = kind(read, format_checker=base.FORMAT_CHECKER)
    except Exception:  # a schema jsonschema does not take is judged as JSON alone
        checker = None

    def judge(written: str) -> None:
        try:
            value = json.loads(written, parse_float=exact, parse_constant=_no_constant)
            json.dumps(value, default=str, ensure_ascii=False).encode()
        except ValueError as problem:
            raise Finding(f"no JSON: {problem}") from None
        if checker is None:
            return
        try:
            wrong = next(checker.iter_errors(value), None)
        except (RecursionError, re.error):
            return
        except Exception as problem:
            of = type(problem).__name__  # jsonschema follows even what a lone `if` refers to
            if "Unresolvable" in of or "Referencing" in of or "Retriev" in str(problem):
                return
            raise
        if wrong is not None:
            raise Finding(f"jsonschema rejects it ({wrong.validator}): {wrong.message[:200]}")

    return judge


def _no_constant(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")


# ── inputs ──


def wild_schema(rng: random.Random, depth: int = 3) -> Any:
    """Any keywords with values of the right kind, and sometimes of the wrong one."""
    if rng.random() < 0.05:
        return rng.choice([True, False, *VALUES])
    out: dict[str, Any] = {}
    if rng.random() < 0.6:
        names = ["string", "integer", "number", "object", "array", "boolean", "null"]
        out["type"] = rng.choice(names) if rng.random() < 0.8 else rng.sample(names, rng.randint(1, 4))
    for _ in range(rng.randint(0, 4)):
        word = rng.choice(_WORDS)
        out[word] = _value_of(word, rng, depth)
    if depth == 3 and rng.random() < 0.3:
        out["$defs"] = {name: wild_schema(rng, 2) for name in "ab"}
    if depth == 3 and rng.random() < 0.15:
        out["$schema"] = "http://json-schema.org/draft-07/schema#"
    return out


_WORDS = [word for word in KEYWORDS if word not in ("nullable", "$schema", "discriminator", "$vocabulary")]


def _value_of(word: str, rng: random.Random, depth: int) -> Any:
    if rng.random() < 0.04:
        return rng.choice(VALUES)

    def part() -> Any:
        return wild_schema(rng, depth - 1) if depth else {"type": rng.choice(["string", "integer", "null"])}

    match word:
        case "type":
            return rng.choice(["string", "object", "array"])
        case "enum":
            return rng.sample(VALUES, rng.randint(1, 5))
        case "const" | "default":
            return rng.choice(VALUES)
        case "patternProperties":
            return {rng.choice(["^a", "b", "^[ab]+", "", "^x-"]): part() for _ in range(rng.randint(0, 3))}
        case "properties" | "$defs" | "definitions":
            return {rng.choice(["a", "b", "ab", 'q"', "é", "a/b"]): part() for _ in range(rng.randint(0, 4))}
        case "dependentSchemas" | "dependencies":
            names = rng.sample(["a", "b", "ab"], rng.randint(0, 2))
            return {n: part() if word != "dependencies" or rng.random() < 0.5 else ["b"] for n in names}
        case "dependentRequired":
            return {
                n: rng.sample(["a", "b", "zz"], rng.randint(0, 2)) for n in ("a", "b")[: rng.randint(0, 2)]
            }
        case "required":
            return rng.sample(["a", "b", "ab", "zz", 'q"'], rng.randint(0, 3))
        case "prefixItems" | "anyOf" | "oneOf" | "allOf":
            return [part() for _ in range(rng.randint(1, 3))]
        case "$anchor" | "$dynamicAnchor":
            return rng.choice(["a", "b"])
        case "$ref" | "$dynamicRef" | "$recursiveRef":
            return rng.choice(
                ["#", "#/$defs/a", "#/$defs/b", "#/properties/a", "#a", "#/nowhere", "http://x/y"]
            )
        case "pattern":
            return "".join(rng.choice(PATTERNS) for _ in range(rng.randint(1, 4)))
        case "format":
            return rng.choice([*FORMATS, "int32", "path", "nonsense"])
        case "multipleOf":
            return rng.choice([1, 2, 3, 0.5, 0.1, 7, 1e-3, 10**20, 0])
        case "uniqueItems":
            return rng.random() < 0.5
    if word.startswith(("min", "max")) and not word.endswith("imum"):
        return rng.choice([0, 0, 1, 1, 2, 3, 5, 40, 10**6, -1, 1.0])
    if "imum" in word:
        return rng.choice([0, 1, -1, 5, 10, 99, 100, 0.5, -0.1, 1e22, 10**30, -(10**9), 123456.75])
    if KEYWORDS[word][0] == "annotation":
        return "words"
    return part()


def mutated(schema: Any, rng: random.Random, other: Any) -> Any:
    """The schema with one place of it changed: dropped, exchanged, or replaced by a part of `other`."""
    copy = json.loads(json.dumps(schema))
    places = _places(copy)
    if not places:
        return wild_schema(rng)
    where, key = rng.choice(places)
    parts = _places(other)
    what = rng.randrange(6)
    if what == 0:
        del where[key]
    elif what == 1 and parts:
        there, at = rng.choice(parts)
        where[key] = json.loads(json.dumps(there[at]))
    elif what == 2:
        where[key] = rng.choice(VALUES)
    elif what == 3 and isinstance(where, dict):
        word = rng.choice(_WORDS)
        where[word] = _value_of(word, rng, 1)
    elif what == 4 and isinstance(where, dict):
        word = rng.choice(_WORDS)
        where[word] = where.pop(key)
    elif isinstance(where[key], int | float) and not isinstance(where[key], bool):
        where[key] = rng.choice([where[key] + 1, -where[key], where[key] * 10, where[key] / 2])
    else:
        where[key] = {rng.choice(["not", "items", "anyOf", "properties", "allOf"]): where[key]}
    return copy


def _places(value: Any) -> list[tuple[Any, Any]]:
    out: list[tuple[Any, Any]] = []
    queue = [value]
    while queue:
        item = queue.pop()
        keys = list(item) if isinstance(item, dict) else range(len(item)) if isinstance(item, list) else ()
        for key in keys:
            out.append((item, key))
            queue.append(item[key])
    return out


# ── walks ──


def walk(automaton: Automaton, rng: random.Random, patience: int) -> list[int]:
    """A random complete walk, as symbols; past `patience` it prefers to close what is open.

    Empty where it would take too long. The device's tables are walked beside it.
    """
    tables = None if len(automaton.rows) > 15_000 else make_tables(automaton)
    at = None if tables is None else begin(tables)
    state, frame = automaton.start, automaton.frames
    out: list[int] = []
    while state != FINISHED:
        legal = sorted(automaton.legal(state, frame))
        if not legal:
            raise Finding(f"stuck after {_shown(out)!r}")
        symbol = rng.choice(legal)
        if len(out) > patience:
            closing = [s for s in legal if s == END or s in _CLOSING]
            symbol = rng.choice(closing or legal)
        after = automaton.step(state, frame, symbol)
        if after is None:
            raise Finding(f"{symbol} is announced and illegal after {_shown(out)!r}")
        if tables is not None and at is not None and not step(tables, at, symbol):
            raise Finding(f"the device's tables refuse {symbol} after {_shown(out)!r}")
        out.append(symbol)
        state, frame = after
        if len(out) > LONGEST:
            return []
    return out


def _shown(symbols: list[int]) -> bytes:
    return bytes(s for s in symbols if s < END)[-200:]


def accepts(grammar: Grammar, text: bytes) -> bool:
    """Whether a text and then an end id are legal, byte by byte; masks must say the same."""
    matcher = grammar.start()
    for id in (*text, grammar.trie.end_ids[0]):
        said = bool(matcher.mask()[id // 32] >> (id % 32) & 1) if len(text) < 60 else None
        try:
            matcher.advance(id)
        except ModelError:
            if said:
                raise Finding(f"the mask allows {id} and advance refuses it in {text!r}") from None
            return False
        if said is False:
            raise Finding(f"the mask forbids {id} and advance takes it in {text!r}")
    return matcher.finished


def disturbed(text: bytes, rng: random.Random) -> bytes:
    out = bytearray(text)
    for _ in range(rng.randint(1, 3)):
        at = rng.randrange(len(out) + 1)
        what = rng.randrange(4)
        if what == 0:
            out[at:at] = bytes([rng.choice(SAFE)])
        elif what == 1:
            del out[at : at + 1]
        elif what == 2:
            out[at : at + 1] = bytes([rng.randrange(256)])
        else:
            end = rng.randrange(len(out) + 1)
            out[at:at] = out[min(at, end) : max(at, end)]
    return bytes(out[:600])


# ── targets: each raises what is wrong, KogagentError for a refusal ──


def fuzz_schema(schema: Any, rng: random.Random) -> None:
    bounds = Bounds(
        string=rng.choice([5, 40, 4096]),
        items=rng.choice([2, 8]),
        properties=rng.choice([1, 3]),
        key=rng.choice([2, 64]),
        depth=rng.choice([1, 3]),
        recursion=rng.choice([1, 3]),
        open_objects=rng.random() < 0.3,
        zero_fraction=rng.random() < 0.5,
    )
    grammar = compile_schema(schema, PLAIN, bounds=bounds)
    judge = judge_of(schema)
    for _ in range(3):
        symbols = walk(grammar.automaton, rng, rng.choice([0, 5, 40]))
        text = bytes(s for s in symbols if s < END)
        if symbols:
            _judged(judge, text)
            if len(text) < 500 and not accepts(grammar, text):
                raise Finding(f"the matcher refuses the walk {text!r}")
        for _ in range(6):
            other = disturbed(text, rng)
            if accepts(grammar, other):
                _judged(judge, other)


def _judged(judge: Callable[[str], None], text: bytes) -> None:
    try:
        judge(text.decode())
    except (Finding, UnicodeDecodeError) as problem:
        raise Finding(f"accepted {text!r}: {problem}") from None


def fuzz_regex(pattern: str, rng: random.Random) -> None:
    grammar = compile_regex(pattern, PLAIN, max_length=rng.choice([1, 5, 200]))
    try:
        with warnings.catch_warnings(action="ignore"):
            peer = re.compile(pattern, re.ASCII)
    except (re.error, OverflowError):
        peer = None
    symbols = walk(grammar.automaton, rng, rng.choice([0, 20]))
    texts = [bytes(s for s in symbols if s < END)] if symbols else []
    texts += [disturbed(text, rng) for text in texts for _ in range(5)]
    for text in texts:
        if accepts(grammar, text):
            shown = text.decode()  # what is accepted is UTF-8
            if peer is not None and "\\p" not in pattern and peer.fullmatch(shown) is None:
                raise Finding(f"accepted {shown!r}, which {pattern!r} does not match")


def fuzz_turn(schemas: list[Any], rng: random.Random) -> None:
    names = rng.sample(
        ["a", "ab", 'say "x"', "größe", "get_weather", "get", "\\", "a\tb", "{", ""], len(schemas)
    )
    tools = dict(zip(names, schemas, strict=True))
    form = rng.choice(CALL_FORMATS)
    if form.bare_names:
        names = [f"tool_{i}.x" for i in range(len(names))]
        tools = dict(zip(names, schemas, strict=True))
    vocabulary = rng.choice([PLAIN, TAGGED])
    grammar = compile_turn(
        tools,
        vocabulary,
        form,
        tool_choice=rng.choice(["auto", "required", names[0]]),
        max_calls=rng.randint(1, 3),
        lead_text=rng.choice([None, True]),
        bounds=Bounds(string=20, items=3, properties=2, recursion=2, depth=2),
    )
    symbols = walk(grammar.automaton, rng, rng.choice([0, 30, 200]))
    if not symbols:
        return
    ids = _ids(symbols, vocabulary)
    matcher = grammar.start()
    for id in ids:
        matcher.advance(id)
    parser = TurnParser(form, vocabulary, kinds=ArgumentKinds(tools))
    at = 0
    while at < len(ids):
        end = at + rng.randint(1, 9)
        parser.feed(ids[at:end])
        at = end
    parser.finish()
    for call in parser.calls:
        if not call.complete or call.name not in tools:
            raise Finding(f"{form.name}: the parser reads {call!r} from {_shown(symbols)!r}")
        schema = {**tools[call.name], "type": "object"}
        if schema.keys().isdisjoint(OBJECT_SOURCES):
            schema["additionalProperties"] = False
        _judged(judge_of(schema), call.arguments.encode())


def _ids(symbols: list[int], vocabulary: Vocabulary) -> list[int]:
    return [s if s < END else vocabulary.end_ids[0] if s == END else s - SPECIAL for s in symbols]


def fuzz_ebnf(source: str, rng: random.Random) -> None:
    grammar = compile_ebnf(source, PLAIN, depth=rng.choice([0, 1, 3]))
    rules = read_ebnf(source)
    for _ in range(4):
        text = short_walk(grammar.automaton, rng)
        if text is None:
            continue
        if not recognises(rules, text):
            raise Finding(f"accepted {text!r}, which the rules do not have")
        if not accepts(grammar, text.encode()):
            raise Finding(f"the matcher refuses the walk {text!r}")
        other = disturbed(text.encode(), rng)
        if accepts(grammar, other) and not recognises(rules, other.decode()):
            raise Finding(f"accepted {other!r}, which the rules do not have")


def scribbled(text: str, rng: random.Random) -> str:
    """A text of rules with a few characters changed."""
    out = list(text)
    for _ in range(rng.randint(0, 3)):
        at = rng.randrange(len(out) + 1)
        if rng.random() < 0.5:
            out[at:at] = rng.choice([*'"/[]()|:*+?{}\\#', "\n", "start", "one:", "{2,}", "é", "\ud800", " "])
        else:
            del out[at : at + 1]
    return "".join(out)


# ── the run ──


class Fuzzer:
    """One run: makes inputs, keeps those of new outcome, collects findings by kind."""

    def __init__(self, seed: int) -> None:
        self.rng = random.Random(seed)
        self.kept: list[Any] = []
        self.outcomes: Counter[str] = Counter()
        self.findings: dict[str, str] = {}
        self.cases = 0
        self.accepted = 0

    def schema(self) -> Any:
        rng = self.rng
        which = rng.random()
        if which < 0.25 or not self.kept:
            return random_schema(rng, rng.randint(0, 3))
        if which < 0.32:
            return conditional_schema(rng)
        if which < 0.4:
            return overlapping_schema(rng)
        if which < 0.55:
            return wild_schema(rng)
        return mutated(rng.choice(self.kept), rng, rng.choice(self.kept))

    def one(self) -> None:
        rng = self.rng
        which = rng.random()
        if which < 0.6:
            schema = self.schema()
            self._try("schema", schema, lambda: fuzz_schema(schema, rng))
        elif which < 0.75:
            rules = scribbled(random_grammar(rng), rng)
            self._try("ebnf", rules, lambda: fuzz_ebnf(rules, rng))
        elif which < 0.85:
            pattern = "".join(rng.choice(PATTERNS) for _ in range(rng.randint(1, 6)))
            self._try("regex", pattern, lambda: fuzz_regex(pattern, rng))
        else:
            schemas = [self._arguments() for _ in range(rng.randint(1, 4))]
            self._try("turn", schemas, lambda: fuzz_turn(schemas, rng))

    def _arguments(self) -> Any:
        schema = self.schema()
        if not isinstance(schema, dict) or schema.get("type") == "object":
            return schema
        return {"type": "object", "properties": {"a": schema, "b": self.schema()}}

    def _try(self, target: str, given: Any, run: Callable[[], None]) -> None:
        self.cases += 1
        signal.setitimer(signal.ITIMER_VIRTUAL, CASE_SECONDS)
        try:
            run()
            outcome = "accepted"
            self.accepted += 1
        except KogagentError as problem:
            outcome = re.sub(r"'.*'|\".*\"|[0-9]+", "_", str(problem))[:120]
        except Hang:
            outcome = "hang"
            self._found(f"{target}: more than {CASE_SECONDS:.0f} s", given)
        except Finding as problem:
            outcome = "finding"
            self._found(f"{target}: {problem}", given)
        except Exception as problem:
            outcome = "crash"
            last = traceback.extract_tb(problem.__traceback__)[-1]
            self._found(
                f"{target}: {type(problem).__name__}: {problem} at {last.filename}:{last.lineno}", given
            )
        finally:
            signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        self.outcomes[f"{target}: {outcome}"] += 1
        if target == "schema" and (self.outcomes[f"schema: {outcome}"] <= 3 or self.rng.random() < 0.02):
            if len(self.kept) >= KEPT:
                self.kept[self.rng.randrange(KEPT)] = given
            else:
                self.kept.append(given)

    def _found(self, what: str, given: Any) -> None:
        kind = re.sub(r"b?'.*?'|b?\".*?\"|[0-9.]+", "_", what)[:90]
        if kind not in self.findings:
            self.findings[kind] = f"{what}\n    input: {json.dumps(given)[:3000]}"
            print(f"FINDING {self.findings[kind]}", flush=True)  # noqa: T201


def _hang(*_: Any) -> None:
    raise Hang


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--seconds", type=float, default=60.0, help="how long to run")
    parser.add_argument("--cases", type=int, default=None, help="run so many cases instead, however long")
    parser.add_argument("--seed", type=int, default=None, help="repeat a run; by default a fresh one")
    options = parser.parse_args()
    seed = secrets.randbits(32) if options.seed is None else options.seed
    print(f"seed {seed}", flush=True)  # noqa: T201
    signal.signal(signal.SIGVTALRM, _hang)
    fuzzer = Fuzzer(seed)
    ends = time.monotonic() + options.seconds
    while time.monotonic() < ends if options.cases is None else fuzzer.cases < options.cases:
        fuzzer.one()
    print(  # noqa: T201
        f"{fuzzer.cases} cases, {fuzzer.accepted} accepted, {len(fuzzer.outcomes)} outcomes, "
        f"{len(fuzzer.findings)} findings"
    )
    return 1 if fuzzer.findings else 0


if __name__ == "__main__":
    sys.exit(main())
