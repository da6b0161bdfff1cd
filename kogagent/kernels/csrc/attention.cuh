// Attention of new rows: norm and RoPE of q and k, append, one split of the keys a block, merge. Cached keys and values
// come through the ring like weights, those of this pass from shared memory.
// Positions go to splits by chunks of 8, round robin, so that a block reads only keys it wrote itself (or that
// were there at the launch): no ordering between blocks is needed for the cache.
#pragma once
#include "gemv.cuh"

constexpr int LOADS = 4;  // keys a thread scores at once

struct Place {  // of this block
    int lane, rank;
};

// How the warps and threads of a block share a split: each warp one query head and some of the keys.
struct SplitPlan {
    int lanes_log2;         // threads that share one key, log2
    int warps_log2, share;  // warps that share one head, log2; this warp's place among them
    int sub, d;             // this thread's key of a group; its first dimension
    bool active;            // it has dimensions
    int step;               // keys that all warps of a head score at once
};
__device__ __forceinline__ SplitPlan split_plan() {
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
    s.step = LOADS << s.warps_log2 << 5 >> s.lanes_log2;
    return s;
}
// Times that one item's keys pass through the ring: once if a stage holds them all, else for every row and every
// round of heads, whose sums stay in registers meanwhile.
__device__ __forceinline__ int key_repeats(const KeyRun& run, int rows) {
    const int rep = p.heads / p.kv_heads;
    return run.stages > 1 ? rows * ((rep + WARPS - 1) / WARPS) : 1;
}

// Producer warp: the cached keys and values that this block's items read in one attention phase.
__device__ __forceinline__ bool stream_keys(Ring& r, const Place& me, int layer, int at, int rows, int window, int lane, volatile int* quit,
                                            u64 policy) {
    const int row_bytes = p.head_dim * 2, chunk_bytes = KEY_BLOCK * row_bytes;
    const size_t values = (size_t)p.lanes * p.kv_heads * p.capacity * row_bytes;  // bytes between a key and its value
#pragma unroll 1
    for (int item = me.rank; item < p.kv_heads * p.splits; item += p.group) {
        const int kv_head = item >> p.split_log2, split = item & (p.splits - 1);
        const KeyRun run = key_run(at, window, split, p.split_log2, p.step_chunks, p.stage_chunks);
        const int stages = run.stages * key_repeats(run, rows);
        const size_t head = (size_t)layer * 2 * p.lanes * p.kv_heads + me.lane * p.kv_heads + kv_head;
        const char* cache = (const char*)p.kv + head * p.capacity * row_bytes;
        int stage = 0;
#pragma unroll 1
        for (int i = 0; i < stages; i++) {
            const KeyStage s = key_stage(run, stage, at, split, p.split_log2, p.stage_chunks);
            if (!ring_free(r, quit)) return false;
            const int bytes = ((s.high - s.low - 1) * KEY_BLOCK + s.last_rows) * row_bytes;
            char* to = r.data + r.slot * r.stage_bytes;
            ring_expect(r, 2 * bytes, lane);
#pragma unroll 1
            for (int place = s.low + ring_copier(lane); place < s.high; place += COPIERS) {
                const char* from = cache + (size_t)first_position(place, split, p.split_log2) * row_bytes;
                char* chunk = to + (place - s.start) * chunk_bytes;
                const int count = place == s.high - 1 ? s.last_rows * row_bytes : chunk_bytes;
                ring_copy(r, chunk, from, count, lane, policy);
                ring_copy(r, chunk + p.stage_chunks * chunk_bytes, from + values, count, lane, policy);
            }
            ring_filled(r);
            if (++stage == run.stages) stage = 0;
        }
    }
    return true;
}

// Shared memory of this phase, reused by the next item.
struct AttentionScratch {
    float* q;      // [rows][rep][h]   scaled and turned
    u32* fresh;    // [rows][2][h/2]   new keys and values, f16 pairs
    float* sums;   // [WARPS][h]
    float2* stats; // [WARPS]          maximum, sum
};
__device__ __forceinline__ AttentionScratch attention_scratch(char* base, int rows) {
    AttentionScratch s;
    s.q = (float*)base;
    s.fresh = (u32*)(s.q + rows * (p.heads / p.kv_heads) * p.head_dim);
    s.sums = (float*)(s.fresh + rows * p.head_dim);
    s.stats = (float2*)(s.sums + WARPS * p.head_dim);
    return s;
}

__device__ __forceinline__ float warp_sum(float v) {
#pragma unroll
    for (int o = 16; o; o >>= 1) v += __shfl_xor_sync(~0u, v, o);
    return v;
}

// q, and k and v where they are this split's, of every row that sees some of its keys: a warp waits for one vector,
// norms and turns it in registers, scales q, puts it into shared memory, and new k and v into the cache too.
__device__ __forceinline__ void read_qkv(const Place& me, const AttentionScratch& s, const float2* rope, int layer, int rows, int at0, int window,
                                      int kv_head, int split, u32 tag) {
    constexpr int CELLS = 4;  // pairs of dimensions a thread
    const int lane = threadIdx.x & 31, pairs = p.head_dim / 2, rep = p.heads / p.kv_heads, vectors = rep + 2;
#pragma unroll 1
    for (int v = threadIdx.x >> 5; v < rows * vectors; v += WARPS) {
        const int w = v / vectors, kind = v - w * vectors - rep, at = at0 + w;  // kind below 0: q, 0: k, 1: v
        if (first_place(at, window, split, p.split_log2) > last_place(at, split, p.split_log2)) continue;
        if (kind >= 0 && (at / KEY_BLOCK & (p.splits - 1)) != split) continue;
        const bool norm = p.qk_norm && kind < 1;
        const float2* weights = (const float2*)p.qk_norm + (layer * 2 + (kind == 0 ? 1 : 0)) * pairs;
        const u64* from = (const u64*)p.qbuf + ((size_t)me.lane * p.width + w) * p.qkv_rows + (kv_head * vectors + kind + rep) * p.head_dim;
        float2 weight[CELLS];
        u64 x[2 * CELLS];
#pragma unroll
        for (int j = 0; j < CELLS; j++)  // on their way while q is waited for
            weight[j] = norm && lane + 32 * j < pairs ? weights[lane + 32 * j] : make_float2(1.0f, 1.0f);
        poll(x, tag, [&](u64 (&to)[2 * CELLS]) {
#pragma unroll
            for (int j = 0; j < CELLS; j++) {
                to[2 * j] = to[2 * j + 1] = (u64)tag << 32;
                if (lane + 32 * j < pairs) load_two_words(from + 2 * (lane + 32 * j), to[2 * j], to[2 * j + 1]);
            }
        });
        float scale = kind < 0 ? p.attn_scale_log2 : 1.0f;
        if (norm) {
            float square = 0;
#pragma unroll
            for (int j = 0; j < 2 * CELLS; j++) square += __uint_as_float((u32)x[j]) * __uint_as_float((u32)x[j]);
            scale *= rsqrtf(warp_sum(square) / p.head_dim + p.eps);
        }
        float2* q = (float2*)(s.q + (w * rep + kind + rep) * p.head_dim);
        u32* fresh = s.fresh + (w * 2 + kind) * pairs;
        const size_t head = (size_t)(layer * 2 + kind) * p.lanes * p.kv_heads + me.lane * p.kv_heads + kv_head;
        u32* cache = (u32*)p.kv + (head * p.capacity + at) * pairs;
#pragma unroll
        for (int j = 0; j < CELLS; j++) {
            const int i = lane + 32 * j;
            if (i >= pairs) continue;
            float2 y = make_float2(__uint_as_float((u32)x[2 * j]) * scale * weight[j].x, __uint_as_float((u32)x[2 * j + 1]) * scale * weight[j].y);
            if (kind < 1) {
                const float2 r = rope[w * pairs + i];
                y = make_float2(y.x * r.x - y.y * r.y, y.x * r.y + y.y * r.x);
            }
            if (kind < 0)
                q[i] = y;
            else
                fresh[i] = cache[i] = pack_halves(y.x, y.y);
        }
    }
    sync_consumers();
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
        float2 st[WARPS], a[WARPS];
#pragma unroll
        for (int v = 0; v < WARPS; v++) {
            const bool there = v < 1 << warps_log2;
            st[v] = there ? s.stats[first + v] : make_float2(-INFINITY, 0.0f);
            a[v] = there ? ((const float2*)(s.sums + (first + v) * h))[pair] : make_float2(0.0f, 0.0f);
        }
#pragma unroll
        for (int v = 0; v < WARPS; v++) top = fmaxf(top, st[v].x);
        const float from = top == -INFINITY ? 0.0f : top;
#pragma unroll
        for (int v = 0; v < WARPS; v++) {
            const float scale = exp2_fast(st[v].x - from);
            sum += st[v].y * scale;
            x += a[v].x * scale;
            y += a[v].y * scale;
        }
        const float k = sum > 0 ? 1.0f / sum : 0.0f;
        u64* cell = (u64*)p.pbuf + ((row * p.heads * (h / 4) + head * (h / 4) + pair / 2) * p.splits + split) * 2;
        store_word(cell + (pair & 1), tagged(pack_halves(x * k, y * k), tag));
        if (pair == 0)
            store_word((u64*)p.sbuf + (row * p.heads + head) * p.splits + split, tagged(__float_as_uint(top + log2f(sum)), tag));
    }
}

// The attention phase of this block: softmax-weighted values of its (kv head, split) items, row by row. A row's keys
// are taken in the same order whatever the width, the ring and where a stage begins: sums are equal to the bit.
__device__ __forceinline__ void attend(const Place& me, char* scratch, Ring& ring, const float2* rope, int layer, int rows, int at0, int window,
                                       u32 tag) {
    const AttentionScratch s = attention_scratch(scratch, rows);
    const SplitPlan plan = split_plan();
    const int h = p.head_dim, rep = p.heads / p.kv_heads, warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
    const int threads = 1 << plan.lanes_log2, together = WARPS >> plan.warps_log2, stage_keys = p.stage_chunks * KEY_BLOCK;
    bool published = false;
#pragma unroll 1
    for (int item = me.rank; item < p.kv_heads * p.splits; item += p.group) {
        const int kv_head = item >> p.split_log2, split = item & (p.splits - 1);
        const KeyRun run = key_run(at0, window, split, p.split_log2, p.step_chunks, p.stage_chunks);
        TIMED(15, read_qkv(me, s, rope, layer, rows, at0, window, kv_head, split, tag));
        const u32 fresh_row = smem_address(s.fresh) + plan.d * 2;
        u32 data = smem_address(ring.data) + ring.slot * ring.stage_bytes + plan.d * 2;
        if (run.stages == 1) TIMED(11, ring_take(ring));
#pragma unroll 1
        for (int w = 0; w < rows; w++) {
            const int at = at0 + w, first = first_key(at, window);
            const int end = (last_place(at, split, p.split_log2) + 1 - run.base) * KEY_BLOCK;  // keys from run.base on
#pragma unroll 1
            for (int r0 = 0; r0 < rep; r0 += together) {
                const int r = min(r0 + (warp >> plan.warps_log2), rep - 1);  // spare warps do the last head again
                float m = -INFINITY, l = 0, acc[8] = {};
                float4 q0 = make_float4(0, 0, 0, 0), q1 = q0;
                if (plan.active) {
                    const float4* q = (const float4*)(s.q + (w * rep + r) * h + plan.d);
                    q0 = q[0];
                    q1 = q[1];
                }
                int stage = 0, stage_end = 0;  // of a run that one stage does not hold
#pragma unroll 1
                for (int j0 = 0; j0 < end; j0 += plan.step) {
                    if (run.stages > 1 && j0 == stage_end && stage < run.stages) {
                        if (stage++) ring_release(ring, lane);
                        TIMED(11, ring_take(ring));
                        data = smem_address(ring.data) + ring.slot * ring.stage_bytes + plan.d * 2;
                        stage_end += stage_keys;
                    }
                    uint4 k[LOADS], v[LOADS];
                    u32 seen = 0;
#pragma unroll
                    for (int u = 0; u < LOADS; u++) {
                        const int j = j0 + (((plan.share * LOADS + u) << 5) >> plan.lanes_log2) + plan.sub;
                        const int key = first_position(run.base + j / KEY_BLOCK, split, p.split_log2) + j % KEY_BLOCK;
                        k[u] = v[u] = make_uint4(0, 0, 0, 0);
                        if (key < first || key > at) continue;
                        seen |= 1u << u;
                        if (!plan.active) continue;
                        const bool fresh = key >= at0;  // came with this pass
                        const int place = run.stages > 1 ? j - (stage_end - stage_keys) : j;
                        const u32 from = fresh ? fresh_row + (key - at0) * h * 4 : data + place * h * 2;
                        k[u] = load_shared_16(from);
                        v[u] = load_shared_16(from + (fresh ? h * 2 : stage_keys * h * 2));
                    }
                    float score[LOADS];
#pragma unroll
                    for (int u = 0; u < LOADS; u++) score[u] = dot(q0, q1, k[u]);
#pragma unroll 1
                    for (int o = threads >> 1; o; o >>= 1)
#pragma unroll
                        for (int u = 0; u < LOADS; u++) score[u] += __shfl_xor_sync(~0u, score[u], o);
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
                if (run.stages > 1) ring_release(ring, lane);
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
                if (published) sync_consumers();  // the sums before these have been read
                if (plan.sub == 0 && plan.active) {
                    float4* to = (float4*)(s.sums + warp * h + plan.d);
                    to[0] = make_float4(acc[0], acc[1], acc[2], acc[3]);
                    to[1] = make_float4(acc[4], acc[5], acc[6], acc[7]);
                    if (plan.d == 0) s.stats[warp] = make_float2(m, l);
                }
                sync_consumers();
                TIMED(14, publish_split(me, s, plan.warps_log2, w, kv_head * rep + r0, min(together, rep - r0), split, tag));
                published = true;
            }
        }
        if (run.stages == 1) ring_release(ring, lane);
    }
}

constexpr int MERGED = 4;  // splits that one thread merges

// One row's attention from its splits into x, as halves. Every block merges all of it, or a slice that it
// publishes and gathers again. A group of threads shares 4 values: each waits for some of their splits and the
// splits' weights, all else happens in registers.
__device__ __forceinline__ void combine(const Place& me, char* x, int w, bool needed, u32 tag) {
    const int h4 = p.head_dim / 4, quads = p.heads * h4;
    const bool all = p.direct_combine;
    const int low = all ? 0 : (int)((long long)me.rank * quads / p.group);
    const int high = all ? (needed ? quads : 0) : (int)((long long)(me.rank + 1) * quads / p.group);
    const size_t row = (size_t)me.lane * p.width + w;
    const u64* published = (const u64*)p.abuf + row * quads * 2;
    const int group_log2 = max(p.split_log2 - 2, 0), first = (threadIdx.x & ((1 << group_log2) - 1)) * MERGED;
#pragma unroll 1
    for (int i = threadIdx.x; (i & ~31) < (high - low) << group_log2; i += THREADS) {
        const int quad = low + (i >> group_log2);
        const bool mine = quad < high;
        const u64* from = (const u64*)p.pbuf + ((row * quads + quad) * p.splits + first) * 2;
        const u64* sums = (const u64*)p.sbuf + (row * p.heads + quad / h4) * p.splits + first;
        u64 v[3 * MERGED];  // values, then sums
        poll(v, tag, [&](u64 (&to)[3 * MERGED]) {
#pragma unroll
            for (int j = 0; j < MERGED; j++) {
                to[2 * j] = to[2 * j + 1] = to[2 * MERGED + j] = (u64)tag << 32;
                if (mine && j < p.splits) load_two_words(from + 2 * j, to[2 * j], to[2 * j + 1]);
                if (j % 2 && mine && j < p.splits) load_two_words(sums + j - 1, to[2 * MERGED + j - 1], to[2 * MERGED + j]);
            }
        });
        const u64* sum = v + 2 * MERGED;
        float top = -INFINITY, total = 0, o[4] = {};
#pragma unroll
        for (int j = 0; j < MERGED; j++)
            if (j < p.splits) top = fmaxf(top, __uint_as_float((u32)sum[j]));
#pragma unroll 1
        for (int d = 1; d < 1 << group_log2; d <<= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
#pragma unroll
        for (int j = 0; j < MERGED; j++) {
            const float weight = j < p.splits ? exp2_fast(__uint_as_float((u32)sum[j]) - top) : 0.0f;
            const float2 lower = unpack_halves((u32)v[2 * j]), upper = unpack_halves((u32)v[2 * j + 1]);
            total += weight;
            o[0] += weight * lower.x, o[1] += weight * lower.y, o[2] += weight * upper.x, o[3] += weight * upper.y;
        }
#pragma unroll 1
        for (int d = 1; d < 1 << group_log2; d <<= 1) {
            total += __shfl_xor_sync(~0u, total, d);
#pragma unroll
            for (int e = 0; e < 4; e++) o[e] += __shfl_xor_sync(~0u, o[e], d);
        }
        if (!mine || first) continue;
        const float k = 1.0f / total;
        const uint2 out = make_uint2(pack_halves(o[0] * k, o[1] * k), pack_halves(o[2] * k, o[3] * k));
        if (all) {
            ((uint2*)x)[quad] = out;
        } else {
            u64* to = (u64*)published + 2 * quad;
            store_word(to, tagged(out.x, tag));
            store_word(to + 1, tagged(out.y, tag));
        }
    }
    if (!all && needed) gather(published, quads, tag, [&](int i, u32 a, u32 b) { ((uint2*)x)[i] = make_uint2(a, b); });
}
