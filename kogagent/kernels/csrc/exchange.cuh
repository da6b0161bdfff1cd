// Exchange between blocks by tagged words: value in the low 32 bits, epoch in the high 32, one 8-byte store.
// A reader polls the data itself; there is no flag, no counter and no fence. Every wait has a deadline.
#pragma once
#include "ptx.cuh"

enum Wait {  // what a wait was for, as the host prints it
    WAIT_WEIGHTS = 1,
    WAIT_STREAM,
    WAIT_QKV,
    WAIT_SPLITS,
    WAIT_ATTENTION,
    WAIT_HIDDEN,
    WAIT_LANES,
    WAIT_HEAD,
    WAIT_CANDIDATES,
    WAIT_THRESHOLD,
};

extern "C" {
__constant__ Params p;  // of this launch
}
#ifdef KOGAGENT_PROFILE
__shared__ long long timed[16];  // cycles of thread 0
#define TIMED(i, ...)                                         \
    do {                                                      \
        const long long before_ = clock64();                  \
        __VA_ARGS__;                                          \
        if (threadIdx.x == 0) timed[i] += clock64() - before_; \
    } while (0)
#else
#define TIMED(i, ...) __VA_ARGS__
#endif

__shared__ int gone;   // a deadline was missed, here or in another block
__shared__ u64 since;  // when this block began to wait

// A wait that goes on: true once it is hopeless. Called every 1,024 polls, so that no wait reads a clock else.
__device__ __forceinline__ bool give_up_slow(u32 spins, int what, u32 index, u32 expected, u32 found) {
    if (*(volatile int*)&gone) return true;
    u32* dead = (u32*)p.dead;
    if (load_from_host(dead) == 0) {
        // The first slow visit of a wait starts the clock; a block has one, since its waits end together.
        const u64 now = nanoseconds();
        if (spins <= 1024) {
            *(volatile u64*)&since = now;
            return false;
        }
        if (now - *(volatile u64*)&since < p.deadline_ns) return false;
        if (atomicExch(dead, 1u) == 0) {
            volatile u32* status = (volatile u32*)p.status;
            status[2] = what;
            status[3] = blockIdx.x;
            status[4] = index;
            status[5] = expected;
            status[6] = found;
            status[7] = threadIdx.x;
            __threadfence_system();
            store_word_to_host((u64*)(status + 8), tagged(1, p.epoch));
        }
    }
    *(volatile int*)&gone = 1;
    return true;
}
__device__ __forceinline__ bool give_up(u32& spins, int what, u32 index, u32 expected, u32 found) {
    if ((++spins & 1023) != 0) return false;
    return give_up_slow(spins, what, index, expected, found);
}

__device__ __forceinline__ u32 tag_of(u64 word) { return (u32)(word >> 32); }

// Value of one word, once it carries the tag.
__device__ __forceinline__ u32 poll_word(const u64* p, u32 tag, int what, u32 index) {
    u64 v = load_word(p);
    u32 spins = 0;
    while (tag_of(v) != tag) {
        if (give_up(spins, what, index, tag, tag_of(v))) return 0;
        v = load_word(p);
    }
    return (u32)v;
}
// Two runs of cells (two words each) to shared memory, 8 bytes a cell, the second behind the first. All consumer
// threads; no barrier after. One loop with one exit: code that runs once a phase is paid for by the byte, in
// misses of the instruction cache.
__device__ __forceinline__ void gather(const u64* from, int cells, const u64* from2, int cells2, u32 tag, int what, uint2* to) {
    constexpr int BATCH = 4;
    const int all = cells + cells2;
#pragma unroll 1
    for (int base = threadIdx.x; base < all; base += BATCH * THREADS) {
        u64 a[BATCH], b[BATCH];
        u32 spins = 0, wrong;
        do {
            wrong = 0;
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                const int i = base + j * THREADS;
                a[j] = b[j] = (u64)tag << 32;
                if (i < all) load_two_words(i < cells ? from + 2 * i : from2 + 2 * (i - cells), a[j], b[j]);
            }
#pragma unroll
            for (int j = 0; j < BATCH; j++) wrong |= (tag_of(a[j]) ^ tag) | (tag_of(b[j]) ^ tag);
#ifdef KOGAGENT_NO_WAITS
            wrong = 0;
#endif
        } while (wrong && !give_up(spins, what, base, tag, wrong ^ tag));
#pragma unroll
        for (int j = 0; j < BATCH; j++) {
            const int i = base + j * THREADS;
            if (i < all) to[i] = make_uint2((u32)a[j], (u32)b[j]);
        }
    }
}
