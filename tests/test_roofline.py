"""Predictions from shapes: bytes by hand, published projections, what more cards and delay change."""

from __future__ import annotations

import dataclasses
import json
import random
from pathlib import Path

import pytest
from typer.testing import CliRunner

from kogagent.cli.app import app
from kogagent.errors import InputError
from kogagent.roofline import CARDS, Card, Costs, Work, predict, work_of
from kogagent.spec import LANEFORMER_2B
from kogagent.testing.tiny import write_tiny_model

H200, MI300X = CARDS["h200"], CARDS["mi300x"]
WORK = work_of(LANEFORMER_2B, 2.0, 0)


def test_the_published_rates_are_these_shares_of_the_cards_bandwidth() -> None:
    # 2.32 billion parameters less the embedding table, two bytes each
    assert WORK.bytes == 2 * (2_320_069_632 - 32_000 * 3072)
    assert WORK.mbu(2100, H200, 8) == pytest.approx(0.243, abs=5e-4)
    assert WORK.mbu(3000, MI300X, 8) == pytest.approx(0.314, abs=5e-4)
    experts = Work("49B active", 49e9 * 2, 0, 60)
    assert experts.at_mbu(0.36, H200, 8) == pytest.approx(0.36 * 8 * 4.8e12 / 98e9)
    assert experts.mbu(experts.at_mbu(0.36, H200, 8), H200, 8) == pytest.approx(0.36)


def test_the_cache_is_read_as_far_as_windows_reach() -> None:
    # 10 layers see 512 positions at most, 5 see all; 16 heads of 96 keys and values, 2 bytes
    whole = work_of(LANEFORMER_2B, 2.0, 4096)
    assert whole.kv_bytes == 2 * 16 * 96 * 2 * (10 * 512 + 5 * 4096)
    with pytest.raises(InputError, match="4096 positions"):
        work_of(LANEFORMER_2B, 2.0, 4097)


def test_a_delay_hides_links_until_they_are_slower_than_it() -> None:
    rng = random.Random(seed := random.randrange(1 << 30))
    for _ in range(50):
        devices, link = rng.choice([2, 4, 8]), rng.uniform(1, 50)
        costs = Costs(link=link)
        waits = [
            predict(dataclasses.replace(WORK, delay_layers=d), H200, devices, costs).links
            for d in (0, 0.5, 1, 2, 4)
        ]
        assert waits == sorted(waits, reverse=True), seed
        assert waits[0] == pytest.approx((30 + 2) * link), seed
        layer = predict(WORK, H200, devices, costs)
        slack = 2 * (layer.floor + layer.exchanges) / 15
        assert waits[3] == pytest.approx(2 * link + 30 * max(0, link - slack)), seed


def test_early_sums_are_waited_for_whatever_the_delay() -> None:
    spec = dataclasses.replace(LANEFORMER_2B, early="present")
    late, early = (predict(work_of(s, 2.0, 0), H200, 8) for s in (LANEFORMER_2B, spec))
    assert early.links - late.links == pytest.approx(4 * Costs().link)
    ladder = dataclasses.replace(LANEFORMER_2B, residual="ladder", delay=0)
    assert work_of(ladder, 2.0, 0).delay_layers == 0.5


def test_more_cards_divide_the_floor_and_nothing_else() -> None:
    one, eight = predict(WORK, H200, 1), predict(WORK, H200, 8)
    assert one.floor == pytest.approx(8 * eight.floor) and one.links == 0
    assert eight.exchanges > one.exchanges  # a lane that owns a card exchanges among all of it
    assert one.tok_s < eight.tok_s < 8 * one.tok_s
    with pytest.raises(InputError, match="8 lanes"):
        predict(WORK, H200, 3)
    assert predict(WORK, Card("x", 1e12)).limit_tok_s == pytest.approx(1e12 / WORK.bytes)


def _run(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["roofline", *arguments])
    return result.exit_code, result.output


def test_the_command_reads_names_files_and_numbers(tmp_path: Path) -> None:
    code, out = _run("laneformer-2b", "--devices", "8", "--measured", "2100", "--json")
    found = json.loads(out)
    assert code == 0 and found["measured_mbu"] == pytest.approx(WORK.mbu(2100, H200, 8), rel=0.04)
    write_tiny_model(tmp_path)
    for place in (tmp_path, tmp_path / "config.json"):
        code, out = _run(str(place), "--context", "8")
        assert code == 0 and "tok/s, the limit" in out
    code, out = _run(
        "--active", "49e9", "--layers", "60", "--devices", "8", "--mbu", "0.36", "--precision", "fp8"
    )
    assert code == 0 and "at 36.0% of the datasheet's bandwidth: 282 tok/s" in out
    code, out = _run("laneformer-2b", "--devices", "8", "--delay", "0", "--json")
    assert code == 0 and json.loads(out)["link_us"] == pytest.approx(32 * 5.0)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "name a model, or give --active"),
        (["laneformer-2b", "--active", "1e9"], "not both"),
        (["--active", "1e9"], "--layers"),
        (["laneformer-2b", "--layers", "3"], "--layers goes with --active"),
        (["--active", "1e9", "--layers", "3", "--delay", "2"], "--active has none"),
        (["laneformer-2b", "--precision", "fp7"], "fp7"),
        (["laneformer-2b", "--card", "abacus"], "abacus"),
        (["laneformer-2b", "--context", "9999"], "4096"),
        (["laneformer-2b", "--devices", "3"], "8 lanes"),
        (["nowhere"], "nowhere"),
    ],
)
def test_what_makes_no_sense_is_refused_by_name(arguments: list[str], message: str) -> None:
    code, out = _run(*arguments)
    assert code == 2 and message in out.replace("\n", " ")


def test_the_page_shows_what_the_model_predicts() -> None:
    from benchmarks.shapes import SHAPES

    page = (Path(__file__).parent.parent / "docs" / "roofline.md").read_text()
    rows = {cells[0]: cells[1:3] for cells in (line.strip("| ").split(" | ") for line in page.splitlines())}
    for name, spec in SHAPES.items():
        found = predict(work_of(spec, 2.0, 512), H200)
        assert rows[name] == [f"{found.limit_tok_s:,.0f}", f"{found.tok_s:,.0f}"], name
    eight, none = (
        predict(dataclasses.replace(work_of(LANEFORMER_2B, 2.0, 512), delay_layers=d), H200, 8)
        for d in (2, 0)
    )
    said = " ".join(page.split())
    assert f"predicts {eight.tok_s:,.0f} tok/s at δ = 2 and {none.tok_s:,.0f} at δ = 0" in said
