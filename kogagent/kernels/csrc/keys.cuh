// Which cached keys a block reads in one attention phase and how they lie in the ring, from the position alone: the
// warp that streams and the warps that attend compute the same. Positions go to chunks of 8, chunks to splits round
// robin; "place" counts the chunks of one split. Plain integers: kernels/layout.py has the twin, and a host compiler
// can run this file.
#pragma once

constexpr int KEY_BLOCK = 8;

// First key that a row at `at` sees.
__device__ __forceinline__ int first_key(int at, int window) { return window > 0 && at + 1 > window ? at + 1 - window : 0; }
// Place of the last chunk of a split that holds a key up to `at`; -1 if there is none.
__device__ __forceinline__ int last_place(int at, int split, int split_log2) { return (at / KEY_BLOCK - split) >> split_log2; }
// Place of a split's first chunk with a key that a row at `at` sees.
__device__ __forceinline__ int first_place(int at, int window, int split, int split_log2) {
    return (first_key(at, window) / KEY_BLOCK - split + (1 << split_log2) - 1) >> split_log2;
}
__device__ __forceinline__ int first_position(int place, int split, int split_log2) { return ((place << split_log2) + split) * KEY_BLOCK; }

struct KeyRun {
    int low, high;  // places of the chunks that are copied
    int base;       // place at the start of the first stage, even: a warp takes two chunks at once
    int stages;
};
// at: position of the first row of the pass; keys from there on are not in the cache.
__device__ __forceinline__ KeyRun key_run(int at, int window, int split, int split_log2, int stage_chunks) {
    KeyRun r;
    r.low = first_place(at, window, split, split_log2);
    r.high = ((at + KEY_BLOCK - 1) / KEY_BLOCK - split + (1 << split_log2) - 1) >> split_log2;
    r.base = r.low & -2;
    r.stages = r.high > r.low ? (r.high - r.base + stage_chunks - 1) / stage_chunks : 0;
    return r;
}
// What one stage of a run holds: its first place, the places copied, and the positions of the last of these.
struct KeyStage {
    int start, low, high, last_rows;
};
__device__ __forceinline__ KeyStage key_stage(const KeyRun& r, int stage, int at, int split, int split_log2, int stage_chunks) {
    KeyStage s;
    s.start = r.base + stage * stage_chunks;
    s.low = s.start > r.low ? s.start : r.low;
    s.high = s.start + stage_chunks < r.high ? s.start + stage_chunks : r.high;
    const int left = at - first_position(s.high - 1, split, split_log2);
    s.last_rows = left < KEY_BLOCK ? left : KEY_BLOCK;
    return s;
}
