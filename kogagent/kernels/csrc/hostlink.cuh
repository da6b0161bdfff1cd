// Words between the kernel and the host, and what a choice means for the segment: the token ring, the end, the hand-over.
// A token is two tagged words: id in bits 0-22, bit 23 forced, reason in bits 24-31 | epoch, then logprob | epoch.
#pragma once
#include "head.cuh"

enum Reason {  // of a token; a nonzero one but ASKED is the segment's last. As kernels/monokernel.py reads them.
    RUNNING = 0,
    STOP_ID = 1,
    LENGTH = 2,
    CONTEXT = 3,
    CANCELLED = 4,
    FAILED_NAN = 5,
    FAILED_NO_ID = 6,
    FED = 7,      // pending ids only, nothing sampled
    COMPLETE = 8, // the grammar's text ends here
    ASKED = 9,    // the segment goes on: what the grammar forces next only the host can say, and is waited for
};
constexpr u32 FORCED = 1u << 23;

__device__ __forceinline__ void emit_token(int index, u32 id, float logprob, u32 reason) {
    u64* to = (u64*)p.token_ring + 2 * (size_t)index;
    store_word_anywhere(to + 1, tagged(__float_as_uint(logprob), p.epoch));
    store_word_anywhere(to, tagged((id & 0xffffffu) | reason << 24, p.epoch));
}

__device__ __forceinline__ bool is_stop(int id) {
    bool found = false;
#pragma unroll 1
    for (int i = 0; i < p.n_stop; i++) found |= __ldg((const int*)p.stop_ids + i) == id;
    return found;
}
// The same for an id that all threads of a warp hold: asked for at once.
__device__ __forceinline__ bool is_stop_of_warp(int id) {
    bool found = false;
#pragma unroll 1
    for (int i = as_new(threadIdx.x) & (WARP_THREADS - 1); i < p.n_stop; i += WARP_THREADS) found |= __ldg((const int*)p.stop_ids + i) == id;
    return __any_sync(~0u, found);
}
// Ids that the host wrote, perhaps while this launch ran. All are read past the first cache, which may hold what was there before.
struct Ids {
    const int* first;
    __device__ __forceinline__ int operator[](int i) const { return (int)load_from_host((const u32*)first + i); }
};
__device__ __forceinline__ u32 run_word(int run, int field) {
    return load_from_host((const u32*)((const Run*)p.grammar.runs + run) + field);
}
constexpr int ANSWERED = ANSWER_RUN - RUN;  // the run of the host's last answer
__device__ __forceinline__ const Answer& answer() { return *(const Answer*)p.answer; }
__device__ __forceinline__ Ids ids_of(int run) {
    return {run == ANSWERED ? answer().ids : (const int*)p.grammar.run_ids + (int)run_word(run, 0)};
}
__device__ __forceinline__ int count_of(int run) { return (int)(run == ANSWERED ? load_from_host((const u32*)&answer().count) : run_word(run, 1)); }
__device__ __forceinline__ u32 then_of(int run) { return run == ANSWERED ? load_from_host((const u32*)&answer().then) : run_word(run, 2); }
__device__ __forceinline__ Ids pending_ids(int run) { return run >= 0 ? ids_of(run) : Ids{(const int*)p.pending}; }

// Whether the host has answered for the id behind `emitted` others, and what.
__device__ __forceinline__ bool is_answered(int emitted, u32& verdict) {
    const u64 word = load_news_from_host(&((const Answer*)p.answer)->word);
    verdict = (u32)word & 0x1fff;
    return word >> 13 == ((u64)p.epoch << 19 | (u32)emitted);
}
// Waits for the answer on what follows the last of `emitted` ids: it is the same for all blocks. All consumer threads. LAST where the
// deadline has passed. Out of line: a wait in here would keep registers from all that comes before it.
__device__ __noinline__ u32 ask_host(int* shared, int emitted) {
    if (threadIdx.x == 0) {
        u32 verdict;
        bool there;
        while (!(there = is_answered(emitted, verdict)) && !*(volatile int*)&gone) sleep_briefly();
        *shared = there ? (int)verdict : (int)LAST;
    }
    sync_consumers();
    const u32 verdict = (u32)*shared;
    sync_consumers();
    return verdict;
}

// What follows a choice, alike in every block: the run's ids that are emitted with it, and why the segment ends.
struct Outcome {
    int run, count;  // run -1: none
    u32 reason;      // of the last of all these ids
    bool asked;      // the host was told the id, and asked
};
// emitted: ids so far; at: ids in the cache, of which the chosen one is not. cut: shared. All consumer threads.
__device__ __forceinline__ Outcome outcome_of(const Choice& c, int* cut, int emitted, int at) {
    Outcome o = {-1, 0, RUNNING, false};
    if (c.flags & NOT_A_NUMBER) {
        o.reason = FAILED_NAN;
    } else if (c.flags & ABORTED) {
        o.reason = CANCELLED;
    } else if (c.id < 0) {
        o.reason = FAILED_NO_ID;
    } else if (is_stop_of_warp(c.id)) {
        o.reason = STOP_ID;
    } else if (emitted + 1 >= p.max_tokens) {
        o.reason = LENGTH;
    } else if (at + 1 > p.capacity) {
        o.reason = CONTEXT;
    } else {
        u32 verdict = c.verdict;
        if (verdict == ASK) {
            if (this_block() == 0 && threadIdx.x == 0) emit_token(emitted, (u32)c.id, c.logprob, ASKED);
            verdict = ask_host(cut, emitted + 1);
            o.asked = true;
        }
        if (verdict == LAST) o.reason = COMPLETE;
        if (verdict < RUN) return o;
        o.run = (int)verdict - RUN;  // the same rules for each id of the run
        const Ids ids = ids_of(o.run);
        const int count = count_of(o.run);
        const u32 then = then_of(o.run);
        if (threadIdx.x == 0) *cut = count;
        sync_consumers();
#pragma unroll 1
        for (int i = threadIdx.x; i < count; i += THREADS)
            if (is_stop(ids[i])) atomicMin(cut, i);
        sync_consumers();
        const int stop = *cut, length = p.max_tokens - emitted - 2, context = p.capacity - at - 1;
        const int last = min(stop, min(length, context));
        o.count = min(last + 1, count);
        if (last < count)
            o.reason = stop == last ? STOP_ID : length == last ? LENGTH : CONTEXT;
        else
            o.reason = then == LAST ? COMPLETE : RUNNING;
    }
    return o;
}

// Hands the choice and its run to the host at once: the first of these ids, which it reads first, is written last. Where
// the host was asked, the choice itself is there already. rows: the ids this block's rows stand for. All consumer threads of every block.
__device__ __forceinline__ void emit_choice(const Choice& c, const Outcome& o, int emitted, int first_id, int rows) {
    const bool host = this_block() == 0;
    if (c.id >= first_id && c.id < first_id + rows && threadIdx.x == 0) ((u8*)p.seen)[c.id] = 1;
    const Ids ids = pending_ids(o.run);
    const auto emit = [&](int i) { emit_token(emitted + 1 + i, (u32)ids[i] | FORCED, 0.0f, i == o.count - 1 ? o.reason : RUNNING); };
    if (o.count) {
#pragma unroll 1
        for (int i = threadIdx.x; i < o.count; i += THREADS) {
            const int id = ids[i];
            if (id >= first_id && id < first_id + rows) ((u8*)p.seen)[id] = 1;
            if (host && !(o.asked && i == 0)) emit(i);
        }
        if (host) {
            __threadfence_system();
            sync_consumers();
        }
    }
    if (!host || threadIdx.x) return;
    if (!o.asked)
        emit_token(emitted, (u32)c.id, c.logprob, o.count ? RUNNING : o.reason);
    else if (o.count)
        emit(0);
}

// A guided choice: this block's verdicts on the id behind `emitted` others, once the host has said which are legal. All judges.
__device__ __forceinline__ void take_guidance(u32* aborted, volatile int* quit, u32* verdicts, int first_id, int rows, int emitted, int thread) {
    u32 verdict;
    if (thread == 0)
        while (!is_answered(emitted, verdict) && !*quit) sleep_briefly();
    sync_judges();
    is_answered(emitted, verdict);
    const u32* mask = (const u32*)&answer().mask;
#pragma unroll 1
    for (int i = thread; i < rows; i += JUDGES) {
        const int id = first_id + i;
        verdicts[i] = id < p.legal_ids && load_from_host(mask + (id >> 5)) >> (id & 31) & 1 ? verdict : ILLEGAL;
    }
    if (verdict == ILLEGAL && thread == 0) *(volatile u32*)aborted = ABORTED;
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
