"""What the hundredth turn costs beside the second, and how much of that is attention. Knows no other program.

turn/2 of 100/MODEL, turn/100 of 100/MODEL      with what the context has grown to
turn/2 of 100/MODEL, windowed; turn/100 …       the same shape and weights, each layer with a window

The windowed twin reads as much, keeps as much, finds as much; what it does not do is attend to all of it. So
what its last turns cost beyond its second ones is everything but attention, and what the model's passes take
beyond the twin's is attention past the window.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence

from benchmarks.agent_loops.loops import calls_loop, led
from benchmarks.agent_loops.measure import Timed, last, second, timed
from benchmarks.common import Figure, Record, interleave, make_record
from kogagent.local import Engine

_PLACES: dict[str, Callable[[Sequence[float]], float]] = {"2": second, "100": last}
_TOOLS = 8  # which fill the window before the second turn


def growth(
    runner: asyncio.Runner, engine: Engine, twin: Engine, model: str, repeats: int, turns: int = 100
) -> list[Record]:
    """Records of both engines in the same rounds: turn_ms, own_ms outside the device, pass_ms of the device
    for one pass, context in tokens; of the first engine attention_share too, of the turn's wall time."""
    one = calls_loop(turns, _TOOLS)
    loops = {name: led(of, one, model) for name, of in (("", engine), (", windowed", twin))}
    runs: dict[str, list[Timed]] = {name: [] for name in loops}

    def run(name: str) -> float:
        runs[name].append(runner.run(timed(loops[name].tasks())))
        return runs[name][-1].turns_per_second

    for loop in loops.values():
        assert loop.warm_up is not None
        runner.run(timed(loop.warm_up()))
    interleave({name: lambda name=name: run(name) for name in loops}, repeats, warm_up=0)  # type: ignore[misc]

    out: list[Record] = []
    for name, done in runs.items():
        for place, at in _PLACES.items():
            found = {
                "turn_ms": [at(each.turn_s) * 1e3 for each in done],
                "own_ms": [at(each.own_s) * 1e3 for each in done],
                "pass_ms": [at(each.pass_s) * 1e3 for each in done],
                "context": [float(at(each.read)) for each in done],
            }
            if not name:
                found["attention_share"] = [
                    _attention(each, bare, at) for each, bare in zip(done, runs[", windowed"], strict=True)
                ]
            case = f"turn/{place.replace('100', str(turns))} of {turns}/{model}{name}"
            out += [
                make_record("agent_loops", case, engine.backend_name, metric, Figure(tuple(values)))
                for metric, values in found.items()
            ]
    return out


def _attention(run: Timed, bare: Timed, at: Callable[[Sequence[float]], float]) -> float:
    """Of a turn's wall time, what its passes take longer than those of the windowed twin."""
    share = 1 - at(bare.pass_s) / at(run.pass_s)
    device = [turn - own for turn, own in zip(run.turn_s, run.own_s, strict=True)]
    return share * at(device) / at(run.turn_s)
