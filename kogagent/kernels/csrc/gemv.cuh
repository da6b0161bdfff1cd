// Packed matrix-vector products out of the ring. A tile is 8 rows x 32 columns: the tensor core's 16 rows are
// the 8 rows twice, columns 0-15 above and 16-31 below; its 8 columns are 4 input rows for each half. So one
// instruction serves 1 to 4 input rows with the same sums in the same order, two serve 8.
#pragma once
#include "ring.cuh"

// Units summed between two barriers.
template <int W>
constexpr int BATCH_UNITS = W == 1 ? 24 : 8;
constexpr int CHAINS = 4;    // of products that do not wait for each other
constexpr int AT_ONCE = 12;  // tiles loaded before the first is used

// Where a block stands in its ring and in the stage it reads.
struct Cursor {
    Ring ring;
    int in_stage;
};

// How one kind of phase is shared by the warps: a unit's columns by SHARE of them, the others take the next units.
template <int W, int KIND>
struct Cut {
    static constexpr int kind = KIND;
    static constexpr int tiles = Model::tiles(KIND), part_tiles = Model::part_tiles(KIND), parts = Model::parts(KIND);
    static constexpr int per_stage = Model::per_stage(KIND), share = Model::warps(KIND);
    static constexpr int mine = (part_tiles + share - 1) / share;  // tiles of a warp in a stage
    static constexpr int sets = W > 4 ? 2 : 1;
    static constexpr bool held = parts * mine * 2 * sets <= 48;  // inputs stay in registers through the phase
    static constexpr int tiles_of(int part) { return part + 1 < parts ? part_tiles : tiles - part * part_tiles; }
    // Whether tile `column + k * share` of a part is there. The last part may be smaller, also by whole rounds of the warps.
    static __device__ __forceinline__ bool has_tile(int part, int k, int column) {
        return (k + 1) * share <= tiles_of(part) || column + k * share < tiles_of(part);
    }
};

// This thread's input for tile `column + k * share` of a part: row g%4, half g/4 of the columns, 4 columns at 4t; zero
// where there is no such row or tile.
template <int W, int KIND>
__device__ __forceinline__ uint2 input_of(u32 x, int part, int k, int set, int column) {
    using C = Cut<W, KIND>;
    const int g = (threadIdx.x & 31) >> 2;
    const bool there = (g & 3) + set * 4 < W && C::has_tile(part, k, column);
    return there ? load_shared_8(x + set * 4 * Model::x_stride * 2 + (part * C::part_tiles + k * C::share) * 64) : make_uint2(0, 0);
}

// `units` units of a phase; sum(cut, first_unit, units, partial) after each batch of them, all consumer threads.
// partial[(row*W + w)*WARPS + part of the columns]. x: halves in shared memory, W rows p.x_stride apart, zero where the
// matrix is padded.
template <int W, int KIND, class Sum>
__device__ __forceinline__ void multiply(Cursor& cursor, int units, const char* x, float* red, Sum sum) {
    using C = Cut<W, KIND>;
    constexpr int at_once = WARPS / C::share;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int unit = warp / C::share, column = warp % C::share;
    const u32 inputs = smem_address(x) + (g & 3) * p.x_stride * 2 + ((g >> 2) * 16 + t * 4) * 2 + column * 64;
    uint2 held[C::held ? C::sets : 1][C::held ? C::parts * C::mine : 1];
    if (C::held && units) {
#pragma unroll
        for (int s = 0; s < C::sets; s++)
#pragma unroll
            for (int i = 0; i < C::parts * C::mine; i++) held[s][i] = input_of<W, KIND>(inputs, i / C::mine, i % C::mine, s, column);
    }
    Ring ring = cursor.ring;
    int in_stage = cursor.in_stage;
    float* partial = red;
#pragma unroll 1
    for (int u0 = 0; u0 < units; u0 += BATCH_UNITS<W>) {
        const int count = min(BATCH_UNITS<W>, units - u0);
#pragma unroll 1
        for (int u = 0; u < count;) {
            const int together = C::per_stage == 1 ? 1 : min(min(at_once, C::per_stage - in_stage), count - u);
            float c[CHAINS][C::sets][4] = {};
#pragma unroll
            for (int part = 0; part < C::parts; part++) {
                TIMED(13, if (in_stage == 0) ring_take(ring));
                if (at_once == 1 || unit < together) {
                    const u32 from = smem_address(ring.data) + ring.slot * p.stage_bytes + ((in_stage + unit) * C::tiles + column) * 512 + lane * 16;
#pragma unroll
                    for (int k0 = 0; k0 < C::mine; k0 += AT_ONCE) {
                        uint4 a[AT_ONCE];
#pragma unroll
                        for (int k = k0; k < C::mine && k < k0 + AT_ONCE; k++)
                            a[k - k0] = C::has_tile(part, k, column) ? load_shared_16(from + k * C::share * 512) : make_uint4(0, 0, 0, 0);
                        __syncwarp();  // keeps the assembler from sinking each load to its product, which would wait for every one
#pragma unroll
                        for (int k = k0; k < C::mine && k < k0 + AT_ONCE; k++)
#pragma unroll
                            for (int s = 0; s < C::sets; s++) {
                                const uint2 b = C::held ? held[C::held ? s : 0][C::held ? part * C::mine + k : 0] : input_of<W, KIND>(inputs, part, k, s, column);
                                multiply_tile(c[k % CHAINS][s], a[k - k0], b.x, b.y);
                            }
                    }
                }
                in_stage += together;
                if (C::parts > 1 || in_stage == C::per_stage || u0 + u + together == units) {
                    ring_release(ring, lane);
                    in_stage = 0;
                }
            }
            if (at_once == 1 || unit < together) {
#pragma unroll
                for (int s = 0; s < C::sets; s++)
#pragma unroll
                    for (int e = 0; e < 2; e++) {
                        float own = c[0][s][e], other = c[0][s][2 + e];
#pragma unroll
                        for (int k = 1; k < CHAINS && k < C::mine; k++) own += c[k][s][e], other += c[k][s][2 + e];
                        own += __shfl_xor_sync(~0u, other, 2);
                        const int w = s * 4 + 2 * t + e;
                        if (t < 2 && w < W) partial[(((u + unit) * 8 + g) * W + w) * WARPS + column] = own;
                    }
            }
            u += together;
        }
        sync_consumers();
        TIMED(18, sum(C{}, u0, count, partial));
        partial = partial == red ? red + BATCH_UNITS<W> * 8 * W * WARPS : red;
    }
    cursor.ring = ring;
    cursor.in_stage = in_stage;
}

// Kinds of phases that are cut alike share one copy of the code, which the instruction caches hold.
__device__ constexpr bool cut_alike(int a, int b) {
    return Model::tiles(a) == Model::tiles(b) && Model::part_tiles(a) == Model::part_tiles(b) && Model::parts(a) == Model::parts(b) &&
           Model::per_stage(a) == Model::per_stage(b) && Model::warps(a) == Model::warps(b);
}
template <int W, int KIND = 0, class Sum>
__device__ __forceinline__ void multiply_kind(Cursor& cursor, int kind, int units, const char* x, float* red, Sum sum) {
    constexpr bool seen = (KIND > 0 && cut_alike(KIND, 0)) || (KIND > 1 && cut_alike(KIND, 1)) || (KIND > 2 && cut_alike(KIND, 2)) ||
                          (KIND > 3 && cut_alike(KIND, 3));
    bool mine = false;
#pragma unroll
    for (int k = KIND; k < 5; k++) mine |= cut_alike(KIND, k) && kind == k;
    if constexpr (!seen)
        if (mine) return multiply<W, KIND>(cursor, units, x, red, sum);
    if constexpr (KIND < 4) multiply_kind<W, KIND + 1>(cursor, kind, units, x, red, sum);
}

// Sum over the SHARE parts of one row's columns, in a fixed order.
template <int W, int SHARE>
__device__ __forceinline__ float row_sum(const float* partial, int row, int w) {
    const float* from = partial + (row * W + w) * WARPS;
    if constexpr (SHARE == 8) {
        const float4 a = ((const float4*)from)[0], b = ((const float4*)from)[1];
        return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
    } else if constexpr (SHARE == 4) {
        const float4 a = *(const float4*)from;
        return (a.x + a.y) + (a.z + a.w);
    } else {
        return SHARE == 2 ? from[0] + from[1] : from[0];
    }
}
