"""What a server has done and does now, in Prometheus' text format. Knows requests by their events; no HTTP.

One event loop counts and tells, and awaits nothing in between: the numbers are exact. Tokens are the engine's
own counters.
"""

from __future__ import annotations

import asyncio
from bisect import bisect_left
from collections.abc import Iterable, Mapping
from itertools import accumulate
from time import perf_counter
from types import TracebackType
from typing import Literal, TypeAlias

from kogagent.errors import EngineClosedError
from kogagent.local import Engine
from kogagent.serve.turn import Ended, Event

CONTENT_TYPE = "text/plain; version=0.0.4; charset=utf-8"
Result: TypeAlias = Literal["finished", "refused", "failed", "left"]

_FIRST_TOKEN_S = (0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_PER_TOKEN_S = (0.0005, 0.001, 0.002, 0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0)
_WHOLE_S = (0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_CACHES_S = 1.0  # what a device in the middle of something may keep a page of numbers waiting


class Histogram:
    """How many values lay at or below each bound."""

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    def lines(self, name: str) -> Iterable[str]:
        total = 0
        bounds = [*(f"{bound:g}" for bound in self._bounds), "+Inf"]
        for bound, total in zip(bounds, accumulate(self._counts), strict=True):
            yield f'{name}_bucket{{le="{bound}"}} {total}'
        yield f"{name}_sum {self._sum!r}"
        yield f"{name}_count {total}"


class Metrics:
    """The numbers of one application. Requests are those for completions."""

    def __init__(self, engine: Engine, name: str) -> None:
        self._engine, self._name = engine, name
        self.ended: dict[Result, int] = {"finished": 0, "refused": 0, "failed": 0, "left": 0}
        self.waiting = self.running = 0
        self.first_token, self.per_token = Histogram(_FIRST_TOKEN_S), Histogram(_PER_TOKEN_S)
        self.whole = Histogram(_WHOLE_S)

    def request(self) -> Watch:
        """A request that has just come."""
        return Watch(self)

    async def page(self) -> str:
        """All numbers as they are now. Those of the caches are left out where the engine cannot tell them:
        closed, or for a second in the middle of something."""
        cached = await self._caches()
        engine, used = self._engine, self._engine.usage
        about = {"model": self._name, "backend": engine.backend_name, "dtype": engine.dtype}
        requests = {_labels({"result": result}): count for result, count in self.ended.items()}
        written = {
            _labels({"kind": "sampled"}): used.sampled_tokens,
            _labels({"kind": "forced"}): used.forced_tokens,
        }
        parts = [
            _metric("requests_total", "counter", "Requests that have ended, by how.", requests),
            _metric("requests_running", "gauge", "Requests that generate.", {"": self.running}),
            _metric("requests_waiting", "gauge", "Requests in line.", {"": self.waiting}),
            _metric("prompt_tokens_total", "counter", "Tokens of prompts.", {"": used.prompt_tokens}),
            _metric(
                "reused_tokens_total",
                "counter",
                "Tokens of prompts that were in a cache.",
                {"": used.reused_tokens},
            ),
            _metric("completion_tokens_total", "counter", "Tokens written.", written),
            _histogram("request_duration_seconds", "From a request to the end of its answer.", self.whole),
            _histogram(
                "time_to_first_token_seconds",
                "From a request to the first of its answer, of those that are streamed.",
                self.first_token,
            ),
            _histogram(
                "time_per_output_token_seconds",
                "Mean of an answer's tokens after the first, of those that are streamed.",
                self.per_token,
            ),
            *cached,
            _metric("engine_up", "gauge", "1 while the engine takes requests.", {"": int(not engine.closed)}),
            _metric("engine_info", "gauge", "What is served.", {_labels(about): 1}),
        ]
        return "".join(f"{line}\n" for part in parts for line in part)

    async def _caches(self) -> list[list[str]]:
        try:
            async with asyncio.timeout(_CACHES_S):
                use = await self._engine.caches()
        except (EngineClosedError, TimeoutError):
            return []
        device, host = _labels({"place": "device"}), _labels({"place": "host"})
        held = {device: use.bytes, host: use.parked_bytes}
        most = {device: use.limit, host: use.parked_limit}
        return [
            _metric("cache_bytes", "gauge", "Memory of all conversations' caches.", held),
            _metric("cache_limit_bytes", "gauge", "What they may take.", most),
            _metric("caches_dropped_total", "counter", "Caches given up for room.", {"": use.dropped}),
        ]


class Watch:
    """One request, from its arrival to the end of the block: where it has no result by then, its client has
    left, or what the block raises has made it fail."""

    def __init__(self, metrics: Metrics) -> None:
        self._metrics = metrics
        self._came = perf_counter()
        self._first = 0.0
        self._place: Literal["waiting", "running", "over", ""] = ""

    def waits(self) -> None:
        self._move("waiting")

    def runs(self) -> None:
        self._move("running")

    def saw(self, event: Event) -> None:
        """An event of its answer, as it is streamed to the client. One that is not comes in large pieces,
        which do not tell when a token was there."""
        now = perf_counter()
        if isinstance(event, Ended):
            after = event.usage.completion_tokens - 1
            if self._first and after > 0:
                self._metrics.per_token.add((now - self._first) / after)
        elif not self._first:
            self._first = now
            self._metrics.first_token.add(now - self._came)

    def end(self, result: Result) -> None:
        """What became of it. Said before its client can know, who may ask for the numbers next."""
        if self._place != "over":
            self._move("over")
            self._metrics.ended[result] += 1
            if result == "finished":
                self._metrics.whole.add(perf_counter() - self._came)

    def _move(self, place: Literal["waiting", "running", "over"]) -> None:
        metrics = self._metrics
        metrics.waiting += (place == "waiting") - (self._place == "waiting")
        metrics.running += (place == "running") - (self._place == "running")
        self._place = place

    def __enter__(self) -> Watch:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.end("left" if error is None or isinstance(error, asyncio.CancelledError) else "failed")


def _labels(values: Mapping[str, str]) -> str:
    said = (
        name + '="' + value.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n") + '"'
        for name, value in values.items()
    )
    return "{" + ",".join(said) + "}"


def _metric(name: str, kind: str, about: str, values: Mapping[str, int]) -> list[str]:
    """The lines of a metric, whose values go by their labels."""
    samples = (f"kogagent_{name}{labels} {value}" for labels, value in values.items())
    return [f"# HELP kogagent_{name} {about}", f"# TYPE kogagent_{name} {kind}", *samples]


def _histogram(name: str, about: str, values: Histogram) -> list[str]:
    return [*_metric(name, "histogram", about, {}), *values.lines(f"kogagent_{name}")]
