// For measuring: how long other lanes' outputs have been there when they are used. An idle warp notes when they come, by
// this device's clock; thread 0 counts.
#pragma once
#include "block.cuh"
#include "exchange.cuh"

constexpr int SLACK_BINS = 32, SLACK_NS = 2000;  // bin 0: not there yet, or just so; the last: anything longer
#ifdef KOGAGENT_SLACK
constexpr bool SLACK = true;
constexpr int WATCHED = 64;  // more than lie between arrival and use
__shared__ u64 arrived[WATCHED];  // landing << 32 | time
__shared__ u32 slack[SLACK_BINS];
__device__ __forceinline__ void start_slack() {
    for (int i = 0; i < WATCHED; i++) arrived[i] = ~0ull;
    for (int i = 0; i < SLACK_BINS; i++) slack[i] = 0;
}
__device__ __forceinline__ void note_slack(int landing) {
    if (threadIdx.x) return;
    const u64 seen = *(volatile u64*)&arrived[landing % WATCHED];
    const u32 ns = (u32)nanoseconds() - (u32)seen;
    slack[(u32)(seen >> 32) == (u32)landing ? min(ns / SLACK_NS, (u32)SLACK_BINS - 1) : 0u]++;
}
__device__ __forceinline__ void tell_slack() {
    if (threadIdx.x == 0 && p.slack)
        for (int i = 0; i < SLACK_BINS; i++) ((u32*)p.slack)[blockIdx.x * SLACK_BINS + i] = slack[i];
}
// One warp, one row a pass: this block's rows of every landing from other lanes, in order, as they come.
__device__ void watch(Misc& misc, const u32* schedule) {
    const int lane = threadIdx.x & 31, modules = 2 * p.layers, mine = this_block() / p.group;
    const int first = (int)(schedule[1] >> 16) * 8, rows = (int)(schedule[1] & 0xffff) * 8;
    volatile int* quit = &misc.quit;
    int landing = 0;
    bool any = false;
    for (int module = 0; module < modules && rows; module++) any |= ((const Step*)p.steps)[module].late >= 0;
    for (u32 pass = 0; any && !*quit; pass++)
        for (int module = 0; module < modules; module++) {
            const Step step = ((const Step*)p.steps)[module];
            if (step.late < 0) continue;
            const u32 tag = p.tag_base + (misc.passes + pass) * (modules + 64) + step.late;
            const u64* slot = (const u64*)p.obuf + ((size_t)(pass & 1) * modules + step.late) * p.lanes * p.dim + first;
            for (int i = lane; i < rows * p.lanes; i += 32) {
                const int from = i / rows, row = i - from * rows;
                if (from == mine || step.late_others == 0.0f) continue;
                while (tag_of(load_shared_word(slot + (size_t)from * p.dim + row)) != tag)
                    if (*quit) return;
                if (LINK && is_far(mine, from)) wait_for_link((int)(pass & 1) * modules + step.late, from, 0, first + row, tag);
            }
            __syncwarp();
            if (lane == 0) *(volatile u64*)&arrived[landing % WATCHED] = (u64)landing << 32 | (u32)nanoseconds();
            landing++;
        }
}
#else
constexpr bool SLACK = false;
__device__ __forceinline__ void start_slack() {}
__device__ __forceinline__ void note_slack(int) {}
__device__ __forceinline__ void tell_slack() {}
__device__ __forceinline__ void watch(Misc&, const u32*) {}
#endif
