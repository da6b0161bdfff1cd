"""Lanes on one card and over several: rates, slack, latency, bits. One command, ten minutes at most.

    python -m benchmarks.lanes                  # one card: a lane alone, links and delays, lanes apart
    python -m benchmarks.lanes --virtual        # one card as 2, 4 and 8 devices side by side
    python -m benchmarks.lanes --devices 2      # that many cards, one process
    python -m benchmarks.lanes --part alone ... # some parts only

Every part is a process of its own with a time of its own: what it has found by then is printed and recorded,
and the next part runs. Random weights, FP16, sampling at temperature 1, the bare kernel from launch to last
token. The limit streams the same tapes through the same ring, with no product and no exchange.
"""

from __future__ import annotations

import argparse
import dataclasses
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from benchmarks.child import run_bounded
from benchmarks.common import Figure, Record, append, interleave, make_record
from benchmarks.exchange import print_now
from benchmarks.shapes import SHAPES
from kogagent.spec import ModelSpec

LANEFORMER, LLAMA = "laneformer-2b", "llama-3.2-1b"
CONTEXTS = (512, 3800)
"""Positions at which a run begins; the second ends at the model's 4,096th."""
TOKENS = 200
DELAYS = (0, 1, 2, 4)
LINKS_US = (1, 5, 10, 20, 50)
STAGGERS = (
    (1, 0),
    (2, 12000),
    (2, 24000),
    (4, 6000),
    (4, 12000),
    (4, 18000),
    (4, 24000),
    (8, 3000),
    (8, 6000),
    (8, 9000),
    (8, 12000),
)
"""(phases, cycles between two of them); a layer of LaneFormer-2B takes about 140,000."""
SLACK_US = 2.0  # a bin of csrc/slack.cuh
PARTS: dict[str, tuple[str, float]] = {
    "cards": ("any", 20),
    "exchange": ("any", 120),
    "rates": ("several", 110),
    "bits": ("several", 80),
    "slack": ("several", 50),
    "tensor": ("several", 60),
    "compiled": ("cards", 120),
    "alone": ("one", 150),
    "link": ("one", 110),
    "stagger": ("one", 130),
}
"""Each part, in order: where it runs, and its seconds. "several": of devices, on one card or more."""


def model(delay: int) -> ModelSpec:
    return dataclasses.replace(SHAPES[LANEFORMER], delay=delay)


class Kernel:
    """One kernel and its caches. Options as of Monokernel."""

    def __init__(
        self,
        spec: ModelSpec,
        cards: Sequence[int],
        *,
        weights: Mapping[str, Any] | None = None,
        alone: int = 0,
        apart: bool = False,
        splits: int = 0,
        **options: Any,
    ) -> None:
        """alone: the first of so many devices by itself. apart: one device keeps equal lanes apart too."""
        import torch

        from benchmarks.decode_cuda import random_cache, random_on_device
        from kogagent.engine.backends.arrangement import arrange, arrange_for, kernel_steps
        from kogagent.engine.backends.cuda_devices import cut_tensors
        from kogagent.kernels.layout import plan
        from kogagent.kernels.monokernel import Monokernel

        devices = [torch.device("cuda", card) for card in cards]
        card: Any = torch.cuda.get_device_properties(devices[0])
        size = card.multi_processor_count, card.shared_memory_per_block_optin
        made = arrange_for(spec, alone, 1, *size, splits) if alone else arrange(spec, devices, splits)
        layout, steps = made.layout, made.steps
        if apart and len(devices) == 1:
            steps, _ = kernel_steps(spec, apart=True)
            layout = plan(spec, *size, one_stream=False)
        tensors = dict(weights) if weights is not None else random_on_device(spec)
        self.kernel = Monokernel(
            layout,
            cut_tensors(spec, made.spec, tensors),
            steps,
            devices=devices,
            alone=bool(alone),
            deadline_s=4.0,
            **options,
        )
        self.caches = []
        for device in devices:
            with torch.cuda.device(device):
                self.caches.append(random_cache(spec))
        self._seed = 0

    def ids(self, context: int, tokens: int, seed: int) -> list[int]:
        from kogagent.kernels.segment import Segment

        segment = Segment([1], context, max_tokens=tokens, temperature=1.0, seed=seed)
        self.kernel.launch(segment, self.caches)
        out = []
        while self.kernel.busy:
            out += self.kernel.drain()
        return [token.id for token in out]

    def rate(self, context: int, tokens: int = TOKENS) -> float:
        self._seed += 1
        start = time.perf_counter()
        count = len(self.ids(context, tokens, self._seed))
        elapsed = time.perf_counter() - start
        if count != tokens:
            raise RuntimeError(f"the segment emitted {count} of {tokens} tokens")
        return tokens / elapsed


def record(case: str, metric: str, figure: Figure, **more: Any) -> Record:
    return make_record("lanes", case, "cuda", metric, figure, device="cuda", **more)


def where(cards: Sequence[int]) -> str:
    return f"{len(cards)} {'virtual devices' if len(set(cards)) < len(cards) else 'devices'}"


def tell(records: Sequence[Record], dry: bool) -> None:
    """Print and keep, at once."""
    for each in records:
        limit = "" if each.limit is None else f", limit {each.limit:,.0f} ({each.share:.0%})"
        spread = f"{each.min:,.4g}-{each.max:,.4g}"
        print(f"{each.case}: {each.value:,.4g} {each.metric} ({spread}){limit} {each.note}")
    sys.stdout.flush()
    if not dry:
        append(records)


# ── parts: each yields to `out` what it finds as it finds it ──


def part_cards(cards: Sequence[int], dry: bool) -> None:
    """Which cards there are, whether they reach each other, and what a copy between them moves."""
    import torch

    for a in sorted(set(cards)):
        properties: Any = torch.cuda.get_device_properties(a)
        print(
            f"device {a}: {properties.name}, {properties.multi_processor_count} multiprocessors", flush=True
        )
        for b in sorted(set(cards)):
            if a == b:
                continue
            can = torch.cuda.can_device_access_peer(a, b)
            data, to = (torch.empty(1 << 28, dtype=torch.uint8, device=f"cuda:{d}") for d in (a, b))
            rates = []
            for _ in range(6):
                torch.cuda.synchronize(b)
                start = time.perf_counter()
                for _ in range(4):
                    to.copy_(data)
                for device in (a, b):
                    torch.cuda.synchronize(device)
                rates.append(4 * data.numel() / (time.perf_counter() - start) / 1e9)
            print(f"device {a} -> {b}: {'peer access' if can else 'NO peer access'}", flush=True)
            tell([record(f"copy {a}->{b}", "GB_s", Figure(tuple(rates[1:])))], dry)


def part_rates(cards: Sequence[int], dry: bool) -> None:
    """LaneFormer-2B with and without the delay, at both contexts."""
    for delay in (2, 0):
        spec = model(delay)
        it = Kernel(spec, cards)
        for context in CONTEXTS:
            runs: dict[str, Callable[[], float]] = {
                "limit": lambda k=it: 1.0 / k.kernel.stream_only(50),  # type: ignore[misc]
                "rate": lambda k=it, at=context: k.rate(at),  # type: ignore[misc]
            }
            figures = interleave(runs)
            layout = it.kernel.layout
            note = f"{layout.device_lanes} x {layout.group} blocks a device, {layout.splits} splits"
            case = f"{spec.name}/{where(cards)}/delay {delay}/ctx{context}"
            tell([record(case, "tok_s", figures["rate"], limit=figures["limit"], note=note)], dry)
        del it


def part_bits(cards: Sequence[int], dry: bool) -> None:
    """The ids of one kernel of all lanes, with the delay and without; of Llama cut into as many lanes."""
    from benchmarks.decode_cuda import random_on_device
    from kogagent.engine.backends.cuda_devices import cut_tensors, spread

    for spec in (model(2), model(0), SHAPES[LLAMA]):
        lanes = spread(spec, len(cards))
        weights = cut_tensors(spec, lanes, random_on_device(spec))
        want: list[list[int]] = []
        for chosen in (cards[:1], cards):
            it = Kernel(lanes, chosen, weights=weights, apart=True)
            start = [it.ids(0, 300, seed) for seed in (1, 2)]
            want.append([token for ids in start for token in ids])
            del it
        same = sum(a == b for a, b in zip(*want, strict=True))
        first = next((i for i, (a, b) in enumerate(zip(*want, strict=True)) if a != b), None)
        note = "identical" if first is None else f"the first difference is at token {first}"
        case = f"{spec.name}/{where(cards)}/delay {spec.delay}/ids as one kernel's"
        tell([record(case, "share", Figure((same / len(want[0]),)), note=note)], dry)


def slack_of(bins: npt.NDArray[np.int64]) -> str:
    """A histogram in words: share that was waited for, quantiles in µs."""
    total = bins.sum(0)
    count = max(int(total.sum()), 1)
    below = np.cumsum(total) / count
    quantiles = [float(np.searchsorted(below, q) * SLACK_US) for q in (0.01, 0.5, 0.99)]
    cells = " ".join(f"{i * SLACK_US:.0f}:{n}" for i, n in enumerate(total) if n)
    return (
        f"{count} landings; under {SLACK_US:.0f} us or waited for {total[0] / count:.2%}; "
        f"1%, 50%, 99%: {quantiles[0]:.0f}, {quantiles[1]:.0f}, {quantiles[2]:.0f} us; us:count {cells}"
    )


def part_slack(cards: Sequence[int], dry: bool) -> None:
    """How long other lanes' outputs have been there when they are used."""
    for delay in (2, 1):
        it = Kernel(model(delay), cards, defines=("KOGAGENT_SLACK",))
        it.rate(CONTEXTS[0])
        rate = it.rate(CONTEXTS[0])
        bins = it.kernel.slack()
        waited = float(bins[:, 0].sum() / max(bins.sum(), 1))
        case = f"{LANEFORMER}/{where(cards)}/delay {delay}/slack"
        note = f"{slack_of(bins)}; {rate:.0f} tok/s with the watching warp"
        tell([record(case, "waited_share", Figure((waited,)), note=note)], dry)
        del it


def part_tensor(cards: Sequence[int], dry: bool) -> None:
    """Llama-3.2-1B cut by tensor parallelism."""
    spec = SHAPES[LLAMA]
    it = Kernel(spec, cards)
    runs: dict[str, Callable[[], float]] = {
        "limit": lambda: 1.0 / it.kernel.stream_only(50),
        "rate": lambda: it.rate(CONTEXTS[0]),
    }
    figures = interleave(runs)
    case = f"{spec.name}/{where(cards)}/ctx{CONTEXTS[0]}"
    tell([record(case, "tok_s", figures["rate"], limit=figures["limit"])], dry)


def part_compiled(cards: Sequence[int], dry: bool) -> None:
    """torch.compile with NCCL between processes, cut as ours; LaneFormer's as an ordinary transformer."""
    until = time.monotonic() + PARTS["compiled"][1] - 5
    for shape in (LANEFORMER, LLAMA):
        rates: list[float] = []

        def line(text: str, found: list[float] = rates) -> None:
            if text.startswith("rate "):
                found.append(float(text.split()[1]))
            elif "rror" in text:
                print_now(f"torch.compile: {text}")

        command = [sys.executable, "-m", "benchmarks.lanes", "--rank-of", shape]
        why = run_bounded(command, max(until - time.monotonic(), 1), line, ranks=len(cards))
        if why:
            print_now(f"torch.compile + NCCL of {shape}: {why}")
        if rates:
            case = f"{shape}/torch.compile + NCCL, {len(cards)} devices/ctx{CONTEXTS[0]}"
            tell([record(case, "tok_s", Figure(tuple(rates)))], dry)


def _compiled_rank(shape: str) -> None:
    """One process of the peer: heads and hidden values cut, sums by NCCL inside the graph."""
    import os

    import torch
    import torch.distributed
    import torch.distributed._functional_collectives as collectives

    from benchmarks.compiled_peer import make_model

    dist: Any = torch.distributed
    rank, size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    torch.cuda.set_device(rank)
    dist.init_process_group("nccl", device_id=torch.device("cuda", rank))
    whole = SHAPES[shape]
    own = dataclasses.replace(
        whole,
        n_heads=whole.n_heads // size,
        n_kv_heads=whole.n_kv_heads // size,
        ffn_dim=whole.ffn_dim // size,
        lanes=1,
        delay=0,
        head="replicate",
    )
    torch.manual_seed(0)
    group = dist.group.WORLD

    def join(x: torch.Tensor) -> torch.Tensor:
        summed: torch.Tensor = collectives.all_reduce(x, "sum", group)
        return summed

    def gather(x: torch.Tensor) -> torch.Tensor:
        rows: torch.Tensor = collectives.all_gather_tensor(x, 2, group)
        return rows

    class Then(torch.nn.Module):
        def __init__(self, linear: torch.nn.Module, function: Callable[[torch.Tensor], torch.Tensor]) -> None:
            super().__init__()
            self.linear, self.function = linear, function

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return self.function(self.linear(x))

    with torch.inference_mode():
        it: Any = make_model(own, CONTEXTS[0] + TOKENS + 1)
        for layer in it.layers:
            layer.out, layer.down = Then(layer.out, join), Then(layer.down, join)
        rows = torch.nn.Linear(
            own.dim, own.vocab_size // size, bias=False, device="cuda", dtype=torch.float16
        )
        it.head = Then(rows, gather)
        step: Any = torch.compile(it, mode="reduce-overhead", fullgraph=True)
        for turn in range(7):  # the first one compiles, the second records graphs
            token = torch.ones((1, 1), dtype=torch.long, device="cuda")
            at = torch.tensor([CONTEXTS[0]], device="cuda")
            torch.cuda.synchronize()
            start = time.perf_counter()
            for _ in range(TOKENS):
                token, at = step(token, at).clone(), at + 1
            torch.cuda.synchronize()
            if rank == 0 and turn > 1:
                print(f"rate {TOKENS / (time.perf_counter() - start)}", flush=True)
    dist.destroy_process_group()


def part_alone(cards: Sequence[int], dry: bool) -> None:
    """One of eight lanes with a card to itself, what the others send arriving after a link's time."""
    from benchmarks.decode_cuda import random_on_device

    weights = random_on_device(model(2))
    for delay in (2, 0, 1, 4):
        plain = Kernel(model(delay), cards[:1], weights=weights, alone=8)
        linked = Kernel(model(delay), cards[:1], weights=weights, alone=8, link_ns=1000)

        def at(us: int, k: Kernel = linked) -> float:
            k.kernel.set_link(us * 1000)
            return k.rate(CONTEXTS[0])

        runs: dict[str, Callable[[], float]] = {
            "limit": lambda k=plain: 1.0 / k.kernel.stream_only(100),  # type: ignore[misc]
            "0": lambda k=plain: k.rate(CONTEXTS[0]),  # type: ignore[misc]
            **{str(us): lambda us=us, run=at: run(us) for us in LINKS_US},  # type: ignore[misc]
        }
        figures = interleave(runs)
        limit = figures.pop("limit")
        case = f"{LANEFORMER}/1 lane of 8 alone/delay {delay}"
        tell([record(f"{case}/link {us} us", "tok_s", f, limit=limit) for us, f in figures.items()], dry)
        del plain, linked
    more = Kernel(model(2), cards[:1], weights=weights, alone=8, splits=16)
    figures = interleave({"splits": lambda: more.rate(CONTEXTS[0]), "late": lambda: more.rate(CONTEXTS[1])})
    for context, name in zip(CONTEXTS, figures, strict=True):
        case = f"{LANEFORMER}/1 lane of 8 alone/delay 2/16 splits/ctx{context}"
        tell([record(case, "tok_s", figures[name])], dry)


def part_link(cards: Sequence[int], dry: bool) -> None:
    """All eight lanes on one card, each other's outputs seen after a link's time."""
    from benchmarks.decode_cuda import random_on_device

    weights = random_on_device(model(2))
    for delay in DELAYS:
        linked = Kernel(model(delay), cards[:1], weights=weights, apart=True, link_ns=1000)

        def at(us: int, k: Kernel = linked) -> float:
            k.kernel.set_link(us * 1000)
            return k.rate(CONTEXTS[0], 100)

        runs = {str(us): lambda us=us, run=at: run(us) for us in (1, 5, 20, 50)}
        case = f"{LANEFORMER}/8 lanes of one card/delay {delay}"
        figures = interleave(runs)
        tell([record(f"{case}/link {us} us", "tok_s", f) for us, f in figures.items()], dry)


def part_stagger(cards: Sequence[int], dry: bool) -> None:
    """Lanes of one card that begin a token apart, so that their exchanges do not fall together."""
    from benchmarks.decode_cuda import random_on_device

    spec = model(2)
    weights = random_on_device(spec)
    kernels = {
        f"{phases} phases, {cycles} cycles": Kernel(
            spec, cards[:1], weights=weights, defines=(f"LANE_STAGGER={cycles}", f"LANE_PHASES={phases}")
        )
        for phases, cycles in STAGGERS
    }
    runs: dict[str, Callable[[], float]] = {
        f"{name}/ctx{at}": lambda k=k, at=at: k.rate(at)  # type: ignore[misc]
        for name, k in kernels.items()
        for at in CONTEXTS
    }
    runs["limit"] = lambda: 1.0 / kernels["1 phases, 0 cycles"].kernel.stream_only(50)
    figures = interleave(runs)
    limit = figures.pop("limit")
    tell(
        [record(f"{LANEFORMER}/stagger/{name}", "tok_s", f, limit=limit) for name, f in figures.items()], dry
    )


def part_exchange(cards: Sequence[int], dry: bool) -> None:
    """Exchanges among blocks and cards, beside NCCL."""
    from benchmarks import exchange

    exchange.main(["--devices", str(len(set(cards))), *(["--dry"] if dry else [])])


def layouts_of(devices: int, *, virtual: bool) -> list[list[int]]:
    """The lists of cards that a command runs on, one after the other."""
    return [[0] * n for n in (2, 4, 8)] if virtual else [list(range(devices))]


def parts_of(devices: int, *, virtual: bool) -> list[str]:
    """The parts that a command runs, in order."""
    places = {"any", "several"} if virtual else {"any", "several", "cards"} if devices > 1 else {"any", "one"}
    return [name for name, (place, _) in PARTS.items() if place in places]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--devices", type=int, choices=(1, 2, 4, 8), default=1)
    parser.add_argument("--virtual", action="store_true", help="parts of one card in place of cards")
    parser.add_argument("--part", nargs="+", choices=list(PARTS), default=[])
    parser.add_argument("--seconds", type=float, default=570.0, help="of the whole run")
    parser.add_argument("--dry", action="store_true", help="print the figures without recording them")
    parser.add_argument("--worker", type=int, nargs="+", help=argparse.SUPPRESS)
    parser.add_argument("--rank-of", default="", help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    if options.rank_of:
        _compiled_rank(options.rank_of)
        return
    if options.worker:
        for part in options.part:
            globals()[f"part_{part}"](options.worker, options.dry)
        return
    until = time.monotonic() + options.seconds
    for part in options.part or parts_of(options.devices, virtual=options.virtual):
        place, seconds = PARTS[part]
        lists = layouts_of(options.devices, virtual=options.virtual)
        for cards in lists if place == "several" else lists[:1]:
            left = until - time.monotonic()
            if left < 5:
                print_now(f"{part} on {where(cards)}: not run, the {options.seconds:.0f} s are over")
                continue
            print_now(f"── {part} on {where(cards)} ({min(seconds, left):.0f} s at most)")
            command = [sys.executable, "-m", "benchmarks.lanes", "--part", part]
            command += [*(["--dry"] if options.dry else []), "--worker", *map(str, cards)]
            why = run_bounded(command, min(seconds, left), print_now)
            if why:
                print_now(f"{part} on {where(cards)}: {why}")


if __name__ == "__main__":
    import os

    # Parts of one card side by side need a hardware queue each; read when CUDA starts.
    os.environ.setdefault("CUDA_DEVICE_MAX_CONNECTIONS", "32")
    main()
