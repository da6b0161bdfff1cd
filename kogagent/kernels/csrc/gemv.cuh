// Packed matrix-vector products out of the ring. A tile is 8 rows x 32 columns: the tensor core's 16 rows are
// the 8 rows twice, columns 0-15 above and 16-31 below; its 8 columns are 4 input rows for each half. So one
// instruction serves 1 to 4 input rows with the same sums in the same order, two serve 8.
#pragma once
#include "ring.cuh"

constexpr int BATCH_UNITS = 8;  // units summed between two barriers

// Calls sum(first_unit, units, partial) after each batch, all consumer threads: partial[(row*W + w)*WARPS + warp].
// x: halves in shared memory, W rows x_stride apart, zero where the matrix is padded.
template <int W, class Sum>
__device__ __forceinline__ void multiply(Ring& ring, const Shape& sh, int units, const char* x, int x_stride,
                                         float* red, Sum sum) {
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    constexpr int SETS = W > 4 ? 2 : 1;
    // this lane's input: row g%4, half g/4 of the columns, 4 columns at 4t
    const bool mine = (g & 3) < W;
    const char* xl = x + ((g & 3) * x_stride + (g >> 2) * 16 + t * 4) * 2;
    const char* xh = xl + 4 * x_stride * 2;
    float* partial = red;
    const char* stage = nullptr;
    int in_stage = 0;
    for (int u0 = 0; u0 < units; u0 += BATCH_UNITS) {
        const int n = min(BATCH_UNITS, units - u0);
        for (int u = 0; u < n; u++) {
            float c[2][SETS][4] = {};
            for (int part = 0; part < sh.parts; part++) {
                const int first = part * sh.part_tiles;
                const int tiles = min(sh.part_tiles, sh.tiles - first);
                if (in_stage == 0) stage = ring_take(ring);
                const char* a = stage + in_stage * sh.tiles * 512 + lane * 16;
                const char* b = xl + first * 64;
                const char* b2 = xh + first * 64;
#pragma unroll 1
                for (int k = warp; k < tiles; k += 4 * WARPS) {
                    uint4 av[4];
                    uint2 bv[SETS][4];
#pragma unroll
                    for (int j = 0; j < 4; j++) {
                        const int kk = k + j * WARPS;
                        const bool in = kk < tiles;
                        av[j] = in ? *(const uint4*)(a + kk * 512) : make_uint4(0, 0, 0, 0);
                        bv[0][j] = in && mine ? *(const uint2*)(b + kk * 64) : make_uint2(0, 0);
                        if (SETS == 2) bv[SETS - 1][j] = in ? *(const uint2*)(b2 + kk * 64) : make_uint2(0, 0);
                    }
#pragma unroll
                    for (int j = 0; j < 4; j++)
#pragma unroll
                        for (int s = 0; s < SETS; s++) multiply_tile(c[j & 1][s], av[j], bv[s][j].x, bv[s][j].y);
                }
                if (sh.parts > 1 || ++in_stage == sh.per_stage || u0 + u + 1 == units) {
                    ring_release(ring, lane);
                    in_stage = 0;
                }
            }
#pragma unroll
            for (int s = 0; s < SETS; s++) {
                float low[2];
#pragma unroll
                for (int e = 0; e < 2; e++) {
                    low[e] = c[0][s][e] + c[1][s][e];
                    low[e] += __shfl_xor_sync(~0u, c[0][s][2 + e] + c[1][s][2 + e], 2);
                    const int w = s * 4 + 2 * t + e;
                    if (t < 2 && w < W) partial[((u * 8 + g) * W + w) * WARPS + warp] = low[e];
                }
            }
        }
        sync_consumers();
        sum(u0, n, partial);
        partial = partial == red ? red + BATCH_UNITS * 8 * W * WARPS : red;
    }
}

// Sum over the warps of one row, in a fixed order.
template <int W>
__device__ __forceinline__ float row_sum(const float* partial, int row, int w) {
    const float4* p = (const float4*)(partial + (row * W + w) * WARPS);
    float4 a = p[0], b = p[1];
    return ((a.x + a.y) + (a.z + a.w)) + ((b.x + b.y) + (b.z + b.w));
}
