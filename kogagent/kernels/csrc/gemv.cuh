// Packed matrix-vector products out of the ring. A tile is 8 rows x 32 columns: the tensor core's 16 rows are
// the 8 rows twice, columns 0-15 above and 16-31 below; its 8 columns are 4 input rows for each half. So one
// instruction serves 1 to 4 input rows with the same sums in the same order, two serve 8.
#pragma once
#include "ring.cuh"

constexpr int BATCH_UNITS = 8;  // units summed between two barriers
constexpr int ROUND = 6;        // tiles a warp loads before it multiplies those of the round before

// Where a block stands in its ring and in the stage it reads.
struct Cursor {
    Ring ring;
    int in_stage;
};

__shared__ __align__(16) u32 zeros[4];

// One warp's tiles of one round, in registers: products wait for nothing while the next round's loads are under way.
template <int W>
struct Round {
    uint4 a[ROUND];
    uint2 b[W > 4 ? 2 : 1][ROUND];
};

// `count` units of a phase into partial[(row*W + w)*WARPS + part of the columns]. left: units of the phase from
// here on. A unit's columns are shared by p.shape[kind].warps warps; the others take the next units of the stage.
// x: halves in shared memory, W rows p.x_stride apart, zero where the matrix is padded.
template <int W>
__device__ __forceinline__ void multiply_batch(Cursor& cursor, int kind, int count, int left, const char* x, float* partial) {
    constexpr int SETS = W > 4 ? 2 : 1;
    const int warp = threadIdx.x >> 5, lane = threadIdx.x & 31, g = lane >> 2, t = lane & 3;
    const int all = p.shape[kind].tiles, part_tiles = p.shape[kind].part_tiles, parts = p.shape[kind].parts,
              per_stage = p.shape[kind].per_stage, apart = p.shape[kind].warps;
    const int unit = warp / apart, column = warp - unit * apart, wide = WARPS / apart;
    // this lane's input: row g%4, half g/4 of the columns, 4 columns at 4t; lanes of rows that are not there read zeros
    const u32 inputs = smem_address(x) + ((g >> 2) * 16 + t * 4) * 2 + column * 64;
    const bool mine = (g & 3) < W;
    const u32 x_low = mine ? inputs + (g & 3) * p.x_stride * 2 : smem_address(zeros);
    const u32 x_high = inputs + ((g & 3) + 4) * p.x_stride * 2;
    const u32 step = mine ? 64 : 0;
    Ring& ring = cursor.ring;

    // ── where loading is: unit u, part, tile k of the part; and how many units it takes together ──
    int u = 0, part = 0, k = column, together = min(min(wide, per_stage - cursor.in_stage), count);
    bool fresh = cursor.in_stage == 0;
    const auto load = [&](Round<W>& r) {  // the next round; returns its tiles of this warp, last: of a unit
        const int first = part * part_tiles, tiles = min(part_tiles, all - first);
        if (fresh) TIMED(13, ring_take(ring));
        fresh = false;
        const bool has = unit < together;
        const u32 a = smem_address(ring.data) + ring.slot * ring.stage_bytes + ((cursor.in_stage + (has ? unit : 0)) * all + k) * 512 + lane * 16;
        const u32 b = x_low + (first + k - column) * step, b2 = x_high + (first + k - column) * 64;
#pragma unroll
        for (int j = 0; j < ROUND; j++) {
            const bool in = has && k + j * apart < tiles;
            r.a[j] = make_uint4(0, 0, 0, 0);
            r.b[0][j] = make_uint2(0, 0);
            if (in) {
                r.a[j] = load_shared_16(a + j * apart * 512);
                r.b[0][j] = load_shared_8(b + j * apart * step);
            }
            if (SETS == 2) {
                r.b[SETS - 1][j] = make_uint2(0, 0);
                if (in) r.b[SETS - 1][j] = load_shared_8(b2 + j * apart * 64);
            }
        }
        k += ROUND * apart;
        if (k - column < tiles) return;  // more of this part
        k = column;
        if (++part < parts) {
            ring_release(ring, lane);
            fresh = true;
            return;
        }
        part = 0;
        cursor.in_stage += together;
        u += together;
        if (parts > 1 || cursor.in_stage == per_stage || u == left) {
            ring_release(ring, lane);
            cursor.in_stage = 0;
            fresh = true;
        }
        together = min(min(wide, per_stage - cursor.in_stage), count - u);
    };
    // ── where multiplying is: one round behind ──
    const int rounds_a_part = (part_tiles + ROUND * apart - 1) / (ROUND * apart);
    const int last_tiles = all - (parts - 1) * part_tiles;
    const int rounds = (parts - 1) * rounds_a_part + (last_tiles + ROUND * apart - 1) / (ROUND * apart);  // of a unit
    float c[2][SETS][4] = {};
    int done = 0, at = 0, taken = min(min(wide, cursor.in_stage == 0 ? per_stage : per_stage - cursor.in_stage), count), stage_at = cursor.in_stage;
    const auto multiply_round = [&](const Round<W>& r) {
#pragma unroll
        for (int j = 0; j < ROUND; j++)
#pragma unroll
            for (int s = 0; s < SETS; s++) multiply_tile(c[j & 1][s], r.a[j], r.b[s][j].x, r.b[s][j].y);
        if (++done < rounds) return;
        done = 0;
#pragma unroll
        for (int s = 0; s < SETS; s++)
#pragma unroll
            for (int e = 0; e < 2; e++) {
                float sum = c[0][s][e] + c[1][s][e];
                sum += __shfl_xor_sync(~0u, c[0][s][2 + e] + c[1][s][2 + e], 2);
                const int w = s * 4 + 2 * t + e;
                if (t < 2 && w < W && unit < taken) partial[(((at + unit) * 8 + g) * W + w) * WARPS + column] = sum;
            }
#pragma unroll
        for (int s = 0; s < SETS; s++)
#pragma unroll
            for (int e = 0; e < 4; e++) c[0][s][e] = c[1][s][e] = 0.0f;
        at += taken;
        stage_at = parts > 1 || stage_at + taken == per_stage ? 0 : stage_at + taken;
        taken = min(min(wide, per_stage - stage_at), count - at);
    };
    Round<W> even, odd;
    load(even);
#pragma unroll 1
    while (true) {
        if (u < count) load(odd);
        const bool more = at + (done + 1 == rounds ? taken : 0) < count;
        multiply_round(even);
        if (!more) break;
        if (u < count) load(even);
        const bool again = at + (done + 1 == rounds ? taken : 0) < count;
        multiply_round(odd);
        if (!again) break;
    }
}

// Calls sum(first_unit, units, partial) after each batch of a phase, all consumer threads.
template <int W, class Sum>
__device__ __forceinline__ void multiply(Cursor& cursor, int kind, int units, const char* x, float* red, Sum sum) {
    float* partial = red;
    for (int u0 = 0; u0 < units; u0 += BATCH_UNITS) {
        const int n = min(BATCH_UNITS, units - u0);
        multiply_batch<W>(cursor, kind, n, units - u0, x, partial);
        sync_consumers();
        sum(u0, n, partial);
        partial = partial == red ? red + BATCH_UNITS * 8 * W * WARPS : red;
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
