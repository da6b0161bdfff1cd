"""Prompts of agents on disk: the next process starts where the question begins, and says the same."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kogagent import SystemMessage, ToolSpec, UserMessage
from kogagent.disk_cache import DiskCache
from kogagent.local import Engine
from kogagent.loop.protocols import TurnRequest
from kogagent.testing.tiny import write_tiny_model
from kogagent.types import AssistantMessage, Message, TurnEnd

TOOLS = (ToolSpec("ping", "Ask for a sign of life", {"type": "object", "properties": {}}),)
BEFORE: tuple[Message, ...] = (
    SystemMessage("Be brief, and answer as somebody would who has seen it all. " * 3),
    UserMessage("Is anybody there?"),
    AssistantMessage("There is."),
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture
def disk(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "kept", limit=1 << 30)


async def _turn(
    folder: Path, disk: DiskCache | bool, question: str, device: str = "torch", *, keep: bool = True
) -> TurnEnd:
    """The end of a first turn of a process."""
    async with Engine.load(folder, device=device, disk_cache=disk, keep_prompts=keep) as engine:
        request = TurnRequest((*BEFORE, UserMessage(question)), TOOLS, max_tokens=24, plan_tokens=6)
        events = [event async for event in engine.model().stream(request)]
        assert engine.usage.restored_tokens == events[-1].usage.restored_tokens  # type: ignore[union-attr]
    assert isinstance(events[-1], TurnEnd)
    return events[-1]


@pytest.mark.parametrize("device", ["cpu", "torch"])
async def test_a_later_process_computes_the_question_alone(
    folder: Path, disk: DiskCache, device: str, rng: np.random.Generator
) -> None:
    question = "".join(map(chr, rng.integers(97, 123, 40)))
    without = await _turn(folder, disk, question, device, keep=False)
    assert disk.entries("prompt") == []  # it is asked for
    first = await _turn(folder, disk, question, device)
    later = await _turn(folder, disk, question, device)
    assert without.ids == first.ids == later.ids
    assert first.usage.restored_tokens == 0
    assert later.usage.prompt_tokens == first.usage.prompt_tokens
    assert later.usage.restored_tokens == later.usage.reused_tokens > 250
    assert len(question) <= later.usage.prefilled_tokens < len(question) + 40
    (kept,) = disk.find_all("prompt", "")
    said = bytes(id for id in kept.part("ids").tolist() if id < 256)
    assert said.endswith(b"There is.\nuser\n") and question.encode() not in said
    other = await _turn(folder, disk, "And now?", device)
    assert other.usage.restored_tokens == later.usage.restored_tokens
    assert other.ids == (await _turn(folder, disk, "And now?", device, keep=False)).ids
    assert len(disk.entries("prompt")) == 1


async def test_a_checkpoint_that_was_written_to_has_other_prompts(
    folder: Path, disk: DiskCache, tmp_path: Path
) -> None:
    await _turn(folder, disk, "Who?")
    again = write_tiny_model(tmp_path / "again", seed=1)
    assert (await _turn(again, disk, "Who?")).usage.restored_tokens == 0
    assert (await _turn(folder, disk, "Who?")).usage.restored_tokens > 250


async def test_a_cache_that_is_off_keeps_nothing(folder: Path, tmp_path: Path) -> None:
    off = DiskCache(tmp_path / "kept", limit=0)
    for disk in (off, False, True):  # the suite's own environment says 0 bytes
        assert (await _turn(folder, disk, "Who?", "cpu")).usage.restored_tokens == 0
    assert not (tmp_path / "kept").exists()
