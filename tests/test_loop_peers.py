"""The loop's benchmark beside other SDKs: they play it all; one that cannot is left out by name."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from benchmarks import loop_overhead
from benchmarks.loop_overhead import Peer, measure, start_peers
from benchmarks.loop_peers.script import PEERS, Script, names

HERE = ("openai-agents", "pydantic-ai")  # those that the tests' own environment has


@pytest.fixture(scope="module")
def peers() -> Iterator[list[Peer]]:
    ready, failed = start_peers(Path(sys.executable), HERE)
    assert not failed
    yield ready
    for peer in ready:
        peer.child.close()


def test_a_script_gives_every_turn_arguments_of_its_own_and_ends(rng: np.random.Generator) -> None:
    turns = int(rng.integers(2, 9))
    script, other = Script(turns, "a", str), Script(turns, "b", str)
    said = [script.next_turn() for _ in range(turns)]
    assert said[-1] == "None" and script.played == turns
    assert len({*said[:-1], *(other.next_turn() for _ in said[:-1])}) == 2 * (turns - 1)


def test_other_sdks_play_the_script_beside_ours_in_one_record(
    peers: list[Peer], monkeypatch: pytest.MonkeyPatch, rng: np.random.Generator
) -> None:
    turns = int(rng.integers(3, 7))
    monkeypatch.setattr(loop_overhead, "TOOLS", (int(rng.integers(1, 5)),))
    monkeypatch.setattr(loop_overhead, "_SLOW", turns)
    own, *variants, beside = measure(5, peers, [turns], full=False)
    assert [one.case.split("/")[0] for one in variants] == ["observed", "stored"]
    assert all(one.peers == {"nothing of it": own.value} and one.value > 0 for one in variants)
    assert own.case == f"scripted/turns{turns}/tools{loop_overhead.TOOLS[0]}"
    assert beside.case == own.case.replace("scripted", "peers")
    assert set(beside.peers) == {*HERE, "plain asyncio + json"}
    assert all(value > 0 for value in beside.peers.values())
    assert "each peer run once" in beside.note and "openai-agents 0." in beside.note
    assert own.metric == beside.metric == "us_per_turn" and beside.value == own.peers["agent.run"]


def test_an_sdk_that_is_not_installed_is_left_out_with_the_reason(tmp_path: Path) -> None:
    ready, failed = start_peers(tmp_path / "no-such-python", ["smolagents"])
    assert not ready and len(failed) == 1 and "no-such-python" in failed[0]
    assert set(PEERS) >= set(HERE) and names(3) == ["look_0", "look_1", "look"]
