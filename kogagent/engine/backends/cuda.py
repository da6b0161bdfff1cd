"""The backend of NVIDIA GPUs: prefill by torch, decode by the resident kernel. Token ids only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import torch

from kogagent.engine.backend import KV, Decode, DecodePlan, TokenGrammar
from kogagent.engine.backends.arrangement import arrange
from kogagent.engine.backends.cuda_devices import SpreadKV, choose_cards, cut_tensors, spread
from kogagent.engine.backends.cuda_segment import FEED_ROWS, CudaDecode, sleep_exactly
from kogagent.engine.backends.grammar_memory import Grammars
from kogagent.engine.backends.host import check_capacity, check_pending, host_room
from kogagent.engine.backends.tensor_kv import TensorKV, own_kv
from kogagent.engine.weights import check_tensors
from kogagent.errors import ConfigError, EngineClosedError, InputError
from kogagent.kernels.monokernel import Monokernel
from kogagent.kernels.prefill import BUCKETS, Prefill, Wanted
from kogagent.spec import ModelSpec

if TYPE_CHECKING:
    from typing import Literal

_CACHE_SHARE = 0.9  # of the memory that is free once the model is loaded


class CudaBackend:
    """A model on the current CUDA device, or over several. dtype "auto" is float16, for BF16 checkpoints too
    unless their weights leave its range; then bfloat16 takes them.

    devices: their numbers; each gets the next of the lanes, a plain transformer is cut into as many lanes. A
    number given twice is a card with two parts side by side. Pre-fill runs on the first. Raises ConfigError
    when tensors do not fit spec, kernel, dtype or the number of devices; InputError for another dtype,
    missing and unequal cards; DeviceError where cards cannot reach each other's memory.
    """

    prefill_chunk = BUCKETS[-1]

    def __init__(
        self,
        spec: ModelSpec,
        tensors: Mapping[str, torch.Tensor],
        dtype: Literal["auto", "float16", "bfloat16"] = "auto",
        devices: Sequence[int] = (),
    ) -> None:
        if dtype not in ("auto", "float16", "bfloat16"):
            raise InputError(f"dtype={dtype!r}: the cuda backend takes 'auto', 'float16' and 'bfloat16'")
        check_tensors(spec, tensors)
        self._spec = spec
        self._cards = choose_cards(devices)
        spread(spec, len(self._cards))  # refuses before any work
        self._device = self._cards[0]
        torch.cuda.set_device(self._device)  # of the thread that owns the backend
        sleep_exactly()  # that thread, while a kernel runs
        self._half = torch.bfloat16 if dtype == "bfloat16" else torch.float16
        weights = {name: _to_half(name, tensor, self._half, self._device) for name, tensor in tensors.items()}
        made = arrange(spec, self._cards)
        self._kernel: Monokernel | None = Monokernel(
            made.layout,
            cut_tensors(spec, made.spec, weights),
            made.steps,
            wide=made.wide,
            devices=self._cards,
            max_pending=FEED_ROWS,
        )
        self.grammars = Grammars(self._cards)
        alone = made if len(self._cards) == 1 else arrange(spec, self._cards[:1])
        self._prefill = Prefill(alone.layout, weights, alone.steps, self._kernel.rope, capture=True)

    @property
    def spec(self) -> ModelSpec:
        return self._spec

    @property
    def name(self) -> str:
        return "cuda"

    @property
    def dtype(self) -> str:
        return str(self._half).removeprefix("torch.")

    def open_kv(self, capacity: int) -> TensorKV:
        self.kernel()
        check_capacity(self._spec, capacity)
        if len(self._cards) > 1:
            return SpreadKV(self._spec, capacity, self._half, self._cards)
        return TensorKV(self._spec, capacity, self._half, self._device)

    def kv_bytes(self, capacity: int) -> int:
        spec = self._spec
        return len(self._cards) * 2 * 2 * spec.n_layers * spec.n_kv_heads * capacity * spec.head_dim

    def cache_room(self) -> tuple[int, int]:
        free = sum(torch.cuda.mem_get_info(card)[0] for card in {*self._cards})
        return int(_CACHE_SHARE * free), host_room() // 2

    def prefill(self, kv: KV, ids: Sequence[int]) -> None:
        self.kernel()
        if ids:
            self.append(kv, ids)

    def decode(self, kv: KV, ids: Sequence[int], plan: DecodePlan) -> Decode:
        self.kernel()
        return CudaDecode(self, own_kv(kv, self._device), ids, plan)

    def prepare(self, grammar: TokenGrammar) -> None:
        self.grammars.prepare(grammar)

    def logits(self, kv: KV, ids: Sequence[int]) -> npt.NDArray[np.float32]:
        self.kernel()
        out = self.append(kv, ids, logits="all")
        assert out is not None
        values: npt.NDArray[np.float32] = out.cpu().numpy()
        return values

    def close(self) -> None:
        kernel, self._kernel = self._kernel, None
        if kernel is not None:
            kernel.settle()

    def kernel(self) -> Monokernel:
        """The resident kernel; EngineClosedError after close."""
        if self._kernel is None:
            raise EngineClosedError("this backend is closed. Load the engine again.")
        return self._kernel

    def append(self, kv: KV, ids: Sequence[int], *, logits: Wanted = "none") -> torch.Tensor | None:
        """Prefill: append ids to the cache. logits as in `Prefill.run`."""
        own = own_kv(kv, self._device)
        check_pending(own, ids, self._spec.vocab_size)
        own.gather()
        out = self._prefill.run(own.store, own.length, ids, logits=logits)
        own.scatter(len(ids))
        own.advance(len(ids))
        return out

    def greedy(
        self, kv: KV, ids: Sequence[int], legal_ids: int, mask: npt.NDArray[np.uint32] | None = None
    ) -> tuple[int, float] | None:
        """Prefill, and of the legal ids the one with the largest logit, with its logprob; None where logits
        are not finite. ids: a segment's pending ones, which its Progress has checked (10 µs of 512).
        """
        own = own_kv(kv, self._device)
        legal = min(legal_ids or self._spec.vocab_size, self._spec.vocab_size)
        own.gather()
        found = self._prefill.greedy(own.store, own.length, ids, legal, mask)
        own.scatter(len(ids))
        own.advance(len(ids))
        return found

    @property
    def last_logits(self) -> npt.NDArray[np.float32]:
        """Logits [V] of the last `greedy` or `append` that wanted them."""
        values: npt.NDArray[np.float32] = self._prefill.logits.cpu().numpy()
        return values


def _to_half(name: str, tensor: torch.Tensor, kind: torch.dtype, device: torch.device) -> torch.Tensor:
    half = tensor.detach().to(device).to(kind).contiguous()
    if not bool(torch.isfinite(half).all()) and bool(torch.isfinite(tensor).all()):
        raise ConfigError(f"tensor {name!r} has weights beyond FP16's range. Load with dtype='bfloat16'.")
    return half
