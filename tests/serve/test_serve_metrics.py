"""What /metrics tells: the format, the queue, the ends of requests, tokens to the last one."""

from __future__ import annotations

import asyncio
import contextlib
import re
import threading
from collections.abc import Sequence
from typing import Any

import httpx2
import numpy as np
import openai
import pytest
from serving import NAME, ScriptedBackend, Watched, in_step, listening, scripted_engine, to

from kogagent.errors import DeviceError
from kogagent.serve import app
from kogagent.serve.metrics import Histogram, Metrics
from kogagent.testing.tiny import write_tiny_model
from kogagent.testing.toy import comes
from kogagent.tokenizer import Tokenizer

ASK: Any = [{"role": "user", "content": "Hi"}]
AFTER: Any = [*ASK, {"role": "assistant", "content": "?"}, *ASK]
TEXT = "word " * 30
SAMPLE = re.compile(
    r'(kogagent_[a-z_]+)(\{[a-z]+="(?:[^"\\\n]|\\.)*"(?:,[a-z]+="(?:[^"\\\n]|\\.)*")*\})? (\S+)'
)


@pytest.fixture(scope="module")
def tokenizer(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return Tokenizer.load(write_tiny_model(tmp_path_factory.mktemp("tiny")))


async def numbers(url: str) -> dict[str, float]:
    """Every sample of the page, which must be in Prometheus' text format."""
    async with httpx2.AsyncClient(base_url=url, timeout=None) as http:
        told = await http.get("/metrics")
    assert told.status_code == 200
    assert told.headers["content-type"] == "text/plain; version=0.0.4; charset=utf-8"
    assert told.text.endswith("\n")
    found: dict[str, float] = {}
    kind, family = "", ""
    for line in told.text.splitlines():
        if line.startswith("# HELP "):
            family = line.split()[2]
            assert line.split(maxsplit=3)[3]
        elif line.startswith("# TYPE "):
            assert line.split()[2] == family
            kind = line.split()[3]
            assert kind in ("counter", "gauge", "histogram") and (kind == "counter") == family.endswith(
                "_total"
            )
        else:
            sample = SAMPLE.fullmatch(line)
            assert sample is not None, line
            name, labels, value = sample.groups()
            assert name == family or (
                kind == "histogram" and name.removeprefix(family) in ("_bucket", "_sum", "_count")
            )
            assert f"{name}{labels or ''}" not in found
            found[f"{name}{labels or ''}"] = float(value)
    return {name.removeprefix("kogagent_"): value for name, value in found.items()}


async def test_many_requests_at_once_are_counted_to_the_last_token(
    tokenizer: Tokenizer, rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    backend = ScriptedBackend(tokenizer, [TEXT, "Hello."])
    used: list[Any] = []

    async def one(client: Any, kind: int) -> None:
        fields: dict[str, Any] = {"model": NAME, "messages": AFTER if kind % 2 else ASK}
        if kind == 5:
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(**fields, top_p=0)
        elif kind == 4:
            with pytest.raises(openai.BadRequestError):
                await client.chat.completions.create(
                    **{**fields, "messages": [{**ASK[0], "content": "x" * 9000}]}
                )
        elif kind >= 2:
            stream = await client.chat.completions.create(
                **fields, stream=True, stream_options={"include_usage": True}
            )
            used.append([chunk.usage async for chunk in stream][-1])
        else:
            used.append((await client.chat.completions.create(**fields, logprobs=kind == 0)).usage)

    monkeypatch.setattr("kogagent.serve.metrics._CACHES_S", 3600.0)
    async with (
        scripted_engine(backend, tokenizer) as engine,
        listening(app(engine, max_running=3)) as url,
        to(url) as client,
    ):
        kinds = [0, 2, *(int(kind) for kind in rng.integers(0, 6, 22))]
        await asyncio.gather(*(one(client, kind) for kind in kinds))
        found = await numbers(url)
    refused = sum(kind >= 4 for kind in kinds)
    assert {name: value for name, value in found.items() if name.startswith("requests")} == {
        'requests_total{result="finished"}': len(used),
        'requests_total{result="refused"}': refused,
        'requests_total{result="failed"}': 0,
        'requests_total{result="left"}': 0,
        "requests_running": 0,
        "requests_waiting": 0,
    }
    assert found["prompt_tokens_total"] == sum(one.prompt_tokens for one in used)
    assert found["reused_tokens_total"] == sum(one.prompt_tokens_details.cached_tokens for one in used)
    written = [found[f'completion_tokens_total{{kind="{kind}"}}'] for kind in ("sampled", "forced")]
    assert sum(written) == sum(one.completion_tokens for one in used)
    streamed = sum(kind in (2, 3) for kind in kinds)
    for name, count in (
        ("request_duration_seconds", len(used)),
        ("time_to_first_token_seconds", streamed),
        ("time_per_output_token_seconds", streamed),
    ):
        buckets = [value for at, value in found.items() if at.startswith(f"{name}_bucket")]
        assert buckets == sorted(buckets) and buckets[-1] == found[f"{name}_count"] == count
        assert found[f"{name}_sum"] > 0
    assert found['cache_bytes{place="device"}'] > 0 == found['cache_bytes{place="host"}']
    assert found["engine_up"] == 1
    assert found[f'engine_info{{model="{NAME}",backend="toy",dtype="{engine.dtype}"}}'] == 1


async def test_the_queue_is_told_and_a_client_that_leaves_is_counted_as_such(
    tokenizer: Tokenizer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kogagent.serve.metrics._CACHES_S", 0.01)  # the device is held: it cannot tell
    started, gate = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    step = in_step(loop)

    def hold(rows: Sequence[int]) -> None:
        if len(backend.passes) >= 5:
            loop.call_soon_threadsafe(started.set)
            assert comes(gate.wait)
            step(rows)

    backend = ScriptedBackend(tokenizer, [TEXT, "Hello."], hold)
    async with scripted_engine(backend, tokenizer) as engine:
        watched = Watched(app(engine, max_running=1))
        async with listening(watched) as url, to(url) as client:
            asked = [
                asyncio.ensure_future(client.chat.completions.create(model=NAME, messages=ASK))
                for _ in range(3)
            ]
            await started.wait()
            while (found := await numbers(url))["requests_waiting"] < 2:  # the others are on their way
                pass
            assert found["requests_running"] == 1 and 'cache_bytes{place="device"}' not in found
            asked[0].cancel()
            await asyncio.wait(asked[:1])
            await watched.client_left.wait()
            gate.set()
            await asyncio.gather(*asked, return_exceptions=True)
            left, finished = (f'requests_total{{result="{result}"}}' for result in ("left", "finished"))
            while found[left] + found[finished] < 3:  # nobody tells a client that left
                found = await numbers(url)
    assert (found[left], found[finished]) == (1, 2)
    assert found["requests_running"] == found["requests_waiting"] == 0


async def test_an_engine_that_fails_is_down_and_the_page_stays(tokenizer: Tokenizer) -> None:
    def fail(rows: Sequence[int]) -> None:
        raise DeviceError("the kernel missed its deadline")

    engine = scripted_engine(ScriptedBackend(tokenizer, ["Hello."], fail), tokenizer)
    async with listening(app(engine, name='a "b"\\\nc')) as url:
        assert (await numbers(url))["engine_up"] == 1
        async with to(url) as client:
            with pytest.raises(openai.InternalServerError):
                await client.chat.completions.create(model='a "b"\\\nc', messages=ASK)
        found = await numbers(url)
        assert found["engine_up"] == 0 and found['requests_total{result="failed"}'] == 1
        assert not any(name.startswith("cache") for name in found)
        assert r'engine_info{model="a \"b\"\\\nc"' in ";".join(found)
        async with httpx2.AsyncClient(base_url=url) as http:
            assert (await http.post("/metrics")).status_code == 405


@pytest.mark.parametrize(
    ("error", "result"), [(None, "left"), (asyncio.CancelledError(), "left"), (KeyError("a bug"), "failed")]
)
def test_a_request_without_a_result_was_left_by_its_client_or_fell_to_a_bug(
    error: BaseException | None, result: str
) -> None:
    engine: Any = None
    metrics = Metrics(engine, NAME)
    with contextlib.suppress(asyncio.CancelledError, KeyError), metrics.request() as watch:
        watch.waits()
        if error is not None:
            raise error
    assert metrics.waiting == 0
    assert {name for name, count in metrics.ended.items() if count} == {result}


def test_a_histogram_counts_what_lies_at_or_below_each_bound(rng: np.random.Generator) -> None:
    bounds = tuple(sorted({float(one) for one in rng.integers(1, 50, 6)}))
    values = [float(one) for one in rng.integers(0, 60, 200)]
    told = Histogram(bounds)
    for value in values:
        told.add(value)
    *buckets, total, count = told.lines("x")
    for bound, line in zip([*bounds, float("inf")], buckets, strict=True):
        text = "+Inf" if bound == float("inf") else f"{bound:g}"
        assert line == f'x_bucket{{le="{text}"}} {sum(value <= bound for value in values)}'
    assert (total, count) == (f"x_sum {float(sum(values))!r}", "x_count 200")
