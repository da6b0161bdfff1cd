// What csrc/ptx.cuh gives the kernel, on a host: threads are fibers of one process, switched where they wait, so that
// whole blocks, groups and devices run with the kernel's own source. Test support only; knows no model.
#pragma once
#include "types.cuh"

#undef INFINITY
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
using std::size_t;

#define __CUDA_ARCH__ 900
#define __device__
#define __forceinline__ inline
#define __global__
#define __launch_bounds__(...)
#define __constant__
#define __noinline__ __attribute__((noinline))
#define __shared__
#define __align__(n) __attribute__((aligned(n)))
#define __ldg(p) (*(p))

struct uint2 { u32 x, y; };
struct alignas(16) uint4 { u32 x, y, z, w; };
struct float2 { float x, y; };
struct alignas(16) float4 { float x, y, z, w; };
struct Index { unsigned x; };
inline uint2 make_uint2(u32 x, u32 y) { return {x, y}; }
inline uint4 make_uint4(u32 x, u32 y, u32 z, u32 w) { return {x, y, z, w}; }
inline float2 make_float2(float x, float y) { return {x, y}; }
inline float4 make_float4(float x, float y, float z, float w) { return {x, y, z, w}; }

// ── of machine.cpp ──
extern Index threadIdx, blockIdx, blockDim;
extern char* block_memory;  // of the block that runs
void machine_wait();        // this thread waits for another: let them run
u64 machine_time();         // nanoseconds
u64 warp_swap(u64 mine, int from);                     // the value that lane `from` of this warp brings
void warp_gather(const void* mine, int size, void* all);  // [32][size] of all lanes
void block_barrier(int which, int threads);
bool block_any(int which, int threads, bool mine);

template <class T> inline T bits_as(u32 v) { T x; memcpy(&x, &v, 4); return x; }
inline u32 __float_as_uint(float f) { u32 v; memcpy(&v, &f, 4); return v; }
inline float __uint_as_float(u32 v) { return bits_as<float>(v); }
inline float __int_as_float(int v) { return bits_as<float>((u32)v); }
inline float __fdividef(float a, float b) { return a / b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __expf(float x) { return expf(x); }
inline float __log2f(float x) { return log2f(x); }
inline float __fmaf_rn(float a, float b, float c) { return fmaf(a, b, c); }
inline float rsqrtf(float x) { return 1.0f / sqrtf(x); }
template <class T> inline T min(T a, T b) { return b < a ? b : a; }
template <class T> inline T max(T a, T b) { return a < b ? b : a; }
inline long long clock64() { machine_wait(); return (long long)machine_time(); }
inline u32 cycles() { return (u32)clock64(); }
inline void __threadfence_system() {}
inline void __syncthreads() { block_barrier(0, 384); }
inline void __syncwarp() { warp_swap(0, 0); }
inline u32 atomicExch(u32* p, u32 v) { u32 old = *p; *p = v; return old; }
inline int atomicMin(int* p, int v) { int old = *p; if (v < old) *p = v; return old; }
inline int my_lane() { return threadIdx.x & 31; }
template <class T> inline T __shfl_xor_sync(u32, T v, int mask) {
    u64 raw = 0;
    memcpy(&raw, &v, sizeof v);
    raw = warp_swap(raw, my_lane() ^ mask);
    memcpy(&v, &raw, sizeof v);
    return v;
}
template <class Join> inline u32 warp_reduce(u32 v, Join join) {
    u32 all[32];
    warp_gather(&v, 4, all);
    for (int i = 1; i < 32; i++) all[0] = join(all[0], all[i]);
    return all[0];
}
inline u32 __reduce_add_sync(u32, u32 v) { return warp_reduce(v, [](u32 a, u32 b) { return a + b; }); }
inline u32 __reduce_max_sync(u32, u32 v) { return warp_reduce(v, [](u32 a, u32 b) { return a > b ? a : b; }); }
inline u32 __reduce_min_sync(u32, u32 v) { return warp_reduce(v, [](u32 a, u32 b) { return a < b ? a : b; }); }
inline u32 __reduce_or_sync(u32, u32 v) { return warp_reduce(v, [](u32 a, u32 b) { return a | b; }); }
inline bool __any_sync(u32, bool v) { return warp_reduce(v, [](u32 a, u32 b) { return a | b; }); }
inline bool __all_sync(u32, bool v) { return !warp_reduce(!v, [](u32 a, u32 b) { return a | b; }); }

inline u32 smem_address(const void* p) { return (u32)((const char*)p - block_memory); }

// ── barriers: phase in bit 63, threads still to come in 48-62, threads in all in 32-47, bytes to come in 0-31 ──
inline void barrier_turn(u64* b) {
    if (*b >> 48 & 0x7fff || (u32)*b) return;
    const u64 count = *b >> 32 & 0xffff;
    *b = (~*b & 1ull << 63) | count << 48 | count << 32;
}
inline void barrier_init(u64* b, int count) { *b = (u64)count << 48 | (u64)count << 32; }
inline void barrier_arrive(u64* b) { *b -= 1ull << 48; barrier_turn(b); }
inline bool barrier_try(u64* b, int parity) {
    const bool done = (int)(*(volatile u64*)b >> 63) != parity;
    if (!done) machine_wait();
    return done;
}
inline void barriers_visible_to_copies() {}
inline u64 evict_first_policy() { return 0; }
inline u64 evict_normal_policy() { return 0; }
inline void barrier_expect(u64* b, int bytes) { *b += (u32)bytes; barrier_arrive(b); }
inline void bulk_copy(void* to, const void* from, int bytes, u64* full, u64) {
    memcpy(to, from, bytes);
    *full -= (u32)bytes;
    barrier_turn(full);
}
inline void stores_before_copies() {}
inline void copies_after_stores() {}
inline void publish_in_block(int* to, int v) { *to = v; }
inline int read_in_block(const int* from) { machine_wait(); return *(volatile const int*)from; }

// ── words ──
inline u64 tagged(u32 value, u32 tag) { return (u64)tag << 32 | value; }
inline void store_word(u64* p, u64 v) { *(volatile u64*)p = v; }
inline u64 load_word(const u64* p) { return *(volatile const u64*)p; }
inline void load_two_words(const u64* p, u64& a, u64& b) {
    if ((uintptr_t)p % 16) abort();  // the device refuses it
    a = load_word(p), b = load_word(p + 1);
}
inline void store_two_words_anywhere(u64* p, u64 a, u64 b) {
    if ((uintptr_t)p % 16) abort();
    store_word(p, a), store_word(p + 1, b);
}
inline u64 load_word_anywhere(const u64* p) { return load_word(p); }
inline u64 load_news_from_host(const u64* p) { return load_word(p); }
inline void load_two_words_anywhere(const u64* p, u64& a, u64& b) { load_two_words(p, a, b); }
inline void store_word_anywhere(u64* p, u64 v) { store_word(p, v); }
inline u32 load_from_host(const u32* p) { return *(volatile const u32*)p; }
inline void prefetch_level2(const void*) {}
inline u64 nanoseconds() { machine_wait(); return machine_time(); }

// ── arithmetic ──
inline u16 half_of(float f) { _Float16 h = (_Float16)f; u16 v; memcpy(&v, &h, 2); return v; }
inline float of_half(u16 v) { _Float16 h; memcpy(&h, &v, 2); return (float)h; }
inline u32 pack_halves(float lo, float hi) { return half_of(lo) | (u32)half_of(hi) << 16; }
inline float2 unpack_halves(u32 v) { return {of_half((u16)v), of_half((u16)(v >> 16))}; }
template <class T> inline T load_shared(u32 address) {
    if (address % sizeof(T)) abort();
    T v;
    memcpy(&v, block_memory + address, sizeof v);
    return v;
}
inline uint4 load_shared_16(u32 address) { return load_shared<uint4>(address); }
inline uint2 load_shared_8(u32 address) { return load_shared<uint2>(address); }
inline void load_transposed(u32 address, u32* out, int count) {
    u32 all[32];
    warp_gather(&address, 4, all);
    const int g = my_lane() >> 2, t = my_lane() & 3;
    for (int i = 0; i < count; i++) {
        const u16 low = load_shared<u16>(all[8 * i + 2 * t] + 2 * g), high = load_shared<u16>(all[8 * i + 2 * t + 1] + 2 * g);
        out[i] = low | (u32)high << 16;
    }
}
inline uint4 load_shared_transposed_4(u32 address) { u32 v[4]; load_transposed(address, v, 4); return {v[0], v[1], v[2], v[3]}; }
inline void load_shared_transposed_2(u32 address, u32& a, u32& b) { u32 v[2]; load_transposed(address, v, 2); a = v[0], b = v[1]; }
inline void multiply_tile(float (&c)[4], const uint4& a, u32 b0, u32 b1) {
    struct Operands { u32 a[4], b[2]; } mine = {{a.x, a.y, a.z, a.w}, {b0, b1}}, all[32];
    warp_gather(&mine, sizeof mine, all);
    const int g = my_lane() >> 2, t = my_lane() & 3;
    for (int e = 0; e < 4; e++)
        for (int half = 0; half < 2; half++)
            for (int q = 0; q < 4; q++) {
                const float2 x = unpack_halves(all[4 * g + q].a[half * 2 + (e >> 1)]), y = unpack_halves(all[4 * (2 * t + (e & 1)) + q].b[half]);
                c[e] += x.x * y.x + x.y * y.y;
            }
}
inline float exp2_fast(float x) { return exp2f(x); }

// ── threads ──
inline int as_new(int v) { return v; }
inline void take_registers() {}
inline void give_registers() {}
constexpr int WARPS = 8, WARP_THREADS = 32;
constexpr int THREADS = WARPS * WARP_THREADS;
inline void sync_consumers() { block_barrier(1, THREADS); }
constexpr int JUDGES = 64;
inline void sync_judges() { block_barrier(2, JUDGES); }
inline bool any_consumer(bool mine) { return block_any(1, THREADS, mine); }
inline void sleep_briefly() { machine_wait(); }
#define INFINITY __int_as_float(0x7f800000)
