"""Every kernel compiled for every kind of card it may meet, without one: registers, spills, structs."""

from __future__ import annotations

import dataclasses
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import exchange
from benchmarks.shapes import SHAPES
from kogagent.engine.backends.arrangement import arrange_for, kernel_steps
from kogagent.errors import ConfigError, DeviceError, InputError
from kogagent.kernels import build as builder
from kogagent.kernels.build import build
from kogagent.kernels.layout import plan
from kogagent.spec import LANEFORMER_2B, ModelSpec
from kogagent.testing.backends import TINY, TINY_LANES

NARROW = SHAPES["qwen3-0.6b"]
# Registers at entry; the warps that compute take 216 by themselves. Bytes of stack by the rows of a pass: one
# row's is a word of conditions.
REGISTERS = 168
STACK = {1: 8, 4: 112, 8: 112}


def constants(spec: ModelSpec, width: int = 1) -> str:
    """What the kernel of a model is compiled with on a card of 132 multiprocessors."""
    _, one_stream = kernel_steps(spec)
    return plan(spec, 132, 232448, one_stream=one_stream, width=width).model_source()


@pytest.mark.parametrize(
    ("spec", "capability", "width", "bf16"),
    [
        (LANEFORMER_2B, 90, 1, False),
        (LANEFORMER_2B, 90, 4, False),
        (LANEFORMER_2B, 90, 8, False),
        (LANEFORMER_2B, 100, 1, False),
        # Twelve seconds each: one for 80, 86 and 89, which have the same lines; BF16 with another shape.
        (NARROW, 86, 1, False),
        (NARROW, 90, 1, True),
    ],
    ids=lambda value: value.name if isinstance(value, ModelSpec) else str(value),
)
def test_every_kernel_compiles_within_its_registers_and_stack(
    spec: ModelSpec, capability: int, width: int, bf16: bool, tmp_path: Path
) -> None:
    model = constants(spec, width)
    defines = ("KOGAGENT_BF16",) if bf16 else ()
    found = build("monokernel.cu", capability, defines, cache=tmp_path, model=model).resources()
    assert set(found) == {"decode", "stream_only"}
    for name, resources in found.items():
        assert resources.registers <= REGISTERS, f"{name}: {resources}"
        assert resources.shared <= 256, f"{name}: {resources}"
        if capability >= 90:  # there all warps share registers evenly, and some variables spill
            assert resources.stack <= STACK[width], f"{name}: {resources}"


def test_a_device_of_eight_keeps_its_registers(tmp_path: Path) -> None:
    layout = arrange_for(SHAPES["laneformer-2b"], 8, 1, 132, 232448).layout
    found = build("monokernel.cu", 90, cache=tmp_path, model=layout.model_source()).resources()
    assert found["decode"].stack <= STACK[1] and found["decode"].registers <= REGISTERS


def test_a_product_is_joined_to_a_sum_only_where_the_source_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """So that all programs find the same bits; none is left that could be, which costs an instruction."""
    nvrtc = builder._nvrtc()

    def assembly(
        _: object, entry: str, source: str, headers: dict[str, str], flags: tuple[str, ...]
    ) -> object:
        given = [[x.encode() for x in side] for side in (headers.values(), headers)]
        program = builder._check(nvrtc, nvrtc.nvrtcCreateProgram(source.encode(), b"", len(headers), *given))
        for joins in (False, True):
            options = [f.replace("arch=sm", "arch=compute") for f in flags if "ptxas" not in f]
            options += ["-fmad=true"] if joins else []
            (code,) = nvrtc.nvrtcCompileProgram(program, len(options), [f.encode() for f in options])
            assert code == nvrtc.nvrtcResult.NVRTC_SUCCESS
            text = b" " * builder._check(nvrtc, nvrtc.nvrtcGetPTXSize(program))
            builder._check(nvrtc, (*nvrtc.nvrtcGetPTX(program, text), None))
            found.append(text.decode())
        return b"", ""

    found: list[str] = []
    monkeypatch.setattr(builder, "_compile", assembly)
    spec = dataclasses.replace(TINY_LANES, qkv_bias=True, qk_norm=True)
    wide = arrange_for(spec, 2, 2, 132, 232448).wide
    assert wide is not None
    build("monokernel.cu", 90, cache=tmp_path, model=wide.model_source())
    as_written, joined = found
    assert re.search(r"\bmul\.rn\.f32", as_written) and re.search(r"\bmul\.f32", joined)
    assert not re.findall(r"\b(?:add|sub|mul|mad)\.(?:ftz\.)?f(?:32|64)\b", as_written), "without a rounding"
    assert as_written.count("fma.rn.f32") == joined.count("fma.rn.f32"), (
        "write __fmaf_rn(a, b, c) for a * b + c"
    )


def test_every_kernel_of_prefill_compiles_and_spills_nothing_that_counts(tmp_path: Path) -> None:
    child = [sys.executable, "-W", "ignore", str(Path(__file__).with_name("prefill_builds.py"))]
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    environment |= {"TRITON_CACHE_DIR": str(tmp_path), "PYTHONPATH": str(Path(__file__).parents[2])}
    arguments = ["laneformer-2b", "float16", "90", "16", "32", "64", "512"]
    ran = subprocess.run([*child, *arguments], env=environment, capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    found = [json.loads(line) for line in ran.stdout.splitlines()]
    assert {one["kernel"] for one in found} == {
        *("embed_rows", "turn_and_append", "attend", "merge_splits"),
        *("land", "gate", "multiply_few", "multiply_and_turn", "greedy"),
    }
    for one in found:
        assert one["stack"] <= 8 and one["registers"] <= 255, one
        assert one["shared"] <= 101376, f"more than a multiprocessor of an sm_86 has: {one}"
        if one["kernel"] == "land":  # bound by memory: three programs of 256 threads a multiprocessor
            assert one["registers"] <= 80, one


def test_the_exchange_probe_compiles_and_its_struct_is_the_benchmarks(tmp_path: Path) -> None:
    for capability in (80, 90, 100):
        (resources,) = exchange.compiled(capability, tmp_path).resources().values()
        assert resources.stack == 0 and resources.registers <= 64
    with pytest.raises(DeviceError, match="the host writes this struct too"):
        build("exchange_probe.cu", 90, ("PROBE_BYTES=8",), cache=tmp_path)


def test_a_field_that_moves_on_one_side_alone_does_not_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = tmp_path / "csrc"
    shutil.copytree(builder.SOURCE, moved)
    header = moved / "params.cuh"
    text = header.read_text(encoding="utf-8")
    assert "int capacity, stages;" in text
    header.write_text(text.replace("int capacity, stages;", "int stages, capacity;"), encoding="utf-8")
    monkeypatch.setattr(builder, "SOURCE", moved)
    with pytest.raises(DeviceError, match=r"offset of Params\.capacity"):
        build("monokernel.cu", 90, cache=tmp_path, model=constants(TINY))


def test_a_build_is_found_again_and_any_header_change_is_another_build(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = tmp_path / "csrc"
    source.mkdir()
    (source / "one.cu").write_text(
        '#include "value.cuh"\nextern "C" __global__ void k(int* x) { *x = VALUE; }\n'
    )
    (source / "value.cuh").write_text("#define VALUE 1\n")
    monkeypatch.setattr(builder, "SOURCE", source)
    monkeypatch.setattr(builder, "proof", lambda: "")
    first = build("one.cu", 90, cache=tmp_path)
    assert build("one.cu", 90, cache=tmp_path) == first
    assert build("one.cu", 90, cache=tmp_path, model="// another").path != first.path
    (source / "value.cuh").write_text("#define VALUE 2\n")
    assert build("one.cu", 90, cache=tmp_path).path != first.path


def test_a_card_that_is_too_old_and_source_that_is_wrong_are_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(InputError, match=r"7\.5 is too old"):
        build("monokernel.cu", 75, cache=tmp_path)
    (tmp_path / "bad.cu").write_text("this is no program\n")
    monkeypatch.setattr(builder, "SOURCE", tmp_path)
    with pytest.raises(DeviceError, match=r"bad\.cu does not compile"):
        build("bad.cu", 90, cache=tmp_path)


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        (dataclasses.replace(TINY, dim=36), "dim=36"),
        (dataclasses.replace(TINY, head_dim=12), "head_dim=12"),
        (dataclasses.replace(TINY, head_dim=264), "at most 256"),
        (dataclasses.replace(TINY, ffn_dim=50), "ffn_dim"),
        (dataclasses.replace(TINY, vocab_size=1 << 20), "vocab_size"),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_shape_the_kernel_cannot_run_is_refused_by_name(spec: ModelSpec, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        plan(spec, 132, 232448, one_stream=True)


def test_bytes_are_balanced_and_shared_memory_is_kept_to_its_limit() -> None:
    for width in (1, 4, 8):
        layout = plan(LANEFORMER_2B, 132, 232448, one_stream=False, width=width)
        assert layout.shared_bytes + 256 <= 232448
        assert (layout.lanes, layout.group) == (8, 16)
        streamed = LANEFORMER_2B.streamed_bytes()
        assert layout.tape_bytes * layout.blocks < streamed * 1.005
