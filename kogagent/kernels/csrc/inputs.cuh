// The input of a phase: gathered from the exchange buffers or read from the embedding into x, and its norm.
#pragma once
#include "gemv.cuh"
#include "landings.cuh"

// Zeroes the columns of x past `values`, whatever an earlier phase left there.
__device__ __forceinline__ void pad_input(char* x, int values, int rows) {
    if (p.dim % 32 == 0 && p.ffn % 32 == 0 && p.heads * p.head_dim % 32 == 0) return;
    const int pad = -values & 31;
    if (pad == 0) return;
#pragma unroll 1
    for (int i = threadIdx.x; i < rows * pad; i += THREADS) ((unsigned short*)x)[(i / pad) * p.x_stride + values + i % pad] = 0;
}
__device__ __forceinline__ float square_of(u32 a, u32 b) {
    const float2 f = unpack_halves(a), g = unpack_halves(b);
    return __fmaf_rn(f.x, f.x, __fmaf_rn(f.y, f.y, __fmaf_rn(g.x, g.x, g.y * g.y)));
}
// VALUES halves of one row from an exchange buffer into x and, if asked, their sum of squares into this warp's place.
template <int VALUES, bool SQUARES>
__device__ __forceinline__ void gather_row(const u64* from, u32 tag, char* x, float* squares) {
    float square = 0;
    gather<VALUES / 4>(from, tag, [&](int i, u32 a, u32 b) {
        ((uint2*)x)[i] = make_uint2(a, b);
        if constexpr (SQUARES) square += square_of(a, b);
    });
    if constexpr (SQUARES) {
        square = warp_sum(square);
        if ((threadIdx.x & 31) == 0) squares[threadIdx.x >> 5] = square;
    }
}
// The same for several rows, whose words are waited for together: a warp a row, with the
// sums of gather_row, warp by warp, in the same order. squares [row][WARPS] or null.
__device__ __forceinline__ void gather_rows(const u64* from, int values, u32 tag, char* x, int rows, float (*squares)[WARPS]) {
    const int row = threadIdx.x >> 5, lane = threadIdx.x & 31, cells = values / 4;
    if (row >= rows) return;
    from += row * (values / 2);
    uint2* to = (uint2*)(x + row * p.x_stride * 2);
    float square[WARPS] = {};
#pragma unroll 1
    for (int base = lane; base < cells; base += THREADS) {
        u64 v[2 * WARPS];
        poll(v, tag, [&](u64 (&words)[2 * WARPS]) {
#pragma unroll
            for (int t = 0; t < WARPS; t++) {
                words[2 * t] = words[2 * t + 1] = (u64)tag << 32;
                if (base + 32 * t < cells) load_two_words(from + 2 * (base + 32 * t), words[2 * t], words[2 * t + 1]);
            }
        });
#pragma unroll
        for (int t = 0; t < WARPS; t++) {
            const u32 a = (u32)v[2 * t], b = (u32)v[2 * t + 1];
            if (base + 32 * t < cells) {
                to[base + 32 * t] = make_uint2(a, b);
                square[t] += square_of(a, b);
            }
        }
    }
    if (!squares) return;
#pragma unroll
    for (int t = 0; t < WARPS; t++) {
        const float sum = warp_sum(square[t]);
        if (lane == 0) squares[row][t] = sum;
    }
}
constexpr int XBUF_WORDS = 2 * Model::lanes * Model::width * (Model::dim / 2), HBUF_WORDS = Model::lanes * Model::width * (Model::ffn / 2);
__device__ __forceinline__ const u64* stream_words(const Place& me, int parity, int row) {
    return (const u64*)p.xbuf + own_replica(XBUF_WORDS) + ((size_t)(parity * p.lanes + me.lane) * p.width + row) * (p.dim / 2);
}

// One over the root of row w's mean square; scale: of what was squared.
__device__ __forceinline__ float inverse_norm(const Misc& misc, int w, float eps, float scale) {
    return rsqrtf(__fmaf_rn(row_sum<1, WARPS>(misc.squares[w], 0, 0), 1.0f / Model::dim, eps * scale * scale));
}

// Input of the head: the last row's stream of this lane, or what all lanes make of it. Returns what its products
// are multiplied by. scale: of the published stream; first_inverse: of the embedding's norm, alike in every lane.
__device__ __forceinline__ float head_input(const Place& me, char* x, const float* rows, Misc& misc, int last, int dim_first, int dim_rows,
                                         float scale, float first_inverse, u32 tag) {
    float inverse = 0.0f, factor = first_inverse / 32.0f;  // a plain sum leaves f16 room for growth
    if (p.head_mode != 2) {
        gather_row<Model::dim, true>(stream_words(me, 1, last), tag - 1, x, misc.squares[0]);
        pad_input(x, p.dim, 1);
        sync_consumers();
        inverse = inverse_norm(misc, 0, p.head_eps, scale);
        if (p.head_mode == 0) return inverse;
        factor = scale * inverse / p.lanes;  // the norm of the stream itself, a lane's part of the mean
    }
#pragma unroll 1
    for (int i = threadIdx.x; i < dim_rows; i += THREADS)
        share_word((u64*)p.f1, F1, (size_t)me.lane * p.dim + dim_first + i, tagged(__float_as_uint(rows[i] * factor), tag));
    // Each device joins all lanes for itself: one exchange between devices, not two.
    const int low = (int)((long long)blockIdx.x * (p.dim / 2) / p.device_blocks), high = (int)((long long)(blockIdx.x + 1) * (p.dim / 2) / p.device_blocks);
#pragma unroll 1
    for (int i = low + threadIdx.x; i < high; i += THREADS) {
        const float2 all = sum_over_lanes((const u64*)p.f1 + 2 * i, p.dim, tag, [](int) { return true; });
        store_word((u64*)p.f2 + i, tagged(pack_halves(all.x, all.y), tag));
    }
    sync_consumers();
    gather_row<Model::dim, true>((const u64*)p.f2, tag, x, misc.squares[0]);
    pad_input(x, p.dim, 1);
    sync_consumers();
    return p.head_mode == 1 ? 1.0f : inverse_norm(misc, 0, p.head_eps, factor);
}

// The rows' embeddings as the first input, this block's rows of the residual, the rows' RoPE turns. Few wide loads: each
// waits for the memory once.
__device__ __forceinline__ void read_embedding(char* x, float* stream, float2* rope, Misc& misc, int w, int id, int at, int dim_first, int dim_rows) {
    const uint4* row = (const uint4*)p.embed + (size_t)id * (p.dim / 8);
    uint4* to = (uint4*)(x + w * p.x_stride * 2);
    const float4* turns = (const float4*)p.rope + (size_t)at * (p.head_dim / 4);
    const float4 turn = (int)threadIdx.x < p.head_dim / 4 ? turns[threadIdx.x] : make_float4(0, 0, 0, 0);
    float square = 0;
#pragma unroll 1
    for (int i = threadIdx.x; i < p.dim / 8; i += THREADS) {
        const uint4 v = row[i];
        const float2 f[4] = {unpack_halves(v.x), unpack_halves(v.y), unpack_halves(v.z), unpack_halves(v.w)};
        to[i] = v;
#pragma unroll
        for (int j = 0; j < 4; j++) square = __fmaf_rn(f[j].x, f[j].x, __fmaf_rn(f[j].y, f[j].y, square));
        if (8 * i >= dim_first && 8 * i < dim_first + dim_rows) {
            float4* mine = (float4*)(stream + w * p.max_dim_rows + 8 * i - dim_first);
            mine[0] = make_float4(f[0].x, f[0].y, f[1].x, f[1].y);
            mine[1] = make_float4(f[2].x, f[2].y, f[3].x, f[3].y);
        }
    }
    if ((int)threadIdx.x < p.head_dim / 4) ((float4*)rope)[w * (p.head_dim / 4) + threadIdx.x] = turn;
    square = warp_sum(square);
    if ((threadIdx.x & 31) == 0) misc.squares[w][threadIdx.x >> 5] = square;
}
