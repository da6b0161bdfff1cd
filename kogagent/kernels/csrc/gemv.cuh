// Packed matrix-vector products out of the ring. A tile is 8 rows x 32 columns: the tensor core's 16 rows are
// the 8 rows twice, columns 0-15 above and 16-31 below; its 8 columns are 4 input rows for each half. So one
// instruction serves 1 to 4 input rows with the same sums in the same order, two serve 8.
#pragma once
#include "ring.cuh"

// Units summed between two barriers.
template <int W>
constexpr int BATCH_UNITS = W == 1 ? 24 : 8;
constexpr int AHEAD = 6;        // tiles loaded before the first is used

// Where a block stands in its ring and in the stage it reads.
struct Cursor {
    Ring ring;
    int in_stage;
};

__shared__ __align__(16) u32 zeros[4];

// N tiles `apart` tiles from each other: all loads, then all products.
template <int W, int N>
__device__ __forceinline__ void multiply_tiles(float (&c)[2][W > 4 ? 2 : 1][4], u32 a, u32 b, u32 b2, u32 apart, u32 step) {
    constexpr int SETS = W > 4 ? 2 : 1;
    uint4 av[N];
    uint2 bv[SETS][N];
#pragma unroll
    for (int j = 0; j < N; j++) {
        av[j] = load_shared_16(a + j * apart * 512);
        bv[0][j] = load_shared_8(b + j * apart * step);
        if (SETS == 2) bv[SETS - 1][j] = load_shared_8(b2 + j * apart * 64);
    }
    __syncwarp();  // keeps the assembler from sinking each load to its product, which would wait for every one
#pragma unroll
    for (int j = 0; j < N; j++)
#pragma unroll
        for (int s = 0; s < SETS; s++) multiply_tile(c[j & 1][s], av[j], bv[s][j].x, bv[s][j].y);
}

// `count` units of a phase into partial[(row*W + w)*WARPS + part of the columns]. left: units of the phase from
// here on. A unit's columns are shared by p.shape[kind].warps warps; the others take the next units of the stage.
// x: halves in shared memory, W rows p.x_stride apart, zero where the matrix is padded.
template <int W>
__device__ __forceinline__ void multiply_batch(Cursor& cursor, int kind, int count, int left, const char* x, float* partial) {
    constexpr int SETS = W > 4 ? 2 : 1;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int all = p.shape[kind].tiles, part_tiles = p.shape[kind].part_tiles, parts = p.shape[kind].parts,
              per_stage = p.shape[kind].per_stage, apart = p.shape[kind].warps;
    const int apart_log2 = __ffs(apart) - 1, unit = warp >> apart_log2, column = warp & (apart - 1);
    // this lane's input: row g%4, half g/4 of the columns, 4 columns at 4t; lanes of rows that are not there read zeros
    const u32 inputs = smem_address(x) + ((g >> 2) * 16 + t * 4) * 2 + column * 64;
    const bool mine = (g & 3) < W;
    const u32 x_low = mine ? inputs + (g & 3) * p.x_stride * 2 : smem_address(zeros);
    const u32 x_high = inputs + ((g & 3) + 4) * p.x_stride * 2;
    const u32 step = mine ? 64 : 0;
    Ring ring = cursor.ring;
    int in_stage = cursor.in_stage;
    for (int u = 0; u < count;) {
        const int together = min(min(WARPS >> apart_log2, per_stage - in_stage), count - u);
        float c[2][SETS][4] = {};
        for (int part = 0; part < parts; part++) {
            const int first = part * part_tiles;
            const int tiles = min(part_tiles, all - first);
            TIMED(13, if (in_stage == 0) ring_take(ring));
            if (unit < together) {
                u32 a = smem_address(ring.data) + ring.slot * ring.stage_bytes + ((in_stage + unit) * all + column) * 512 + lane * 16;
                u32 b = x_low + first * step, b2 = x_high + first * 64;
                int k = column;
#pragma unroll 1
                for (; k + (AHEAD - 1) * apart < tiles; k += AHEAD * apart) {
                    multiply_tiles<W, AHEAD>(c, a, b, b2, apart, step);
                    a += AHEAD * apart * 512;
                    b += AHEAD * apart * step;
                    b2 += AHEAD * apart * 64;
                }
                if (k + apart < tiles) {
#pragma unroll 1
                    for (; k + apart < tiles; k += 2 * apart) {
                        multiply_tiles<W, 2>(c, a, b, b2, apart, step);
                        a += 2 * apart * 512;
                        b += 2 * apart * step;
                        b2 += 2 * apart * 64;
                    }
                }
                if (k < tiles) multiply_tiles<W, 1>(c, a, b, b2, apart, step);
            }
            in_stage += together;
            if (parts > 1 || in_stage == per_stage || u + together == left) {
                ring_release(ring, lane);
                in_stage = 0;
            }
        }
        if (unit < together) {
#pragma unroll
            for (int s = 0; s < SETS; s++)
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    float sum = c[0][s][e] + c[1][s][e];
                    sum += __shfl_xor_sync(~0u, c[0][s][2 + e] + c[1][s][2 + e], 2);
                    const int w = s * 4 + 2 * t + e;
                    if (t < 2 && w < W) partial[(((u + unit) * 8 + g) * W + w) * WARPS + column] = sum;
                }
        }
        u += together;
    }
    cursor.ring = ring;
    cursor.in_stage = in_stage;
}

// Calls sum(first_unit, units, partial) after each batch of a phase, all consumer threads.
template <int W, class Sum>
__device__ __forceinline__ void multiply(Cursor& cursor, int kind, int units, const char* x, float* red, Sum sum) {
    float* partial = red;
    for (int u0 = 0; u0 < units; u0 += BATCH_UNITS<W>) {
        const int n = min(BATCH_UNITS<W>, units - u0);
        multiply_batch<W>(cursor, kind, n, units - u0, x, partial);
        sync_consumers();
        TIMED(18, sum(u0, n, partial));
        partial = partial == red ? red + BATCH_UNITS<W> * 8 * W * WARPS : red;
    }
}

// Sum over the `warps` parts of one row's columns, in a fixed order.
template <int W>
__device__ __forceinline__ float row_sum(const float* partial, int row, int w, int warps) {
    const float* from = partial + (row * W + w) * WARPS;
    if (warps == 8) {
        const float4 a = ((const float4*)from)[0], b = ((const float4*)from)[1];
        return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
    }
    if (warps == 4) {
        const float4 a = *(const float4*)from;
        return (a.x + a.y) + (a.z + a.w);
    }
    return warps == 2 ? from[0] + from[1] : from[0];
}
