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
    a.sum = a.sum * expf(a.top - m) + sum * expf(top - m);
    a.top = m;
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
    float z[256];
    u32 who[256];
    float logit[256], top[256], sum[256];
    u32 flags[256];
    u32 part[16][16];
    u32 total[16];
    float warp_f[WARPS][16];
    u32 warp_u[WARPS][16];
};

enum Reduce { ADD_COUNTS, ADD_MASSES, MAXIMUM };

// 16 words of every block, reduced in a fixed order; the result is s.total for all threads.
template <int KIND>
__device__ void reduce_over_blocks(HeadScratch& s, u32 mine, int parity, u32 tag) {
    const int tid = threadIdx.x, b = tid & 15;
    u64* words = (u64*)p.hist + (size_t)parity * p.blocks * 16;
    if (tid < 16) {
        store_word(words + (u32)this_block() * 16 + tid, tagged(mine, tag));
        if constexpr (SEVERAL) store_to_others(HIST, ((size_t)parity * p.blocks + this_block()) * 16 + tid, tagged(mine, tag));
    }
    u32 count = 0;
    float mass = 0;
#pragma unroll 1
    for (int block = tid >> 4; block < p.blocks; block += 16) {
        const u32 v = poll_shared_word(words + block * 16 + b, tag);
        if (KIND == ADD_COUNTS) count += v;
        if (KIND == MAXIMUM) count = max(count, v);
        if (KIND == ADD_MASSES) mass += __uint_as_float(v);
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

// What all devices' blocks have found, into the scratch's first THREADS places: a thread takes each THREADS-th.
__device__ __forceinline__ void read_candidates(HeadScratch& s, int parity, u32 tag) {
    Best best = {-INFINITY, NOBODY, 0};
    Mass mass = {-INFINITY, 0};
    u32 flags = 0;
#pragma unroll 1
    for (int block = threadIdx.x; block < p.blocks; block += THREADS) {
        const u64* from = (const u64*)p.cand + ((size_t)parity * p.blocks + block) * 6;
        u64 x[6];
        poll(x, tag, [&](u64 (&to)[6]) {
#pragma unroll
            for (int i = 0; i < 6; i += 2) load_two_shared_words(from + i, to[i], to[i + 1]);
        });
        if (LINK && is_far(this_block() / p.group, block / p.group)) {
            u32 spins = 0;
            while ((((u32)nanoseconds() << STAMP_SHIFT) - ((u32)x[5] & ~0u << STAMP_SHIFT)) >> STAMP_SHIFT < (u32)p.link_ns && !give_up(spins)) {
            }
        }
        take_better(best, __uint_as_float((u32)x[0]), (u32)x[1], __uint_as_float((u32)x[2]));
        add_mass(mass, __uint_as_float((u32)x[3]), __uint_as_float((u32)x[4]));
        flags |= (u32)x[5];
    }
    s.z[threadIdx.x] = best.z;
    s.who[threadIdx.x] = best.who;
    s.logit[threadIdx.x] = best.logit;
    s.top[threadIdx.x] = mass.top;
    s.sum[threadIdx.x] = mass.sum;
    s.flags[threadIdx.x] = flags & ((1u << STAMP_SHIFT) - 1);
}

// The id of `position` from this block's logits [rows]: rows stand for ids first_id.. . All consumer threads.
// z: under a grammar it holds the verdicts first; they are kept in `verdicts` while z is written.
__device__ __forceinline__ Choice choose(HeadScratch& s, float* logits, float* z, u16* verdicts, int first_id, int rows, int position,
                         int parity, u32 aborted, u32 tag) {
    const int tid = threadIdx.x, warp = tid >> 5, lane = tid & 31;
    const bool draws = p.temperature > 0.0f;
    const bool filters = draws && (p.top_k > 0 || p.top_p < 1.0f || p.min_p > 0.0f);
    Mass mass = {-INFINITY, 0};
    u32 flags = 0;
#pragma unroll 1
    for (int r = tid; r < rows; r += THREADS) {
        const float x = logits[r];
        const int id = first_id + r;
        if (!(x < INFINITY)) flags |= NOT_A_NUMBER;
        add_mass(mass, x, 1.0f);
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
    Best best = {-INFINITY, NOBODY, 0};
    const u64 key = splitmix64(p.seed ^ splitmix64((u64)position));
#pragma unroll 1
    for (int r = tid; r < rows; r += THREADS) {
        float v = z[r];
        if (v == -INFINITY || v < least) continue;
        if (draws) v += gumbel(key, first_id + r);
        take_better(best, v, (u32)(first_id + r) << VERDICT_BITS | (is_judged() ? verdicts[r] : FREE), logits[r]);
    }
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        const float bz = __shfl_xor_sync(~0u, best.z, o), bl = __shfl_xor_sync(~0u, best.logit, o);
        const u32 bi = __shfl_xor_sync(~0u, best.who, o);
        take_better(best, bz, bi, bl);
        const float mt = __shfl_xor_sync(~0u, mass.top, o), ms = __shfl_xor_sync(~0u, mass.sum, o);
        Mass low = lane & o ? Mass{mt, ms} : mass, high = lane & o ? mass : Mass{mt, ms};  // same order in both
        add_mass(low, high.top, high.sum);
        mass = low;
    }
    flags = __reduce_or_sync(~0u, flags);
    if (lane == 0) {
        s.z[warp] = best.z;
        s.who[warp] = best.who;
        s.logit[warp] = best.logit;
        s.top[warp] = mass.top;
        s.sum[warp] = mass.sum;
        s.flags[warp] = flags;
    }
    sync_consumers();
    if (tid == 0) {
#pragma unroll 1
        for (int i = 1; i < WARPS; i++) {
            take_better(best, s.z[i], s.who[i], s.logit[i]);
            add_mass(mass, s.top[i], s.sum[i]);
            flags |= s.flags[i];
        }
        if constexpr (LINK) flags |= (u32)nanoseconds() << STAMP_SHIFT;
        const size_t at = ((size_t)parity * p.blocks + (u32)this_block()) * 6;
        u64* to = (u64*)p.cand + at;
        store_word(to, tagged(__float_as_uint(best.z), tag));
        store_word(to + 1, tagged(best.who, tag));
        store_word(to + 2, tagged(__float_as_uint(best.logit), tag));
        store_word(to + 3, tagged(__float_as_uint(mass.top), tag));
        store_word(to + 4, tagged(__float_as_uint(mass.sum), tag));
        store_word(to + 5, tagged(flags | aborted, tag));
        if constexpr (SEVERAL) {
            store_two_to_others(CAND, at, tagged(__float_as_uint(best.z), tag), tagged(best.who, tag));
            store_two_to_others(CAND, at + 2, tagged(__float_as_uint(best.logit), tag), tagged(__float_as_uint(mass.top), tag));
            store_two_to_others(CAND, at + 4, tagged(__float_as_uint(mass.sum), tag), tagged(flags | aborted, tag));
        }
    }
    sync_consumers();
    if constexpr (SEVERAL || LINK) {
        read_candidates(s, parity, tag);
    } else if (tid < p.blocks) {
        const u64* from = (const u64*)p.cand + ((size_t)parity * p.blocks + tid) * 6;
        u64 x[6];
        u32 spins = 0, wrong;
        do {
            wrong = 0;
#pragma unroll
            for (int i = 0; i < 6; i += 2) load_two_words(from + i, x[i], x[i + 1]);
#pragma unroll
            for (int i = 0; i < 6; i++) wrong |= tag_of(x[i]) ^ tag;
        } while (wrong && !give_up(spins));
        s.z[tid] = __uint_as_float((u32)x[0]);
        s.who[tid] = (u32)x[1];
        s.logit[tid] = __uint_as_float((u32)x[2]);
        s.top[tid] = __uint_as_float((u32)x[3]);
        s.sum[tid] = __uint_as_float((u32)x[4]);
        s.flags[tid] = (u32)x[5];
    }
    sync_consumers();
    // Every warp reduces all candidates alike, so that no further word is needed.
    best = {-INFINITY, NOBODY, 0};
    mass = {-INFINITY, 0};
    flags = 0;
#pragma unroll 1
    for (int i = lane; i < (p.blocks < THREADS ? p.blocks : THREADS); i += 32) {
        take_better(best, s.z[i], s.who[i], s.logit[i]);
        add_mass(mass, s.top[i], s.sum[i]);
        flags |= s.flags[i];
    }
#pragma unroll
    for (int o = 16; o; o >>= 1) {
        const float bz = __shfl_xor_sync(~0u, best.z, o), bl = __shfl_xor_sync(~0u, best.logit, o);
        const u32 bi = __shfl_xor_sync(~0u, best.who, o);
        take_better(best, bz, bi, bl);
        const float mt = __shfl_xor_sync(~0u, mass.top, o), ms = __shfl_xor_sync(~0u, mass.sum, o);
        Mass low = lane & o ? Mass{mt, ms} : mass, high = lane & o ? mass : Mass{mt, ms};
        add_mass(low, high.top, high.sum);
        mass = low;
    }
    Choice c;
    c.flags = __reduce_or_sync(~0u, flags);
    c.id = best.who == NOBODY ? -1 : (int)(best.who >> VERDICT_BITS);
    c.verdict = best.who & ((1u << VERDICT_BITS) - 1);
    c.logprob = best.logit - mass.top - logf(mass.sum);
    sync_consumers();  // the scratch may be written again
    return c;
}
