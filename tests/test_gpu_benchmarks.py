"""The GPU benchmarks' own logic on doubles: counting, records, peers that cannot run. Nothing is timed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch

from benchmarks import common, decode_chart, decode_cuda, lanes_chart, phases
from benchmarks.peer_process import PeerFailed, PeerProcess
from kogagent.engine.backends.cpu import CpuBackend
from kogagent.engine.weights import random_tensors
from kogagent.kernels.layout import plan
from kogagent.kernels.rank import PROFILE_SLOTS
from kogagent.kernels.segment import Reason, Segment, Token
from kogagent.spec import ModelSpec
from kogagent.testing.backends import TINY


class FakeKernel:
    """Ends every segment at its limit, one token a look."""

    def __init__(self) -> None:
        self.layout = plan(TINY, 8, 232448, one_stream=True)
        self.busy = False
        self._left = 0

    def launch(self, segment: Segment, kv: torch.Tensor) -> None:
        assert segment.position + segment.max_tokens <= kv.shape[3] + 1
        self.busy, self._left = True, segment.max_tokens

    def drain(self) -> list[Token]:
        count = min(1, self._left)
        self._left -= count
        self.busy = self._left > 0
        return [Token(1, 0.0, Reason.RUNNING)] * count

    def stream_only(self, passes: int) -> float:
        return 1e-3

    def profile(self) -> np.ndarray[Any, Any]:
        return np.arange(1, 8 * PROFILE_SLOTS + 1, dtype=np.int64).reshape(8, PROFILE_SLOTS)


class FakeBackend(CpuBackend):
    def __init__(self, spec: ModelSpec, tensors: Mapping[str, torch.Tensor]) -> None:
        super().__init__(spec, tensors)
        self._fake = FakeKernel()

    def kernel(self) -> FakeKernel:
        return self._fake


@pytest.fixture
def no_card(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(decode_cuda, "CudaBackend", FakeBackend)
    monkeypatch.setattr(decode_cuda, "random_on_device", lambda spec: random_tensors(spec, 1))
    shape = (TINY.n_layers, 2, TINY.n_kv_heads, TINY.context, TINY.head_dim)
    monkeypatch.setattr(decode_cuda, "random_cache", lambda spec: torch.zeros(shape))
    monkeypatch.setattr(common, "_card", lambda device: ("a card", "1"))


@pytest.mark.usefixtures("no_card")
def test_decode_records_stream_bare_kernel_gaps_and_who_could_not_run(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(*arguments: object) -> PeerProcess:
        raise PeerFailed("torch.compile of tiny: no card")

    monkeypatch.setattr(decode_cuda, "PeerProcess", fails)
    ready, missing = decode_cuda.ready_peers(["torch.compile"], ["tiny"], 8, 20, 1.0)
    assert ready == {"tiny": {}}
    first, gaps, second = decode_cuda.measure(TINY, [8, 12], 20, 5, ready["tiny"], missing["tiny"], gaps=60)
    assert (first.case, second.case, first.metric) == ("tiny/fp16/ctx8", "tiny/fp16/ctx12", "tok_s")
    assert first.limit == 1000.0 and first.peers.keys() == {"bare kernel"}
    assert "could not run: torch.compile of tiny: no card" in first.note and "could not" not in second.note
    assert gaps.metric == "gap_p99_over_median" and gaps.repeats == 5
    assert "no card" in capsys.readouterr().out


def test_a_peer_that_cannot_start_says_why() -> None:
    with pytest.raises(PeerFailed, match=r"no-such-peer of nothing: .*no-such-peer"):
        PeerProcess("no-such-peer", "nothing", 1, 1, 500.0)


@pytest.mark.usefixtures("no_card")
def test_phases_share_out_the_time_of_a_token(tmp_path: Path) -> None:
    kernel: Any = FakeKernel()
    times, tokens = phases.measure(kernel, lambda seed: 10)
    assert times.shape == (phases.REPEATS, 8, PROFILE_SLOTS) and tokens.shape == (phases.REPEATS,)
    whole = [slot for name, slot in phases.PHASES.items() if not name.startswith(" ")]
    np.testing.assert_allclose(times[:, :, whole].sum(2).mean(1), tokens)
    records = phases.records("tiny/fp16/ctx8", times, tokens)
    common.append(records, tmp_path)
    lines = [json.loads(line) for line in (tmp_path / "phases.jsonl").read_text().splitlines()]
    assert [line["case"] for line in lines][-1] == "tiny/fp16/ctx8/token"
    assert "tiny/fp16/ctx8/ring, inside the five above" in {line["case"] for line in lines}


def test_the_commit_of_a_copy_is_what_it_is_told(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(common, "ROOT", tmp_path)
    common.commit.cache_clear()
    monkeypatch.setenv("KOGAGENT_COMMIT", "abc123")
    assert common.commit() == "abc123"
    common.commit.cache_clear()


def test_number_text_is_its_ids(rng: np.random.Generator) -> None:
    ids = rng.integers(0, 90, 7).tolist()
    tokenizer = decode_cuda.NumberTokenizer(90)
    assert tokenizer.encode(" ".join(map(str, ids))) == ids
    assert SimpleNamespace(vocabulary=tokenizer.vocabulary).vocabulary.decode(ids).split() == [
        b"%d" % i for i in ids
    ]


def test_the_chart_shows_the_newest_record_of_each_case(tmp_path: Path) -> None:
    base = {"backend": "cuda", "metric": "tok_s", "card": "a card", "date": "2026-01-01T00:00:00Z"}
    lines: list[dict[str, Any]] = [
        {**base, "case": "a/fp16/ctx8", "value": 1.0, "limit": 9.0, "peers": {}},
        {**base, "case": "b/fp16/ctx8", "value": 3.0, "limit": None, "peers": {"theirs": 2.0}},
        {**base, "case": "a/fp16/ctx8", "value": 2.0, "limit": 9.0, "peers": {}},
        {**base, "case": "c", "backend": "native", "value": 2.0, "limit": 9.0, "peers": {}},
    ]
    (tmp_path / "decode.jsonl").write_text("\n".join(map(json.dumps, lines)))
    assert [(r["case"], r["value"]) for r in decode_chart.newest(tmp_path).values()] == [
        ("a/fp16/ctx8", 2.0),
        ("b/fp16/ctx8", 3.0),
    ]
    assert decode_chart.draw(tmp_path).stat().st_size > 1000


def test_the_chart_of_lanes_has_a_line_for_each_delay(tmp_path: Path) -> None:
    cases = [("x/delay 0/link 5 us", 3.0), ("x/delay 2/link 20 us", 4.0), ("x/delay 0/link 5 us", 5.0)]
    other = [("x/stagger/4 phases, 3 cycles", 1.0), ("x/delay 2/16 splits/ctx512", 2.0)]
    lines = [
        {"case": f"laneformer-2b/{case}", "metric": "tok_s", "value": value}
        for case, value in [*cases, *other]
    ]
    (tmp_path / "lanes.jsonl").write_text("\n".join(map(json.dumps, lines)))
    found = lanes_chart.curves(tmp_path)
    assert found == {"x": {0: {5: 5.0}, 2: {20: 4.0}}}
    assert lanes_chart.draw(found, tmp_path / "links.png").stat().st_size > 1000
