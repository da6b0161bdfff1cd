"""What benchmarks share: medians, interleaving, the form of a record. Nothing here is timed."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

from benchmarks.agent_loops.clocked import ClockedBackend
from benchmarks.common import Figure, append, interleave, make_record, show
from benchmarks.decode import Case, decode_run, find_model
from kogagent import Engine, UserMessage
from kogagent.chat.guard import Guard
from kogagent.chat.inputs import written_calls
from kogagent.engine.backends.cpu import CpuBackend
from kogagent.engine.engine import EngineCore
from kogagent.engine.weights import Checkpoint, random_tensors, read_spec
from kogagent.errors import InputError
from kogagent.loop.protocols import TurnRequest
from kogagent.spec import ModelSpec
from kogagent.testing import call
from kogagent.testing.conformance import TOOLS
from kogagent.testing.tiny import write_tiny_model
from kogagent.tokenizer import Tokenizer

FIELDS = [
    "bench", "case", "backend", "metric", "value", "limit", "share", "peers", "repeats", "min", "max",
    "card", "driver", "torch", "commit", "date", "note",
]  # fmt: skip


def test_runs_take_turns_and_warm_up_does_not_count() -> None:
    order: list[str] = []

    def run(name: str, values: list[float]) -> Callable[[], float]:
        def once() -> float:
            order.append(name)
            return values.pop(0)

        return once

    figures = interleave({"a": run("a", [99, 5, 1, 4, 2, 3]), "b": run("b", [0, 7, 7, 7, 7, 8])})
    assert order == ["a", "b"] * 6
    assert figures["a"].samples == (5, 1, 4, 2, 3)
    assert (figures["a"].value, figures["a"].min, figures["a"].max) == (3, 1, 5)
    assert figures["b"].value == 7


def test_fewer_than_five_repeats_are_refused() -> None:
    with pytest.raises(ValueError, match="repeats=4"):
        interleave({"a": lambda: 1.0}, repeats=4)


def test_a_record_is_one_json_line_with_every_field(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    figure = Figure((10.0, 30.0, 20.0, 1.0 / 3, 40.0))
    record = make_record(
        "decode", "nano/fp16", "cpu", "tok_s", figure, limit=Figure((80.0,)), peers={"theirs": 10.0}, note="n"
    )
    bare = make_record("overhead", "20 turns", "-", "us_per_turn", figure)
    append([record, bare], tmp_path)
    append([record], tmp_path)
    lines = (tmp_path / "decode.jsonl").read_text().splitlines()
    assert len(lines) == 2 and lines[0] == lines[1]
    written = json.loads(lines[0])
    assert list(written) == FIELDS
    assert (written["value"], written["limit"], written["share"], written["repeats"]) == (20.0, 80.0, 0.25, 5)
    assert written["peers"] == {"theirs": 10.0} and written["min"] == 0.333333
    assert written["card"] and written["torch"] and written["date"].endswith("Z")
    plain = json.loads((tmp_path / "overhead.jsonl").read_text())
    assert (plain["limit"], plain["share"], plain["peers"]) == (None, None, {})
    show([record, bare])
    printed = capsys.readouterr().out
    assert "theirs 10 (2.00x)" in printed and "25%" in printed and "20 turns" in printed


def test_a_decode_run_takes_every_token_on_a_fresh_prompt(rng: np.random.Generator) -> None:
    spec = ModelSpec(
        vocab_size=40, dim=16, n_layers=2, n_heads=2, n_kv_heads=2, head_dim=8, ffn_dim=16, context=32
    )
    checkpoint = Checkpoint(spec, random_tensors(spec, int(rng.integers(2**31))))
    case = Case("tiny", Path(), checkpoint, context=8, tokens=5, repeats=5)
    assert case.prompt(rng) != case.prompt(rng)
    assert decode_run(CpuBackend(spec, checkpoint.tensors), case, rng)() > 0


def test_a_model_that_is_nowhere_is_refused(tmp_path: Path) -> None:
    assert find_model(str(tmp_path)) == tmp_path
    assert find_model("smollm2-135m").suffix == ".gguf"
    with pytest.raises(InputError, match="nano-nano"):
        find_model("nano-nano")


@pytest.mark.parametrize("choice", ["auto", "weather"])
async def test_a_card_that_is_a_clock_says_its_script_behind_a_prompt_of_any_length(
    tmp_path: Path, rng: np.random.Generator, choice: str
) -> None:
    path = write_tiny_model(tmp_path)
    tokenizer, scripts = Tokenizer.load(path), deque[Sequence[int]]()
    core = EngineCore(lambda: ClockedBackend(read_spec(path), scripts, pass_s=0.0, prefill_s=0.0))
    with Engine(core, tokenizer) as engine:
        grammar = await engine.as_model().grammar(TurnRequest((UserMessage("x"),), TOOLS, choice))
        assert grammar is not None
        for length in (1, 7, 8, 9, int(rng.integers(10, 60))):
            city = "".join(rng.choice(list("abcdefgh"), 8))
            said = written_calls(
                [call("weather", city=city, unit="c")], engine.chat.format, Guard(tokenizer.control_names)
            )
            script = (*tokenizer.encode_markup(said), tokenizer.end_ids[0])
            scripts.append(script)
            session = core.session()
            session.append(rng.integers(4, 100, length).tolist())
            stream = session.stream(
                stop_ids=tokenizer.end_ids, matcher=grammar.start(), legal_ids=len(tokenizer.vocabulary)
            )
            ids = [emitted.id async for batch in stream for emitted in batch]
            assert (tuple(ids), stream.reason) == (script, "stop")
            await session.aclose()
