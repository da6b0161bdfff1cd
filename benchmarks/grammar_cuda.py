"""What a grammar costs and saves on one GPU: tokens drawn under one, a tool call through engine.stream.

    python -m benchmarks.grammar_cuda --tokenizer DIRECTORY [--shape NAME] [--repeats N] [--dry]

The model has the shape's sizes and random weights; the tokenizer is a real one of at most its vocabulary,
since forced runs are the tokenizer's. "sampled": tokens a second, after the first, of a segment in which
every token is drawn inside one long string, beside the same segment without a grammar, drawn in turns with
it. "call": milliseconds from engine.stream() over a short prompt to the parsed Hermes call of about 200
tokens, 7 of 10 of them forced: "known" with a grammar whose runs the device has met, "new" with one it has
never seen, compiled beforehand, "prepared" with one that `Engine.prepare` was given before; "waits": how
often the kernel of such a call had to wait for the host's answer. The peer is what as many tokens take when
each is sampled without a grammar.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import time
from collections.abc import Sequence
from typing import Any

import torch

from benchmarks.common import Figure, Record, append, interleave, make_record, show
from benchmarks.decode_cuda import random_on_device
from benchmarks.shapes import SHAPES
from kogagent.engine.backend import DecodePlan, TokenGrammar
from kogagent.engine.backends.cuda import CudaBackend
from kogagent.engine.engine import EngineCore
from kogagent.engine.grammar import compile_regex, compile_turn
from kogagent.engine.sampling import SamplingParams
from kogagent.local.engine import Engine
from kogagent.spec import HERMES, ModelSpec
from kogagent.tokenizer import Tokenizer

CALL: dict[str, Any] = {
    "type": "object",
    "properties": {
        "departure_airport": {"enum": ["OSL", "BGO", "TRD", "SVG"]},
        "arrival_airport": {"enum": ["CDG", "LHR", "FRA", "AMS"]},
        "departure_date": {"type": "string", "format": "date"},
        "number_of_passengers": {"type": "integer", "minimum": 1, "maximum": 9},
        "cabin_class": {"enum": ["economy", "premium economy", "business"]},
        "passenger": {
            "type": "object",
            "properties": {
                "first_name": {"type": "string", "pattern": "^[A-Z][a-z]{2,9}$"},
                "family_name": {"type": "string", "pattern": "^[A-Z][a-z]{2,12}$"},
                "frequent_flyer_programme": {"enum": ["none", "silver", "gold"]},
                "needs_special_assistance": {"type": "boolean"},
            },
            "required": ["first_name", "family_name", "frequent_flyer_programme", "needs_special_assistance"],
        },
        "street_address": {"type": "string", "minLength": 40, "maxLength": 60},
        "remarks": {"type": "string", "minLength": 90, "maxLength": 110},
        "send_confirmation_by_email": {"type": "boolean"},
        "preferred_seat_position": {"enum": ["window seat", "aisle seat", "no preference"]},
    },
}
CALL["required"] = list(CALL["properties"])
TOOL = "book_flight_with_confirmation"


class Loaded:
    """A shape's random weights on the card behind an engine with a real tokenizer."""

    def __init__(self, spec: ModelSpec, tokenizer: Tokenizer) -> None:
        made: list[CudaBackend] = []

        def make() -> CudaBackend:
            made.append(CudaBackend(spec, random_on_device(spec)))
            return made[0]

        self.core = EngineCore(make, kept_caches=0)
        self.backend, self.engine = made[0], Engine(self.core, tokenizer)
        self.vocabulary = tokenizer.vocabulary
        self._seeds = itertools.count()
        self.waits = 0
        kernel = self.backend.kernel()
        answer = kernel.answer

        def counted(*arguments: Any, **options: Any) -> None:
            self.waits += 1
            answer(*arguments, **options)

        kernel.answer = counted  # type: ignore[method-assign]

    def sampled(self, grammar: TokenGrammar | None, tokens: int) -> float:
        """Tokens a second of one segment of the backend, each of them drawn, from the first on."""
        kv = self.backend.open_kv(self.backend.spec.context)
        kv.advance(512)  # whatever the memory holds
        kv.store[:, :, :, :512].zero_()
        plan = DecodePlan(
            SamplingParams(temperature=1.0, seed=next(self._seeds)),
            frozenset(),
            tokens,
            matcher=None if grammar is None else grammar.start(),
            legal_ids=len(self.vocabulary),
        )
        torch.cuda.synchronize()
        segment = self.backend.decode(kv, [20], plan)
        count = with_first = 0
        start = 0.0
        while segment.reason is None:
            segment.wait(1.0)
            out = segment.drain_nowait()
            if out and not count:
                start, with_first = time.perf_counter(), len(out)
            count += len(out)
            if any(emitted.forced for emitted in out):
                raise RuntimeError("this grammar was meant to leave a choice everywhere")
        elapsed = time.perf_counter() - start
        if count != tokens:
            raise RuntimeError(f"the segment emitted {count} of {tokens} tokens")
        return (tokens - with_first) / elapsed

    def call(self, grammar: TokenGrammar, seed: int) -> tuple[float, int, int]:
        """Milliseconds to a parsed call, its tokens, and how many of them were sampled."""
        from kogagent.chat.parser import TurnParser
        from kogagent.types import CallReady

        async def run() -> tuple[float, int, int]:
            start = time.perf_counter()
            parser = TurnParser(HERMES, self.vocabulary)
            tokens = sampled = 0
            calls: list[Any] = []
            stream = self.engine.stream(
                "Book it.", grammar=grammar, sampling=SamplingParams(temperature=1.0, seed=seed)
            )
            async for token in stream:
                tokens += 1
                sampled += not token.forced
                calls += [event for event in parser.feed([token.id]) if isinstance(event, CallReady)]
                if calls:
                    break
            elapsed = time.perf_counter() - start
            await stream.aclose()
            if len(calls) != 1 or not calls[0].call.complete:
                raise RuntimeError(f"no complete call in {tokens} tokens")
            return elapsed * 1e3, tokens, sampled

        return asyncio.run(run())


def measure(spec: ModelSpec, tokenizer: Tokenizer, repeats: int, tokens: int) -> list[Record]:
    loaded = Loaded(spec, tokenizer)
    vocabulary = tokenizer.vocabulary
    free = compile_regex(r"[ -~\n]*", vocabulary, max_length=100_000)
    rates = interleave(
        {"on": lambda: loaded.sampled(free, tokens), "off": lambda: loaded.sampled(None, tokens)}, repeats
    )
    case = f"{spec.name}/fp16"
    note = f"{tokens} tokens drawn inside one string at position 512, {len(vocabulary)} ids in the tokenizer"
    records = [
        make_record(
            "grammar_cuda",
            f"{case}/sampled",
            "cuda",
            "tok_s",
            rates["on"],
            limit=rates["off"],
            device="cuda",
            note=note + "; the limit is the same without a grammar",
        )
    ]
    seeds = itertools.count(1)
    # A schema that no call has seen, for each repeat of the first two figures.
    first: dict[str, list[tuple[float, int]]] = {"new": [], "prepared": []}
    for repeat in range(repeats + 1):
        for name, figures in first.items():
            schema = {**CALL, "description": f"{name} {repeat}"}
            grammar = compile_turn({TOOL: schema}, vocabulary, HERMES, tool_choice=TOOL, max_calls=1)
            if name == "prepared":
                asyncio.run(loaded.engine.prepare(grammar))
            loaded.waits = 0
            figures.append((loaded.call(grammar, next(seeds))[0], loaded.waits))
    known, counts = [], []
    for repeat in range(repeats + 20):  # once every run that occurs is known
        milliseconds, count, sampled = loaded.call(grammar, next(seeds))
        if repeat >= 20:
            known.append(milliseconds)
            counts.append((count, sampled))
    per_token = 1e3 / rates["off"].value
    mean = sum(count for count, _ in counts) / len(counts)
    drawn = sum(sampled for _, sampled in counts) / len(counts)
    calls = {name: [one for one, _ in figures[1:]] for name, figures in first.items()}
    for name, measured in {"known": known, **calls}.items():
        records.append(
            make_record(
                "grammar_cuda",
                f"{case}/call/{name}",
                "cuda",
                "ms",
                Figure(tuple(measured)),
                peers={"every token sampled": mean * per_token},
                device="cuda",
                note=f"engine.stream to the parsed call: {mean:.0f} tokens, {drawn:.0f} of them sampled",
            )
        )
    for name, figures in first.items():
        waited = Figure(tuple(float(waits) for _, waits in figures[1:]))
        where = f"{case}/call/{name}"
        records.append(make_record("grammar_cuda", where, "cuda", "waits", waited, device="cuda"))
    loaded.engine.close()
    return records


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.grammar_cuda", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--tokenizer", required=True, help="a directory or a .gguf file")
    parser.add_argument("--shape", choices=sorted(SHAPES), default="laneformer-2b")
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--tokens", type=int, default=300)
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    options = parser.parse_args(arguments)
    tokenizer = Tokenizer.load(options.tokenizer)
    with torch.inference_mode():
        found = measure(SHAPES[options.shape], tokenizer, options.repeats, options.tokens)
    if not options.dry:
        append(found)
    show(found)


if __name__ == "__main__":
    main()
