// Words between the kernel and the host: the token ring, the end of the segment, the abort word.
// A token is two tagged words: id in bits 0-23 and flags in bits 24-31 | epoch, then logprob | epoch.
#pragma once
#include "head.cuh"

enum Reason {  // flags of a token; a nonzero one is the segment's last. As kernels/monokernel.py reads them.
    RUNNING = 0,
    STOP_ID = 1,
    LENGTH = 2,
    CONTEXT = 3,
    CANCELLED = 4,
    FAILED_NAN = 5,
    FAILED_NO_ID = 6,
    FED = 7,  // pending ids only, nothing sampled
};

__device__ __forceinline__ void emit_token(int index, int id, float logprob, u32 reason) {
    u64* to = (u64*)p.token_ring + 2 * (size_t)index;
    store_word_to_host(to + 1, tagged(__float_as_uint(logprob), p.epoch));
    store_word_to_host(to, tagged((u32)id & 0xffffffu | reason << 24, p.epoch));
}
