// The weight ring: one warp streams this block's tape into stages of shared memory, the others multiply.
// Nothing here knows what the bytes mean.
#pragma once
#include "exchange.cuh"
#include "keys.cuh"

struct Ring {
    char* data;
    u64 *full, *empty;
    int stage_bytes, stages;
    int slot, parity;  // of the reader or the writer that holds this copy
    int filled;        // stages this writer has filled, counted to `stages`
    u32 asked;         // clock when this writer asked for something last

    __device__ __forceinline__ void next() {
        if (++slot == stages) {
            slot = 0;
            parity ^= 1;
        }
    }
};

constexpr int COPIES = 32;  // arrivals that fill a stage where there are no bulk copies

__device__ __forceinline__ void ring_init(Ring& r) {
    for (int s = 0; s < r.stages; s++) {
#if __CUDA_ARCH__ >= 900
        barrier_init(r.full + s, 1);
#else
        barrier_init(r.full + s, COPIES);
#endif
        barrier_init(r.empty + s, WARPS);
    }
    barriers_visible_to_copies();
}

// Consumer warps: wait for the next stage.
__device__ __forceinline__ void ring_take(const Ring& r) {
    u32 spins = 0;
    while (!barrier_try(r.full + r.slot, r.parity))
        if (give_up(spins)) break;
}
__device__ __forceinline__ void ring_release(Ring& r, int lane) {
    __syncwarp();
    if (lane == 0) barrier_arrive(r.empty + r.slot);
    r.next();
}

// Cycles between two pieces of a stage, 0: a stage is asked for at once. Not measured where the memory gives a block more than the
// 20 bytes a cycle that this allows.
#ifndef PACE
#if __CUDA_ARCH__ >= 1000
#define PACE 0
#else
#define PACE Model::pace
#endif
#endif
constexpr int PIECE = 8192;  // bytes
// Producer warp, all its lanes: wait for the next stage to be free. False when the block is done.
__device__ __forceinline__ bool ring_free(const Ring& r, volatile int* quit) {
    // Lanes must agree: a stage half copied would never be full.
    while (!__all_sync(~0u, barrier_try(r.empty + r.slot, r.parity ^ 1)))
        if (__any_sync(~0u, *quit)) return false;
    return true;
}
#if __CUDA_ARCH__ >= 900
constexpr int COPIERS = 32;  // each lane copies a piece by itself
__device__ __forceinline__ int ring_copier(int lane) { return lane; }
__device__ __forceinline__ void ring_expect(const Ring& r, int bytes, int lane) {
    if (lane == 0) barrier_expect(r.full + r.slot, bytes);
    __syncwarp();
}
__device__ __forceinline__ void ring_copy(const Ring& r, char* to, const char* from, int bytes, int lane, u64 policy) {
    bulk_copy(to, from, bytes, r.full + r.slot, policy);
}
__device__ __forceinline__ void ring_filled(Ring& r) {
#else
constexpr int COPIERS = 1;  // all lanes copy each piece together
__device__ __forceinline__ int ring_copier(int lane) { return 0; }
__device__ __forceinline__ void ring_expect(const Ring& r, int bytes, int lane) {}
__device__ __forceinline__ void ring_copy(const Ring& r, char* to, const char* from, int bytes, int lane, u64 policy) {
    for (int i = lane * 16; i < bytes; i += 32 * 16) copy_16(to + i, from + i);
}
__device__ __forceinline__ void ring_filled(Ring& r) {
    arrive_when_copied(r.full + r.slot);
#endif
    if (r.filled < r.stages) r.filled++;
    r.next();
}
// Stream one stage that lies in one piece.
template <bool PACED>
__device__ __forceinline__ bool ring_fill(Ring& r, const char* from, int bytes, int lane, volatile int* quit, u64 policy) {
    if (!ring_free(r, quit)) return false;
    ring_expect(r, bytes, lane);
    char* to = r.data + r.slot * r.stage_bytes;
    if (ring_copier(lane) == 0) {
        if constexpr (PACED && PACE > 0) {
#pragma unroll 1
            for (int at = 0; at < bytes; at += PIECE) {
                u32 now;
                while ((now = cycles()) - r.asked < (u32)PACE) {
                }
                r.asked = now;
                ring_copy(r, to + at, from + at, min(PIECE, bytes - at), lane, policy);
            }
        } else {
            ring_copy(r, to, from, bytes, lane, policy);
        }
    }
    ring_filled(r);
    return true;
}

// Stages of one phase on this block. The tape is read in order; no address comes from data.
template <bool PACED>
__device__ __forceinline__ bool stream_phase(Ring& r, const Shape& sh, int units, const char*& tape, int lane, volatile int* quit, u64 policy) {
    if (sh.parts > 1) {
        for (int u = 0; u < units; u++)
            for (int part = 0; part < sh.parts; part++) {
                const int bytes = min(sh.part_tiles, sh.tiles - part * sh.part_tiles) * 512;
                if (!ring_fill<PACED>(r, tape, bytes, lane, quit, policy)) return false;
                tape += bytes;
            }
    } else {
        for (int u = 0; u < units; u += sh.per_stage) {
            const int bytes = min(sh.per_stage, units - u) * sh.tiles * 512;
            if (!ring_fill<PACED>(r, tape, bytes, lane, quit, policy)) return false;
            tape += bytes;
        }
    }
    return true;
}

// Waits until no copy is under way: a block must not end while its shared memory is being written.
__device__ __forceinline__ void ring_settle(Ring r) {
    for (int i = 0; i < r.stages; i++) {
        if (r.slot == 0) {
            r.slot = r.stages;
            r.parity ^= 1;
        }
        r.slot--;
        if (r.filled <= i) break;
        while (!barrier_try(r.full + r.slot, r.parity)) {
        }
    }
}
