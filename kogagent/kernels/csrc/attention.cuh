// Attention of one new row: norm and RoPE of q and k, append, one split of the keys a block, merge.
// Positions go to splits by blocks of 8, round robin, so that a block reads only keys it wrote itself (or that
// were there at the launch): no ordering between blocks is needed for the cache.
#pragma once
#include "gemv.cuh"

constexpr int KEY_BLOCK = 8;
constexpr int LOADS = 8;  // keys and values in flight a thread

struct Place {  // of this block
    int lane, rank;
};

// First block of keys and number of blocks that row `at` sees.
struct Span {
    int first_key, first_block, blocks;
};
__device__ __forceinline__ Span span_of(int at, int window) {
    Span s;
    s.first_key = window > 0 && at + 1 > window ? at + 1 - window : 0;
    s.first_block = s.first_key / KEY_BLOCK;
    s.blocks = at / KEY_BLOCK - s.first_block + 1;
    return s;
}
__device__ __forceinline__ bool split_has_keys(const Span& s, int split) {
    return ((split - s.first_block) & (p.splits - 1)) < s.blocks;
}

// Asks for the keys and values that this block's items will read in a layer. One warp.
__device__ __forceinline__ void prefetch_keys(const Place& me, int layer, int at, int window) {
    const int lane = threadIdx.x & 31, bytes = KEY_BLOCK * p.head_dim * 2;
    const Span span = span_of(at, window);
    for (int item = me.rank; item < p.kv_heads * p.splits; item += p.group) {
        const int kv_head = item >> p.split_log2, split = item & (p.splits - 1);
        const int behind = (split - span.first_block) & (p.splits - 1);
        const int blocks = (span.blocks - behind + p.splits - 1) / p.splits, lines = (bytes + 127) / 128;
        const size_t head = (size_t)layer * 2 * p.lanes * p.kv_heads + me.lane * p.kv_heads + kv_head;
        const char* keys = (const char*)p.kv + (head * p.capacity + (size_t)(span.first_block + behind) * KEY_BLOCK) * p.head_dim * 2;
        const size_t values = (size_t)p.lanes * p.kv_heads * p.capacity * p.head_dim * 2;
#pragma unroll 1
        for (int i = lane; i < blocks * lines; i += 32) {
            const int block = i / lines;
            if ((span.first_block + behind + block * p.splits + 1) * KEY_BLOCK > p.capacity) continue;
            const char* line = keys + (size_t)block * p.splits * bytes + (i - block * lines) * 128;
            prefetch_line(line);
            prefetch_line(line + values);
        }
    }
}

// Shared memory of this phase, reused by the next item.
struct AttentionScratch {
    float* qkv;    // [rows][rep + 2][h]  q scaled and turned; k and v as they came
    u32* fresh;    // [rows][2][h/2]      new keys and values, f16 pairs
    float* sums;   // [WARPS][h]
    float2* stats; // [WARPS]             maximum, sum
};
__device__ __forceinline__ AttentionScratch attention_scratch(char* base, int rows) {
    AttentionScratch s;
    s.qkv = (float*)base;
    s.fresh = (u32*)(s.qkv + rows * (p.heads / p.kv_heads + 2) * p.head_dim);
    s.sums = (float*)(s.fresh + rows * p.head_dim);
    s.stats = (float2*)(s.sums + WARPS * p.head_dim);
    return s;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// Norm and RoPE of one row's vectors, the scale of q; owned k and v into the cache.
__device__ __forceinline__ void turn(const Place& me, const AttentionScratch& s, const float2* rope, int layer, int w, int at, int kv_head,
                                     bool owned) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, h = p.head_dim, rep = p.heads / p.kv_heads;
#pragma unroll 1
    for (int v = warp; v < rep + (owned ? 2 : 0); v += WARPS) {
        float2* x = (float2*)(s.qkv + (w * (rep + 2) + v) * h);
        const int kind = v - rep;  // below 0: q, 0: k, 1: v
        float scale = 1.0f;
        const float2* weight = nullptr;
        if (p.qk_norm && kind < 1) {
            float square = 0;
#pragma unroll 1
            for (int i = lane; i < h / 2; i += 32) square += x[i].x * x[i].x + x[i].y * x[i].y;
            scale = rsqrtf(warp_sum(square) / h + p.eps);
            weight = (const float2*)p.qk_norm + (layer * 2 + (kind == 0 ? 1 : 0)) * (h / 2);
        }
#pragma unroll 1
        for (int i = lane; i < h / 2; i += 32) {
            float2 y = x[i];
            if (weight) y = make_float2(y.x * scale * weight[i].x, y.y * scale * weight[i].y);
            if (kind < 1) {
                const float2 r = rope[w * (h / 2) + i];
                y = make_float2(y.x * r.x - y.y * r.y, y.x * r.y + y.y * r.x);
            }
            if (kind < 0) {
                x[i] = make_float2(y.x * p.attn_scale_log2, y.y * p.attn_scale_log2);
            } else {
                const u32 halves = pack_halves(y.x, y.y);
                s.fresh[(w * 2 + kind) * (h / 2) + i] = halves;
                const size_t head = (size_t)(layer * 2 + kind) * p.lanes * p.kv_heads + me.lane * p.kv_heads + kv_head;
                ((u32*)p.kv)[(head * p.capacity + at) * (h / 2) + i] = halves;
            }
        }
    }
}

// q, and k and v where they are this split's, of every row that sees some of its keys; into shared memory.
__device__ __forceinline__ void read_qkv(const Place& me, const AttentionScratch& s, const float2* rope, int layer, int rows, int at0, int window,
                                      int kv_head, int split, u32 tag) {
    const int h = p.head_dim, rep = p.heads / p.kv_heads;
#pragma unroll 1
    for (int turned = 0; turned < 2; turned++) {
#pragma unroll 1
        for (int w = 0; w < rows; w++) {
            const bool owned = ((at0 + w) / KEY_BLOCK & (p.splits - 1)) == split;
            if (!split_has_keys(span_of(at0 + w, window), split)) continue;
            if (turned)
                turn(me, s, rope, layer, w, at0 + w, kv_head, owned);
            else
                TIMED(11, gather((const u64*)p.qbuf + ((size_t)me.lane * p.width + w) * p.qkv_rows + kv_head * (rep + 2) * h, (rep + (owned ? 2 : 0)) * h / 2,
                       nullptr, 0, tag, (uint2*)(s.qkv + w * (rep + 2) * h)));
        }
        sync_consumers();
    }
}

// How the warps and threads of a block share a split: each warp one query head and some of the keys.
struct SplitPlan {
    int lanes_log2;         // threads that share one key, log2
    int warps_log2, share;  // warps that share one head, log2; this warp's place among them
    int sub, d;             // this thread's key of a group; its first dimension
    bool active;            // it has dimensions
    int first, blocks, first_key, at;
};
__device__ __forceinline__ SplitPlan split_plan(int at, int window, int split) {
    SplitPlan s;
    const int lane = threadIdx.x & 31, warp = threadIdx.x >> 5, rep = p.heads / p.kv_heads;
    s.lanes_log2 = 0;
    while ((8 << s.lanes_log2) < p.head_dim) s.lanes_log2++;
    s.warps_log2 = 3;
    while (s.warps_log2 > 0 && (rep << s.warps_log2) > WARPS) s.warps_log2--;
    s.share = warp & ((1 << s.warps_log2) - 1);
    s.sub = lane >> s.lanes_log2;
    s.d = (lane & ((1 << s.lanes_log2) - 1)) * 8;
    s.active = s.d < p.head_dim;
    const Span span = span_of(at, window);
    const int behind = (split - span.first_block) & (p.splits - 1);
    s.first = span.first_block + behind;
    s.blocks = (span.blocks - behind + p.splits - 1) >> p.split_log2;
    s.first_key = span.first_key;
    s.at = at;
    return s;
}

// The key of this thread's load u in one round, -1 where the split has none there.
__device__ __forceinline__ int key_of(const SplitPlan& s, int base, int u) {
    const int j = base + (((s.share * LOADS + u) << 5) >> s.lanes_log2) + s.sub;
    const int key = (s.first + (j / KEY_BLOCK << p.split_log2)) * KEY_BLOCK + j % KEY_BLOCK;
    return j < s.blocks * KEY_BLOCK && key >= s.first_key && key <= s.at && s.active ? key : -1;
}
__device__ __forceinline__ void add_scaled(float (&acc)[8], const uint4& v, float k) {
    const float2 a = unpack_halves(v.x), b = unpack_halves(v.y), c = unpack_halves(v.z), d = unpack_halves(v.w);
    acc[0] += k * a.x, acc[1] += k * a.y, acc[2] += k * b.x, acc[3] += k * b.y;
    acc[4] += k * c.x, acc[5] += k * c.y, acc[6] += k * d.x, acc[7] += k * d.y;
}
__device__ __forceinline__ float dot(const float4& q0, const float4& q1, const uint4& k) {
    const float2 a = unpack_halves(k.x), b = unpack_halves(k.y), c = unpack_halves(k.z), d = unpack_halves(k.w);
    return q0.x * a.x + q0.y * a.y + q0.z * b.x + q0.w * b.y + q1.x * c.x + q1.y * c.y + q1.z * d.x + q1.w * d.y;
}

// Joins what the warps hold of `heads` heads from q_head and publishes it; weight zero where a split has no keys.
__device__ __forceinline__ void publish_split(const Place& me, const AttentionScratch& s, int warps_log2, int w, int q_head, int heads,
                                              int split, u32 tag) {
    const int h = p.head_dim;
    const size_t row = (size_t)me.lane * p.width + w;
#pragma unroll 1
    for (int i = threadIdx.x; i < heads * (h / 2); i += THREADS) {
        const int local = i / (h / 2), pair = i - local * (h / 2), first = local << warps_log2, head = q_head + local;
        float top = -INFINITY, sum = 0, x = 0, y = 0;
#pragma unroll 1
        for (int v = 0; v < 1 << warps_log2; v++) top = fmaxf(top, s.stats[first + v].x);
        const float from = top == -INFINITY ? 0.0f : top;
#pragma unroll 1
        for (int v = 0; v < 1 << warps_log2; v++) {
            const float2 st = s.stats[first + v], a = ((const float2*)(s.sums + (first + v) * h))[pair];
            const float scale = exp2_fast(st.x - from);
            sum += st.y * scale;
            x += a.x * scale;
            y += a.y * scale;
        }
        const float k = sum > 0 ? 1.0f / sum : 0.0f;
        u64* cell = (u64*)p.pbuf + ((row * p.heads * (h / 4) + head * (h / 4) + pair / 2) * p.splits + split) * 2;
        store_word(cell + (pair & 1), tagged(pack_halves(x * k, y * k), tag));
        if (pair == 0)
            store_word((u64*)p.sbuf + (row * p.heads + head) * p.splits + split, tagged(__float_as_uint(top + log2f(sum)), tag));
    }
}

// The attention phase of this block: softmax-weighted values of its (kv head, split) items, row by row. The first
// keys are on their way before q has come.
__device__ __forceinline__ void attend(const Place& me, char* scratch, const float2* rope, int layer, int rows, int at0, int window, u32 tag) {
    const AttentionScratch s = attention_scratch(scratch, rows);
    const int h = p.head_dim, rep = p.heads / p.kv_heads, warp = threadIdx.x >> 5;
    const u32 h8 = h / 8, values = (u32)p.lanes * p.kv_heads * p.capacity * h8;  // 16-byte words between a key and its value
#pragma unroll 1
    for (int item = me.rank; item < p.kv_heads * p.splits; item += p.group) {
        const int kv_head = item >> p.split_log2, split = item & (p.splits - 1);
        const size_t head = (size_t)layer * 2 * p.lanes * p.kv_heads + me.lane * p.kv_heads + kv_head;
        const uint4* cache = (const uint4*)p.kv + head * p.capacity * h8;
        bool ready = false;
#pragma unroll 1
        for (int w = 0; w < rows; w++) {
            const SplitPlan plan = split_plan(at0 + w, window, split);
            const uint4* keys = cache + plan.d / 8;
            const int threads = 1 << plan.lanes_log2, together = WARPS >> plan.warps_log2;
            const int step = (LOADS << plan.warps_log2) * (32 >> plan.lanes_log2);
#pragma unroll 1
            for (int r0 = 0; r0 < rep; r0 += together) {
                const int r = min(r0 + (warp >> plan.warps_log2), rep - 1);  // spare warps do the last head again
                float m = -INFINITY, l = 0, acc[8] = {};
#pragma unroll 1
                for (int base = 0; base < plan.blocks * KEY_BLOCK; base += step) {
                    uint4 k[LOADS], v[LOADS];
                    u32 seen = 0, fresh = 0;
#pragma unroll
                    for (int u = 0; u < LOADS; u++) {
                        const int key = key_of(plan, base, u);
                        k[u] = v[u] = make_uint4(0, 0, 0, 0);
                        if (key >= 0) seen |= 1u << u;
                        if (key >= at0) fresh |= 1u << u;
                        if (key >= 0 && key < at0) {
                            const uint4* from = keys + (u32)key * h8;
                            k[u] = load_past_l1(from);
                            v[u] = load_past_l1(from + values);
                        }
                    }
                    if (!ready) TIMED(15, read_qkv(me, s, rope, layer, rows, at0, window, kv_head, split, tag));
                    ready = true;
                    if (__any_sync(~0u, fresh)) {  // keys that came with this step
#pragma unroll
                        for (int u = 0; u < LOADS; u++) {
                            if (!(fresh >> u & 1)) continue;
                            const uint4* from = (const uint4*)(s.fresh + (key_of(plan, base, u) - at0) * h) + plan.d / 8;
                            k[u] = from[0];
                            v[u] = from[h8];
                        }
                    }
                    float4 q0 = make_float4(0, 0, 0, 0), q1 = q0;
                    if (plan.active) {
                        const float4* q = (const float4*)(s.qkv + (w * (rep + 2) + r) * h + plan.d);
                        q0 = q[0];
                        q1 = q[1];
                    }
                    float score[LOADS];
#pragma unroll
                    for (int u = 0; u < LOADS; u++) score[u] = dot(q0, q1, k[u]);
#pragma unroll 1
                    for (int o = threads >> 1; o; o >>= 1)
#pragma unroll
                        for (int u = 0; u < LOADS; u++) score[u] += __shfl_xor_sync(~0u, score[u], o);
                    // threads without dimensions agree with those that have them on what is seen
                    seen = __shfl_sync(~0u, seen, threadIdx.x & 31 & ~(threads - 1));
                    float top = m;
#pragma unroll
                    for (int u = 0; u < LOADS; u++) {
                        if (!(seen >> u & 1)) score[u] = -INFINITY;
                        top = fmaxf(top, score[u]);
                    }
                    const float from = top == -INFINITY ? 0.0f : top;
                    const float keep = exp2_fast(m - from);
                    m = top;
                    l *= keep;
#pragma unroll
                    for (int e = 0; e < 8; e++) acc[e] *= keep;
#pragma unroll
                    for (int u = 0; u < LOADS; u++) {
                        const float weight = exp2_fast(score[u] - from);
                        l += weight;
                        add_scaled(acc, v[u], weight);
                    }
                }
#pragma unroll 1
                for (int o = threads; o < 32; o <<= 1) {
                    const float m2 = __shfl_xor_sync(~0u, m, o), l2 = __shfl_xor_sync(~0u, l, o);
                    const float top = fmaxf(m, m2), from = top == -INFINITY ? 0.0f : top;
                    const float a = exp2_fast(m - from), b = exp2_fast(m2 - from);
                    m = top;
                    l = l * a + l2 * b;
#pragma unroll
                    for (int e = 0; e < 8; e++) acc[e] = acc[e] * a + __shfl_xor_sync(~0u, acc[e], o) * b;
                }
                if (plan.sub == 0 && plan.active) {
                    float4* to = (float4*)(s.sums + warp * h + plan.d);
                    to[0] = make_float4(acc[0], acc[1], acc[2], acc[3]);
                    to[1] = make_float4(acc[4], acc[5], acc[6], acc[7]);
                    if (plan.d == 0) s.stats[warp] = make_float2(m, l);
                }
                sync_consumers();
                TIMED(14, publish_split(me, s, plan.warps_log2, w, kv_head * rep + r0, min(together, rep - r0), split, tag));
                sync_consumers();
            }
        }
    }
}

// One row's attention from its splits into x, as halves. Every block merges all of it, or a slice that it
// publishes and gathers again. scratch: values [quads][splits] as f16 quads, then weights [heads][splits].
__device__ __forceinline__ void combine(const Place& me, char* scratch, char* x, int w, bool needed, u32 tag) {
    const int h4 = p.head_dim / 4, quads = p.heads * h4;
    const bool all = p.direct_combine;
    const int low = all ? 0 : (int)((long long)me.rank * quads / p.group);
    const int high = all ? (needed ? quads : 0) : (int)((long long)(me.rank + 1) * quads / p.group);
    const size_t row = (size_t)me.lane * p.width + w;
    const u64* published = (const u64*)p.abuf + row * quads * 2;
    if (high > low) {
        const int head0 = low / h4, heads = (high - 1) / h4 - head0 + 1;
        const int cells = (high - low) << p.split_log2;
        const uint2* values = (const uint2*)scratch;
        float* weights = (float*)(values + cells);
        gather((const u64*)p.pbuf + ((row * quads + low) << p.split_log2) * 2, cells,
               (const u64*)p.sbuf + ((row * p.heads + head0) << p.split_log2), p.splits == 1 ? 0 : heads << p.split_log2 >> 1, tag,
               (uint2*)scratch);
        sync_consumers();
#pragma unroll 1
        for (int i = threadIdx.x; (i & ~31) < heads << p.split_log2; i += THREADS) {
            const float lse = i < heads << p.split_log2 && p.splits > 1 ? weights[i] : 0.0f;
            float top = lse;
#pragma unroll 1
            for (int o = p.splits >> 1; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
            const float weight = exp2_fast(lse - top);
            float sum = weight;
#pragma unroll 1
            for (int o = p.splits >> 1; o; o >>= 1) sum += __shfl_xor_sync(~0u, sum, o);
            __syncwarp();
            if (i < heads << p.split_log2) weights[i] = weight / sum;
        }
        sync_consumers();
#pragma unroll 1
        for (int i = threadIdx.x; i < high - low; i += THREADS) {
            const float* weight = weights + (((low + i) / h4 - head0) << p.split_log2);
            const uint2* value = values + (i << p.split_log2);
            float o0 = 0, o1 = 0, o2 = 0, o3 = 0;
#pragma unroll 1
            for (int s = 0; s < p.splits; s++) {
                const float2 a = unpack_halves(value[s].x), b = unpack_halves(value[s].y);
                o0 += weight[s] * a.x, o1 += weight[s] * a.y, o2 += weight[s] * b.x, o3 += weight[s] * b.y;
            }
            const uint2 out = make_uint2(pack_halves(o0, o1), pack_halves(o2, o3));
            if (all) {
                ((uint2*)x)[i] = out;
            } else {
                u64* to = (u64*)published + 2 * (low + i);
                store_word(to, tagged(out.x, tag));
                store_word(to + 1, tagged(out.y, tag));
            }
        }
    }
    if (!all && needed) gather(published, quads, nullptr, 0, tag, (uint2*)x);
    sync_consumers();  // the scratch may be used again
}
