// Words between the kernel and the host, and what a choice means for the segment: the token ring, the end, the hand-over.
// A token is two tagged words: id in bits 0-22, bit 23 forced, reason in bits 24-31 | epoch, then logprob | epoch.
#pragma once
#include "head.cuh"

enum Reason {  // of a token; a nonzero one is the segment's last. As kernels/monokernel.py reads them.
    RUNNING = 0,
    STOP_ID = 1,
    LENGTH = 2,
    CONTEXT = 3,
    CANCELLED = 4,
    FAILED_NAN = 5,
    FAILED_NO_ID = 6,
    FED = 7,      // pending ids only, nothing sampled
    COMPLETE = 8, // the grammar's text ends here
    ASKED = 9,    // what the grammar forces next only the host can say
};
constexpr u32 FORCED = 1u << 23;

__device__ __forceinline__ void emit_token(int index, u32 id, float logprob, u32 reason) {
    u64* to = (u64*)p.token_ring + 2 * (size_t)index;
    store_word_to_host(to + 1, tagged(__float_as_uint(logprob), p.epoch));
    store_word_to_host(to, tagged((id & 0xffffffu) | reason << 24, p.epoch));
}

__device__ __forceinline__ bool is_stop(int id) {
    bool found = false;
#pragma unroll 1
    for (int i = 0; i < p.n_stop; i++) found |= __ldg((const int*)p.stop_ids + i) == id;
    return found;
}
__device__ __forceinline__ const Run& run_of(int run) { return ((const Run*)p.grammar.runs)[run]; }
__device__ __forceinline__ const int* ids_of(int run) { return (const int*)p.grammar.run_ids + run_of(run).first; }

// What follows a choice, alike in every block: the run's ids that are emitted with it, and why the segment ends.
struct Outcome {
    int run, count;  // run -1: none
    u32 reason;      // of the last of all these ids
};
// emitted: ids so far; at: ids in the cache, of which the chosen one is not. cut: shared. All consumer threads.
__device__ __forceinline__ Outcome outcome_of(const Choice& c, int* cut, int emitted, int at) {
    Outcome o = {-1, 0, RUNNING};
    if (c.flags & NOT_A_NUMBER) {
        o.reason = FAILED_NAN;
    } else if (c.flags & ABORTED) {
        o.reason = CANCELLED;
    } else if (c.id < 0) {
        o.reason = FAILED_NO_ID;
    } else if (is_stop(c.id)) {
        o.reason = STOP_ID;
    } else if (emitted + 1 >= p.max_tokens) {
        o.reason = LENGTH;
    } else if (at + 1 > p.capacity) {
        o.reason = CONTEXT;
    } else if (c.verdict == LAST) {
        o.reason = COMPLETE;
    } else if (c.verdict == ASK) {
        o.reason = ASKED;
    } else if (c.verdict >= RUN) {  // the same rules for each id of the run
        o.run = (int)c.verdict - RUN;
        const Run run = run_of(o.run);
        const int* ids = ids_of(o.run);
        if (threadIdx.x == 0) *cut = run.count;
        sync_consumers();
#pragma unroll 1
        for (int i = threadIdx.x; i < run.count; i += THREADS)
            if (is_stop(__ldg(ids + i))) atomicMin(cut, i);
        sync_consumers();
        const int stop = *cut, length = p.max_tokens - emitted - 2, context = p.capacity - at - 1;
        const int last = min(stop, min(length, context));
        o.count = min(last + 1, run.count);
        if (last < run.count)
            o.reason = stop == last ? STOP_ID : length == last ? LENGTH : CONTEXT;
        else
            o.reason = run.then == LAST ? COMPLETE : run.then == ASK ? ASKED : RUNNING;
    }
    return o;
}

// Hands the choice and its run to the host at once: the chosen id, which it reads first, is written last.
// rows: the ids this block's rows stand for. All consumer threads of every block.
__device__ __forceinline__ void emit_choice(const Choice& c, const Outcome& o, int emitted, int first_id, int rows) {
    const bool host = blockIdx.x == 0;
    if (c.id >= first_id && c.id < first_id + rows && threadIdx.x == 0) ((u8*)p.seen)[c.id] = 1;
    if (o.count) {
        const int* ids = ids_of(o.run);
#pragma unroll 1
        for (int i = threadIdx.x; i < o.count; i += THREADS) {
            const int id = __ldg(ids + i);
            if (id >= first_id && id < first_id + rows) ((u8*)p.seen)[id] = 1;
            if (host) emit_token(emitted + 1 + i, (u32)id | FORCED, 0.0f, i == o.count - 1 ? o.reason : RUNNING);
        }
        if (host) {
            __threadfence_system();
            sync_consumers();
        }
    }
    if (host && threadIdx.x == 0) emit_token(emitted, (u32)c.id, c.logprob, o.count ? RUNNING : o.reason);
}

// Leaves the segment to its next launch: the chosen id and its run are to be fed. One thread of block 0.
__device__ __forceinline__ void hand_over(const Configuration& at, int passes, int position, int emitted, int token, int run, int pending) {
    Relay& relay = *(Relay*)p.relay;
    relay.passes = passes;
    relay.position = position;
    relay.emitted = emitted;
    relay.pending = pending;
    relay.token = token;
    relay.run = run;
    relay.state = at.state;
    relay.top = at.top;
#pragma unroll 1
    for (int i = 0; i <= at.top; i++) {
        relay.count[i] = at.count[i];
        relay.site[i] = at.site[i];
    }
}
