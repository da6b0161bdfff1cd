// What an exchange costs, alone: every block of every device publishes its slice of a vector of tagged words to all
// devices and reads the whole from its own, round after round, as the decode kernel does between phases. Half of
// the warps may stream memory meanwhile. A round that does not end by the deadline sets `dead` and ends the launch.
#include "ptx.cuh"

struct Probe {
    u64 copies[8];      // u64 [2][words] on each device
    u64 stream;         // what the other warps read, 16-byte units; 0: they do nothing
    u64 stream_units;   // of one block
    u64 dead;           // u32, this device's
    u64 out;            // u64 [4]: nanoseconds of the counted rounds, bytes streamed, wrong words, 0
    u64 deadline_ns;
    int devices, rank, blocks, words, rounds, warm;
    u32 tag_base;
    int pad;
};

#ifdef PROBE_BYTES
static_assert(sizeof(Probe) == PROBE_BYTES, "the host writes this struct too");
#endif

extern "C" {
__constant__ Probe a;  // of this launch
}

__device__ __forceinline__ uint4 stream_16(const uint4* p) {
    uint4 v;
    asm volatile("ld.global.nc.L1::no_allocate.v4.u32 {%0,%1,%2,%3}, [%4];"
                 : "=r"(v.x), "=r"(v.y), "=r"(v.z), "=r"(v.w)
                 : "l"(p));
    return v;
}
__device__ __forceinline__ u32 value_of(int i, u32 tag) { return (u32)i * 2654435761u ^ tag; }

__device__ __forceinline__ bool late(u64 began, u32& spins) {
    if ((++spins & 1023) != 0) return false;
    u32* dead = (u32*)a.dead;
    if (nanoseconds() - began > a.deadline_ns) *(volatile u32*)dead = 1;
    return *(volatile u32*)dead != 0;
}

__device__ void rounds() {
    const int participants = a.devices * a.blocks, me = a.rank * a.blocks + blockIdx.x;
    const int first = (int)((long long)a.words * me / participants);
    const int last = (int)((long long)a.words * (me + 1) / participants);
    u64 began = nanoseconds(), counted = began, wrong = 0;
    u32 spins = 0;
    bool lost = false;
    for (int r = 0; r < a.rounds && !lost; r++) {
        if (r == a.warm) counted = nanoseconds();
        const u32 tag = a.tag_base + r;
        const u64 at = (u64)(r & 1) * a.words;
        for (int i = first + threadIdx.x; i < last; i += THREADS)
            for (int d = 0; d < a.devices; d++) {
                u64* to = (u64*)a.copies[d] + at + i;
                if (a.devices > 1)
                    store_word_anywhere(to, tagged(value_of(i, tag), tag));  // system scope: another device reads it
                else
                    store_word(to, tagged(value_of(i, tag), tag));
            }
        const u64* from = (const u64*)a.copies[a.rank] + at;
        for (int i = threadIdx.x; i < a.words / 2; i += THREADS) {
            u64 x, y;
            do {
                if (a.devices > 1)
                    load_two_words_anywhere(from + 2 * i, x, y);
                else
                    load_two_words(from + 2 * i, x, y);
                lost = ((u32)(x >> 32) != tag || (u32)(y >> 32) != tag) && late(began, spins);
            } while (!lost && ((u32)(x >> 32) != tag || (u32)(y >> 32) != tag));
            wrong += (u32)x != value_of(2 * i, tag);
            wrong += (u32)y != value_of(2 * i + 1, tag);
        }
        lost = any_consumer(lost);
    }
    if (wrong) atomicAdd((u64*)a.out + 2, wrong);
    if (threadIdx.x == 0 && blockIdx.x == 0) *(volatile u64*)a.out = nanoseconds() - counted;
}

__device__ void stream(volatile int* quit) {
    constexpr int AHEAD = 8;
    const uint4* from = (const uint4*)a.stream + (u64)blockIdx.x * a.stream_units;
    const int lane = threadIdx.x - THREADS;
    u64 units = 0;
    u32 sink = 0;
    while (!*quit)
        for (u64 i = lane; i + (AHEAD - 1) * THREADS < a.stream_units && !*quit; i += AHEAD * THREADS) {
            uint4 v[AHEAD];
#pragma unroll
            for (int j = 0; j < AHEAD; j++) v[j] = stream_16(from + i + j * THREADS);
#pragma unroll
            for (int j = 0; j < AHEAD; j++) sink ^= v[j].x ^ v[j].y ^ v[j].z ^ v[j].w;
            units += AHEAD;
        }
    if (sink == 0x9e3779b9u) units++;  // the loads are used
    atomicAdd((u64*)a.out + 1, units * 16);
}

extern "C" __global__ void __launch_bounds__(2 * THREADS) exchange_probe() {
    __shared__ int quit;
    if (threadIdx.x == 0) quit = 0;
    __syncthreads();
    if (threadIdx.x < THREADS) {
        rounds();
        sync_consumers();
        if (threadIdx.x == 0) *(volatile int*)&quit = 1;
    } else if (a.stream) {
        stream(&quit);
    }
}
