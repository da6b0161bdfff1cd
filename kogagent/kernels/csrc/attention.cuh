// Attention of new rows: norm and RoPE of q and k, append, one split of the keys a block, merge. Cached keys and values
// come through the ring like weights, those of this pass from shared memory.
// Positions go to splits by chunks of 8, round robin, so that a block reads only keys it wrote itself (or that
// were there at the launch): no ordering between blocks is needed for the cache.
#pragma once
#include "gemv.cuh"

constexpr int H = Model::head_dim, REP = Model::heads / Model::kv_heads;
constexpr int ROUND = REP < 8 ? REP : 8;  // query heads that a warp serves at once, of one kv head
constexpr int ROUNDS = (REP + 7) / 8;
constexpr int SLICES = H > 128 && H % 16 == 0 ? 2 : 1, HS = H / SLICES;  // of a head's values, whose sums fit the registers
constexpr int ITEMS = Model::kv_heads * Model::splits;  // (kv head, split): a block of the group each

struct Place {  // of this block
    int lane, rank;
};

// Times that one item's keys pass through the ring: once if a stage holds them all, else for every row, round of heads
// and slice of their values, whose sums stay in registers meanwhile.
__device__ __forceinline__ int key_repeats(const KeyRun& run, int rows) {
    return run.stages > 1 ? rows * ROUNDS * SLICES : 1;
}

// Producer warp: the cached keys and values that this block's items read in one attention phase.
__device__ __forceinline__ bool stream_keys(Ring& r, const Place& me, int layer, int at, int rows, int window, int lane, volatile int* quit,
                                            u64 policy) {
    constexpr int row_bytes = H * 2, chunk_bytes = KEY_BLOCK * row_bytes;
    const size_t values = (size_t)p.lanes * p.kv_heads * p.capacity * row_bytes;  // bytes between a key and its value
#pragma unroll 1
    for (int item = me.rank; item < ITEMS; item += p.group) {
        const int kv_head = item >> p.split_log2, split = item & (p.splits - 1);
        const KeyRun run = key_run(at, window, split, p.split_log2, p.stage_chunks);
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
    u32* q;         // [rows][REP][H/2][2]  scaled and turned, f16 pairs: rounded, and what rounding left
    u32* fresh;     // [rows][2][H/2]       new keys and values, f16 pairs
    float* sums;    // [WARPS][ROUND][HS]
    float2* stats;  // [WARPS][ROUND]       maximum, sum
};
__device__ __forceinline__ AttentionScratch attention_scratch(char* base, int rows) {
    AttentionScratch s;
    s.q = (u32*)base;
    s.fresh = s.q + rows * REP * H;
    s.sums = (float*)(s.fresh + rows * H);
    s.stats = (float2*)(s.sums + WARPS * ROUND * HS);
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
    constexpr int pairs = H / 2, CELLS = (pairs + 31) / 32, vectors = REP + 2;  // cells: pairs of dimensions a thread
    const int lane = threadIdx.x & 31;
#pragma unroll 1
    for (int v = as_new(threadIdx.x) >> 5; v < rows * vectors; v += WARPS) {
        const int w = v / vectors, kind = v - w * vectors - REP, at = at0 + w;  // kind below 0: q, 0: k, 1: v
        if (first_place(at, window, split, p.split_log2) > last_place(at, split, p.split_log2)) continue;
        if (kind >= 0 && (at / KEY_BLOCK & (p.splits - 1)) != split) continue;
        const bool norm = p.has_qk_norm && kind < 1;
        const float2* weights = (const float2*)p.qk_norm + (layer * 2 + (kind == 0 ? 1 : 0)) * pairs;
        const u64* from = (const u64*)p.qbuf + ((size_t)me.lane * p.width + w) * p.qkv_rows + (kv_head * vectors + kind + REP) * H;
        float2 weight[CELLS];
        u64 x[2 * CELLS];
#pragma unroll
        for (int j = 0; j < CELLS; j++)  // on their way while q is waited for
            weight[j] = norm && lane + 32 * j < pairs ? weights[lane + 32 * j] : make_float2(1.0f, 1.0f);
        TIMED(19, poll(x, tag, [&](u64 (&to)[2 * CELLS]) {
#pragma unroll
            for (int j = 0; j < CELLS; j++) {
                to[2 * j] = to[2 * j + 1] = (u64)tag << 32;
                if (lane + 32 * j < pairs) load_two_words(from + 2 * (lane + 32 * j), to[2 * j], to[2 * j + 1]);
            }
        }));
        float scale = kind < 0 ? p.attn_scale_log2 : 1.0f;
        if (norm) {
            float square = 0;
#pragma unroll
            for (int j = 0; j < 2 * CELLS; j++) square = __fmaf_rn(__uint_as_float((u32)x[j]), __uint_as_float((u32)x[j]), square);
            scale *= rsqrtf(__fmaf_rn(warp_sum(square), 1.0f / H, p.eps));
        }
        uint2* q = (uint2*)s.q + (w * REP + kind + REP) * pairs;
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
                y = make_float2(__fmaf_rn(y.x, r.x, -(y.y * r.y)), __fmaf_rn(y.x, r.y, y.y * r.x));
            }
            if (kind < 0) {
                const u32 halves = pack_halves(y.x, y.y);
                const float2 rounded = unpack_halves(halves);
                q[i] = make_uint2(halves, pack_halves(y.x - rounded.x, y.y - rounded.y));
            } else
                fresh[i] = cache[i] = pack_halves(y.x, y.y);
        }
    }
    sync_consumers();
}

// What a warp has of one round of heads: head lane/4, columns 8j + 2(lane%4) and the next. The tensor core's upper 8
// rows are the heads' rounded operands, the lower 8 what rounding left: o is the sum of both.
struct Partial {
    float m, l;  // maximum, sum of this thread's keys
    float o[HS / 8][4];
};

// 16 keys, the chunk at `position` and the split's next one, for the heads from r0 on of row w and one slice of their
// values. data: shared address of the stage; chunk: of the first in it. Values lie stage_chunks behind keys.
__device__ __forceinline__ void attend_pair(Partial& a, const AttentionScratch& s, u32 data, int chunk, int position, int w, int rows, int at0, int first,
                                            int r0, int slice) {
    constexpr int ROW = H * 2, VALUES = Model::stage_chunks * KEY_BLOCK * ROW;
    const int lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3, at = at0 + w;
    const u32 fresh = smem_address(s.fresh);
    // of position `pos` of chunk c: new ones come with this pass, others through the ring
    const auto row = [&](int c, int r, int values) {
        const int pos = position + (c << p.split_log2) * KEY_BLOCK + r;
        return pos >= at0 ? fresh + (min(pos - at0, rows - 1) * 2 + values) * ROW : data + values * VALUES + ((chunk + c) * KEY_BLOCK + r) * ROW;
    };
    const u32 k0 = row(0, g, 0) + t * 16, k1 = row(1, g, 0) + t * 16;
    const u32 q = smem_address(s.q) + (w * REP + min(r0 + g, REP - 1)) * 2 * ROW + t * 32;
    float c[2][4] = {};
#pragma unroll
    for (int i = 0; i < H; i += 32) {
        const bool there = i + 32 <= H || i + t * 8 < H;
        const uint4 none = make_uint4(0, 0, 0, 0);
        const uint4 first4 = there ? load_shared_16(q + i * 4) : none, last4 = there ? load_shared_16(q + i * 4 + 16) : none;
        const uint4 x = there ? load_shared_16(k0 + i * 2) : none, y = there ? load_shared_16(k1 + i * 2) : none;
        multiply_tile(c[0], first4, x.x, x.y);
        multiply_tile(c[1], first4, y.x, y.y);
        multiply_tile(c[0], last4, x.z, x.w);
        multiply_tile(c[1], last4, y.z, y.w);
    }
    float score[4];
    u32 seen[2] = {};  // halves of values that count; others may be anything
    float top = a.m;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        const int pos = position + ((e >> 1) << p.split_log2) * KEY_BLOCK + 2 * t + (e & 1);
        const bool visible = pos >= first && pos <= at;
        score[e] = visible ? c[e >> 1][e & 1] + c[e >> 1][2 + (e & 1)] : -INFINITY;
        if (visible) seen[e >> 1] |= e & 1 ? 0xffff0000u : 0xffffu;
        top = fmaxf(top, score[e]);
    }
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 1));
    top = fmaxf(top, __shfl_xor_sync(~0u, top, 2));
    const float from = top == -INFINITY ? 0.0f : top, keep = exp2_fast(a.m - from);
    a.m = top;
#pragma unroll
    for (int e = 0; e < 4; e++) {
        score[e] = exp2_fast(score[e] - from);
        a.l = e ? a.l + score[e] : __fmaf_rn(a.l, keep, score[e]);
    }
#pragma unroll
    for (int j = 0; j < HS / 8; j++)
#pragma unroll
        for (int e = 0; e < 4; e++) a.o[j][e] *= keep;
    uint4 weights;
    weights.x = pack_halves(score[0], score[1]);
    weights.z = pack_halves(score[2], score[3]);
    const float2 r01 = unpack_halves(weights.x), r23 = unpack_halves(weights.z);
    weights.y = pack_halves(score[0] - r01.x, score[1] - r01.y);
    weights.w = pack_halves(score[2] - r23.x, score[3] - r23.y);
    const u32 v = row(lane >> 3 & 1, lane & 7, 1) + slice * HS * 2 + (HS % 16 ? 0 : (lane >> 4) * 16);
#pragma unroll
    for (int j = 0; j < HS / 8; j += HS % 16 ? 1 : 2) {
        uint4 x;
        if (HS % 16)
            load_shared_transposed_2(v + j * 16, x.x, x.y);
        else
            x = load_shared_transposed_4(v + j * 16);
        multiply_tile(a.o[j], weights, x.x & seen[0], x.y & seen[1]);
        if (HS % 16 == 0) multiply_tile(a.o[j + 1], weights, x.z & seen[0], x.w & seen[1]);
    }
}

constexpr int MERGED = 4;  // splits that one thread merges
constexpr int MERGING = Model::splits > MERGED ? Model::splits / MERGED : 1;  // threads that share the merge of 4 values
constexpr int ABUF_WORDS = Model::lanes * Model::width * Model::heads * (Model::head_dim / 2), PBUF_WORDS = ABUF_WORDS * Model::splits;
constexpr int SBUF_WORDS = (Model::lanes * Model::width * Model::heads * Model::splits + 3) & ~1;  // even, and one to spare
constexpr int SPLIT_REPLICAS = Model::direct_combine ? REPLICAS : 1;  // else few blocks read a split
// Cell of 4 values of one split: what the threads of a warp load at once lies together.
__device__ __forceinline__ int split_cell(int row, int quad, int split) {
    constexpr int quads = Model::heads * (H / 4);
    return row * quads * Model::splits + ((split & (MERGED - 1)) * quads + quad) * MERGING + split / MERGED;
}

// Joins what the warps hold of `heads` heads from q_head and publishes it; weight zero where a split has no keys.
__device__ __forceinline__ void publish_split(const Place& me, const AttentionScratch& s, int w, int q_head, int heads, int split, int slice, u32 tag) {
    const int row = me.lane * p.width + w;
#pragma unroll 1
    for (int i = as_new(threadIdx.x); i < heads * (HS / 2); i += THREADS) {
        const int local = i / (HS / 2), pair = i % (HS / 2), at = slice * (HS / 2) + pair, head = q_head + local;
        float top = -INFINITY, sum = 0, x = 0, y = 0;
#pragma unroll
        for (int v = 0; v < WARPS; v++) top = fmaxf(top, s.stats[v * ROUND + local].x);
        const float from = top == -INFINITY ? 0.0f : top;
#pragma unroll
        for (int v = 0; v < WARPS; v++) {
            const float2 st = s.stats[v * ROUND + local], a = ((const float2*)s.sums)[(v * ROUND + local) * (HS / 2) + pair];
            const float scale = exp2_fast(st.x - from);
            sum = __fmaf_rn(st.y, scale, sum);
            x = __fmaf_rn(a.x, scale, x);
            y = __fmaf_rn(a.y, scale, y);
        }
        const float k = sum > 0 ? __fdividef(1.0f, sum) : 0.0f;
        u64* cell = (u64*)p.pbuf + split_cell(row, head * (H / 4) + at / 2, split) * 2;
        publish_word<SPLIT_REPLICAS>(cell + (at & 1), PBUF_WORDS, tagged(pack_halves(x * k, y * k), tag));
        if (at == 0) publish_word<SPLIT_REPLICAS>((u64*)p.sbuf + (row * p.heads + head) * p.splits + split, SBUF_WORDS, tagged(__float_as_uint(top + __log2f(sum)), tag));
    }
}

// The attention phase of this block: softmax-weighted values of its (kv head, split) items, row by row. Warps take the
// pairs of chunks by turns; which warp and in which order depends on the position alone, so that sums are equal to the
// bit whatever the width, the ring and where a stage begins.
__device__ __forceinline__ void attend(const Place& me, char* scratch, Ring& ring, const float2* rope, int layer, int rows, int at0, int window,
                                       u32 tag) {
    const AttentionScratch s = attention_scratch(scratch, rows);
    const int thread = as_new(threadIdx.x), warp = thread >> 5, lane = thread & 31, g = lane >> 2, t = lane & 3;
    constexpr int stage_pairs = Model::stage_chunks / 2;
    bool published = false;
#pragma unroll 1
    for (int item = me.rank; item < ITEMS; item += p.group) {
        const int kv_head = item >> p.split_log2, split = item & (p.splits - 1);
        const KeyRun run = key_run(at0, window, split, p.split_log2, p.stage_chunks);
        TIMED(15, read_qkv(me, s, rope, layer, rows, at0, window, kv_head, split, tag));
        if (run.stages == 1) TIMED(11, ring_take(ring));
#pragma unroll 1
        for (int turn = 0; turn < rows * ROUNDS * SLICES; turn++) {
            const int w = turn / (ROUNDS * SLICES), r0 = turn / SLICES % ROUNDS * 8, slice = turn % SLICES, at = at0 + w, heads = min(ROUND, REP - r0);
            const int first = first_key(at, window), pairs = (last_place(at, split, p.split_log2) >> 1) - (run.base >> 1) + 1;
            Partial a;
            a.m = -INFINITY;
            a.l = 0;
#pragma unroll
            for (int j = 0; j < HS / 8; j++) a.o[j][0] = a.o[j][1] = a.o[j][2] = a.o[j][3] = 0;
            int stage = 0;
            do {
                if (run.stages > 1) TIMED(11, ring_take(ring));
                const u32 data = smem_address(ring.data) + ring.slot * p.stage_bytes;
                const int begin = stage * stage_pairs, end = stage + 1 < run.stages ? begin + stage_pairs : pairs;
#pragma unroll 1
                for (int i = begin + ((warp - (run.base >> 1) - begin) & (WARPS - 1)); i < end; i += WARPS)
                    attend_pair(a, s, data, 2 * (i - begin), first_position(run.base + 2 * i, split, p.split_log2), w, rows, at0, first, r0, slice);
                if (run.stages > 1) ring_release(ring, lane);
            } while (++stage < run.stages);
            a.l += __shfl_xor_sync(~0u, a.l, 1);
            a.l += __shfl_xor_sync(~0u, a.l, 2);
            if (published) sync_consumers();  // the sums before these have been read
            if (g < heads) {
                float2* to = (float2*)s.sums + (warp * ROUND + g) * (HS / 2) + t;
#pragma unroll
                for (int j = 0; j < HS / 8; j++) to[j * 4] = make_float2(a.o[j][0] + a.o[j][2], a.o[j][1] + a.o[j][3]);
                if (t == 0) s.stats[warp * ROUND + g] = make_float2(a.m, a.l);
            }
            sync_consumers();
            TIMED(14, publish_split(me, s, w, kv_head * REP + r0, heads, split, slice, tag));
            published = true;
        }
        if (run.stages == 1) ring_release(ring, lane);
    }
}

// One row's attention from its splits into x, as halves. Every block merges all of it, or a slice that it
// publishes, for all to gather. MERGING threads share 4 values: each waits for some of their splits and the splits'
// weights, all else happens in registers. A thread waits for AT such pieces at once.
__device__ __forceinline__ void combine(const Place& me, char* x, int w, bool needed, u32 tag) {
    constexpr int h4 = H / 4, quads = Model::heads * h4, WORDS = 3 * MERGED;
    constexpr bool all = Model::direct_combine;
    constexpr int AT = all && quads * MERGING > THREADS ? 2 : 1;
    const int low = all ? 0 : me.rank * quads / p.group, high = all ? (needed ? quads : 0) : (me.rank + 1) * quads / p.group;
    const int row = me.lane * p.width + w;
    const int first = (threadIdx.x & (MERGING - 1)) * MERGED;
#pragma unroll 1
    for (int i = threadIdx.x; (i & ~31) < (high - low) * MERGING; i += AT * THREADS) {
        const int quad0 = low + i / MERGING;  // the piece after it lies THREADS / MERGING further on
        u64 v[AT * WORDS];  // of each piece its values, then its sums
        TIMED(17, poll(v, tag, [&](u64 (&to)[AT * WORDS]) {
#pragma unroll
            for (int n = 0; n < AT; n++) {
                const int quad = quad0 + n * (THREADS / MERGING);
                const u64* from = (const u64*)p.pbuf + own_replica<SPLIT_REPLICAS>(PBUF_WORDS) + split_cell(row, quad, first) * 2;
                const u64* sums = (const u64*)p.sbuf + own_replica<SPLIT_REPLICAS>(SBUF_WORDS) + (row * p.heads + quad / h4) * p.splits + first;
                u64* at = to + n * WORDS;
#pragma unroll
                for (int j = 0; j < MERGED; j++) {
                    at[2 * j] = at[2 * j + 1] = at[2 * MERGED + j] = (u64)tag << 32;
                    if (quad >= high || j >= p.splits) continue;
                    load_two_words(from + 2 * j * quads * MERGING, at[2 * j], at[2 * j + 1]);
                    if (j % 2) load_two_words(sums + j - 1, at[2 * MERGED + j - 1], at[2 * MERGED + j]);
                }
            }
        }));
#pragma unroll
        for (int n = 0; n < AT; n++) {
            const int quad = quad0 + n * (THREADS / MERGING);
            const u64 *value = v + n * WORDS, *sum = value + 2 * MERGED;
            float top = -INFINITY, total = 0, o[4] = {};
#pragma unroll
            for (int j = 0; j < MERGED; j++)
                if (j < p.splits) top = fmaxf(top, __uint_as_float((u32)sum[j]));
#pragma unroll
            for (int d = 1; d < MERGING; d <<= 1) top = fmaxf(top, __shfl_xor_sync(~0u, top, d));
#pragma unroll
            for (int j = 0; j < MERGED; j++) {
                const float weight = j < p.splits ? exp2_fast(__uint_as_float((u32)sum[j]) - top) : 0.0f;
                const float2 lower = unpack_halves((u32)value[2 * j]), upper = unpack_halves((u32)value[2 * j + 1]);
                total += weight;
                o[0] = __fmaf_rn(weight, lower.x, o[0]), o[1] = __fmaf_rn(weight, lower.y, o[1]);
                o[2] = __fmaf_rn(weight, upper.x, o[2]), o[3] = __fmaf_rn(weight, upper.y, o[3]);
            }
#pragma unroll
            for (int d = 1; d < MERGING; d <<= 1) {
                total += __shfl_xor_sync(~0u, total, d);
#pragma unroll
                for (int e = 0; e < 4; e++) o[e] += __shfl_xor_sync(~0u, o[e], d);
            }
            if (quad >= high || first) continue;
            const float k = __fdividef(1.0f, total);
            const uint2 out = make_uint2(pack_halves(o[0] * k, o[1] * k), pack_halves(o[2] * k, o[3] * k));
            if (all) {
                ((uint2*)x)[quad] = out;
            } else {
                u64* to = (u64*)p.abuf + (row * quads + quad) * 2;
                publish_word(to, ABUF_WORDS, tagged(out.x, tag));
                publish_word(to + 1, ABUF_WORDS, tagged(out.y, tag));
            }
        }
    }
}
