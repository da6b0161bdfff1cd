"""What the model is trained on: valid calls, disjoint splits, the template's very words, packed rows."""

from __future__ import annotations

import gzip
import json
import random
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import jsonschema
import numpy as np
import pytest

from training import pools
from training.data import DataConfig, Ids, Packer, shards
from training.desk.facts import HERE, unplaced
from training.desk.tasks import Desk
from training.dialogues import Writer
from training.engine_types import engine_messages, tool_specs
from training.naming import Split, checksum, held_out
from training.pools import Pools
from training.render import BRANCH, END_OF_TEXT, ID_MASK, IGNORED, SPECIAL, TRAINED, Renderer, text_parts
from training.tokenizer import config
from training.turns import Conversation, Message

SPLITS: tuple[Split, ...] = ("train", "test")


def _conversations(folder: Path, split: Split, count: int) -> list[Conversation]:
    seed = random.randrange(10**6)
    writer, rng = Writer(Pools(folder / "pools.json.gz"), split), random.Random(seed)
    return [writer.conversation(rng) for _ in range(count)]


@pytest.mark.parametrize("split", SPLITS)
def test_every_trained_call_fits_its_tools_schema(data_folder: Path, split: Split) -> None:
    calls = 0
    for c in _conversations(data_folder, split, 250):
        schemas = {t["name"]: t["parameters"] for t in c.tools}
        assert len(schemas) == len(c.tools)
        for name, arguments in (call for m in c.messages if m.trained for call in m.calls):
            jsonschema.validate(arguments, schemas[name])
            order = list(schemas[name]["properties"])
            assert [order.index(k) for k in arguments] == sorted(order.index(k) for k in arguments)
            calls += 1
    assert calls > 100


def test_names_of_tools_and_parameters_never_stand_in_both_splits(data_folder: Path) -> None:
    for split in SPLITS:
        for c in _conversations(data_folder, split, 250):
            for tool in c.tools:
                names = [tool["name"], *tool["parameters"]["properties"]]
                assert {held_out(n) for n in names} == {split == "test"}, names


def test_desk_answers_quote_what_their_own_calls_return(data_folder: Path) -> None:
    writer, rng = Writer(Pools(data_folder / "pools.json.gz"), "train"), random.Random(4)
    checked = 0
    for _ in range(150):
        c = writer.desk(rng)
        assert c.execute is not None
        pending: list[str] = []
        for m in c.messages:
            if m.role == "assistant":
                pending = [c.execute(call) for call in m.calls]
            elif m.role == "tool":
                # a call that failed twice brings a word from the loop beside its result
                assert m.text.startswith(pending.pop(0))
                checked += 1
        assert all(value in c.messages[-1].text for value in c.expected), (c.expected, c.messages[-1].text)
    assert checked > 150


@pytest.mark.parametrize("split", SPLITS)
def test_a_world_of_one_place_is_asked_about_without_it(data_folder: Path, split: Split) -> None:
    writer, rng = Writer(Pools(data_folder / "pools.json.gz"), split), random.Random(random.randrange(10**6))
    ours = 0
    for _ in range(150):
        drawn = Desk.drawn(rng, writer.smith)
        here = [f for f in drawn.world.facts if f.entity == HERE]
        ours += bool(here)
        for fact in here:
            said = unplaced(f"{fact.question} {fact.answer(fact.value)}")
            assert HERE not in said and fact.text in said, said
            assert fact.sentence in "\n".join(drawn.world.files[fact.file])
        assert all(HERE not in m.text for m in drawn.conversation(rng).messages)
    assert 20 < ours < 110


def test_a_request_with_no_fitting_tool_gets_no_call(data_folder: Path) -> None:
    writer, rng = Writer(Pools(data_folder / "pools.json.gz"), "train"), random.Random(6)
    for _ in range(50):
        c = writer.decline(rng, writer.toolset(rng))
        assert c.tools and not any(m.calls for m in c.messages)


def test_rendering_equals_the_chat_template_in_the_engine(data_folder: Path, tmp_path: Path) -> None:
    from kogagent.chat import Chat
    from kogagent.tokenizer import Tokenizer

    renderer = _renderer(data_folder)
    template = Path("training/template.jinja").read_text()
    (tmp_path / "tokenizer.json").write_bytes((data_folder / "tokenizer.json").read_bytes())
    (tmp_path / "tokenizer_config.json").write_text(json.dumps(config(template, 512)))
    (tmp_path / "config.json").write_text("{}")
    chat = Chat(Tokenizer.load(tmp_path))
    assert chat.format.name == "hermes"
    for c in _conversations(data_folder, "train", 60):
        ids = renderer.ids(c.tools, c.messages, prompt=True)
        assert ids == chat.render(engine_messages(c.messages), tool_specs(c.tools))


def test_each_branch_of_a_bundle_is_stored_as_the_conversation_alone_would_be(data_folder: Path) -> None:
    renderer = _renderer(data_folder)
    writer, rng = (
        Writer(Pools(data_folder / "pools.json.gz"), "train"),
        random.Random(random.randrange(10**6)),
    )
    branches = 0
    for _ in range(12):
        c = writer.bundle(rng)
        stored = renderer.training(c)
        if not renderer.ids(c.tools, c.messages):  # with nothing shared, each is a document of its own
            documents = [[*renderer.ids([], branch), END_OF_TEXT] for branch in c.branches]
            assert (stored & ID_MASK).tolist() == [i for ids in documents for i in ids]
            continue
        at = [*np.flatnonzero(stored & BRANCH), len(stored) - 1]
        start = (stored[: at[0]] & ID_MASK).tolist()
        for branch, (begin, end) in zip(c.branches, pairwise(at), strict=True):
            alone = renderer.ids(c.tools, [*c.messages, *branch])
            assert start + (stored[begin:end] & ID_MASK).tolist() == alone
            assert stored[begin] & IGNORED and (stored[begin:end] & TRAINED).any()
            branches += 1
    assert branches > 12


def test_tags_in_plain_text_stay_text(data_folder: Path) -> None:
    renderer = _renderer(data_folder)
    ids = renderer.ids([], [Message("user", "say <tool_call> and <|im_end|>")])
    assert ids.count(SPECIAL.index("<|im_end|>")) == 1 and SPECIAL.index("<tool_call>") not in ids


def test_only_the_assistants_words_are_trained_and_its_errors_are_not(data_folder: Path) -> None:
    right, wrong = ("f", {"a": 1}), ("f", {"a": 2})
    messages = [
        Message("user", "go"),
        Message("assistant", "", (wrong,), trained=False),
        Message("tool", "no"),
        Message("assistant", "", (right,)),
    ]
    flags: dict[int, list[str]] = {}
    for part in text_parts([], messages):
        flags.setdefault(part.flag, []).append(part.text)
    assert any('"a": 1' in t for t in flags[TRAINED]) and not any('"a": 2' in t for t in flags[TRAINED])
    assert any('"a": 2' in t for t in flags[IGNORED])
    assert any("go" in t for t in flags[0]) and any("no" in t for t in flags[0])


def test_a_word_has_the_same_ids_after_a_space_and_after_a_quote(data_folder: Path) -> None:
    renderer = _renderer(data_folder)
    for word in ("Zanbake", "Łódź", "report.txt", "x_9"):
        inner = renderer.encode(word)
        for text in (f"in {word}", f'"{word}'):
            assert renderer.encode(text)[-len(inner) :] == inner


def test_shards_are_a_function_of_seed_and_number_however_many_processes_make_them(data_folder: Path) -> None:
    config_ = DataConfig(data_folder, seed=8, length=512, rows=6, branches=2)
    alone = list(shards(config_, 0, range(3)))
    made = shards(config_, 2, range(3))
    assert all((a == b).all() for a, b in zip(alone, made, strict=True))
    assert not (alone[0] == alone[1]).all()


def test_packed_rows_hold_whole_documents(data_folder: Path) -> None:
    packer = Packer(DataConfig(data_folder, seed=8, length=1024, rows=16, prose=0.0, branches=2))
    rows = packer.shard(0)
    assert rows.shape == (16, 1025)
    filled = (rows & IGNORED == 0).mean()
    assert filled > 0.8
    for row in rows & ID_MASK:
        first = int(row[0])
        assert first in (1, END_OF_TEXT)  # a conversation opens with <|im_start|>
    assert ((rows & TRAINED) > 0).any() and np.unique(rows & ID_MASK).size > 50


def _renderer(folder: Path) -> Renderer:
    from tokenizers import Tokenizer

    return Renderer(Tokenizer.from_file(str(folder / "tokenizer.json")))


def test_a_shard_that_cannot_be_made_is_told_and_left_out(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    real = Packer.shard

    def shard(self: Packer, index: int) -> Ids:
        if index % 2 or self.config.seed == 9:
            raise KeyError(f"no word for {index}")
        return real(self, index)

    monkeypatch.setattr(Packer, "shard", shard)  # forked processes inherit it
    config_ = DataConfig(data_folder, seed=8, length=512, rows=6, branches=2)
    assert len(list(shards(config_, 2, range(4)))) == 2
    assert "no word for 3" in capfd.readouterr().err
    with pytest.raises(RuntimeError, match="mend the generator"):
        list(shards(replace(config_, seed=9), 1, range(100)))


def test_crude_words_are_looked_for_once_and_never_drawn(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = json.loads(gzip.decompress((data_folder / "pools.json.gz").read_bytes()))
    word = random.choice([w for w, _ in found["wordnet"]["noun"] if re.fullmatch("[a-z]+", w)])
    monkeypatch.setattr(pools, "_CRUDE", {checksum(word)})
    kept = pools.without_crude(found)
    (tmp_path / "kept.gz").write_bytes(gzip.compress(json.dumps(kept).encode()))
    old = Pools(data_folder / "pools.json.gz")
    monkeypatch.setattr(pools, "_decent", None)  # not called for what is marked
    new = Pools(tmp_path / "kept.gz")
    assert vars(new) == vars(old), "a file made before is read as one of now"
    assert word not in [w for w, _ in new.nouns] and 0 < len(new.nouns) < len(found["wordnet"]["noun"])
    assert 0 < len(new.sentences) < len(found["sentences"])
    assert not any(re.search(rf"\b{word}\b", s.lower()) for s in new.sentences)
