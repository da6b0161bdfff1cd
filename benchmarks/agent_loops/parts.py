"""The parts of a run, one after the other: each a name, a case its records have, and what makes them.

What a model's context does not hold is played by another that holds it; the records say so.
"""

from __future__ import annotations

import argparse
import asyncio
import math
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from benchmarks.agent_loops.growth import growth
from benchmarks.agent_loops.host import DEVICES, host, name_of
from benchmarks.agent_loops.loops import (
    SWITCHES,
    Led,
    Loop,
    calls_loop,
    demo_loop,
    led,
    led_loops,
    scripted_loops,
)
from benchmarks.agent_loops.measure import Timed, measure, records, timed
from benchmarks.agent_loops.models import LONG, WINDOWED, label, open_engine
from benchmarks.agent_loops.peers import PROBED, Peers, Played, Wanted
from benchmarks.agent_loops.prefixes import PREFIX, Prefixes, resident
from benchmarks.agent_loops.tape import Tape
from benchmarks.common import Record, interleave
from benchmarks.llama_peer import find_python
from kogagent.demo import DEFAULT_MODEL
from kogagent.local import Engine

REPEATS = 5
COMPARED = calls_loop(20, 1)
"""What peers play too."""
PARTS = ("scripted", "host", "peers", "model", "prefixes", "growth", "demo")


@dataclass(frozen=True, slots=True)
class Part:
    """case, backend: of a record that is there once the part is done. loop: what was to be played, for
    another model to play it where this one's context does not hold it."""

    name: str
    case: str
    backend: str
    records: Callable[[], list[Record]]
    peers: bool = False  # whether that record has peers
    loop: Led | None = None

    def done(self, record: Mapping[str, Any]) -> bool:
        """Whether a line of the results shows that this part was done."""
        same = (record["case"], record["backend"]) == (self.case, self.backend)
        return same and (not self.peers or bool(record["peers"]))


def scripted_parts(runner: asyncio.Runner, options: argparse.Namespace) -> Iterator[Part]:
    for loop in scripted_loops(full=options.full):
        yield Part(loop.name, loop.name, loop.backend, partial(_measured, runner, loop, options.repeats))


def host_parts(runner: asyncio.Runner, options: argparse.Namespace) -> Iterator[Part]:
    for device, make in DEVICES.items():
        name = name_of(COMPARED.name, device)
        made = partial(host, runner, COMPARED, options.repeats, device, make)
        yield Part(name, name, "clocked" if device else "instant", made)


def model_parts(
    runner: asyncio.Runner, engine: Engine, model: str, options: argparse.Namespace, left_out: list[str]
) -> Iterator[Part]:
    """What is measured on one model, the most wanted first."""
    name, repeats = label(model), options.repeats
    compared = model in options.compared and "peers" in options.parts
    if compared:
        yield peers_part(runner, engine, model, options, left_out, switches=True)
    if "model" in options.parts:
        for one in led_loops(full=options.full):
            if not (one.name == COMPARED.name and compared):  # measured among its peers
                yield led_part(runner, engine, one, model, repeats)
    if "prefixes" in options.parts:
        length = min(PREFIX, engine.spec.context - 64)
        yield Part(
            f"forks/{name}",
            f"fork/{length} tokens/{name}",
            engine.backend_name,
            lambda: Prefixes(runner, engine, name).forks(repeats),
        )
        yield Part(
            f"resident/{name}",
            f"resident/3 of 6 conversations/{name}",
            engine.backend_name,
            lambda: resident(runner, engine, model, name, options.device, repeats),
        )


def led_part(
    runner: asyncio.Runner, engine: Engine, one: Led, model: str, repeats: int, note: str = ""
) -> Part:
    loop = led(engine, one, label(model))
    return Part(loop.name, loop.name, loop.backend, partial(_measured, runner, loop, repeats, note), loop=one)


def long_parts(
    runner: asyncio.Runner, engine: Engine, model: str, options: argparse.Namespace, unfit: Mapping[str, Led]
) -> Iterator[Part]:
    """The loops that none of the run's models hold, by their names, and what a hundredth turn costs."""
    models = ", ".join(map(label, options.model))
    for one in unfit.values():
        yield led_part(runner, engine, one, model, options.repeats, f"more than {models} holds")
    if "growth" in options.parts:
        name = label(model)

        def records_() -> list[Record]:
            with open_engine(WINDOWED, options.device) as twin:
                return growth(runner, engine, twin, name, options.repeats)

        if model == LONG:
            yield Part(f"growth/{name}", f"turn/100 of 100/{name}", engine.backend_name, records_)


def demo_part(runner: asyncio.Runner, engine: Engine) -> Part:
    loop = demo_loop(engine, DEFAULT_MODEL)
    return Part(loop.name, loop.name, loop.backend, partial(_measured, runner, loop, REPEATS))


def peers_part(
    runner: asyncio.Runner,
    engine: Engine,
    model: str,
    options: argparse.Namespace,
    left_out: list[str],
    *,
    switches: bool,
) -> Part:
    name = label(model)
    wanted = Wanted(
        seconds=options.peer_seconds,
        compiled=options.full or engine.backend_name == "cuda",
        servers=options.server,
        llama_python=find_python(),
        smolagents_python=find_python("smolagents", "openai"),
    )

    def compared() -> list[Record]:
        with Peers(engine, model, wanted, device=options.device) as peers:
            found = beside(runner, engine, COMPARED, name, peers, options.repeats, switches=switches)
            left_out.extend(f"{name}: {reason}" for reason in peers.left_out)
        return found

    return Part(f"peers/{name}", f"{COMPARED.name}/{name}", engine.backend_name, compared, peers=True)


def beside(
    runner: asyncio.Runner,
    engine: Engine,
    one: Led,
    model: str,
    peers: Peers,
    repeats: int,
    *,
    switches: bool = True,
) -> list[Record]:
    """A loop of calls, its switches and its peers in the same rounds. A switch that makes it slow plays the
    first turns, as a slow peer does."""
    tape = Tape(engine)
    loops = {one.name: Loop(f"{one.name}/{model}", engine.backend_name, lambda: one.task(tape))}
    for switch, options in SWITCHES.items() if switches else ():
        warm = led(engine, one, model, switch, **options).warm_up
        assert warm is not None
        turns = max(PROBED, int(runner.run(timed(warm())).turns_per_second * 2 * peers.seconds))
        loops[switch] = led(engine, replace(one, steps=one.steps[:turns]), model, switch, **options)
    runs: dict[str, list[Timed]] = {name: [] for name in loops}
    newest: list[Played] = []

    def run(name: str, loop: Loop) -> Callable[[], float]:
        def once() -> float:
            task = loop.tasks()
            done = runner.run(timed(task))
            runs[name].append(done)
            if name == one.name:
                newest[:] = [Played(task.prompt, one.tools(""), list(tape.steps), done.calls)]
            return done.turns_per_second

        return once

    ours = {name: run(name, loop) for name, loop in loops.items()}
    ours[one.name]()  # warms up, and is what peers play first; they begin with a few turns, as switches did
    peers.check(runner, newest[0].steps[0].prompt)
    every = ours | peers.runs(runner, lambda: newest[0])
    figures = interleave({who: partial(_told, who, run) for who, run in every.items()}, repeats, warm_up=0)
    out: list[Record] = []
    for name, loop in loops.items():
        others = {}
        if name == one.name:
            others = {p: figures[p] for p in figures if p not in loops and not math.isnan(figures[p].value)}
        absent = [f"left out: {reason}" for reason in peers.left_out]
        note = "; ".join([*peers.notes, *absent]) if others else ""
        out += records(loop, runs[name][-repeats:], others, note)
    return out


def _told(name: str, run: Callable[[], float]) -> float:
    """A run's figure, shown at once: what ends the rounds early leaves those that were."""
    value = run()
    print(f"  {name}: {value:.3g} turns/s", file=sys.stderr, flush=True)
    return value


def _measured(runner: asyncio.Runner, loop: Loop, repeats: int, note: str = "") -> list[Record]:
    found = runner.run(measure(loop, repeats))
    if not note:
        return found
    return [replace(one, note=f"{one.note}; {note}") if one.metric == "turns_s" else one for one in found]
