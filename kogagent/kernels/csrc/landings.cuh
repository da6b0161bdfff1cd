// What other lanes put out: summed by who uses it at once, fetched by the helper warp where it lands late.
#pragma once
#include "block.cuh"
#include "exchange.cuh"

// Two neighbouring words of each lane that is wanted, summed, all of them waited for at once. from: lane 0's; apart: words from
// lane to lane.
template <class Wanted>
__device__ __forceinline__ float2 sum_over_lanes(const u64* from, size_t apart, u32 tag, Wanted wanted) {
    constexpr int TOGETHER = Model::lanes < 8 ? Model::lanes : 8;
    float2 sum = {0, 0};
#pragma unroll 1
    for (int j0 = 0; j0 < p.lanes; j0 += TOGETHER) {
        u64 v[2 * TOGETHER];
        poll(v, tag, [&](u64 (&to)[2 * TOGETHER]) {
#pragma unroll
            for (int j = 0; j < TOGETHER; j++) {
                to[2 * j] = to[2 * j + 1] = (u64)tag << 32;
                if (j0 + j < p.lanes && wanted(j0 + j)) load_two_shared_words(from + (j0 + j) * apart, to[2 * j], to[2 * j + 1]);
            }
        });
#pragma unroll
        for (int j = 0; j < TOGETHER; j++) {
            if (j0 + j >= p.lanes || !wanted(j0 + j)) continue;
            sum.x += __uint_as_float((u32)v[2 * j]);
            sum.y += __uint_as_float((u32)v[2 * j + 1]);
        }
    }
    return sum;
}

// Sum of what the other lanes put out of one module, two rows.
template <int W>
__device__ __forceinline__ float2 sum_others(int slot, int lane, int w, int row, u32 tag) {
    const u64* from = (const u64*)p.obuf + ((size_t)slot * p.lanes * W + w) * p.dim + row;
    const float2 sum = sum_over_lanes(from, (size_t)W * p.dim, tag, [&](int j) { return j != lane; });
    if constexpr (LINK)
        for (int j = 0; j < p.lanes; j++)
            if (j != lane && is_far(lane, j)) wait_for_link(slot, j, w, row, tag);
    return sum;
}

// The helper warp: fetches what the consumers would wait for. Late landings into late [2][W][max_dim_rows],
// double-buffered; the host's abort word once a pass.
template <int W>
__device__ void help(Misc& misc, float* late, const u32* schedule) {
    const int lane = threadIdx.x & 31, modules = 2 * p.layers;
    const Place me = {this_block() / p.group, this_block() % p.group};
    const int dim_first = (int)(schedule[1] >> 16) * 8, dim_rows = (int)(schedule[1] & 0xffff) * 8;
    Clock clock = {&misc.quit, &misc.progress, -1, 0, 0};
    int fed = 0, used = 0;
#pragma unroll 1
    for (u32 pass = 0; !*clock.quit; pass++) {
        const int rows = W == 1 ? 1 : fed < misc.pending ? min(W, misc.pending - fed) : 1;
        if (fed < misc.pending) fed += rows;
        const u32 tag0 = p.tag_base + (misc.passes + pass) * (modules + 64);
        if (this_block() == 0 && lane == 0 && load_from_host((const u32*)p.abort_word) == p.epoch) *(volatile u32*)&misc.aborted = ABORTED;
#pragma unroll 1
        for (int module = 0; module <= modules; module++) {
            const int start = (int)pass * (2 * modules + 1) + 2 * max(module - 1, 0);
            while (*clock.progress < start)
                if (over(clock)) return;
            if (SEVERAL && blockIdx.x == 0 && lane == 0)
                share_word((u64*)p.beats, BEATS, p.rank, tagged((misc.passes + pass) * (2 * modules + 1) + 2 * module + 2, p.epoch));
            if (module == modules) break;
            const Step step = ((const Step*)p.steps)[module];
            if (step.late < 0 || !dim_rows) continue;
            float* to = late + (used & 1) * W * p.max_dim_rows;
            while (!barrier_try(misc.late_empty + (used & 1), ((used >> 1) & 1) ^ 1))
                if (over(clock)) return;
            const u64* slot = (const u64*)p.obuf + ((size_t)(pass & 1) * modules + step.late) * p.lanes * W * p.dim + dim_first;
            const u32 tag = tag0 + step.late;
            // Two values of several lanes at once: with 8 rows a warp that waited for each would hold up the layers.
            constexpr int TOGETHER = 4;
#pragma unroll 1
            for (int i = 2 * lane; i < rows * dim_rows; i += 64) {
                const int w = W == 1 ? 0 : i / dim_rows, row = i - w * dim_rows;
                const u64* from = slot + (size_t)w * p.dim + row;
                float sum[2] = {};
#pragma unroll 1
                for (int j0 = 0; j0 < p.lanes; j0 += TOGETHER) {
                    u64 v[2 * TOGETHER];
                    u32 wrong;
                    do {
                        wrong = 0;
#pragma unroll
                        for (int j = 0; j < TOGETHER; j++) {
                            v[2 * j] = v[2 * j + 1] = (u64)tag << 32;
                            const bool wanted = j0 + j < p.lanes && (j0 + j == me.lane ? step.late_own : step.late_others) != 0.0f;
                            if (wanted) load_two_shared_words(from + (size_t)(j0 + j) * W * p.dim, v[2 * j], v[2 * j + 1]);
                        }
#pragma unroll
                        for (int j = 0; j < 2 * TOGETHER; j++) wrong |= tag_of(v[j]) ^ tag;
                    } while (wrong && !over(clock));
                    if constexpr (LINK)
                        for (int j = j0; j < min(j0 + TOGETHER, (int)p.lanes); j++)
                            if (is_far(me.lane, j) && step.late_others != 0.0f) wait_for_link((int)(pass & 1) * modules + step.late, j, w, dim_first + row, tag);
#pragma unroll
                    for (int j = 0; j < TOGETHER; j++) {
                        const float k = j0 + j == me.lane ? step.late_own : step.late_others;
                        sum[0] = __fmaf_rn(k, __uint_as_float((u32)v[2 * j]), sum[0]);
                        sum[1] = __fmaf_rn(k, __uint_as_float((u32)v[2 * j + 1]), sum[1]);
                    }
                }
                *(float2*)(to + w * p.max_dim_rows + row) = make_float2(sum[0], sum[1]);
            }
            __syncwarp();
            if (lane == 0) barrier_arrive(misc.late_full + (used & 1));
            used++;
        }
        // the rest of a pass, the head and the choice, is waited for with the clock running
        while (*clock.progress < (int)(pass + 1) * (2 * modules + 1))
            if (over(clock)) return;
    }
}
