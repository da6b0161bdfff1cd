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

constexpr bool SEVERAL = Model::devices > 1;
constexpr int DEVICE_LANES = Model::lanes / Model::devices > 0 ? Model::lanes / Model::devices : 1;
#ifdef KOGAGENT_LINK
constexpr bool LINK = true;  // what another device's lane has stored counts as there link_ns later
#else
constexpr bool LINK = false;
#endif

// This block among those of all devices, whose lanes count on from each other.
__device__ __forceinline__ int this_block() {
    if constexpr (SEVERAL)
        return p.rank * p.device_blocks + (int)blockIdx.x;
    else
        return (int)blockIdx.x;
}

// ── words that other devices read too ──
__device__ __forceinline__ void store_to_others(Peer buffer, size_t word, u64 v) {
#pragma unroll 1
    for (int d = 0; d < p.devices; d++)
        if (d != p.rank) store_word_anywhere((u64*)p.peers[buffer][d] + word, v);
}
__device__ __forceinline__ void store_two_to_others(Peer buffer, size_t word, u64 a, u64 b) {
#pragma unroll 1
    for (int d = 0; d < p.devices; d++)
        if (d != p.rank) store_two_words_anywhere((u64*)p.peers[buffer][d] + word, a, b);
}
__device__ __forceinline__ void share_word(u64* own, Peer buffer, size_t word, u64 v) {
    store_word(own + word, v);
    if constexpr (SEVERAL) store_to_others(buffer, word, v);
}
__device__ __forceinline__ u64 load_shared_word(const u64* p) {
    if constexpr (SEVERAL)
        return load_word_anywhere(p);
    else
        return load_word(p);
}
__device__ __forceinline__ void load_two_shared_words(const u64* p, u64& a, u64& b) {
    if constexpr (SEVERAL)
        load_two_words_anywhere(p, a, b);
    else
        load_two_words(p, a, b);
}

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
// How far each device has come goes to the host, and all devices give up.
template <class Beat>
__device__ __forceinline__ void tell_of_devices(Beat beat) {
#pragma unroll 1
    for (int d = 0; d < p.devices; d++) {
        ((volatile u32*)p.status)[16 + d] = beat(d);
        if (d != p.rank) *(volatile u32*)p.peers[DEAD][d] = 1;
    }
}
// Tells the host that this device gives up with the others: one that hangs does not.
__device__ __forceinline__ void give_notice() {
    if (SEVERAL && blockIdx.x == 0 && (threadIdx.x & 31) == 0) ((volatile u32*)p.status)[12] = p.epoch;
}
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
        status[2] = this_block();
        status[3] = c.seen;
        if constexpr (SEVERAL)
            tell_of_devices([&](int d) {
                const u64 beat = load_shared_word((const u64*)p.beats + d);
                return (u32)(beat >> 32) == p.epoch ? (u32)beat : 0u;
            });
        __threadfence_system();
        store_word_anywhere((u64*)(status + 8), tagged(1, p.epoch));
    }
    if (load_from_host(dead) == 0) return false;
    give_notice();
    *(volatile int*)&gone = 1;
    return true;
}

__device__ __forceinline__ u32 tag_of(u64 word) { return (u32)(word >> 32); }

// Value of one word that another device may have stored, once it carries the tag.
__device__ __forceinline__ u32 poll_shared_word(const u64* p, u32 tag) {
    u64 v;
    u32 spins = 0;
    do {
        v = load_shared_word(p);
    } while (tag_of(v) != tag && !give_up(spins));
    return (u32)v;
}

// ── the emulated link: what a lane stores is stamped, and whoever reads it on another device waits for its time ──
__device__ __forceinline__ bool is_far(int lane, int other) { return other / (SEVERAL ? DEVICE_LANES : 1) != lane / (SEVERAL ? DEVICE_LANES : 1); }
__device__ __forceinline__ size_t stamp_place(int slot, int lane, int w, int row) {
    return (((size_t)slot * p.lanes + lane) * p.width + w) * (p.dim / 2) + row / 2;
}
__device__ __forceinline__ void stamp(int slot, int lane, int w, int row, u32 tag) {
    share_word((u64*)p.times, TIMES, stamp_place(slot, lane, w, row), tagged((u32)nanoseconds(), tag));
}
__device__ __forceinline__ void wait_for_link(int slot, int lane, int w, int row, u32 tag) {
    const u32 stored = poll_shared_word((const u64*)p.times + stamp_place(slot, lane, w, row), tag);
    u32 spins = 0;
    while ((u32)nanoseconds() - stored < (u32)p.link_ns && !give_up(spins)) {
    }
}

// All devices have begun this launch: nobody reads words of the one before any more. One thread of every block.
__device__ __forceinline__ void meet_devices(u32 tag) {
    if (blockIdx.x == 0) share_word((u64*)p.started, STARTED, p.rank, tagged(0, tag));
    const u64 since = nanoseconds();
    const auto begun = [&](int d) { return tag_of(load_shared_word((const u64*)p.started + d)) == tag; };
#pragma unroll 1
    for (int d = 0; d < p.devices; d++)
#pragma unroll 1
        while (!begun(d)) {
            u32* dead = (u32*)p.dead;
            if (nanoseconds() - since > p.deadline_ns && atomicExch(dead, 1u) == 0) {
                tell_of_devices([&](int other) { return (u32)begun(other); });
                ((volatile u32*)p.status)[2] = this_block();
                ((volatile u32*)p.status)[3] = ~0u;
                __threadfence_system();
                store_word_anywhere((u64*)((u32*)p.status + 8), tagged(1, p.epoch));
            }
            if (load_from_host(dead)) {
                give_notice();
                gone = 1;
                return;
            }
        }
}
// ── words that all blocks of a group read ──
// They lie in several copies, each for a part of the blocks: readers of one line queue for it, and the word that they wait for with
// them. apart: words between two copies.
constexpr int REPLICAS = Model::replicas;
template <int N = REPLICAS>
__device__ __forceinline__ void publish_word(u64* to, int apart, u64 v) {
#pragma unroll
    for (int i = 0; i < N; i++) store_word(to + i * apart, v);
}
template <int N = REPLICAS>
__device__ __forceinline__ int own_replica(int apart) {
    return N == 1 ? 0 : (int)(blockIdx.x % N) * apart;
}

// Looks at words hold up the words. Measured by benchmarks.variants.
#ifndef POLL_FIRST
#define POLL_FIRST Model::poll_first  // cycles before a wait's first look, which comes too early for most
#endif
__device__ __forceinline__ void before_first_look() {
    if constexpr (POLL_FIRST > 0) {
        const u32 since = cycles();
        while (cycles() - since < POLL_FIRST) {
        }
    }
}
// Fills v by load(v), which asks for words not wanted as if they had come, until all carry the tag.
template <int N, class Load>
__device__ __forceinline__ void poll_at_once(u64 (&v)[N], u32 tag, Load load) {
    u32 spins = 0, wrong;
    do {
        load(v);
        wrong = 0;
#pragma unroll
        for (int i = 0; i < N; i++) wrong |= tag_of(v[i]) ^ tag;
    } while (wrong && !give_up(spins));
}
template <int N, class Load>
__device__ __forceinline__ void poll(u64 (&v)[N], u32 tag, Load load) {
    before_first_look();
    poll_at_once(v, tag, load);
}
// CELLS of two words each, shared by all consumer threads: put(cell, value, value). No barrier after. One loop, none
// where one turn does: code that runs once a phase is paid for by the byte, in misses of the instruction cache.
template <int CELLS, class Put>
__device__ __forceinline__ void gather(const u64* from, u32 tag, Put put) {
    constexpr int BATCH = CELLS > 3 * THREADS ? 4 : (CELLS + THREADS - 1) / THREADS;
#pragma unroll 1
    for (int base = as_new(threadIdx.x); base < CELLS; base += BATCH * THREADS) {
        u64 v[2 * BATCH];
        TIMED(16, poll(v, tag, [&](u64 (&to)[2 * BATCH]) {
#pragma unroll
            for (int j = 0; j < BATCH; j++) {
                to[2 * j] = to[2 * j + 1] = (u64)tag << 32;
                if (base + j * THREADS < CELLS) load_two_words(from + 2 * (base + j * THREADS), to[2 * j], to[2 * j + 1]);
            }
        }));
#pragma unroll
        for (int j = 0; j < BATCH; j++)
            if (base + j * THREADS < CELLS) put(base + j * THREADS, (u32)v[2 * j], (u32)v[2 * j + 1]);
        if (CELLS <= BATCH * THREADS) break;
    }
}
