"""Right tool, right arguments: scores a model on our held-out requests and on the public BFCL questions.

    python -m benchmarks.tool_calls laneformer-nano --sets held_out simple_python multiple irrelevance
    python -m benchmarks.tool_calls smollm2-135m --sets simple_python --limit 100 --free
    python -m benchmarks.tool_calls laneformer-nano --sets multiple --errors   # counts kinds of error

Held-out requests come from benchmarks/data/held_out.jsonl, written by training.evaluate: names, parameters
and
phrasings that training never shows. BFCL questions are read from the installed package bfcl-eval (Apache-2.0,
`pip install --no-deps bfcl-eval`); its Python types become JSON Schema types, dots in names underscores, and
the score is this file's own. A set of calls asks for at least one call (tool_choice "required") under the
grammar; irrelevance leaves the choice free and counts turns without a call. Requests of everyday and of
counter, written by hand for two agents of four tools each, leave the choice free as an agent does; so do
those of fresh and unseen, for three and for five agents of five tools, by writers who had not seen the
training data. With _files after their names the agents have two tools more, which list and read files and are
never right. --free turns the grammar off, --distinct ends a turn at a call that it has made already.
"""

from __future__ import annotations

import argparse
import asyncio
import importlib.util
import json
import re
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.common import Figure, append, make_record, show
from kogagent import Engine
from kogagent.errors import InputError, KogagentError
from kogagent.loop.protocols import ToolChoice, TurnRequest
from kogagent.types import CallReady, Message, SystemMessage, ToolSpec, UserMessage

DATA = Path(__file__).resolve().parent / "data"
HELD_OUT = DATA / "held_out.jsonl"
TYPED = ("everyday", "counter", "fresh", "unseen")
OWN = ("held_out", *(name + files for name in TYPED for files in ("", "_files")))
BFCL = ("simple_python", "multiple", "parallel", "parallel_multiple", "irrelevance")
TYPES = {"dict": "object", "float": "number", "tuple": "array", "any": "string", "int": "integer"}


@dataclass(frozen=True)
class Question:
    """accepted: one entry per call: (name, {parameter: accepted values}); "" among them: may be left out.
    Empty: no call is right. open: the model may answer without a call, whatever is right."""

    id: str
    messages: tuple[Message, ...]
    tools: tuple[ToolSpec, ...]
    accepted: tuple[tuple[str, dict[str, list[Any]]], ...]
    open: bool = False

    def choice(self, *, grammar: bool) -> ToolChoice:
        """Which turns the model may make; without a grammar nothing can make it call."""
        return "required" if self.accepted and grammar and not self.open else "auto"


@dataclass(frozen=True)
class Score:
    tool: bool
    exact: bool
    calls: int
    seconds: float
    error: str = ""
    blamed: frozenset[str] = frozenset()
    """Kinds of error of an answer that is not exact."""


# ── questions ────────────────────────────────────────────────────────────────────────────────


def held_out(path: Path = HELD_OUT) -> Iterator[Question]:
    for line in path.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        messages: list[Message] = [SystemMessage(row["system"])] if row["system"] else []
        messages.append(UserMessage(row["request"]))
        tools = tuple(ToolSpec(t["name"], t["description"], t["parameters"]) for t in row["tools"])
        accepted = tuple((name, {k: [_only(v)] for k, v in args.items()}) for name, args in row["calls"])
        yield Question(row["id"], tuple(messages), tools, accepted)


def _only(value: Any) -> Any:
    """A value as the one that is accepted: the fields of an object hold lists of such."""
    if isinstance(value, dict):
        return {k: [_only(v)] for k, v in value.items()}
    return [_only(v) for v in value] if isinstance(value, list) else value


def questions_of(name: str) -> Iterator[Question]:
    """The questions of a set of OWN or BFCL."""
    if name in BFCL:
        return bfcl(name)
    if name == "held_out":
        return held_out()
    return as_typed(name.removesuffix("_files"), files=name.endswith("_files"))


def as_typed(name: str, *, files: bool) -> Iterator[Question]:
    """Requests of a typed set. files: beside tools for files, which none of them needs."""
    data = json.loads((DATA / f"{name}.json").read_text(encoding="utf-8"))
    for agent in data["agents"]:
        names = agent["tools"] + (data["files"] if files else [])
        tools = tuple(ToolSpec(n, **data["tools"][n]) for n in names)
        for number, (text, calls) in enumerate(agent["requests"]):
            accepted = tuple((name, arguments) for name, arguments in calls)
            yield Question(f"{agent['name']}_{number}", (UserMessage(text),), tools, accepted, open=True)


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


def blame(question: Question, calls: Sequence[tuple[str, Any]]) -> frozenset[str]:
    """What is wrong with the calls, in kinds: one for the calls as a whole, or some for their arguments."""
    wanted, given = len(question.accepted), len(calls)
    if judge(question, calls)[1]:
        return frozenset()
    if not wanted or not given:
        return frozenset({"a call where none fits" if given else "no call"})
    if any(not isinstance(arguments, dict) for _, arguments in calls):
        return frozenset({"cut off"})
    if given != wanted:
        return frozenset({"too few calls" if given < wanted else "too many calls"})
    if not judge(question, calls)[0]:
        return frozenset({"wrong tool"})
    request = next((m.text for m in reversed(question.messages) if isinstance(m, UserMessage)), "").lower()
    kinds: set[str] = set()
    left = list(calls)
    for name, accepted in question.accepted:  # against the call of this tool that fits best
        same_tool = [c for c in left if c[0] == name]
        best = min(same_tool, key=lambda c: len(_faults(c[1], accepted, request)))
        left.remove(best)
        kinds |= _faults(best[1], accepted, request)
    return frozenset(kinds)


def _faults(given: dict[str, Any], accepted: dict[str, list[Any]], request: str) -> set[str]:
    out = set()
    for key, value in given.items():
        right = [a for a in accepted.get(key, []) if a != ""]
        if key not in accepted or not right:
            out.add("an argument nobody gave")
        elif not any(same(value, a) for a in accepted[key]):
            out.add(_fault(value, right[0], request))
    if any(key not in given and "" not in values for key, values in accepted.items()):
        out.add("an argument left out")
    return out


def _fault(value: Any, right: Any, request: str) -> str:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int | float):
        said = re.search(rf"(?<![\d.]){re.escape(str(value))}(?![\d])", request)
        return "number of another argument" if said else "number that is not in the request"
    if isinstance(value, list):
        return "list of another length" if len(value) != len(right) else "item of a list"
    if not isinstance(value, str) or not isinstance(right, str):
        return "object" if isinstance(value, dict) else "value of another type"
    given, wanted = value.lower(), right.lower()
    if given not in request:
        return "string miscopied" if wanted in request else "string to be reworded"
    return "string cut wrongly" if given in wanted or wanted in given else "string of another argument"


async def ask(
    engine: Engine, question: Question, *, grammar: bool, max_tokens: int, distinct: bool = False
) -> Score:
    """One turn of the model."""
    request = TurnRequest(
        question.messages, question.tools, tool_choice=question.choice(grammar=grammar), max_tokens=max_tokens
    )
    model = engine.model(constrained=grammar, distinct_calls=distinct)
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
    return Score(tool, exact, len(calls), time.perf_counter() - started, blamed=blame(question, calls))


async def score_set(
    engine: Engine, questions: Sequence[Question], *, grammar: bool, max_tokens: int, distinct: bool = False
) -> list[Score]:
    return [
        await ask(engine, q, grammar=grammar, max_tokens=max_tokens, distinct=distinct) for q in questions
    ]


def main() -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", help="a known name, a checkpoint directory or a .gguf file")
    parser.add_argument("--sets", nargs="+", default=["held_out"], choices=[*OWN, *BFCL])
    parser.add_argument(
        "--limit", type=int, default=0, help="the first so many questions of each set; 0: all"
    )
    parser.add_argument("--free", action="store_true", help="without the grammar")
    parser.add_argument("--distinct", action="store_true", help="a repeated call ends its turn")
    parser.add_argument("--errors", action="store_true", help="count the kinds of error, too")
    parser.add_argument("--max-tokens", type=int, default=400)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--dtype", default="auto", help="of the weights, as Engine.load takes it")
    parser.add_argument("--record", action="store_true", help="append to results/tool_accuracy.jsonl")
    args = parser.parse_args()
    records = []
    with Engine.load(args.model, device=args.device, dtype=args.dtype) as engine:
        for name in args.sets:
            questions = list(questions_of(name))
            questions = questions[: args.limit] if args.limit else questions
            scores = asyncio.run(
                score_set(
                    engine,
                    questions,
                    grammar=not args.free,
                    max_tokens=args.max_tokens,
                    distinct=args.distinct,
                )
            )
            seconds, calls = sum(s.seconds for s in scores), sum(s.calls for s in scores)
            refused = [s.error for s in scores if s.error]
            how = ("free" if args.free else "grammar") + ("_distinct" if args.distinct else "")
            how += "" if args.dtype == "auto" else f"_{args.dtype}"
            case = f"{name}/{Path(args.model).name}/{how}"
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
            if args.errors:
                kinds = Counter(kind for s in scores for kind in s.blamed)
                print(f"{name}:", *(f"{n} {kind}" for kind, n in kinds.most_common()), sep="\n    ")
    show(records)
    for record in records:
        print(record.case, record.metric, record.note)
    if args.record:
        append(records)


if __name__ == "__main__":
    main()
