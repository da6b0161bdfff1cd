// Exchange between blocks by tagged words: value in the low 32 bits, epoch in the high 32, one 8-byte store.
// A reader polls the data itself; there is no flag, no counter and no fence. Every wait has a deadline.
#pragma once
#include "params.cuh"
#include "ptx.cuh"

extern "C" {
__constant__ Params p;  // of this launch
}
#ifdef KOGAGENT_PROFILE
constexpr int PROFILE_SLOTS = 24;
__shared__ long long timed[PROFILE_SLOTS];  // cycles of thread 0
#define TIMED(i, ...)                                         \
    do {                                                      \
        const long long before_ = clock64();                  \
        __VA_ARGS__;                                          \
        if (threadIdx.x == 0) timed[i] += clock64() - before_; \
    } while (0)
#define COUNTED(i, condition)                             \
    do {                                                  \
        if (threadIdx.x == 0) timed[i] += (condition);    \
    } while (0)
#else
#define TIMED(i, ...) __VA_ARGS__
#define COUNTED(i, condition)
#endif

__shared__ int gone;  // a deadline was missed, here or in another block

// A failed poll: true once the wait is hopeless. The clock is the helper warp's, so that a wait costs its loop
// nothing but this test.
__device__ __forceinline__ bool give_up(u32& spins) { return (++spins & 255) == 0 && *(volatile int*)&gone; }

// What the helper warp asks whenever it waits: true when this block is done or lost. Every deadline is kept here:
// no progress of the consumers for p.deadline_ns ends the segment in all blocks, and the host is told which block
// stood in which phase.
struct Clock {
    volatile int *quit, *progress;
    int seen;
    u32 spins;
    u64 since;
};
__device__ __forceinline__ bool over(Clock& c) {
    if (*c.quit) return true;
    if ((++c.spins & 1023) != 0) return false;
    u32* dead = (u32*)p.dead;
    const u64 now = nanoseconds();
    if (*c.progress != c.seen) {
        c.seen = *c.progress;
        c.since = now;
    }
    if (now - c.since > p.deadline_ns && atomicExch(dead, 1u) == 0) {
        volatile u32* status = (volatile u32*)p.status;
        status[2] = blockIdx.x;
        status[3] = c.seen;
        __threadfence_system();
        store_word_to_host((u64*)(status + 8), tagged(1, p.epoch));
    }
    if (load_from_host(dead) == 0) return false;
    *(volatile int*)&gone = 1;
    return true;
}

__device__ __forceinline__ u32 tag_of(u64 word) { return (u32)(word >> 32); }

// Value of one word, once it carries the tag.
__device__ __forceinline__ u32 poll_word(const u64* p, u32 tag) {
    u64 v;
    u32 spins = 0;
    do {
        v = load_word(p);
    } while (tag_of(v) != tag && !give_up(spins));
    return (u32)v;
}
// Fills v by load(v), which asks for words not wanted as if they had come, until all carry the tag.
template <int N, class Load>
__device__ __forceinline__ void poll(u64 (&v)[N], u32 tag, Load load) {
    u32 spins = 0, wrong;
    do {
        load(v);
        wrong = 0;
#pragma unroll
        for (int i = 0; i < N; i++) wrong |= tag_of(v[i]) ^ tag;
    } while (wrong && !give_up(spins));
}
// Cells of two words each, shared by all consumer threads: put(cell, value, value). No barrier after. One loop with
// one exit: code that runs once a phase is paid for by the byte, in misses of the instruction cache.
template <class Put>
__device__ __forceinline__ void gather(const u64* from, int cells, u32 tag, Put put) {
    constexpr int most = (Model::dim > Model::ffn ? Model::dim : Model::ffn) / 4, BATCH = most > 3 * THREADS ? 4 : (most + THREADS - 1) / THREADS;
#pragma unroll 1
    for (int base = threadIdx.x; base < cells; base += BATCH * THREADS) {
        u64 v[2 * BATCH];
        TIMED(16, poll(v, tag, [&](u64 (&to)[2 * BATCH]) {
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                to[2 * j] = to[2 * j + 1] = (u64)tag << 32;
                if (base + j * THREADS < cells) load_two_words(from + 2 * (base + j * THREADS), to[2 * j], to[2 * j + 1]);
            }
        }));
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (base + j * THREADS < cells) put(base + j * THREADS, (u32)v[2 * j], (u32)v[2 * j + 1]);
    }
}
