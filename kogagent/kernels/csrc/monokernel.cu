// One resident program a generated segment: one block an SM, roles by warp, phases in order. No arithmetic here
// but the residual stream's.
#include "hostlink.cuh"

struct Misc {  // shared memory, fixed size
    u64 full[24], empty[24];
    float squares[8][WARPS];  // [row][warp]
    int quit;
    u32 aborted;
    int progress;  // passes * (4N+1) + phase that the consumers run
    int cached;    // passes whose keys and values copies can read
    u64 late_full[2], late_empty[2];
    u64 asked, judged;  // verdicts on this block's ids: wanted, there
    int pending, position, passes, emitted;  // of the segment when this launch began
    int token, run;     // what the configuration has still to take, -1: nothing
    int cut, pad;
    Configuration grammar;
};
static_assert(sizeof(Misc) == 944, "MISC of kernels/layout.py");

#ifdef KOGAGENT_PROFILE
#define MARK(i)                                \
    do {                                       \
        if (threadIdx.x == 0) {                \
            const long long now_ = clock64();  \
            timed[i] += now_ - mark;          \
            mark = now_;                       \
        }                                      \
    } while (0)
#else
#define MARK(i)
#endif

__device__ __forceinline__ float silu(float x) { return __fdividef(x, 1.0f + __expf(-x)); }

// Zeroes the columns of x past `values`, whatever an earlier phase left there.
__device__ __forceinline__ void pad_input(char* x, int values, int rows) {
    if (p.dim % 32 == 0 && p.ffn % 32 == 0 && p.heads * p.head_dim % 32 == 0) return;
    const int pad = -values & 31;
    if (pad == 0) return;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * pad; i += THREADS) ((unsigned short*)x)[(i / pad) * p.x_stride + values + i % pad] = 0;
}
__device__ __forceinline__ float square_of(u32 a, u32 b) {
    const float2 f = unpack_halves(a), g = unpack_halves(b);
    return __fmaf_rn(f.x, f.x, __fmaf_rn(f.y, f.y, __fmaf_rn(g.x, g.x, g.y * g.y)));
}
// VALUES halves of one row from an exchange buffer into x and, if asked, their sum of squares into this warp's place.
template <int VALUES, bool SQUARES>
__device__ __forceinline__ void gather_row(const u64* from, u32 tag, char* x, float* squares) {
    float square = 0;
    gather<VALUES / 4>(from, tag, [&](int i, u32 a, u32 b) {
        ((uint2*)x)[i] = make_uint2(a, b);
        if constexpr (SQUARES) square += square_of(a, b);
    });
    if constexpr (SQUARES) {
        square = warp_sum(square);
        if ((threadIdx.x & 31) == 0) squares[threadIdx.x >> 5] = square;
    }
}
// The same for several rows, whose words are waited for together: a warp a row, with the
// sums of gather_row, warp by warp, in the same order. squares [row][WARPS] or null.
__device__ __forceinline__ void gather_rows(const u64* from, int values, u32 tag, char* x, int rows, float (*squares)[WARPS]) {
    const int row = threadIdx.x >> 5, lane = threadIdx.x & 31, cells = values / 4;
    if (row >= rows) return;
    from += row * (values / 2);
    uint2* to = (uint2*)(x + row * p.x_stride * 2);
    float square[WARPS] = {};
#pragma unroll 1
    for (int base = lane; base < cells; base += THREADS) {
        u64 v[2 * WARPS];
        poll(v, tag, [&](u64 (&words)[2 * WARPS]) {
#pragma unroll
            for (int t = 0; t < WARPS; t++) {
                words[2 * t] = words[2 * t + 1] = (u64)tag << 32;
                if (base + 32 * t < cells) load_two_words(from + 2 * (base + 32 * t), words[2 * t], words[2 * t + 1]);
            }
        });
#pragma unroll
        for (int t = 0; t < WARPS; t++) {
            const u32 a = (u32)v[2 * t], b = (u32)v[2 * t + 1];
            if (base + 32 * t < cells) {
                to[base + 32 * t] = make_uint2(a, b);
                square[t] += square_of(a, b);
            }
        }
    }
    if (!squares) return;
#pragma unroll
    for (int t = 0; t < WARPS; t++) {
        const float sum = warp_sum(square[t]);
        if (lane == 0) squares[row][t] = sum;
    }
}
constexpr int XBUF_WORDS = 2 * Model::lanes * Model::width * (Model::dim / 2), HBUF_WORDS = Model::lanes * Model::width * (Model::ffn / 2);
__device__ __forceinline__ const u64* stream_words(const Place& me, int parity, int row) {
    return (const u64*)p.xbuf + own_replica(XBUF_WORDS) + ((size_t)(parity * p.lanes + me.lane) * p.width + row) * (p.dim / 2);
}

// One over the root of row w's mean square; scale: of what was squared.
__device__ __forceinline__ float inverse_norm(const Misc& misc, int w, float eps, float scale) {
    return rsqrtf(__fmaf_rn(row_sum<1, WARPS>(misc.squares[w], 0, 0), 1.0f / Model::dim, eps * scale * scale));
}

// Two neighbouring words of each lane that is wanted, summed, all of them waited for at once. from: lane 0's; apart: words from
// lane to lane.
template <class Wanted>
__device__ __forceinline__ float2 sum_over_lanes(const u64* from, size_t apart, u32 tag, Wanted wanted) {
    constexpr int TOGETHER = Model::lanes < 8 ? Model::lanes : 8;
    float2 sum = {0, 0};
#pragma unroll 1
    for (int j0 = 0; j0 < p.lanes; j0 += TOGETHER) {
        u64 v[2 * TOGETHER];
        poll(v, tag, [&](u64 (&to)[2 * TOGETHER]) {
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                to[2 * j] = to[2 * j + 1] = (u64)tag << 32;
                if (j0 + j < p.lanes && wanted(j0 + j)) load_two_shared_words(from + (j0 + j) * apart, to[2 * j], to[2 * j + 1]);
            }
        });
#pragma unroll
        for (int j = 0; j < TOGETHER; j++) {
            if (j0 + j >= p.lanes || !wanted(j0 + j)) continue;
            sum.x += __uint_as_float((u32)v[2 * j]);
            sum.y += __uint_as_float((u32)v[2 * j + 1]);
        }
    }
    return sum;
}

// Sum of what the other lanes put out of one module, two rows.
template <int W>
__device__ __forceinline__ float2 sum_others(int slot, int lane, int w, int row, u32 tag) {
    const u64* from = (const u64*)p.obuf + ((size_t)slot * p.lanes * W + w) * p.dim + row;
    const float2 sum = sum_over_lanes(from, (size_t)W * p.dim, tag, [&](int j) { return j != lane; });
    if constexpr (LINK)
        for (int j = 0; j < p.lanes; j++)
            if (j != lane && is_far(lane, j)) wait_for_link(slot, j, w, row, tag);
    return sum;
}

// How long other lanes' outputs have been there when they are used. An idle warp notes when they come, by this device's
// clock; thread 0 counts.
constexpr int SLACK_BINS = 32, SLACK_NS = 2000;  // bin 0: not there yet, or just so; the last: anything longer
#ifdef KOGAGENT_SLACK
constexpr bool SLACK = true;
constexpr int WATCHED = 64;  // more than lie between arrival and use
__shared__ u64 arrived[WATCHED];  // landing << 32 | time
__shared__ u32 slack[SLACK_BINS];
__device__ __forceinline__ void start_slack() {
    for (int i = 0; i < WATCHED; i++) arrived[i] = ~0ull;
    for (int i = 0; i < SLACK_BINS; i++) slack[i] = 0;
}
__device__ __forceinline__ void note_slack(int landing) {
    if (threadIdx.x) return;
    const u64 seen = *(volatile u64*)&arrived[landing % WATCHED];
    const u32 ns = (u32)nanoseconds() - (u32)seen;
    slack[(u32)(seen >> 32) == (u32)landing ? min(ns / SLACK_NS, (u32)SLACK_BINS - 1) : 0u]++;
}
__device__ __forceinline__ void tell_slack() {
    if (threadIdx.x == 0 && p.slack)
        for (int i = 0; i < SLACK_BINS; i++) ((u32*)p.slack)[blockIdx.x * SLACK_BINS + i] = slack[i];
}
// One warp, one row a pass: this block's rows of every landing from other lanes, in order, as they come.
__device__ void watch(Misc& misc, const u32* schedule) {
    const int lane = threadIdx.x & 31, modules = 2 * p.layers, mine = this_block() / p.group;
    const int first = (int)(schedule[1] >> 16) * 8, rows = (int)(schedule[1] & 0xffff) * 8;
    volatile int* quit = &misc.quit;
    int landing = 0;
    bool any = false;
    for (int module = 0; module < modules && rows; module++) any |= ((const Step*)p.steps)[module].late >= 0;
    for (u32 pass = 0; any && !*quit; pass++)
        for (int module = 0; module < modules; module++) {
            const Step step = ((const Step*)p.steps)[module];
            if (step.late < 0) continue;
            const u32 tag = p.tag_base + (misc.passes + pass) * (modules + 64) + step.late;
            const u64* slot = (const u64*)p.obuf + ((size_t)(pass & 1) * modules + step.late) * p.lanes * p.dim + first;
            for (int i = lane; i < rows * p.lanes; i += 32) {
                const int from = i / rows, row = i - from * rows;
                if (from == mine || step.late_others == 0.0f) continue;
                while (tag_of(load_shared_word(slot + (size_t)from * p.dim + row)) != tag)
                    if (*quit) return;
                if (LINK && is_far(mine, from)) wait_for_link((int)(pass & 1) * modules + step.late, from, 0, first + row, tag);
            }
            __syncwarp();
            if (lane == 0) *(volatile u64*)&arrived[landing % WATCHED] = (u64)landing << 32 | (u32)nanoseconds();
            landing++;
        }
}
#else
constexpr bool SLACK = false;
__device__ __forceinline__ void start_slack() {}
__device__ __forceinline__ void note_slack(int) {}
__device__ __forceinline__ void tell_slack() {}
__device__ __forceinline__ void watch(Misc&, const u32*) {}
#endif

// v[i] of an array that must stay in registers.
template <int W>
__device__ __forceinline__ float pick(const float (&v)[W], int i) {
    float x = v[0];
#pragma unroll
    for (int j = 1; j < W; j++)
        if (j == i) x = v[j];
    return x;
}

// The helper warp: fetches what the consumers would wait for. Late landings into late [2][W][max_dim_rows],
// double-buffered; the host's abort word once a pass.
template <int W>
__device__ void help(Misc& misc, float* late, const u32* schedule) {
    const int lane = threadIdx.x & 31, modules = 2 * p.layers;
    const Place me = {this_block() / p.group, this_block() % p.group};
    const int dim_first = (int)(schedule[1] >> 16) * 8, dim_rows = (int)(schedule[1] & 0xffff) * 8;
    Clock clock = {&misc.quit, &misc.progress, -1, 0, 0};
    int fed = 0, used = 0;
#pragma unroll 1
    for (u32 pass = 0; !*clock.quit; pass++) {
        const int rows = W == 1 ? 1 : fed < misc.pending ? min(W, misc.pending - fed) : 1;
        if (fed < misc.pending) fed += rows;
        const u32 tag0 = p.tag_base + (misc.passes + pass) * (modules + 64);
        if (this_block() == 0 && lane == 0 && load_from_host((const u32*)p.abort_word) == p.epoch) *(volatile u32*)&misc.aborted = ABORTED;
#pragma unroll 1
        for (int module = 0; module <= modules; module++) {
            const int start = (int)pass * (2 * modules + 1) + 2 * max(module - 1, 0);
            while (*clock.progress < start)
                if (over(clock)) return;
            if (SEVERAL && blockIdx.x == 0 && lane == 0)
                share_word((u64*)p.beats, BEATS, p.rank, tagged((misc.passes + pass) * (2 * modules + 1) + 2 * module + 2, p.epoch));
            if (module == modules) break;
            const Step step = ((const Step*)p.steps)[module];
            if (step.late < 0 || !dim_rows) continue;
            float* to = late + (used & 1) * W * p.max_dim_rows;
            while (!barrier_try(misc.late_empty + (used & 1), ((used >> 1) & 1) ^ 1))
                if (over(clock)) return;
            const u64* slot = (const u64*)p.obuf + ((size_t)(pass & 1) * modules + step.late) * p.lanes * W * p.dim + dim_first;
            const u32 tag = tag0 + step.late;
            // Two values of several lanes at once: with 8 rows a warp that waited for each would hold up the layers.
            constexpr int TOGETHER = 4;
#pragma unroll 1
            for (int i = 2 * lane; i < rows * dim_rows; i += 64) {
                const int w = W == 1 ? 0 : i / dim_rows, row = i - w * dim_rows;
                const u64* from = slot + (size_t)w * p.dim + row;
                float sum[2] = {};
#pragma unroll 1
                for (int j0 = 0; j0 < p.lanes; j0 += TOGETHER) {
                    u64 v[2 * TOGETHER];
                    u32 wrong;
                    do {
                        wrong = 0;
#pragma unroll
                        for (int j = 0; j < TOGETHER; j++) {
                            v[2 * j] = v[2 * j + 1] = (u64)tag << 32;
                            const bool wanted = j0 + j < p.lanes && (j0 + j == me.lane ? step.late_own : step.late_others) != 0.0f;
                            if (wanted) load_two_shared_words(from + (size_t)(j0 + j) * W * p.dim, v[2 * j], v[2 * j + 1]);
                        }
#pragma unroll
                        for (int j = 0; j < 2 * TOGETHER; j++) wrong |= tag_of(v[j]) ^ tag;
                    } while (wrong && !over(clock));
                    if constexpr (LINK)
                        for (int j = j0; j < min(j0 + TOGETHER, (int)p.lanes); j++)
                            if (is_far(me.lane, j) && step.late_others != 0.0f) wait_for_link((int)(pass & 1) * modules + step.late, j, w, dim_first + row, tag);
#pragma unroll
                    for (int j = 0; j < TOGETHER; j++) {
                        const float k = j0 + j == me.lane ? step.late_own : step.late_others;
                        sum[0] = __fmaf_rn(k, __uint_as_float((u32)v[2 * j]), sum[0]);
                        sum[1] = __fmaf_rn(k, __uint_as_float((u32)v[2 * j + 1]), sum[1]);
                    }
                }
                *(float2*)(to + w * p.max_dim_rows + row) = make_float2(sum[0], sum[1]);
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(misc.late_full + (used & 1));
            used++;
        }
        // the rest of a pass, the head and the choice, is waited for with the clock running
        while (*clock.progress < (int)(pass + 1) * (2 * modules + 1))
            if (over(clock)) return;
    }
}

// Input of the head: the last row's stream of this lane, or what all lanes make of it. Returns what its products
// are multiplied by. scale: of the published stream; first_inverse: of the embedding's norm, alike in every lane.
__device__ __forceinline__ float head_input(const Place& me, char* x, const float* rows, Misc& misc, int last, int dim_first, int dim_rows,
                                         float scale, float first_inverse, u32 tag) {
    float inverse = 0.0f, factor = first_inverse / 32.0f;  // a plain sum leaves f16 room for growth
    if (p.head_mode != 2) {
        gather_row<Model::dim, true>(stream_words(me, 1, last), tag - 1, x, misc.squares[0]);
        pad_input(x, p.dim, 1);
        sync_consumers();
        inverse = inverse_norm(misc, 0, p.head_eps, scale);
        if (p.head_mode == 0) return inverse;
        factor = scale * inverse / p.lanes;  // the norm of the stream itself, a lane's part of the mean
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < dim_rows; i += THREADS)
        share_word((u64*)p.f1, F1, (size_t)me.lane * p.dim + dim_first + i, tagged(__float_as_uint(rows[i] * factor), tag));
    // Each device joins all lanes for itself: one exchange between devices, not two.
    const int low = (int)((long long)blockIdx.x * (p.dim / 2) / p.device_blocks), high = (int)((long long)(blockIdx.x + 1) * (p.dim / 2) / p.device_blocks);
#pragma unroll 1
    for (int i = low + threadIdx.x; i < high; i += THREADS) {
        const float2 all = sum_over_lanes((const u64*)p.f1 + 2 * i, p.dim, tag, [](int) { return true; });
        store_word((u64*)p.f2 + i, tagged(pack_halves(all.x, all.y), tag));
    }
    sync_consumers();
    gather_row<Model::dim, true>((const u64*)p.f2, tag, x, misc.squares[0]);
    pad_input(x, p.dim, 1);
    sync_consumers();
    return p.head_mode == 1 ? 1.0f : inverse_norm(misc, 0, p.head_eps, factor);
}

// The rows' embeddings as the first input, this block's rows of the residual, the rows' RoPE turns. Few wide loads: each
// waits for the memory once.
__device__ __forceinline__ void read_embedding(char* x, float* stream, float2* rope, Misc& misc, int w, int id, int at, int dim_first, int dim_rows) {
    const uint4* row = (const uint4*)p.embed + (size_t)id * (p.dim / 8);
    uint4* to = (uint4*)(x + w * p.x_stride * 2);
    const float4* turns = (const float4*)p.rope + (size_t)at * (p.head_dim / 4);
    const float4 turn = (int)threadIdx.x < p.head_dim / 4 ? turns[threadIdx.x] : make_float4(0, 0, 0, 0);
    float square = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < p.dim / 8; i += THREADS) {
        const uint4 v = row[i];
        const float2 f[4] = {unpack_halves(v.x), unpack_halves(v.y), unpack_halves(v.z), unpack_halves(v.w)};
        to[i] = v;
#pragma unroll
        for (int j = 0; j < 4; j++) square = __fmaf_rn(f[j].x, f[j].x, __fmaf_rn(f[j].y, f[j].y, square));
        if (8 * i >= dim_first && 8 * i < dim_first + dim_rows) {
            float4* mine = (float4*)(stream + w * p.max_dim_rows + 8 * i - dim_first);
            mine[0] = make_float4(f[0].x, f[0].y, f[1].x, f[1].y);
            mine[1] = make_float4(f[2].x, f[2].y, f[3].x, f[3].y);
        }
    }
    if ((int)threadIdx.x < p.head_dim / 4) ((float4*)rope)[w * (p.head_dim / 4) + threadIdx.x] = turn;
    square = warp_sum(square);
    if ((threadIdx.x & 31) == 0) misc.squares[w][threadIdx.x >> 5] = square;
}

// Lets the producer read what this pass has put into the cache. Long after it was put there: the fence costs little.
__device__ __forceinline__ void cache_rows(Misc& misc, u32 pass) {
    stores_before_copies();
    sync_consumers();
    if (threadIdx.x == 0) publish_in_block(&misc.cached, (int)pass + 1);
}

// Lanes of one card that start a token apart wait for their exchanges apart, while the others stream.
#ifndef LANE_STAGGER
#define LANE_STAGGER Model::stagger  // cycles between lanes
#endif
#ifndef LANE_PHASES
#define LANE_PHASES 8  // lanes that start apart; the next ones start with the first
#endif
template <int W>
__device__ __forceinline__ void stagger(int lane) {
    if constexpr (W == 1 && LANE_STAGGER > 0 && DEVICE_LANES > 1) {  // wide passes are few, and their registers are all in use
        const long long since = clock64();
        while (clock64() - since < lane % LANE_PHASES * (long long)LANE_STAGGER) {
        }
    }
}

template <int W>
__device__ void consume(char* sm, const Ring& ring, Misc& misc) {
    const int tid = threadIdx.x;
    const int lane0 = Model::lanes == 1 ? 0 : this_block() / p.group;
    const u32* schedule = (const u32*)(sm + p.off_schedule);
    const int modules = 2 * p.layers;
    Cursor cursor = {ring, 0};
    float scale[W], inverse[W];  // of the published stream; of its norm
    // The ids to be fed: misc.token, if there is one, then those of misc.run. The first ones share passes, later runs do not. What is
    // asked for once a token stays in shared memory, written by thread 0: no register is left for it while keys are scored.
    int at0 = misc.position, pending = misc.pending, fed = 0, choices = 0, landed = 0;
#ifdef KOGAGENT_PROFILE
    long long mark = clock64();
    if (tid == 0)
        for (int i = 0; i < PROFILE_SLOTS; i++) timed[i] = 0;
#endif
    for (u32 pass = 0;; pass++) {
        const int rows = W == 1 || choices ? 1 : min(W, pending - fed);
        const bool heads = choices || (fed + rows == pending && p.want_head);
        const u32 tag0 = p.tag_base + (misc.passes + pass) * (modules + 64);
        stagger<W>(lane0);
        float first_inverse = 1.0f, head_inverse = 1.0f;
        int* const ids = (int*)(sm + as_new(p.off_red));
        if (tid < rows) {
            const int place = fed + tid - (misc.token >= 0);
            ids[tid] = place < 0 ? misc.token : pending_ids(misc.run)[place];
        }
        sync_consumers();
#pragma unroll 1
        for (int w = 0; w < rows; w++)
            read_embedding(sm + p.off_x, (float*)(sm + p.off_stream), (float2*)(sm + p.off_rope), misc, w, ids[w], at0 + w, (int)(schedule[1] >> 16) * 8, (int)(schedule[1] & 0xffff) * 8);
#pragma unroll
        for (int w = 0; w < W; w++) scale[w] = 1.0f;
        pad_input(sm + p.off_x, p.dim, rows);
        sync_consumers();
        Step step = {};
        if (Model::plain) step.late = -1, step.own = 1.0f;
#pragma unroll 1
        for (int phase = 0; phase < 4 * p.layers + (heads ? 1 : 0); phase++) {
            const Place me = {Model::lanes == 1 ? 0 : as_new(lane0), as_new(this_block() - lane0 * p.group)};
            char* const base = sm + as_new(0);
            char* const x = base + p.off_x;
            float* const red = (float*)(base + p.off_red);
            float* const stream = (float*)(base + p.off_stream);  // [W][max_dim_rows]: this block's rows of the residual
            const float* const late = (const float*)(base + p.off_late);  // [2] the same rows of what lands late
            float* const logits = (float*)(base + p.off_logits);
            const float2* const rope = (const float2*)(base + p.off_rope);  // [W][h/2]
            const int kind = phase == 4 * p.layers ? 4 : phase & 3, module = phase >> 1, layer = phase >> 2;
            const u32 tag = tag0 + module;
            const int first = (int)(schedule[phase] >> 16) * 8, units = (int)(schedule[phase] & 0xffff);
            if (as_new(tid) == 0) *(volatile int*)&misc.progress = (int)pass * (4 * p.layers + 1) + phase;
            // ── the input of the phase, in x ──
            const bool normed = !(kind & 1);
            if (kind == 4) {
                cache_rows(misc, pass);
                head_inverse = head_input(me, x, stream + (rows - 1) * p.max_dim_rows, misc, rows - 1, (int)(schedule[1] >> 16) * 8,
                                          (int)(schedule[1] & 0xffff) * 8, pick<W>(scale, rows - 1), first_inverse, tag);
            } else {
                const u64* from = (const u64*)p.xbuf + own_replica(XBUF_WORDS) + ((module - 1) & 1) * p.lanes * W * (p.dim / 2);
                int values = p.dim, parts = module > 0 || !normed;  // parts 0: x is there
                if (normed) {
                    if (!Model::plain) step = ((const Step*)p.steps)[module];
                } else {
                    if (kind == 1 && me.rank < ITEMS)
                        attend(me, base + p.off_attn, cursor.ring, rope, layer, rows, at0, (int)schedule[4 * p.layers + 1 + layer], tag);
                    MARK(12);
                    // The stream is published on the scale that makes its last norm 1: no value leaves f16's range.
#pragma unroll
                    for (int w = 0; w < W; w++)
                        if (w < rows) scale[w] *= inverse[w];
                    if (kind == 1) {
#pragma unroll 1
                        for (int w = 0; w < rows; w++) combine(me, x + w * p.x_stride * 2, w, units > 0, tag);
                    }
                    from = kind == 1 ? (const u64*)p.abuf + own_replica(ABUF_WORDS) : (const u64*)p.hbuf + own_replica(HBUF_WORDS);
                    values = kind == 1 ? p.heads * p.head_dim : p.ffn;
                    parts = units > 0 && !(kind == 1 && p.direct_combine);
                }
                if (parts) {
                    from += me.lane * W * (values / 2);
                    if (W > 1 && rows > 1)
                        gather_rows(from, values, normed ? tag - 1 : tag, x, rows, normed ? misc.squares : nullptr);
                    else if (normed)
                        gather_row<Model::dim, true>(from, tag - 1, x, misc.squares[0]);
                    else if (kind == 3)
                        gather_row<Model::ffn, false>(from, tag, x, nullptr);
                    else if constexpr (!Model::direct_combine)
                        gather_row<Model::heads * Model::head_dim, false>(from, tag, x, nullptr);
                }
                pad_input(x, values, rows);
                sync_consumers();
            }
            MARK(kind);
            const bool lands = Model::lands_late && (kind & 1) && units && step.late >= 0;
            const float* landing = late + (landed & 1) * W * p.max_dim_rows;
            if (lands) {
                if constexpr (SLACK) note_slack(landed);
                u32 spins = 0;
                bool there = barrier_try(misc.late_full + (landed & 1), (landed >> 1) & 1);
                COUNTED(21, !there);
                TIMED(20, while (!there && !give_up(spins)) there = barrier_try(misc.late_full + (landed & 1), (landed >> 1) & 1));
            }
            // Of a norm, which its sums are multiplied by: taken behind the product, where it waits for nothing.
            const auto inverse_of = [&](int w) { return inverse_norm(misc, w, p.eps, pick<W>(scale, w)); };
            multiply_kind<W>(cursor, kind, units, x, red, [&](auto cut, int u0, int n, const float* partial) {
                constexpr int K = decltype(cut)::kind, SHARE = decltype(cut)::share;
                if (cut_alike(K, 0) && kind == 0) {  // q, k and v to the blocks that attend
                    const float* bias = p.has_bias ? (const float*)p.bias + (size_t)(layer * p.lanes + me.lane) * p.qkv_rows : nullptr;
#pragma unroll 1
                    for (int i = tid; i < rows * n * 8; i += THREADS) {
                        const int w = W == 1 ? 0 : i / (n * 8), local = i - w * n * 8, row = first + u0 * 8 + local;
                        const float y = __fmaf_rn(row_sum<W, SHARE>(partial, local, w), inverse_of(w), bias ? bias[row] : 0.0f);
                        store_word((u64*)p.qbuf + (size_t)(me.lane * W + w) * p.qkv_rows + row, tagged(__float_as_uint(y), tag));
                    }
                } else if (cut_alike(K, 2) && kind == 2) {  // hidden values, two from four rows
#pragma unroll 1
                    for (int i = tid; i < rows * n * 2; i += THREADS) {
                        const int w = W == 1 ? 0 : i / (n * 2), pair = i - w * n * 2;
                        const float k = inverse_of(w);
                        const float g0 = row_sum<W, SHARE>(partial, 4 * pair, w) * k, v0 = row_sum<W, SHARE>(partial, 4 * pair + 1, w) * k;
                        const float g1 = row_sum<W, SHARE>(partial, 4 * pair + 2, w) * k, v1 = row_sum<W, SHARE>(partial, 4 * pair + 3, w) * k;
                        u64* to = (u64*)p.hbuf + (size_t)(me.lane * W + w) * (p.ffn / 2) + first / 4 + u0 * 2 + pair;
                        publish_word(to, HBUF_WORDS, tagged(pack_halves(silu(g0) * v0, silu(g1) * v1), tag));
                    }
                } else if (cut_alike(K, 4) && kind == 4) {
#pragma unroll 1
                    for (int i = tid; i < n * 8; i += THREADS) {
                        const int row = first + u0 * 8 + i;
                        const float y = row < p.head_rows ? row_sum<W, SHARE>(partial, i, 0) * head_inverse : -INFINITY;
                        logits[u0 * 8 + i] = y;
                        if (p.logits_out && row < p.head_rows) ((float*)p.logits_out)[(p.head_grid ? 0 : me.lane * p.head_rows) + row] = y;
                    }
                } else if (cut_alike(K, 1) || cut_alike(K, 3)) {  // o: land it on the stream, publish that
                    // Over several devices half of the threads put o out while the others land it: this block's next phase waits
                    // for its slowest warp. On one, the two words of a sum that go out would only stand in the way of the stream's.
                    constexpr int LANDERS = SEVERAL ? THREADS / 2 : THREADS;
                    const bool sender = SEVERAL && tid >= LANDERS;
                    const bool waited_for = step.sends && step.others != 0.0f;
#pragma unroll 1
                    for (int i = sender ? tid - LANDERS : tid; i < (sender && !step.sends ? 0 : rows * n * 4); i += LANDERS) {
                        const int w = W == 1 ? 0 : i / (n * 4), pair = i - w * n * 4;
                        const int local = u0 * 8 + 2 * pair, row = first + local;  // out and down have the same rows
                        float* s = stream + w * p.max_dim_rows + local;
                        const float o0 = row_sum<W, SHARE>(partial, 2 * pair, w), o1 = row_sum<W, SHARE>(partial, 2 * pair + 1, w);
                        const auto send = [&] {
                            const size_t at = (size_t)((pass & 1) * modules + module) * p.lanes * W * p.dim + ((size_t)me.lane * W + w) * p.dim + row;
                            if (LINK) stamp((int)(pass & 1) * modules + module, me.lane, w, row, tag);
                            if constexpr (SEVERAL) store_two_to_others(OBUF, at, tagged(__float_as_uint(o0), tag), tagged(__float_as_uint(o1), tag));
                            store_word((u64*)p.obuf + at, tagged(__float_as_uint(o0), tag));
                            store_word((u64*)p.obuf + at + 1, tagged(__float_as_uint(o1), tag));
                        };
                        if (sender) {
                            send();
                            continue;
                        }
                        // The stream, which this lane waits for, goes first, unless others wait for what is put out here.
                        if (!SEVERAL && waited_for) send();
                        float x0 = __fmaf_rn(step.own, o0, s[0]), x1 = __fmaf_rn(step.own, o1, s[1]);
                        if (lands) {
                            x0 += landing[w * p.max_dim_rows + local];
                            x1 += landing[w * p.max_dim_rows + local + 1];
                        }
                        if (Model::lanes > 1 && step.others != 0.0f) {
                            const float2 y = sum_others<W>((int)(pass & 1) * modules + module, me.lane, w, row, tag);
                            x0 = __fmaf_rn(step.others, y.x, x0);
                            x1 = __fmaf_rn(step.others, y.y, x1);
                        }
                        s[0] = x0;
                        s[1] = x1;
                        const float k = pick<W>(scale, w);
                        u64* to = (u64*)p.xbuf + ((size_t)((module & 1) * p.lanes + me.lane) * W + w) * (p.dim / 2) + row / 2;
                        publish_word(to, XBUF_WORDS, tagged(pack_halves(x0 * k, x1 * k), tag));
                        if (!SEVERAL && step.sends && !waited_for) send();
                    }
                }
            });
            if (kind != 4 && !(kind & 1)) {
#pragma unroll
                for (int w = 0; w < W; w++)
                    if (w < rows) inverse[w] = inverse_of(w);
                if (module == 0) first_inverse = pick<W>(inverse, rows - 1);
            }
            if (lands) {
                __syncwarp();
                if ((tid & 31) == 0) barrier_arrive(misc.late_empty + (landed & 1));
                landed++;
            }
            MARK(5 + kind);
        }
        fed += rows;
        at0 += rows;
        if (!heads) {
            cache_rows(misc, pass);
            if (any_consumer(*(volatile int*)&gone)) break;
            if (fed < pending) continue;
            if (blockIdx.x == 0 && tid == 0) {
                ((Relay*)p.relay)->ended = 1;
                if constexpr (SEVERAL)
                    if (this_block() != 0) break;
                emit_token(misc.emitted, 0, 0.0f, FED);
            }
            break;
        }
        sync_consumers();
        if (fed < pending) continue;  // a run one by one: no choice yet
        const int head_first = (int)(schedule[4 * p.layers] >> 16) * 8, head_units = (int)(schedule[4 * p.layers] & 0xffff);
        const int first_id = (p.head_grid ? 0 : lane0 * p.head_rows) + head_first;
        const int head_rows = max(0, min(head_units * 8, p.head_rows - head_first));
        if (is_judged()) {
            u32 spins = 0;
            while (!barrier_try(&misc.judged, choices & 1))
                if (give_up(spins)) break;
        }
        const Choice c = choose(*(HeadScratch*)(sm + p.off_attn), (float*)(sm + p.off_logits), (float*)(sm + p.off_z), (u16*)(sm + p.off_red), first_id, head_rows, at0,
                                choices & 1, (this_block() == 0 ? *(volatile u32*)&misc.aborted : 0u) | (SEVERAL && *(volatile int*)&gone ? LOST : 0u), tag0 + modules);
        MARK(10);
        const int emitted = misc.emitted;
        const Outcome next = outcome_of(c, &misc.cut, emitted, at0);
        if (any_consumer(*(volatile int*)&gone)) break;
        if constexpr (SEVERAL)
            if (c.flags & LOST) break;  // alike in all threads, from the same candidates
        emit_choice(c, next, emitted, first_id, head_rows);
        pending = 1 + next.count;
        fed = 0;
        choices++;
        const bool hands_over = p.hand_over == 2 || (p.hand_over == 1 && pending > 1);
        if (tid == 0) {
            if (next.reason != RUNNING) {
                if (blockIdx.x == 0) ((Relay*)p.relay)->ended = 1;
            } else if (hands_over) {
                if (blockIdx.x == 0) hand_over(misc.grammar, misc.passes + pass + 1, at0, emitted + pending, c.id, next.run, pending);
            } else {
                misc.token = c.id;
                misc.run = next.run;
                misc.emitted = emitted + pending;
                if (is_judged()) barrier_arrive(&misc.asked);
            }
        }
        if (next.reason != RUNNING || hands_over) break;
    }
#ifdef KOGAGENT_PROFILE
    if (tid == 0 && p.profile)
        for (int i = 0; i < PROFILE_SLOTS; i++) ((u64*)p.profile)[blockIdx.x * PROFILE_SLOTS + i] = timed[i];
#endif
    if constexpr (SLACK) tell_slack();
}

// Streams tape and cached keys in the order of use until told to stop, then waits for the copies under way. W 0: the
// tape alone.
template <int W>
__device__ void produce(Ring ring, const u32* schedule, Misc& misc) {
    const int lane = threadIdx.x & 31;
    const Place me = {this_block() / p.group, this_block() % p.group};
    const int* windows = (const int*)(schedule + 4 * p.layers + 1);
    volatile int* quit = &misc.quit;
    u64 once = 0, again = 0;  // how level 2 keeps weights and keys
#if __CUDA_ARCH__ >= 900
    once = evict_first_policy();
    again = evict_normal_policy();
#endif
    int fed = 0, at = misc.position, pass = 0;
    for (bool going = true; going; pass++) {
        const char* tape = (const char*)p.tape + p.tape_stride * blockIdx.x;
        const bool feeding = fed < misc.pending;
        const int rows = feeding ? W > 0 ? min(W, misc.pending - fed) : misc.pending : 1;
        if (feeding) fed += rows;
#pragma unroll 1
        for (int i = 0; i < 4 * p.layers && going; i++) {
            if (W > 0 && (i & 3) == 1) {
                if (i == 1) {  // rows of the passes before are in the cache
                    while (read_in_block(&misc.cached) < pass && going) going = !*quit;
                    going = __all_sync(~0u, going);
                    copies_after_stores();
                }
                going = going && stream_keys(ring, me, i >> 2, at, rows, windows[i >> 2], lane, quit, again);
            }
            going = going && stream_phase<(W > 0)>(ring, p.shape[i & 3], (int)(schedule[i] & 0xffff), tape, lane, quit, once);
        }
        at += rows;
        if (!going || (feeding && fed < misc.pending)) continue;
        if (feeding && !p.want_head) break;
        going = stream_phase<(W > 0)>(ring, p.shape[4], (int)(schedule[4 * p.layers] & 0xffff), tape, lane, quit, once);
    }
    ring_settle(ring);
}

// Two warps that keep the grammar's configuration and judge this block's ids by it while the layers stream. verdicts
// [rows] for the ids from first_id on.
__device__ void judge(Misc& misc, u32* verdicts, int first_id, int rows) {
    const int thread = threadIdx.x - (WARPS + 2) * 32;
#pragma unroll 1
    for (int choice = 0;; choice++) {
        if (choice > 0)
            while (!barrier_try(&misc.asked, (choice - 1) & 1))
                if (*(volatile int*)&misc.quit) return;
        if (thread == 0) {
            const int run = misc.run, count = run >= 0 ? count_of(run) : 0;
            const Ids ids = pending_ids(run);
            if (misc.token >= 0)
#pragma unroll 1
                for (int i = -1; i < count; i++) advance(p.grammar, misc.grammar, i < 0 ? misc.token : ids[i]);
            summarise(p.grammar, misc.grammar);
        }
        sync_judges();
#pragma unroll 1
        for (int i = thread; i < rows; i += JUDGES)
            verdicts[i] = first_id + i < p.legal_ids ? verdict_of(p.grammar, misc.grammar, first_id + i) : ILLEGAL;
        barrier_arrive(&misc.judged);
    }
}

// The same warps where the host keeps the grammar: its mask, once it has come.
__device__ void follow_host(Misc& misc, u32* verdicts, int first_id, int rows) {
#pragma unroll 1
    for (int choice = 0;; choice++) {
        if (choice > 0)
            while (!barrier_try(&misc.asked, (choice - 1) & 1))
                if (*(volatile int*)&misc.quit) return;
        take_guidance(&misc.aborted, &misc.quit, verdicts, first_id, rows, misc.emitted, threadIdx.x - (WARPS + 2) * 32);
        barrier_arrive(&misc.judged);
    }
}

// Takes and gives back every stage and does nothing else: what the memory allows. Max_tokens passes.
__device__ void drain(Ring ring, const u32* schedule) {
    for (int pass = 0; pass < p.max_tokens; pass++)
        for (int phase = 0; phase <= 4 * p.layers; phase++) {
            const Shape& sh = p.shape[phase == 4 * p.layers ? 4 : phase & 3];
            const int units = (int)(schedule[phase] & 0xffff);
            const int stages = sh.parts > 1 ? units * sh.parts : (units + sh.per_stage - 1) / sh.per_stage;
            for (int i = 0; i < stages; i++) {
                ring_take(ring);
                ring_release(ring, threadIdx.x & 31);
            }
        }
}

// W 0: the stream alone.
template <int W>
__device__ void run_block(char* sm) {
    const Relay& relay = *(const Relay*)p.relay;
    if (W > 0 && (relay.ended || *(const u32*)p.dead || (p.hand_over && (relay.pending > 1) != (p.hand_over == 2)))) return;
    Misc& misc = *(Misc*)(sm + p.off_misc);
    Ring ring = {sm + p.off_ring, misc.full, misc.empty, p.stage_bytes, p.stages, 0, 0, 0, cycles()};
    u32* schedule = (u32*)(sm + p.off_schedule);
    const int phases = 4 * p.layers + 1;
    if (threadIdx.x == 0) {
        misc.quit = gone = 0;
        misc.aborted = 0;
        misc.progress = misc.cached = 0;
        for (int i = 0; i < 2; i++) {
            barrier_init(misc.late_full + i, 1);
            barrier_init(misc.late_empty + i, WARPS);
        }
        barrier_init(&misc.asked, 1);
        barrier_init(&misc.judged, JUDGES);
        misc.pending = 1;
        if constexpr (W > 0) {  // the stream alone belongs to no segment: what the relay holds means nothing to it
            misc.pending = relay.pending;
            misc.position = relay.position;
            misc.passes = relay.passes;
            misc.emitted = relay.emitted;
            misc.token = relay.token;
            misc.run = relay.run;
            misc.grammar.state = relay.state;
            misc.grammar.top = relay.top;
            for (int i = 0; i <= relay.top; i++) {
                misc.grammar.site[i] = relay.site[i];
                misc.grammar.count[i] = relay.count[i];
            }
        }
        ring_init(ring);
        if constexpr (SLACK) start_slack();
        if constexpr (SEVERAL && W > 0) meet_devices(p.tag_base + misc.passes * (2 * p.layers + 64) + 2 * p.layers + 63);
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < phases; i += blockDim.x) schedule[i] = ((const u32*)p.schedule)[blockIdx.x * phases + i];
#pragma unroll 1
    for (int i = threadIdx.x; i < p.layers; i += blockDim.x) schedule[phases + i] = ((const Step*)p.steps)[2 * i].window;
    __syncthreads();
    const int warp = threadIdx.x >> 5;
    if (warp < WARPS) {
        take_registers();
        if constexpr (W == 0)
            drain(ring, schedule);
        else
            consume<W>(sm, ring, misc);
        sync_consumers();
        if (threadIdx.x == 0) *(volatile int*)&misc.quit = 1;
    } else {
        give_registers();
        if (warp == WARPS) produce<W>(ring, schedule, misc);
        if constexpr (W > 0) {
            if (warp == WARPS + 1) help<W>(misc, (float*)(sm + p.off_late), schedule);
            if (warp > WARPS + 1 && is_judged() && p.want_head) {
                const int first = (int)(schedule[4 * p.layers] >> 16) * 8, units = (int)(schedule[4 * p.layers] & 0xffff);
                const int first_id = (p.head_grid ? 0 : (int)((u32)this_block() / p.group) * p.head_rows) + first;
                const int rows = max(0, min(units * 8, p.head_rows - first));
                if (p.guided)
                    follow_host(misc, (u32*)(sm + p.off_z), first_id, rows);
                else
                    judge(misc, (u32*)(sm + p.off_z), first_id, rows);
            }
            if constexpr (SLACK && W == 1)
                if (warp == WARPS + 2 && !is_judged()) watch(misc, schedule);
        }
    }
}

extern __shared__ __align__(128) char shared_memory[];

extern "C" __global__ void __launch_bounds__((WARPS + 4) * 32, 1) decode() { run_block<Model::width>(shared_memory); }
extern "C" __global__ void __launch_bounds__((WARPS + 4) * 32, 1) stream_only() { run_block<0>(shared_memory); }

#include "proof.cuh"  // static_asserts written by kernels/params.py
