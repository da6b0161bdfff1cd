// Choosing the next id from logits that lie spread over the blocks. Twin of engine/sampling.py: same noise,
// same order (penalty, mask, temperature, top-k, top-p, min-p, draw), same ties.
#pragma once
#include "attention.cuh"
#include "grammar.cuh"

__device__ __forceinline__ u32 mix(u32 x) {
    x = (x ^ (x >> 16)) * 0x7FEB352Du;
    x = (x ^ (x >> 15)) * 0x846CA68Bu;
    return x ^ (x >> 16);
}
// Standard Gumbel noise of one id at one position.
__device__ __forceinline__ float gumbel(u64 key, u32 id) {
    const u32 bits = mix(mix(id ^ (u32)key) + (u32)(key >> 32));
    const double u = ((double)bits + 0.5) * 0x1p-32;
    return (float)(-log(-log(u)));
}

// Order-keeping bits of a finite float; 0 is below all of them.
__device__ __forceinline__ u32 order_key(float z) {
    const u32 b = __float_as_uint(z);
    return b & 0x80000000u ? ~b : b | 0x80000000u;
}
__device__ __forceinline__ float key_value(u32 k) { return __uint_as_float(k & 0x80000000u ? k & 0x7fffffffu : ~k); }

constexpr u32 NOBODY = ~0u;
struct Best {
    float z;  // with noise
    u32 who;  // id << VERDICT_BITS | the grammar's verdict on it; NOBODY: no id is legal
    float logit;
};
__device__ __forceinline__ void take_better(Best& a, float z, u32 who, float logit) {
    if (z > a.z || (z == a.z && who < a.who)) {
        a.z = z;
        a.who = who;
        a.logit = logit;
    }
}
struct Mass {  // of exponentials
    float top, sum;
};
__device__ __forceinline__ void add_mass(Mass& a, float top, float sum) {
    const float m = fmaxf(a.top, top);
    if (m == -INFINITY) return;
    a.sum = __fmaf_rn(a.sum, expf(a.top - m), sum * expf(top - m));
    a.top = m;
}

// What a thread, a warp, a block, then all of them have found.
struct Found {
    Best best = {-INFINITY, NOBODY, 0};
    Mass mass = {-INFINITY, 0};
    u32 flags = 0;
};
// The same in all threads of the warp. By the order of bits: every step of it is one instruction, where shuffles take five and a comparison each.
__device__ __forceinline__ Found found_by_warp(const Found& f) {
    Found all;
    const u32 key = f.best.who == NOBODY ? 0u : order_key(f.best.z + 0.0f);  // -0 is 0
    const u32 top_key = __reduce_max_sync(~0u, key);
    all.best.who = __reduce_min_sync(~0u, key == top_key ? f.best.who : NOBODY);
    all.best.logit = __uint_as_float(__reduce_or_sync(~0u, f.best.who == all.best.who ? __float_as_uint(f.best.logit) : 0u));
    if (all.best.who != NOBODY) all.best.z = key_value(top_key);
    all.mass.top = key_value(__reduce_max_sync(~0u, order_key(f.mass.top)));
    all.mass.sum = warp_sum(f.mass.top == -INFINITY ? 0.0f : f.mass.sum * expf(f.mass.top - all.mass.top));
    all.flags = __reduce_or_sync(~0u, f.flags);
    return all;
}

enum Flags { NOT_A_NUMBER = 1, ABORTED = 2, LOST = 4 };  // LOST: the sender had given up waiting
constexpr int STAMP_SHIFT = 8;  // of a candidate's time, with an emulated link: 24 bits of nanoseconds

struct Choice {
    int id;  // -1: no id is legal
    u32 verdict;
    float logprob;
    u32 flags;
};

// Whether a choice waits for verdicts on this block's ids, by the judges.
__device__ __forceinline__ bool is_judged() { return p.grammar.tokens || p.guided; }

struct HeadScratch {  // shared memory, fixed size
    Found own[WARPS], all[WARPS];  // of a warp: among this block's ids, among all blocks' candidates
    u32 part[16][16];
    u32 total[16];
    float warp_f[WARPS][16];
    u32 warp_u[WARPS][16];
};

static_assert(sizeof(HeadScratch) == 2496, "HEAD_SCRATCH of kernels/layout.py");

enum Reduce { ADD_COUNTS, ADD_MASSES, MAXIMUM };

// 16 words of every block, reduced in a fixed order; the result is s.total for all threads.
template <int KIND>
__device__ void reduce_over_blocks(HeadScratch& s, u32 mine, int parity, u32 tag) {
    const int tid = as_new(threadIdx.x), b = tid & 15;
    u64* words = (u64*)p.hist + (size_t)parity * p.blocks * 16;
    if (tid < 16) {
        store_word(words + (u32)this_block() * 16 + tid, tagged(mine, tag));
        if constexpr (SEVERAL) store_to_others(HIST, ((size_t)parity * p.blocks + this_block()) * 16 + tid, tagged(mine, tag));
    }
    u32 count = 0;
    float mass = 0;
    constexpr int EACH = (Model::blocks + 15) / 16, AT_ONCE = EACH < 9 ? EACH : 9;  // words of a thread; that it waits for together
#pragma unroll 1
    for (int first = tid >> 4; first < p.blocks; first += 16 * AT_ONCE) {
        u64 v[AT_ONCE];
        poll_at_once(v, tag, [&](u64 (&to)[AT_ONCE]) {
#pragma unroll
            for (int j = 0; j < AT_ONCE; j++) to[j] = first + 16 * j < p.blocks ? load_shared_word(words + (first + 16 * j) * 16 + b) : (u64)tag << 32;
        });
#pragma unroll
        for (int j = 0; j < AT_ONCE; j++) {  // a word of nobody is 0, which adds nothing and is no maximum
            const u32 w = (u32)v[j];
            if (KIND == ADD_COUNTS) count += w;
            if (KIND == MAXIMUM) count = max(count, w);
            if (KIND == ADD_MASSES) mass += __uint_as_float(w);
        }
    }
    s.part[tid >> 4][b] = KIND == ADD_MASSES ? __float_as_uint(mass) : count;
    sync_consumers();
    if (tid < 16) {
        count = 0;
        mass = 0;
#pragma unroll 1
        for (int g = 0; g < 16; g++) {
            const u32 v = s.part[g][tid];
            if (KIND == ADD_COUNTS) count += v;
            if (KIND == MAXIMUM) count = max(count, v);
            if (KIND == ADD_MASSES) mass += __uint_as_float(v);
        }
        s.total[tid] = KIND == ADD_MASSES ? __float_as_uint(mass) : count;
    }
    sync_consumers();
}

// Sums of 16 per-thread values over this block, in thread t < 16.
__device__ __forceinline__ u32 block_counts(HeadScratch& s, const u32 (&v)[16]) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll
    for (int b = 0; b < 16; b++) {
        const u32 sum = __reduce_add_sync(~0u, v[b]);
        if (lane == 0) s.warp_u[warp][b] = sum;
    }
    sync_consumers();
    u32 sum = 0;
    if (threadIdx.x < 16)
#pragma unroll 1
        for (int w = 0; w < WARPS; w++) sum += s.warp_u[w][threadIdx.x];
    sync_consumers();
    return sum;
}
__device__ __forceinline__ u32 block_masses(HeadScratch& s, const float (&v)[16]) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31;
#pragma unroll
    for (int b = 0; b < 16; b++) {
        const float sum = warp_sum(v[b]);
        if (lane == 0) s.warp_f[warp][b] = sum;
    }
    sync_consumers();
    float sum = 0;
    if (threadIdx.x < 16)
#pragma unroll 1
        for (int w = 0; w < WARPS; w++) sum += s.warp_f[w][threadIdx.x];
    sync_consumers();
    return __float_as_uint(sum);
}

// Least z that top-k, top-p and min-p keep. z [rows] in shared memory, -inf where not legal.
__device__ __forceinline__ float threshold(HeadScratch& s, const float* z, int rows, u32 tag) {
    int round = 0;
    float local = -INFINITY;
#pragma unroll 1
    for (int r = threadIdx.x; r < rows; r += THREADS) local = fmaxf(local, z[r]);
    u32 key = __reduce_max_sync(~0u, local == -INFINITY ? 0u : order_key(local));
    if ((threadIdx.x & 31) == 0) s.warp_u[threadIdx.x >> 5][0] = key;
    sync_consumers();
#pragma unroll 1
    for (int i = 0; i < WARPS; i++) key = max(key, s.warp_u[i][0]);
    sync_consumers();
    reduce_over_blocks<MAXIMUM>(s, key, round & 1, tag + round);
    round++;
    const u32 top_key = s.total[0];
    if (top_key == 0) return -INFINITY;  // nothing is legal: the draw reports it
    const float top = key_value(top_key);
    u32 least = 0;
    sync_consumers();
    if (p.top_k > 0) {  // the k-th largest, 4 bits of its key a round
        u32 prefix = 0;
        u32 above = 0;  // ids with a larger prefix
        bool all = false;
#pragma unroll 1
        for (int shift = 28; shift >= 0; shift -= 4) {
            u32 counts[16] = {};
#pragma unroll 1
            for (int r = threadIdx.x; r < rows; r += THREADS) {
                if (z[r] == -INFINITY) continue;
                const u32 k = order_key(z[r]);
                if (shift < 28 && (k >> (shift + 4)) != (prefix >> (shift + 4))) continue;
#pragma unroll
                for (int b = 0; b < 16; b++) counts[b] += ((k >> shift) & 15) == b;
            }
            const u32 mine = block_counts(s, counts);
            reduce_over_blocks<ADD_COUNTS>(s, mine, round & 1, tag + round);
            round++;
            u32 seen = above;
            int bucket = 15;
            for (; bucket >= 0; bucket--) {
                if (seen + s.total[bucket] >= (u32)p.top_k) break;
                seen += s.total[bucket];
            }
            sync_consumers();
            if (bucket < 0) {  // fewer legal ids than k: keep all
                all = true;
                break;
            }
            above = seen;
            prefix |= (u32)bucket << shift;
        }
        if (!all) least = prefix;
    }
    if (p.top_p < 1.0f) {  // the least z whose larger ones hold less than top_p of the mass
        u32 prefix = 0;
        float above = 0, goal = 0;
#pragma unroll 1
        for (int shift = 28; shift >= 0; shift -= 4) {
            float masses[16] = {};
#pragma unroll 1
            for (int r = threadIdx.x; r < rows; r += THREADS) {
                if (z[r] == -INFINITY) continue;
                const u32 k = order_key(z[r]);
                if (k < least) continue;
                if (shift < 28 && (k >> (shift + 4)) != (prefix >> (shift + 4))) continue;
                const float e = expf(z[r] - top);
#pragma unroll
                for (int b = 0; b < 16; b++) masses[b] += ((k >> shift) & 15) == b ? e : 0.0f;
            }
            const u32 mine = block_masses(s, masses);
            reduce_over_blocks<ADD_MASSES>(s, mine, round & 1, tag + round);
            round++;
            if (shift == 28) {
                float sum = 0;
                for (int b = 15; b >= 0; b--) sum += __uint_as_float(s.total[b]);
                goal = p.top_p * sum;
            }
            // Among the buckets that hold anything, the last one whose larger ones have not reached the goal.
            float seen = above;
            int bucket = -1;
            float before = above;
            for (int b = 15; b >= 0; b--) {
                const float mass = __uint_as_float(s.total[b]);
                if (mass <= 0.0f) continue;
                if (bucket >= 0 && seen >= goal) break;
                bucket = b;
                before = seen;
                seen += mass;
            }
            sync_consumers();
            if (bucket < 0) break;  // masses below the smallest float: keep what the prefix holds
            above = before;
            prefix |= (u32)bucket << shift;
        }
        least = max(least, prefix);
    }
    float limit = least ? key_value(least) : -INFINITY;
    if (p.min_p > 0.0f) limit = fmaxf(limit, top + logf(p.min_p));
    return limit;
}

// Candidates lie in planes of two words a block, which a warp reads in few lines: z and who, logit and flags, the mass.
__device__ __forceinline__ size_t candidate_place(int parity, int plane, int block) { return ((size_t)(parity * 3 + plane) * p.blocks + block) * 2; }
// One warp.
__device__ __forceinline__ void publish_candidate(const Found& f, int parity, u32 tag) {
    const int lane = as_new(threadIdx.x) & 31;
    const u32 words[] = {__float_as_uint(f.best.z), f.best.who, __float_as_uint(f.best.logit), f.flags, __float_as_uint(f.mass.top), __float_as_uint(f.mass.sum)};
    u32 word = words[0];
#pragma unroll
    for (int i = 1; i < 6; i++)
        if (lane == i) word = words[i];
    if (lane < 6) share_word((u64*)p.cand, CAND, candidate_place(parity, lane >> 1, this_block()) + (lane & 1), tagged(word, tag));
}
// The candidates of all devices' blocks: a thread takes each THREADS-th.
__device__ __forceinline__ Found read_candidates(int parity, u32 tag) {
    constexpr int AT_ONCE = (Model::blocks + THREADS - 1) / THREADS;
    const int tid = as_new(threadIdx.x);
    Found f;
    u64 x[6 * AT_ONCE];
    poll_at_once(x, tag, [&](u64 (&to)[6 * AT_ONCE]) {
#pragma unroll
        for (int i = 0; i < 3 * AT_ONCE; i++) {
            const int block = tid + i / 3 * THREADS;
            to[2 * i] = to[2 * i + 1] = (u64)tag << 32;
            if (block < p.blocks) load_two_shared_words((const u64*)p.cand + candidate_place(parity, i % 3, block), to[2 * i], to[2 * i + 1]);
        }
    });
#pragma unroll
    for (int i = 0; i < AT_ONCE; i++) {
        const int block = tid + i * THREADS;
        if (block >= p.blocks) break;
        const u64* words = x + 6 * i;
        if (LINK && is_far(this_block() / p.group, block / p.group)) {
            u32 spins = 0;
            while ((((u32)nanoseconds() << STAMP_SHIFT) - ((u32)words[3] & ~0u << STAMP_SHIFT)) >> STAMP_SHIFT < (u32)p.link_ns && !give_up(spins)) {
            }
        }
        take_better(f.best, __uint_as_float((u32)words[0]), (u32)words[1], __uint_as_float((u32)words[2]));
        add_mass(f.mass, __uint_as_float((u32)words[4]), __uint_as_float((u32)words[5]));
        f.flags |= (u32)words[3] & ((1u << STAMP_SHIFT) - 1);
    }
    return f;
}

// The row of this block's candidate on its way into level 2, where the next pass finds it if the candidate is chosen. One warp.
__device__ __forceinline__ void fetch_embedding(u32 id) {
    const char* row = (const char*)p.embed + (size_t)id * p.dim * 2;
#pragma unroll 1
    for (int at = (as_new(threadIdx.x) & 31) * 128; at < p.dim * 2; at += 32 * 128) prefetch_level2(row + at);
}

// The id of `position` from this block's logits [rows]: rows stand for ids first_id.. . All consumer threads.
// z: under a grammar it holds the verdicts first; they are kept in `verdicts` while z is written.
__device__ __forceinline__ Choice choose(HeadScratch& s, float* logits, float* z, u16* verdicts, int first_id, int rows, int position,
                         int parity, u32 aborted, u32 tag) {
    const int tid = as_new(threadIdx.x), warp = tid >> 5, lane = tid & 31;
    const bool draws = p.temperature > 0.0f;
    const bool filters = draws && (p.top_k > 0 || p.top_p < 1.0f || p.min_p > 0.0f);
    Found mine;
#pragma unroll 1
    for (int r = tid; r < rows; r += THREADS) {
        const float x = logits[r];
        const int id = first_id + r;
        if (!(x < INFINITY)) mine.flags |= NOT_A_NUMBER;
        add_mass(mine.mass, x, 1.0f);
        float y = x;
        if (p.penalty != 1.0f && ((const u8*)p.seen)[id]) y = x > 0 ? __fdiv_rn(x, p.penalty) : x * p.penalty;
        bool legal = id < p.legal_ids && (!p.mask || (((const u32*)p.mask)[id >> 5] >> (id & 31) & 1));
        if (is_judged()) {
            const u32 verdict = __float_as_uint(z[r]);
            verdicts[r] = (u16)verdict;
            legal = legal && verdict != ILLEGAL;
        }
        z[r] = !legal ? -INFINITY : draws ? __fdiv_rn(y, p.temperature) : y;
    }
    float least = -INFINITY;
    if (filters) {
        sync_consumers();
        least = threshold(s, z, rows, tag + 1);
    }
    const u64 key = splitmix64(p.seed ^ splitmix64((u64)position));
#pragma unroll 1
    for (int r = tid; r < rows; r += THREADS) {
        float v = z[r];
        if (v == -INFINITY || v < least) continue;
        if (draws) v += gumbel(key, first_id + r);
        take_better(mine.best, v, (u32)(first_id + r) << VERDICT_BITS | (is_judged() ? verdicts[r] : FREE), logits[r]);
    }
    mine = found_by_warp(mine);
    if (lane == 0) s.own[warp] = mine;
    sync_consumers();
    if (warp == 0) {
        mine = found_by_warp(lane < WARPS ? s.own[lane] : Found{});
        if (mine.best.who != NOBODY) fetch_embedding(mine.best.who >> VERDICT_BITS);
        mine.flags |= aborted;
        if constexpr (LINK) mine.flags |= (u32)nanoseconds() << STAMP_SHIFT;
        publish_candidate(mine, parity, tag);
    }
    const Found theirs = found_by_warp(read_candidates(parity, tag));
    if (lane == 0) s.all[warp] = theirs;
    sync_consumers();
    // Every warp reduces all candidates alike, so that no further word is needed.
    const Found all = found_by_warp(lane < WARPS ? s.all[lane] : Found{});
    Choice c;
    c.flags = all.flags;
    c.id = all.best.who == NOBODY ? -1 : (int)(all.best.who >> VERDICT_BITS);
    c.verdict = all.best.who & ((1u << VERDICT_BITS) - 1);
    c.logprob = all.best.logit - all.mass.top - logf(all.mass.sum);
    return c;
}
