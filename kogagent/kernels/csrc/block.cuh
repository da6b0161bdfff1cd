// What the warps of a block tell each other.
#pragma once
#include "grammar.cuh"
#include "ring.cuh"

struct Misc {  // shared memory, fixed size
    u64 full[24], empty[24];
    float squares[8][WARPS];  // [row][warp]
    int quit;
    u32 aborted;
    int progress;  // passes * (4N+1) + phase that the consumers run
    int cached;    // passes whose keys and values copies can read
    u64 late_full[2], late_empty[2];
    u64 asked, judged;  // verdicts on this block's ids: wanted, there
    int pending, position, passes, emitted;  // of the segment when this launch began
    int token, run;     // what the configuration has still to take, -1: nothing
    int cut, pad;
    Configuration grammar;
};
static_assert(sizeof(Misc) == 944, "MISC of kernels/layout.py");
