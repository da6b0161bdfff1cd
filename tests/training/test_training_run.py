"""The trainer: its forward pass is the reference's, its runs repeat, its export loads in the engine."""

from __future__ import annotations

import json
import random
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import load_checkpoint, random_tensors, save_checkpoint
from kogagent.errors import ConfigError
from kogagent.spec import ModelSpec
from training import parcel, profiling, reproduce, train
from training.average import average
from training.data import DataConfig
from training.experiment import BEGIN, END, VARIANTS, main
from training.model import LaneModel, Layout, dense_masks
from training.optim import orthogonal
from training.train import TINY, RunConfig, run
from training.trainer import TrainConfig, Trainer, schedule

SHAPE = replace(
    TINY,
    vocab_size=64,
    dim=32,
    n_layers=5,
    n_heads=16,
    head_dim=4,
    ffn_dim=64,
    context=64,
    windows=(8, 0, 5, 0, 3),
)
SMALL = replace(
    TINY, vocab_size=1024, dim=32, n_layers=2, head_dim=8, ffn_dim=64, context=512, windows=(64, 0), delay=1
)


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"early": "none"},
        {"delay": 0},
        {"delay": 1, "early": "none"},
        {"delay": 4, "early_resent": True},
        {"delay": 0, "residual": "ladder"},
        {"comm_attention": False, "comm_mlp": False},
        {"head": "sum", "tied_head": False},
        {"head": "vocab_parallel"},
        {"lanes": 1, "delay": 0},
    ],
    ids=str,
)
def test_the_training_forward_equals_the_reference(changes: dict[str, Any]) -> None:
    spec = replace(SHAPE, **changes)
    seed = random.randrange(10**6)
    model = LaneModel(spec, seed)
    g = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p.add_(torch.randn(p.shape, generator=g) * 0.1)
    ids = torch.randint(1, 64, (2, 40), generator=g)
    ids[1, 17] = 0  # the end of a document: what follows must not see what came before
    starts = torch.zeros_like(ids, dtype=torch.bool)
    starts[0, [12, 25]] = starts[1, 21] = True  # branches: each sees its document's start and itself
    layout = Layout.of(ids, starts, 0)
    with torch.no_grad():
        out = model(ids, layout.place, dense_masks(layout, spec.windows))
    reference = ReferenceBackend(spec, model.tensors(torch.float32))
    for row, shared, own in (
        (0, range(12), range(12, 25)),
        (0, range(12), range(25, 40)),
        (1, range(0), range(18)),
        (1, range(18, 21), range(21, 40)),
    ):
        at = [*shared, *own]
        alone = reference.forward(ids[row, at].tolist())
        torch.testing.assert_close(out[row, at], alone, rtol=1e-4, atol=1e-5)


def test_a_parcels_weights_are_those_that_were_packed_to_a_percent() -> None:
    g = torch.Generator().manual_seed(seed := random.randrange(10**6))
    tensors = {"w": torch.randn(7, 96, generator=g).half(), "norm": torch.randn(96, generator=g).half()}
    tensors["w"][3] = 0
    back = parcel.unpack(parcel.pack(tensors))
    assert torch.equal(back["norm"], tensors["norm"].float()) and not back["w"][3].any()
    error = (back["w"] - tensors["w"].float()).norm() / tensors["w"].float().norm()
    assert error < 0.01, (seed, error)


def test_newton_schulz_makes_all_singular_values_about_one() -> None:
    for shape in ((3, 16, 48), (2, 48, 16)):
        values = torch.linalg.svdvals(orthogonal(torch.randn(shape)).float())
        assert values.min() > 0.5 and values.max() < 1.4


def test_the_schedule_rises_stays_and_falls_to_zero() -> None:
    config = TrainConfig(warmup=0.1, cooldown=0.5)
    assert schedule(config, 0) == 0 and schedule(config, 0.05) == 0.5 and schedule(config, 0.3) == 1
    assert schedule(config, 0.75) == 0.5 and schedule(config, 1) == 0


def _run(folder: Path, out: Path, steps: int, resume: bool = False, seed: int = 1) -> dict[str, Any]:
    config = TrainConfig(batch=2, seed=seed)
    data = DataConfig(folder, seed=seed, length=SMALL.context, rows=8, prose=0.25, branches=2)
    how = RunConfig(steps=steps, eval_rows=4, eval_every=1e9, resume=resume, quiet=True)
    return run(SMALL, config, data, out, how, device="cpu")


def _losses(out: Path) -> list[float]:
    lines = [json.loads(line) for line in (out / "log.jsonl").read_text().splitlines()]
    return [line["loss"] for line in lines if "step" in line and "event" not in line]


def test_a_smoke_run_learns_repeats_and_exports_what_the_engine_loads(
    data_folder: Path, tmp_path: Path
) -> None:
    final = _run(data_folder, tmp_path / "a", 24)
    losses = _losses(tmp_path / "a")
    assert losses[-1] < losses[0] - 0.5
    assert final["train"]["loss"] < losses[0] - 0.5 and final["test"]["calls"] > 0
    _run(data_folder, tmp_path / "b", 24)
    assert _losses(tmp_path / "b") == losses
    checkpoint = load_checkpoint(tmp_path / "a" / "checkpoint")
    assert checkpoint.spec == SMALL
    _check_logits(checkpoint.spec, checkpoint.tensors)


def _check_logits(spec: ModelSpec, tensors: dict[str, torch.Tensor]) -> None:
    from kogagent.engine.backends.cpu import CpuBackend

    model = LaneModel(spec, 0)
    model.load(tensors)
    ids = torch.randint(1, spec.vocab_size, (1, 80))
    with torch.no_grad():
        layout = Layout.of(ids, torch.zeros_like(ids, dtype=torch.bool), 0)
        ours = model(ids, layout.place, dense_masks(layout, spec.windows))[0]
    backend = CpuBackend(spec, tensors)
    kv = backend.open_kv(80)
    theirs = torch.from_numpy(backend.logits(kv, ids[0].tolist()))
    backend.close()
    error = (ours - theirs).norm() / ours.norm()
    assert error < 5e-3  # FP16 weights and cache against FP32


def test_a_run_goes_on_from_the_weights_of_another_in_its_part_of_the_schedule(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    config, data = (
        TrainConfig(batch=2),
        DataConfig(data_folder, length=SMALL.context, rows=8, prose=0.25, branches=2),
    )
    how = RunConfig(steps=12, span=(0.0, 0.5), eval_rows=4, eval_every=1e9, quiet=True)
    first = run(SMALL, config, data, tmp_path / "first", how, device="cpu")
    how = replace(how, span=(0.5, 1.0), start=tmp_path / "first" / "checkpoint")
    last = run(SMALL, replace(config, seed=2), replace(data, seed=2), tmp_path / "last", how, device="cpu")
    assert last["train"]["loss"] < first["train"]["loss"]
    assert _losses(tmp_path / "last")[0] < _losses(tmp_path / "first")[0] - 0.3
    log = (tmp_path / "last" / "log.jsonl").read_text().splitlines()
    rates = [json.loads(line).get("lr") for line in log]
    assert rates[1] == 0.0  # warms up again
    packed = tmp_path / "parcel"
    arguments = ["--weights", str(tmp_path / "first" / "checkpoint"), "--data", str(data_folder)]
    monkeypatch.setattr("sys.argv", ["parcel", *arguments, "--out", str(packed), "--prose-tokens", "40000"])
    parcel.main()
    how = replace(how, start=packed, steps=1)  # at rate zero: the weights as they were sent
    sent = run(SMALL, config, replace(data, folder=packed), tmp_path / "sent", how, device="cpu")
    assert abs(sent["train"]["loss"] - first["train"]["loss"]) < 0.02
    with pytest.raises(ConfigError, match=r"other names or shapes"):
        run(replace(SMALL, ffn_dim=128), config, data, tmp_path / "other", how, device="cpu")


def test_a_resumed_run_ends_where_an_unbroken_one_does(data_folder: Path, tmp_path: Path) -> None:
    _run(data_folder, tmp_path / "whole", 12)
    # the schedule is that of 12 steps from the start; stop in its middle by hand
    import training.trainer as module

    class Stop(Exception):
        pass

    real = module.Trainer.step
    calls = 0

    def step(self: Any, rows: torch.Tensor, factor: float) -> torch.Tensor:
        nonlocal calls
        calls += 1
        if calls > 6:
            torch.save(self.state(), tmp_path / "parts" / "state.pt")
            raise Stop
        return real(self, rows, factor)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module.Trainer, "step", step)
        with pytest.raises(Stop):
            _run(data_folder, tmp_path / "parts", 12, resume=True)
    _run(data_folder, tmp_path / "parts", 12, resume=True)
    whole = load_checkpoint(tmp_path / "whole" / "checkpoint").tensors
    parts = load_checkpoint(tmp_path / "parts" / "checkpoint").tensors
    for name, value in whole.items():
        torch.testing.assert_close(parts[name], value, rtol=1e-3, atol=1e-4)


def _call(main: Callable[[], None], monkeypatch: pytest.MonkeyPatch, *arguments: object) -> None:
    monkeypatch.setattr("sys.argv", ["command", *map(str, arguments)])
    main()


def test_a_profile_is_written_on_the_way_and_changes_no_loss(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(train, "TINY", SMALL)
    steps = profiling.FIRST + profiling.STEPS + 2
    common = ["--tiny", "--data", data_folder, "--steps", steps, "--batch", 2, "--workers", 0]
    common += ["--eval-rows", 2]
    _call(train.main, monkeypatch, *common, "--out", tmp_path / "plain")
    file = tmp_path / "tables" / "profile.txt"
    _call(train.main, monkeypatch, *common, "--out", tmp_path / "watched", "--profile", file)
    assert _losses(tmp_path / "watched") == _losses(tmp_path / "plain")
    head, columns, *rows, rest = file.read_text().splitlines()
    assert head.startswith(f"{profiling.STEPS} steps") and columns.split() == [
        "ms/step",
        "share",
        "count",
        "name",
    ]
    times = [float(row.split()[0]) for row in rows]
    assert times == sorted(times, reverse=True) and "aten::bmm" in {row.split()[-1] for row in rows}
    # every step multiplies, and each of those profiled alike
    assert all(float(row.split()[2]) >= 1 for row in rows if row.endswith("aten::bmm"))
    assert "below" in rest


def test_a_run_with_the_same_seed_is_found_to_repeat(
    data_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(reproduce, "TINY", SMALL)
    common = ["--tiny", "--data", data_folder, "--steps", 4, "--batch", 2, "--workers", 0]
    _call(reproduce.main, monkeypatch, *common)
    result = json.loads(capsys.readouterr().out)
    assert result["within"] and result["largest"] == 0 and result["equal_steps"] == 4
    assert result["scatter"] > 0

    seeds = iter((1, 2))
    monkeypatch.setattr(reproduce, "Trainer", lambda s, c, *r: Trainer(s, replace(c, seed=next(seeds)), *r))
    with pytest.raises(SystemExit):  # other weights: the curves differ by more than a loss scatters
        _call(reproduce.main, monkeypatch, *common, "--bound", 1e-3)
    assert not json.loads(capsys.readouterr().out)["within"]


def test_curves_are_compared_in_nats_and_a_missing_loss_is_a_difference(rng: np.random.Generator) -> None:
    first = rng.uniform(1, 2, 30)
    shifted = first.copy()
    shifted[7] += 0.5
    found = reproduce.compare(first.tolist(), shifted.tolist(), 10.0)
    assert found["within"] and found["equal_steps"] == 29
    assert found["largest"] == pytest.approx(0.5) and found["mean"] == pytest.approx(0.5 / 30)
    assert not reproduce.compare(first.tolist(), (first + 1).tolist(), 0.5)["within"]
    shifted[3] = np.nan
    assert not reproduce.compare(first.tolist(), shifted.tolist(), 10.0)["within"]
    with pytest.raises(ValueError, match="30 and 29 steps"):
        reproduce.compare(first.tolist(), first[1:].tolist(), 1.0)


def test_the_delay_experiment_runs_every_variant_and_reports(
    data_folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pytest.importorskip("matplotlib", reason="the plot needs the extra bench")
    import training.experiment as module

    monkeypatch.setattr(module, "TINY", replace(SMALL, n_layers=6, windows=()))
    common = [
        "experiment",
        "run",
        "--tiny",
        "--data",
        str(data_folder),
        "--out",
        str(tmp_path),
        "--steps",
        "2",
    ]
    small = ["--batch", "2", "--eval-rows", "2", "--seeds", "1", "2"]
    chosen = ["--only", "tp", "dtp2-none", "alone"]
    for part, workers in (("0/2", "1"), ("1/2", "0")):  # the first makes the rows beside its first step
        monkeypatch.setattr("sys.argv", [*common, *small, *chosen, "--part", part, "--workers", workers])
        main()
    lines = [json.loads(line) for line in (tmp_path / "dtp_loss.jsonl").read_text().splitlines()]
    assert {(r["variant"], r["seed"]) for r in lines} == {
        (v, s) for v in ("tp", "dtp2-none", "alone") for s in (1, 2)
    }
    assert len({r["tokens"] for r in lines}) == 1 and {v.name for v in VARIANTS} > {"tp"}
    docs = tmp_path / "dtp.md"
    docs.write_text(f"# x\n{BEGIN}\nold\n{END}\nrest\n")
    monkeypatch.setattr("sys.argv", ["experiment", "report", "--out", str(tmp_path), "--docs", str(docs)])
    main()
    assert (
        "| dtp2-none |" in docs.read_text() and "old" not in docs.read_text() and "rest" in docs.read_text()
    )
    assert (tmp_path / "assets" / "dtp-loss.png").stat().st_size > 1000


def test_an_average_lies_between_its_checkpoints(tmp_path: Path, rng: np.random.Generator) -> None:
    folders = [tmp_path / name for name in "ab"]
    made = [random_tensors(SMALL, int(rng.integers(1 << 31))) for _ in folders]
    for folder, tensors in zip(folders, made, strict=True):
        save_checkpoint(folder, SMALL, {name: value.half() for name, value in tensors.items()})
    share = float(rng.uniform(0.1, 0.9))
    average([(folders[0], share), (folders[1], 1 - share)], tmp_path / "mean")
    mean = load_checkpoint(tmp_path / "mean")
    assert mean.spec == load_checkpoint(folders[0]).spec
    for name, value in mean.tensors.items():
        a, b = (tensors[name].half().double() for tensors in made)
        assert value.dtype == torch.float16
        torch.testing.assert_close(value.double(), share * a + (1 - share) * b, rtol=2**-10, atol=1e-6)
    with pytest.raises(ValueError, match="add up to 1"):
        average([(folders[0], share), (folders[1], 1.1 - share)], tmp_path / "no")
    other = replace(SMALL, ffn_dim=32)
    save_checkpoint(tmp_path / "c", other, random_tensors(other, 0))
    with pytest.raises(ValueError, match="another shape"):
        average([(folders[0], 0.5), (tmp_path / "c", 0.5)], tmp_path / "no")
    assert not (tmp_path / "no").exists()
