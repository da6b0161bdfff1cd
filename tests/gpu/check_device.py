"""Quick look at the kernel on a card without pytest: small models against the reference, then speed."""
import sys, time, dataclasses, traceback
import numpy as np, torch
from kogagent.spec import ModelSpec, LANEFORMER_2B
from kogagent.engine.backends.cuda import kernel_steps
from kogagent.engine.backends.reference import ReferenceBackend
from kogagent.engine.weights import random_tensors
from kogagent.kernels.pack import plan
from kogagent.kernels.monokernel import Monokernel, Segment, Reason

R = dataclasses.replace
TINY = ModelSpec(name="tiny", vocab_size=83, dim=32, n_layers=3, n_heads=4, n_kv_heads=2, head_dim=8, ffn_dim=48, context=40, windows=(0, 6, 0), bos_id=1, eos_ids=(2,))
SMALL = ModelSpec(name="small", vocab_size=1003, dim=576, n_layers=3, n_heads=9, n_kv_heads=3, head_dim=64, ffn_dim=1536, context=256, windows=(0, 40, 0))
LANES = ModelSpec(name="lanes", vocab_size=1000, dim=384, n_layers=5, n_heads=32, n_kv_heads=16, head_dim=96, ffn_dim=1536, context=256, lanes=8, delay=2, windows=(40, 40, 0, 0, 0))
CASES = [TINY, R(TINY, name="tiny-lanes", lanes=2, delay=1, n_layers=4, windows=(6, 6, 0, 0)),
  SMALL, R(SMALL, name="small-bias-norm", qkv_bias=True, qk_norm=True, tied_head=True),
  R(SMALL, name="ladder", residual="ladder"), LANES, R(LANES, name="lanes-vocab", head="vocab_parallel"), R(LANES, name="lanes-sum", head="sum"),
  R(LANES, name="lanes-present", early="present", early_resent=True), R(LANES, name="lanes-nocomm", comm_mlp=False), R(LANES, name="lanes-d0", delay=0)]

def wait(k, seconds=8.0):
    out, t = [], time.perf_counter()
    while k.busy:
        out += k.drain()
        if time.perf_counter() - t > seconds: raise RuntimeError("host gave up")
    return out

def make(spec, tensors, width=1, **kw):
    steps, one = kernel_steps(spec)
    sms = torch.cuda.get_device_properties(0).multi_processor_count
    lay = plan(spec, sms, 232448, one_stream=one, width=width)
    return Monokernel(lay, tensors, steps, **kw)

def check(spec, count=24):
    cpu = random_tensors(spec, 7)
    cpu = {n: t.half().float() for n, t in cpu.items()}
    gpu = {n: t.half().cuda() for n, t in cpu.items()}
    ids = np.random.default_rng(3).integers(0, spec.vocab_size, count).tolist()
    want = ReferenceBackend(spec, cpu).forward(ids).numpy()
    k = make(spec, gpu)
    l = k.layout
    def cache(): return torch.full((spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim), float("nan"), dtype=torch.float16, device="cuda")
    kv = cache(); worst = 0; kl = 0; top = 0
    for i, t in enumerate(ids):
        k.launch(Segment([t], i), kv, logits=True); tok = wait(k)
        got = k.logits()
        worst = max(worst, np.abs(got - want[i]).max() / want[i].std())
        a = want[i].astype(np.float64); b = got.astype(np.float64); a -= np.log(np.exp(a - a.max()).sum()) + a.max(); b -= np.log(np.exp(b - b.max()).sum()) + b.max()
        kl += (np.exp(a) * (a - b)).sum() / count; top += want[i].argmax() == got.argmax()
        assert tok[0].id == got.argmax(), (tok, got.argmax()); assert abs(tok[0].logprob - b.max()) < 1e-4
    # one launch feeds all and runs on, twice
    runs = []
    for _ in range(2):
        kv2 = cache(); k.launch(Segment(ids, 0, max_tokens=12), kv2); runs.append(wait(k))
    same = [(t.id, t.logprob) for t in runs[0]] == [(t.id, t.logprob) for t in runs[1]]
    seq = list(ids); kvs = kv
    step = []
    for j in range(12):
        k.launch(Segment([seq[-1]], len(seq) - 1), kvs); tk = wait(k)[0]; step.append(tk.id); seq.append(tk.id)
    print(f"{spec.name:16s} lanes {l.lanes} group {l.group} splits {l.splits} dc {int(l.direct_combine)} stage {l.stage_bytes}x{l.stages}: worst {worst:.4f} KL {kl:.2e} top1 {top}/{count} repeat {same} stepwise {step == [t.id for t in runs[0]]}", flush=True)
    for width in (4, 8):
        kw = make(spec, gpu, width); kv3 = cache(); kw.launch(Segment(ids, 0, max_tokens=12), kv3, logits=True); r = wait(kw)
        print(f"    width {width}: equal {[(t.id, t.logprob) for t in r] == [(t.id, t.logprob) for t in runs[0]]} kv {torch.equal(kv3[:, :, :, :count].nan_to_num(7), kv2[:, :, :, :count].nan_to_num(7))}", flush=True)

def gpu_random(spec, seed=0):
    g = torch.Generator(device="cuda").manual_seed(seed); out = {}
    for n, s in spec.tensors().items():
        t = torch.empty(s, device="cuda", dtype=torch.float16)
        last = n.rsplit(".", 1)[-1]
        if last.endswith("norm"): t.fill_(1)
        elif last in ("wo", "w2"): t.normal_(0, (s[-1] * spec.lanes * 2 * spec.n_layers) ** -0.5, generator=g)
        elif last == "embed" and not spec.tied_head: t.normal_(0, 1, generator=g)
        else: t.normal_(0, s[-1] ** -0.5, generator=g)
        out[n] = t
    return out

def speed(spec, contexts=(512,), n=200, profile=False, defines=()):
    t0 = time.time(); w = gpu_random(spec); k = make(spec, w, profile=profile, defines=defines); l = k.layout
    kv = torch.randn((spec.n_layers, 2, spec.n_kv_heads, spec.context, spec.head_dim), dtype=torch.float16, device="cuda")
    k.stream_only(20); lim = min(k.stream_only(100) for _ in range(3))
    print(f"{spec.name} limit {1/lim:.0f} tok/s {lim*1e6:.1f} us {spec.streamed_bytes()/lim/1e12:.3f} TB/s", flush=True)
    for c in contexts:
        best = []
        for r in range(4):
            t = time.perf_counter(); k.launch(Segment([5], c, max_tokens=n, temperature=1.0, seed=r), kv); out = wait(k); dt = time.perf_counter() - t
            best.append(len(out) / dt)
        rate = sorted(best)[len(best) // 2]
        print(f"{spec.name} ctx {c}: {rate:.1f} tok/s {1e6/rate:.1f} us, {rate*(spec.streamed_bytes()+spec.kv_bytes(c))/1e12:.3f} TB/s group {l.group} stage {l.stage_bytes}x{l.stages} splits {l.splits} (build {time.time()-t0:.1f}s)", flush=True)
        if profile:
            pr = k.profile() / len(out) / 1.755e3
            names = {0: "gather_x", 5: "qkv", 12: "attend", 1: "combine", 6: "out", 2: "gather_x2", 7: "gate_up", 3: "gather_h", 8: "down", 4: "head_in", 9: "head", 10: "choose", 13: "ring_wait", 14: "publish", 15: "read_qkv", 11: "q_wait"}
            print("  us/token min/mean/max: " + " ".join(f"{m} {pr[:, i].min():.0f}/{pr[:, i].mean():.0f}/{pr[:, i].max():.0f}" for i, m in names.items()), flush=True)
    del k, kv, w; torch.cuda.empty_cache()

LLAMA1B = ModelSpec(name="llama-3.2-1b", vocab_size=128256, dim=2048, n_layers=16, n_heads=32, n_kv_heads=8, head_dim=64, ffn_dim=8192, context=8192, tied_head=True, rope_theta=5e5)
QWEN06 = ModelSpec(name="qwen3-0.6b", vocab_size=151936, dim=1024, n_layers=28, n_heads=16, n_kv_heads=8, head_dim=128, ffn_dim=3072, context=8192, tied_head=True, qk_norm=True, rope_theta=1e6)
SMOL = ModelSpec(name="smollm2-135m", vocab_size=49152, dim=576, n_layers=30, n_heads=9, n_kv_heads=3, head_dim=64, ffn_dim=1536, context=8192, tied_head=True)
LLAMA7B = ModelSpec(name="llama-2-7b", vocab_size=32000, dim=4096, n_layers=32, n_heads=32, n_kv_heads=32, head_dim=128, ffn_dim=11008, context=4096)

if __name__ == "__main__":
    what = sys.argv[1:]
    torch.set_grad_enabled(False)
    try:
        if "check" in what:
            for c in (CASES if "all" in what else [CASES[1], CASES[3], CASES[5], CASES[8], CASES[10]]):
                try: check(c)
                except Exception as e: print(c.name, "FAILED", repr(e)[:700], flush=True); traceback.print_exc(limit=3)
        if "speed" in what:
            speed(R(LANEFORMER_2B, head="vocab_parallel"), (512, 3500)); 
            for s in (LLAMA1B, QWEN06, SMOL): speed(s, (512,))
        if "nowait" in what:
            speed(R(LANEFORMER_2B, head="vocab_parallel"), (512,), profile=True, defines=("KOGAGENT_NO_WAITS",))
        if "profile" in what:
            for s in (R(LANEFORMER_2B, head="vocab_parallel"),): speed(s, (512,), profile=True)
    except Exception as e:
        traceback.print_exc()
