"""How often a call of tools never seen would keep a GPU waiting for the host, and what looking ahead costs.

    python -m benchmarks.forced_ahead [--requests N] [--dry-run]

The calls are BFCL's right answers in Hermes format over SmolLM2's vocabulary, each with a new grammar. A wait
is a sampled id behind which something is forced that the host has not found when its pass begins. Between two
sampled ids the host looks at so many classes of configurations; "first" of them before the first id, as a
pre-fill leaves time for. ms: processor time of one call's looking, none of which the device waits for.
"""

from __future__ import annotations

import argparse
import random
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchmarks.common import Figure, Record, append, make_record, show
from benchmarks.grammar import Request, call_ids, fresh_compile, load, smollm
from kogagent.engine.backends.device_grammar import FIRST_RUN, DeviceGrammar
from kogagent.engine.grammar import Grammar
from kogagent.errors import ModelError, SchemaError
from kogagent.kernels.params import RUN

SETS = ("simple_python", "multiple", "parallel")
PACES = {
    "none": (0, 0),
    "4-a-pass": (0, 4),
    "8-a-pass": (0, 8),
    "20-first,8-a-pass": (20, 8),
    "400-first": (400, 0),
}


@dataclass
class Looked:
    """What one call came to."""

    waits: int = 0
    seconds: float = 0.0
    classes: int = 0


def follow(grammar: Grammar, ids: Sequence[int], first: int, each: int) -> Looked:
    """One call beside a host that keeps this pace. Raises ModelError where the ids break the grammar."""
    device, matcher, out = DeviceGrammar(grammar), grammar.start(), Looked()

    def look(count: int) -> None:
        began = time.process_time()
        while count and device.look_ahead():
            count -= 1
            out.classes += 1
        out.seconds += time.process_time() - began

    at = 0

    def take(run: Sequence[int]) -> None:
        nonlocal at
        for token in run:
            if at == len(ids) or ids[at] != token:
                raise ModelError("the answer is not the grammar's")
            matcher.advance(token)
            at += 1

    take(matcher.forced())
    device.turn_to(matcher)
    look(first)
    while at < len(ids):
        known = device.known()  # when the pass of this id begins
        matcher.advance(ids[at])
        at += 1
        if matcher.finished:
            break
        state, frame, _ = matcher.place
        if len(list(grammar.automaton.legal(state, frame))) == 1:
            verdict = known.get(device.key(state, grammar.walker.normal(frame)))
            if verdict is None:
                out.waits += 1
                device.learn(matcher)
                while not matcher.finished and (run := matcher.forced()):
                    take(run)
            elif verdict >= FIRST_RUN:
                run_at = device.learned.view("runs", RUN, verdict - FIRST_RUN + 1)[-1]
                end = int(run_at["first"] + run_at["count"])
                take(device.learned.view("run_ids", np.int32, end)[int(run_at["first"]) :].tolist())
        if each and not matcher.finished:
            device.turn_to(matcher)
            look(each)
    return out


def measure(requests: Sequence[Request]) -> list[Record]:
    vocabulary = smollm()
    looked: dict[str, list[Looked]] = {name: [] for name in PACES}
    for request in requests:
        for name, (first, each) in PACES.items():
            try:
                grammar, *_ = fresh_compile(request.tools, vocabulary)
                looked[name].append(follow(grammar, call_ids(request, vocabulary), first, each))
            except (SchemaError, ModelError):
                break  # tools or answers that break their own rules
    records = []
    for name, calls in looked.items():
        waits = [call.waits for call in calls]
        note = (
            f"{len(calls)} BFCL calls; {sum(n < 2 for n in waits) / len(waits):.0%} wait at most once, "
            f"the worst {max(waits)} times; {np.mean([call.classes for call in calls]):.0f} classes a call"
        )
        values = {
            "waits": float(np.mean(waits)),
            "ms": float(np.mean([call.seconds for call in calls])) * 1e3,
        }
        for metric, value in values.items():
            records.append(make_record("forced_ahead", name, "host", metric, Figure((value,)), note=note))
    return records


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        prog="python -m benchmarks.forced_ahead", description=(__doc__ or "").split("\n")[0]
    )
    parser.add_argument("--requests", type=int, default=120, help="drawn from the sets with a fixed seed")
    parser.add_argument("--dry-run", action="store_true", help="print only")
    options = parser.parse_args(arguments)
    everything = [request for name in SETS for request in load(name)]
    requests = random.Random(1).sample(everything, min(options.requests, len(everything)))
    found = measure(requests)
    show(found)
    if not options.dry_run:
        append(found)


if __name__ == "__main__":
    main()
