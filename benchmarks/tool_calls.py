"""Right tool, right arguments: scores a model on our held-out requests and on the public BFCL questions.

    python -m benchmarks.tool_calls laneformer-nano --sets held_out simple_python multiple irrelevance
    python -m benchmarks.tool_calls smollm2-135m --sets simple_python --limit 100 --free

Held-out requests come from benchmarks/data/held_out.jsonl, written by training.evaluate: names, parameters
and
phrasings that training never shows. BFCL questions are read from the installed package bfcl-eval (Apache-2.0,
`pip install --no-deps bfcl-eval`); its Python types become JSON Schema types, dots in names underscores, and
the score is this file's own. A set of calls asks for at least one call (tool_choice "required") under the
grammar; irrelevance leaves the choice free and counts turns without a call. --free turns the grammar off.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import re
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import Figure, append, make_record, show
from kogagent import Engine
from kogagent.errors import InputError, KogagentError
from kogagent.loop.protocols import ToolChoice, TurnRequest
from kogagent.types import CallReady, Message, SystemMessage, ToolSpec, UserMessage

HELD_OUT = Path(__file__).resolve().parent / "data" / "held_out.jsonl"
BFCL = ("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance")
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string", "int": "integer"}


@dataclass(frozen=True)
class Question:
    """accepted: one entry per call: (name, {parameter: accepted values}); "" among them: may be left out.
    Empty: no call is right."""

    id: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    accepted: tuple[tuple[str, dict[str, list[Any]]], ...]


@dataclass(frozen=True)
class Score:
    tool: bool
    exact: bool
    calls: int
    seconds: float
    error: str = ""


# ── questions ────────────────────────────────────────────────────────────────────────────────


def held_out(path: Path = HELD_OUT) -> Iterator[Question]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        messages: list[Message] = [SystemMessage(row["system"])] if row["system"] else []
        messages.append(UserMessage(row["request"]))
        tools = tuple(ToolSpec(t["name"], t["description"], t["parameters"]) for t in row["tools"])
        accepted = tuple((name, {k: [v] for k, v in args.items()}) for name, args in row["calls"])
        yield Question(row["id"], tuple(messages), tools, accepted)


def bfcl(name: str) -> Iterator[Question]:
    """Questions of one BFCL v4 set, with JSON Schema types."""
    spec = importlib.util.find_spec("bfcl_eval")
    if spec is None or spec.origin is None:
        raise InputError("bfcl-eval is not installed. Run: pip install --no-deps bfcl-eval")
    folder = Path(spec.origin).parent / "data"
    answers: dict[str, Any] = {}
    if name != "irrelevance":
        for line in (folder / "possible_answer" / f"BFCL_v4_{name}.json").read_text().splitlines():
            row = json.loads(line)
            answers[row["id"]] = row["ground_truth"]
    for line in (folder / f"BFCL_v4_{name}.json").read_text().splitlines():
        row = json.loads(line)
        messages = tuple(
            SystemMessage(m["content"]) if m["role"] == "system" else UserMessage(m["content"])
            for m in row["question"][0]
        )
        tools = tuple(
            ToolSpec(plain_name(f["name"]), f["description"], json_schema(f["parameters"]))
            for f in row["function"]
        )
        accepted = tuple(
            (plain_name(tool), dict(values))
            for truth in answers.get(row["id"], [])
            for tool, values in truth.items()
        )
        yield Question(row["id"], messages, tools, accepted)


def plain_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9_-]", "_", name)


def json_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """A BFCL parameter description as JSON Schema; what is no keyword of it is dropped."""
    kind = TYPES.get(schema.get("type", "string"), schema.get("type", "string"))
    out: dict[str, Any] = {"type": kind}
    if schema.get("description"):
        out["description"] = schema["description"]
    if schema.get("enum"):
        out["enum"] = schema["enum"]
    if kind == "object":
        out["properties"] = {k: json_schema(v) for k, v in schema.get("properties", {}).items()}
        required = [r for r in schema.get("required", []) if r in out["properties"]]
        if required:
            out["required"] = required
        if not out["properties"]:
            del out["properties"]
    if kind == "array":
        out["items"] = json_schema(schema.get("items", {"type": "string"}))
    return out


# ── scoring ──────────────────────────────────────────────────────────────────────────────────


def same(given: Any, accepted: Any) -> bool:
    """Equal up to the writing of numbers, the case and punctuation of strings, and the values BFCL nests."""
    if isinstance(given, bool) or isinstance(accepted, bool):
        return given is accepted
    if isinstance(given, int | float) and isinstance(accepted, int | float):
        return abs(given - accepted) <= 1e-6 * max(1.0, abs(accepted))
    if isinstance(given, str) and isinstance(accepted, str):
        return _bare(given) == _bare(accepted)
    if isinstance(given, list) and isinstance(accepted, list | tuple):
        return len(given) == len(accepted) and all(same(g, a) for g, a in zip(given, accepted, strict=True))
    if isinstance(given, dict) and isinstance(accepted, dict):
        return arguments_match(given, {k: v if isinstance(v, list) else [v] for k, v in accepted.items()})
    return bool(given == accepted)


def _bare(text: str) -> str:
    return re.sub(r"[ ,./\-_*^'\"]", "", text).lower()


def arguments_match(given: dict[str, Any], accepted: dict[str, list[Any]]) -> bool:
    """Every given argument has an accepted value, and what is left out may be."""
    for key, value in given.items():
        if key not in accepted or not any(same(value, a) for a in accepted[key]):
            return False
    return all(key in given or any(a == "" for a in values) for key, values in accepted.items())


def judge(question: Question, calls: Sequence[tuple[str, Any]]) -> tuple[bool, bool]:
    """(right tools, right calls): as many calls as asked for, in any order."""
    if not question.accepted:
        return (not calls,) * 2
    tool = sorted(n for n, _ in calls) == sorted(n for n, _ in question.accepted)
    left = list(calls)
    for name, accepted in question.accepted:
        found = next(
            (c for c in left if c[0] == name and isinstance(c[1], dict) and arguments_match(c[1], accepted)),
            None,
        )
        if found is None:
            return tool, False
        left.remove(found)
    return tool, not left


async def ask(engine: Engine, question: Question, *, grammar: bool, max_tokens: int) -> Score:
    """One turn of the model."""
    choice: ToolChoice = "required" if question.accepted and grammar else "auto"
    request = TurnRequest(question.messages, question.tools, tool_choice=choice, max_tokens=max_tokens)
    model = engine.model(constrained=grammar)
    calls: list[tuple[str, Any]] = []
    started = time.perf_counter()
    try:
        async for event in model.stream(request):
            if isinstance(event, CallReady):
                try:
                    calls.append((event.call.name, json.loads(event.call.arguments)))
                except json.JSONDecodeError:
                    calls.append((event.call.name, None))
    except KogagentError as error:
        return Score(False, False, 0, time.perf_counter() - started, f"{type(error).__name__}: {error}")
    finally:
        await model.aclose()
    tool, exact = judge(question, calls)
    return Score(tool, exact, len(calls), time.perf_counter() - started)


async def score_set(
    engine: Engine, questions: Sequence[Question], *, grammar: bool, max_tokens: int
) -> list[Score]:
    return [await ask(engine, q, grammar=grammar, max_tokens=max_tokens) for q in questions]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a known name, a checkpoint directory or a .gguf file")
    parser.add_argument("--sets", nargs="+", default=["held_out"], choices=["held_out", *BFCL])
    parser.add_argument(
        "--limit", type=int, default=0, help="the first so many questions of each set; 0: all"
    )
    parser.add_argument("--free", action="store_true", help="without the grammar")
    parser.add_argument("--max-tokens", type=int, default=200)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--record", action="store_true", help="append to results/tool_accuracy.jsonl")
    args = parser.parse_args()
    records = []
    with Engine.load(args.model, device=args.device) as engine:
        for name in args.sets:
            questions = list(held_out() if name == "held_out" else bfcl(name))
            questions = questions[: args.limit] if args.limit else questions
            scores = asyncio.run(
                score_set(engine, questions, grammar=not args.free, max_tokens=args.max_tokens)
            )
            seconds, calls = sum(s.seconds for s in scores), sum(s.calls for s in scores)
            refused = [s.error for s in scores if s.error]
            case = f"{name}/{Path(args.model).name}/{'free' if args.free else 'grammar'}"
            note = f"n={len(scores)}, {calls / seconds:.2f} calls/s, refused {len(refused)}"
            for metric, value in (
                ("tool", sum(s.tool for s in scores) / len(scores)),
                ("exact", sum(s.exact for s in scores) / len(scores)),
            ):
                records.append(
                    make_record(
                        "tool_accuracy", case, engine.backend_name, metric, Figure((value,)), note=note
                    )
                )
            for error in sorted(set(refused))[:5]:
                print("refused:", error[:200])
    show(records)
    for record in records:
        print(record.case, record.metric, record.note)
    if args.record:
        append(records)


if __name__ == "__main__":
    main()
