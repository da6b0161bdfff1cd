// Attention of one new row: norm and RoPE of q and k, append, one split of the keys a block, merge.
// Positions go to splits by blocks of 8, round robin, so that a block reads only keys it wrote itself (or that
// were there at the launch): no ordering between blocks is needed for the cache.
#pragma once
#include "gemv.cuh"

constexpr int KEY_BLOCK = 8;
constexpr int HEADS_AT_ONCE = 4;
constexpr int LOADS = 4;  // keys and values in flight a thread

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
    float* q;      // [W][n_rep][h]
    u32* fresh;    // [W][2][h/2]  new keys and values, f16 pairs
    float* sums;   // [WARPS][HEADS_AT_ONCE][h]
    float2* stats; // [WARPS][HEADS_AT_ONCE]  maximum, sum
};
__device__ __forceinline__ AttentionScratch attention_scratch(char* base, int rows) {
    AttentionScratch s;
    const int rep = p.heads / p.kv_heads;
    s.q = (float*)base;
    s.fresh = (u32*)(s.q + rows * rep * p.head_dim);
    s.sums = (float*)(s.fresh + rows * p.head_dim);
    s.stats = (float2*)(s.sums + WARPS * HEADS_AT_ONCE * p.head_dim);
    return s;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// q, k, v of one kv head from the exchange: q scaled into shared memory, owned k and v into the cache.
template <int W>
__device__ void read_qkv(const Place& me, const AttentionScratch& s, const float2* rope,
                         int layer, int rows, int at0, int window, int kv_head, int split, u32 tag) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int h = p.head_dim, rep = p.heads / p.kv_heads;
    for (int w = 0; w < rows; w++) {
        const int at = at0 + w;
        if (!split_has_keys(span_of(at, window), split)) continue;
        const bool owned = ((at / KEY_BLOCK) & (p.splits - 1)) == split;
        const int vectors = rep + (owned ? 2 : 0);
        const u64* words = (const u64*)p.qbuf + (size_t)(me.lane * W + w) * p.qkv_rows;
        for (int v = warp; v < vectors; v += WARPS) {
            const bool is_q = v < rep, is_k = v == rep;
            const int row = is_q ? (kv_head * rep + v) * h : (p.heads + (is_k ? 0 : p.kv_heads) + kv_head) * h;
            float2 x[4];
            u64 a[4], b[4];
            float square = 0;
#pragma unroll
            for (int j = 0; j < 4; j++)
                if (lane + 32 * j < h / 2) load_two_words(words + row + 2 * (lane + 32 * j), a[j], b[j]);
#pragma unroll
            for (int j = 0; j < 4; j++) {
                x[j] = make_float2(0, 0);
                const int i = lane + 32 * j;
                if (i < h / 2) {
                    u32 lo, hi;
                    poll_two(words + row + 2 * i, a[j], b[j], tag, WAIT_QKV, row + 2 * i, lo, hi);
                    x[j] = make_float2(__uint_as_float(lo), __uint_as_float(hi));
                    square += x[j].x * x[j].x + x[j].y * x[j].y;
                }
            }
            float scale = 1.0f;
            const float* weight = nullptr;
            if (p.qk_norm && (is_q || is_k)) {
                scale = rsqrtf(warp_sum(square) / h + p.eps);
                weight = (const float*)p.qk_norm + (layer * 2 + (is_k ? 1 : 0)) * h;
            }
#pragma unroll
            for (int j = 0; j < 4; j++) {
                const int i = lane + 32 * j;
                if (i >= h / 2) continue;
                float2 y = x[j];
                if (weight) {
                    y.x *= scale * weight[2 * i];
                    y.y *= scale * weight[2 * i + 1];
                }
                if (is_q || is_k) {
                    const float2 turn = rope[w * (h / 2) + i];
                    y = make_float2(y.x * turn.x - y.y * turn.y, y.x * turn.y + y.y * turn.x);
                }
                if (is_q) {
                    float* q = s.q + (w * rep + v) * h + 2 * i;
                    q[0] = y.x * p.attn_scale_log2;
                    q[1] = y.y * p.attn_scale_log2;
                } else {
                    const int kind = is_k ? 0 : 1;
                    const u32 halves = pack_halves(y.x, y.y);
                    s.fresh[(w * 2 + kind) * (h / 2) + i] = halves;
                    u32* cache = (u32*)p.kv + ((size_t)((layer * 2 + kind) * p.lanes * p.kv_heads + me.lane * p.kv_heads + kv_head) *
                                                   p.capacity + at) * (h / 2);
                    cache[i] = halves;
                }
            }
        }
    }
}

// How the threads of a warp share keys, and which keys of a split one row sees.
struct SplitPlan {
    int lanes_log2;  // threads that share one key, log2
    int sub, d;      // this thread's key of a group; its first dimension
    bool active;     // it has dimensions
    int first, blocks, first_key, at;
};
__device__ __forceinline__ SplitPlan split_plan(int at, int window, int split) {
    SplitPlan s;
    const int lane = threadIdx.x & 31;
    s.lanes_log2 = 0;
    while ((8 << s.lanes_log2) < p.head_dim) s.lanes_log2++;
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

// Keys and values in flight: LOADS a thread.
struct Keys {
    uint4 k[LOADS], v[LOADS];
    bool seen[LOADS];
};
__device__ __forceinline__ int key_of(const SplitPlan& s, int base, int u) {
    const int warp = threadIdx.x >> 5;
    const int j = base + (((warp * LOADS + u) << 5) >> s.lanes_log2) + s.sub;
    const int key = (s.first + (j / KEY_BLOCK << p.split_log2)) * KEY_BLOCK + j % KEY_BLOCK;
    return j < s.blocks * KEY_BLOCK && key >= s.first_key && key <= s.at ? key : -1;
}
// Those that came before this step, from the cache; may run before the step's own q, k and v are there.
__device__ __forceinline__ void fetch_old(Keys& f, const SplitPlan& s, const char* keys, size_t values, int base, int at0) {
#pragma unroll
    for (int u = 0; u < LOADS; u++) {
        const int key = key_of(s, base, u);
        f.seen[u] = key >= 0;
        f.k[u] = f.v[u] = make_uint4(0, 0, 0, 0);
        if (key >= 0 && key < at0 && s.active) {
            const char* from = keys + ((size_t)key * p.head_dim + s.d) * 2;
            f.k[u] = *(const uint4*)from;
            f.v[u] = *(const uint4*)(from + values);
        }
    }
}
// Those of this step, from shared memory.
__device__ __forceinline__ void fetch_fresh(Keys& f, const SplitPlan& s, const u32* fresh, int base, int at0) {
#pragma unroll
    for (int u = 0; u < LOADS; u++) {
        const int key = key_of(s, base, u);
        if (key >= at0 && s.active) {
            const char* from = (const char*)(fresh + (key - at0) * p.head_dim) + s.d * 2;
            f.k[u] = *(const uint4*)from;
            f.v[u] = *(const uint4*)(from + p.head_dim * 2);
        }
    }
}

// Softmax-weighted values of one split for one row: published as f16 pairs and log2 of the sum. `f` holds the
// first old keys.
template <int W>
__device__ __forceinline__ void attend_split(const Place& me, const AttentionScratch& s, const SplitPlan& plan, Keys& f, const char* keys,
                                             size_t values, int w, int at0, int kv_head, int split, u32 tag) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int h = p.head_dim, rep = p.heads / p.kv_heads, d = plan.d, threads = 1 << plan.lanes_log2;
    const int step = WARPS * LOADS * (32 >> plan.lanes_log2);
    for (int r0 = 0; r0 < rep; r0 += HEADS_AT_ONCE) {
        const int n = min(HEADS_AT_ONCE, rep - r0);
        float m[HEADS_AT_ONCE], l[HEADS_AT_ONCE], acc[HEADS_AT_ONCE][8];
#pragma unroll
        for (int r = 0; r < HEADS_AT_ONCE; r++) {
            m[r] = -INFINITY;
            l[r] = 0;
#pragma unroll
            for (int e = 0; e < 8; e++) acc[r][e] = 0;
        }
        for (int base = 0; base < plan.blocks * KEY_BLOCK; base += step) {
            if (base > 0 || r0 > 0) fetch_old(f, plan, keys, values, base, at0);
            fetch_fresh(f, plan, s.fresh, base, at0);
#pragma unroll
            for (int r = 0; r < HEADS_AT_ONCE; r++) {
                if (r >= n) break;
                float score[LOADS];
                const float* qp = s.q + (w * rep + r0 + r) * h + d;
                float4 q0 = make_float4(0, 0, 0, 0), q1 = q0;
                if (plan.active) {
                    q0 = *(const float4*)qp;
                    q1 = *(const float4*)(qp + 4);
                }
#pragma unroll
                for (int u = 0; u < LOADS; u++) {
                    const float2 k0 = unpack_halves(f.k[u].x), k1 = unpack_halves(f.k[u].y), k2 = unpack_halves(f.k[u].z),
                                 k3 = unpack_halves(f.k[u].w);
                    score[u] = q0.x * k0.x + q0.y * k0.y + q0.z * k1.x + q0.w * k1.y + q1.x * k2.x + q1.y * k2.y + q1.z * k3.x +
                               q1.w * k3.y;
                }
                for (int o = threads >> 1; o; o >>= 1)
#pragma unroll
                    for (int u = 0; u < LOADS; u++) score[u] += __shfl_xor_sync(~0u, score[u], o);
                float top = m[r];
#pragma unroll
                for (int u = 0; u < LOADS; u++) {
                    if (!f.seen[u]) score[u] = -INFINITY;
                    top = fmaxf(top, score[u]);
                }
                if (top == -INFINITY) continue;
                const float keep = exp2_fast(m[r] - top);
                m[r] = top;
                l[r] *= keep;
#pragma unroll
                for (int e = 0; e < 8; e++) acc[r][e] *= keep;
#pragma unroll
                for (int u = 0; u < LOADS; u++) {
                    const float weight = exp2_fast(score[u] - top);
                    const float2 v0 = unpack_halves(f.v[u].x), v1 = unpack_halves(f.v[u].y), v2 = unpack_halves(f.v[u].z),
                                 v3 = unpack_halves(f.v[u].w);
                    l[r] += weight;
                    acc[r][0] += weight * v0.x;
                    acc[r][1] += weight * v0.y;
                    acc[r][2] += weight * v1.x;
                    acc[r][3] += weight * v1.y;
                    acc[r][4] += weight * v2.x;
                    acc[r][5] += weight * v2.y;
                    acc[r][6] += weight * v3.x;
                    acc[r][7] += weight * v3.y;
                }
            }
        }
#pragma unroll
        for (int r = 0; r < HEADS_AT_ONCE; r++) {
            if (r >= n) break;
            for (int o = threads; o < 32; o <<= 1) {
                const float m2 = __shfl_xor_sync(~0u, m[r], o), l2 = __shfl_xor_sync(~0u, l[r], o);
                const float top = fmaxf(m[r], m2);
                const float a = top == -INFINITY ? 0.0f : exp2_fast(m[r] - top), b = top == -INFINITY ? 0.0f : exp2_fast(m2 - top);
                m[r] = top;
                l[r] = l[r] * a + l2 * b;
#pragma unroll
                for (int e = 0; e < 8; e++) acc[r][e] = acc[r][e] * a + __shfl_xor_sync(~0u, acc[r][e], o) * b;
            }
            if (plan.sub == 0 && plan.active) {
                float* to = s.sums + (warp * HEADS_AT_ONCE + r) * h + d;
                *(float4*)to = make_float4(acc[r][0], acc[r][1], acc[r][2], acc[r][3]);
                *(float4*)(to + 4) = make_float4(acc[r][4], acc[r][5], acc[r][6], acc[r][7]);
            }
            if (lane == 0) s.stats[warp * HEADS_AT_ONCE + r] = make_float2(m[r], l[r]);
        }
        sync_consumers();
        for (int i = threadIdx.x; i < n * (h / 2); i += THREADS) {
            const int r = i / (h / 2), pair = i - r * (h / 2);
            float top = -INFINITY, sum = 0, x = 0, y = 0;
#pragma unroll
            for (int v = 0; v < WARPS; v++) top = fmaxf(top, s.stats[v * HEADS_AT_ONCE + r].x);
#pragma unroll
            for (int v = 0; v < WARPS; v++) {
                const float2 st = s.stats[v * HEADS_AT_ONCE + r];
                const float scale = exp2_fast(st.x - top);
                const float2 a = *(const float2*)(s.sums + (v * HEADS_AT_ONCE + r) * h + 2 * pair);
                sum += st.y * scale;
                x += a.x * scale;
                y += a.y * scale;
            }
            const int q_head = (me.lane * W + w) * p.heads + kv_head * rep + r0 + r;
            const size_t cell = (size_t)q_head * p.splits + split;
            store_word((u64*)p.pbuf + cell * (h / 2) + pair, tagged(pack_halves(x / sum, y / sum), tag));
            if (pair == 0) store_word((u64*)p.sbuf + cell, tagged(__float_as_uint(top + log2f(sum)), tag));
        }
        sync_consumers();
    }
}

// The attention phase of this block: its (kv head, split) items.
template <int W>
__device__ __noinline__ void attend(const Place& me, char* scratch, const float2* rope, int layer, int rows,
                       int at0, int window, u32 tag) {
    const AttentionScratch s = attention_scratch(scratch, rows);
    const size_t values = (size_t)p.lanes * p.kv_heads * p.capacity * p.head_dim * 2;
    for (int item = me.rank; item < p.kv_heads * p.splits; item += p.group) {
        const int kv_head = item >> p.split_log2, split = item & (p.splits - 1);
        const size_t head = (size_t)layer * 2 * p.lanes * p.kv_heads + me.lane * p.kv_heads + kv_head;
        const char* keys = (const char*)p.kv + head * p.capacity * p.head_dim * 2;
        Keys f;
        SplitPlan plan = split_plan(at0, window, split);
        fetch_old(f, plan, keys, values, 0, at0);
        read_qkv<W>(me, s, rope, layer, rows, at0, window, kv_head, split, tag);
        sync_consumers();
        for (int w = 0; w < rows; w++) {
            if (!split_has_keys(span_of(at0 + w, window), split)) continue;
            if (w > 0) {
                plan = split_plan(at0 + w, window, split);
                fetch_old(f, plan, keys, values, 0, at0);
            }
            attend_split<W>(me, s, plan, f, keys, values, w, at0, kv_head, split, tag);
        }
        sync_consumers();
    }
}

// Merge the splits of values [4*low, 4*high) of one row; calls f(quad, pair bits, pair bits) once a quad.
template <int W, class F>
__device__ __forceinline__ void merge_splits(const Place& me, int w, int at, int window, int low,
                                             int high, u32 tag, F f) {
    constexpr int BATCH = 3;
    const int h4 = p.head_dim / 4;
    const Span span = span_of(at, window);
    const int total = (high - low) * p.splits;
    const int split = threadIdx.x & (p.splits - 1);
    const bool has = split_has_keys(span, split);
    const u64* values = (const u64*)p.pbuf;
    const u64* sums = (const u64*)p.sbuf;
    for (int base = threadIdx.x; (base & ~31) < total; base += BATCH * THREADS) {
        u64 a[BATCH], b[BATCH], l[BATCH];
        const u64 *va[BATCH], *la[BATCH];
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int i = base + j * THREADS;
            const int quad = low + (i >> p.split_log2);
            const int head = quad / h4;
            const size_t cell = (size_t)((me.lane * W + w) * p.heads + head) * p.splits + split;
            va[j] = values + cell * 2 * h4 + (quad - head * h4) * 2;
            la[j] = sums + cell;
            if (i < total && has) {
                load_two_words(va[j], a[j], b[j]);
                l[j] = load_word(la[j]);
            }
        }
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int i = base + j * THREADS;
            if ((i & ~31) >= total) break;
            u32 x = 0, y = 0;
            float lse = -INFINITY;
            if (i < total && has) {
                poll_two(va[j], a[j], b[j], tag, WAIT_SPLITS, i, x, y);
                lse = __uint_as_float(tag_of(l[j]) == tag ? (u32)l[j] : poll_word(la[j], tag, WAIT_SPLITS, i));
            }
            float top = lse;
            for (int o = p.splits >> 1; o; o >>= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, o));
            const float weight = lse == -INFINITY ? 0.0f : exp2_fast(lse - top);
            const float2 v0 = unpack_halves(x), v1 = unpack_halves(y);
            float sum = weight, o0 = v0.x * weight, o1 = v0.y * weight, o2 = v1.x * weight, o3 = v1.y * weight;
            for (int o = p.splits >> 1; o; o >>= 1) {
                sum += __shfl_xor_sync(~0u, sum, o);
                o0 += __shfl_xor_sync(~0u, o0, o);
                o1 += __shfl_xor_sync(~0u, o1, o);
                o2 += __shfl_xor_sync(~0u, o2, o);
                o3 += __shfl_xor_sync(~0u, o3, o);
            }
            if (split == 0 && i < total) f(low + (i >> p.split_log2), pack_halves(o0 / sum, o1 / sum), pack_halves(o2 / sum, o3 / sum));
        }
    }
}
