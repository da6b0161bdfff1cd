"""Every host backend under the conformance suite, the suite itself, and the choice of a backend."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch

from kogagent.engine import backends
from kogagent.engine.backend import KV, Backend, Decode, DecodePlan
from kogagent.engine.backends.cpu import CpuBackend
from kogagent.engine.backends.host import HostDecode, Progress
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import Checkpoint, random_tensors
from kogagent.errors import InputError, MissingExtraError
from kogagent.kernels.cpu import library
from kogagent.spec import ModelSpec
from kogagent.testing.backends import BACKEND_CHECKS, TINY, TINY_LANES, check_backend, run_check

Tensors = Mapping[str, torch.Tensor]


@dataclass(frozen=True)
class Kind:
    """A backend and the tolerance its dtype needs."""

    name: str
    make: Callable[[ModelSpec, Tensors], Backend]
    tolerance: float = 1e-4


KINDS = (
    Kind("reference", ReferenceBackend),
    Kind("torch-float32", lambda spec, tensors: CpuBackend(spec, tensors, "float32")),
    Kind("torch-float16", lambda spec, tensors: CpuBackend(spec, tensors, "float16"), 2e-2),
)


@pytest.mark.parametrize("spec", [TINY, TINY_LANES], ids=lambda spec: spec.name)
@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.name)
@pytest.mark.parametrize("check", BACKEND_CHECKS, ids=lambda check: check.__name__.strip("_"))
def test_a_backend_keeps_its_contract(check: Callable[..., None], kind: Kind, spec: ModelSpec) -> None:
    run_check(check, kind.make, spec, kind.tolerance)


class Broken(ReferenceBackend):
    """The reference with one fault, so that each check can be seen to fail."""

    fault = ""

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        return BrokenDecode(self, kv, ids, plan) if self.fault else HostDecode(self, kv, ids, plan)


class BrokenProgress(Progress):
    fault = ""

    def emit(self, token: int, logprob: float, *, forced: bool) -> None:
        if self.fault == "shifted":
            token = (token + 1) % 83
        if self.fault == "logprob":
            logprob -= 0.5
        if self.fault == "forced":
            forced = False
        super().emit(token, logprob, forced=forced)


class BrokenDecode(HostDecode):
    def __init__(self, backend: Broken, kv: KV, ids: Sequence[int], plan: DecodePlan) -> None:
        super().__init__(backend, kv, ids, plan)
        self._progress = BrokenProgress(kv, ids, plan, backend.spec.vocab_size)
        self._progress.fault = backend.fault


@pytest.mark.parametrize("fault", ["shifted", "logprob", "forced"])
def test_the_suite_finds_a_fault(fault: str) -> None:
    def make(spec: ModelSpec, tensors: Tensors) -> Backend:
        backend = Broken(spec, tensors)
        backend.fault = fault
        return backend

    with pytest.raises(Exception):  # noqa: B017 - a wrong id may also be refused by the matcher
        check_backend(make)


def test_a_cache_that_does_not_fork_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    from kogagent.engine.backends.reference import ReferenceKV

    monkeypatch.setattr(ReferenceKV, "fork", lambda self: self)
    with pytest.raises(Exception):  # noqa: B017
        check_backend(ReferenceBackend)


def test_the_cpu_backend_gives_the_references_logits(rng: np.random.Generator) -> None:
    for spec in (TINY, TINY_LANES):
        tensors = random_tensors(spec, int(rng.integers(2**31)))
        ids = [int(i) for i in rng.integers(0, spec.vocab_size, 30)]
        truth, fast = ReferenceBackend(spec, tensors), CpuBackend(spec, tensors, "float32")
        expected = truth.logits(truth.open_kv(40), ids)
        got = fast.logits(fast.open_kv(40), ids)
        assert np.abs(got - expected).max() <= 1e-4 * np.abs(expected).max()


def test_every_backend_is_listed_with_the_reason_why_it_cannot_run() -> None:
    found = backends.available()
    assert list(found) == ["cuda", "native", "torch", "reference"]
    assert found["torch"] is None and found["reference"] is None
    assert found["native"] is None or "native backend" in found["native"]
    assert found["cuda"] is None or "cuda backend" in found["cuda"]


def test_a_backend_this_build_does_not_carry_is_not_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends.BACKENDS, "tpu", ("tpu", "TpuBackend", ("auto",)))
    with pytest.raises(InputError, match="carries no tpu backend"):
        backends.resolve("tpu")


def test_auto_falls_back_to_the_cpu_and_cuda_asked_for_by_name_does_not(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reason = MissingExtraError("the cuda backend", "cupy", "cuda")
    monkeypatch.setattr(backends, "_no_cuda", lambda: reason)
    assert backends.resolve("auto") == backends.resolve("cpu") in ("native", "torch")
    with pytest.raises(MissingExtraError, match=r"pip install 'kogagent\[cuda\]'"):
        backends.resolve("cuda")
    assert backends.available()["cuda"] == str(reason)
    monkeypatch.setattr(backends, "_no_cuda", lambda: None)
    assert backends.resolve("auto") == backends.resolve("cuda") == "cuda"


def test_cpu_is_the_native_backend_where_it_was_built_and_torch_elsewhere(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(library, "missing", lambda: None)
    assert backends.resolve("cpu") == "native"
    monkeypatch.setattr(library, "missing", lambda: InputError("the native backend was not built"))
    assert backends.resolve("cpu") == backends.resolve("torch") == "torch"
    with pytest.raises(InputError, match="was not built"):
        backends.resolve("native")


def test_devices_and_dtypes_that_do_not_exist_are_refused_by_name() -> None:
    checkpoint = Checkpoint(TINY, random_tensors(TINY, 1))
    with pytest.raises(InputError, match="device='tpu': must be 'auto', 'cpu' or one of 'cuda', 'native'"):
        backends.open_backend("tpu", checkpoint)
    with pytest.raises(InputError, match="dtype='int4': the torch backend takes 'auto', 'float32'"):
        backends.open_backend("torch", checkpoint, "int4")
    with pytest.raises(InputError, match="dtype='float16': the reference backend takes"):
        backends.open_backend("reference", checkpoint, "float16")
    for device in ("torch", "reference"):
        backend = backends.open_backend(device, checkpoint, "float32")
        assert backend.name == device and backend.spec is TINY
        backend.close()
