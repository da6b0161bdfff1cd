// The two warps that say which of this block's ids are legal, while the layers stream. verdicts [rows] for the ids
// from first_id on.
#pragma once
#include "block.cuh"
#include "hostlink.cuh"

// They keep the grammar's configuration and judge by it.
__device__ void judge(Misc& misc, u32* verdicts, int first_id, int rows) {
    const int thread = threadIdx.x - (WARPS + 2) * 32;
#pragma unroll 1
    for (int choice = 0;; choice++) {
        if (choice > 0)
            while (!barrier_try(&misc.asked, (choice - 1) & 1))
                if (*(volatile int*)&misc.quit) return;
        if (thread == 0) {
            const int run = misc.run, count = run >= 0 ? count_of(run) : 0;
            const Ids ids = pending_ids(run);
            if (misc.token >= 0)
#pragma unroll 1
                for (int i = -1; i < count; i++) advance(p.grammar, misc.grammar, i < 0 ? misc.token : ids[i]);
            summarise(p.grammar, misc.grammar);
        }
        sync_judges();
#pragma unroll 1
        for (int i = thread; i < rows; i += JUDGES)
            verdicts[i] = first_id + i < p.legal_ids ? verdict_of(p.grammar, misc.grammar, first_id + i) : ILLEGAL;
        barrier_arrive(&misc.judged);
    }
}

// Where the host keeps the grammar: its mask, once it has come.
__device__ void follow_host(Misc& misc, u32* verdicts, int first_id, int rows) {
#pragma unroll 1
    for (int choice = 0;; choice++) {
        if (choice > 0)
            while (!barrier_try(&misc.asked, (choice - 1) & 1))
                if (*(volatile int*)&misc.quit) return;
        take_guidance(&misc.aborted, &misc.quit, verdicts, first_id, rows, misc.emitted, threadIdx.x - (WARPS + 2) * 32);
        barrier_arrive(&misc.judged);
    }
}
