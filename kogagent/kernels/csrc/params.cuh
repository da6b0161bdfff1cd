// Structs shared with the host, written again in kernels/params.py and proved equal by static_assert.
#pragma once
#include "types.cuh"

// One module of the model (2n: attention of layer n, 2n+1: its MLP) and what lands once it has run:
//   X += own * o + others * sum_{j != lane} o_j  (this module)
//      + late_own * o_lane[late] + late_others * sum_{j != lane} o_j[late]  (a module that ran before)
struct Step {
    float own, others;
    float late_own, late_others;
    int late;    // module, -1: none
    int sends;   // some landing gives this module's output to other lanes, or to a later step
    int window;  // attention: key visible while q - k < window; 0 is full
    int pad;
};

// How one kind of phase cuts its weights: a unit is 8 rows x 32*tiles columns, a tile 512 bytes.
struct Shape {
    int tiles;       // of one unit
    int part_tiles;  // of one stage of the ring, when a unit needs several
    int parts;       // stages a unit needs
    int per_stage;   // units in one stage, when several fit
    int warps;       // that share one unit's columns: 8, 4, 2 or 1
};

// One grammar over one vocabulary, device memory. tokens 0: there is none.
struct Grammar {
    u64 lone;         // u32 [lone_states]  code | move << 16
    u64 moves;        // u16 [states - lone_states][classes]
    u64 byte_class;   // u8 [256]
    u64 special_ids;  // u32 [n_special]
    u64 states;       // u32 [states]  need | choice room << 16 | final << 31
    u64 sites;        // u32 [sites]   entry | follow << 16
    u64 bounds;       // u32 [sites][2]  least, most
    u64 tokens;       // u32 [vocab]   offset in bytes | length << 24; length 0: offset 1 is an end id, 2 special
    u64 bytes;        // u8 []
    // The host goes on filling these three while the kernel reads them, what a word of `known` speaks of before that word.
    u64 known;        // u64 [slots_mask + 1]  of where something is forced: key's upper 51 bits | verdict; 0: free slot
    u64 runs;         // Run []
    u64 run_ids;      // int []
    int lone_states, classes, end_class, n_special;
    int vocab, reach, margin, slots_mask;
};

// Ids that follow without a choice, and what holds behind them: FREE or LAST of grammar.cuh.
struct Run {
    int first, count, then, pad;
};

constexpr int FRAMES = 14;  // of a configuration; grammars that need more stay on the host

// What the host says of the id that is chosen next (guided), or of what follows one (asked). The word says of which: epoch in
// bits 32-63, ids emitted before it in 13-31, verdict in 0-12; it is written last.
constexpr int ANSWER_IDS = 1 << 17;  // as many as a segment can hold
struct Answer {
    u64 word;
    int count, then;       // of the run whose verdict is ANSWER_RUN
    int ids[ANSWER_IDS];
    u64 mask;              // u32 [ceil(V/32)], where the host keeps the grammar: legal ids, to all of which the verdict applies
};

// What a launch leaves for the next one of its segment; the host writes it for the first. Device memory.
struct Relay {
    int ended;                 // the last word is said: later launches do nothing
    int launches, passes;      // so far
    int position;              // ids in the cache
    int emitted;               // ids in the token ring
    int pending;               // ids to be fed
    int token, run;            // they are: this id and those of this run; token -1: the host's list; run -1: none
    int state, top;            // of the grammar, before `token` and `run` are taken
    u32 count[FRAMES];
    u16 site[FRAMES];
};

// What is fixed for a model on a card, as constants: written by Layout.model_source() of kernels/layout.py. Indices cost
// instructions on every thread in every phase, and code that runs once a phase is paid for by the byte.
//   devices, device_blocks: how many share the lanes, and blocks of each
//   blocks, group, lanes, layers, dim, heads, kv_heads, head_dim, ffn, vocab, width, qkv_rows: shapes of one lane;
//     blocks and lanes are those of all devices
//   has_bias, has_qk_norm: of the projections of q, k and v
//   splits, split_log2, direct_combine: of attention
//   replicas: of the words that all blocks of a group read; pace, poll_first, stagger: cycles, see Layout
//   head_mode: 0 by lane or one lane, 1 replicate, 2 sum; head_rows: rows one group answers for; head_grid: they are
//     cut over all blocks
//   x_stride: halves between rows of the shared input vector; stage_bytes, max_dim_rows, max_head_rows
//   stage_chunks, step_chunks: chunks of 8 keys and their values in a stage; that all warps score at once
//   off_*: offsets into dynamic shared memory, bytes; the ring is last
#include "model.cuh"

constexpr int MAX_DEVICES = 8;
// What devices store into each other's memory: buffers of the same shape on all of them.
enum Peer { OBUF, F1, CAND, HIST, TIMES, STARTED, BEATS, DEAD, PEER_BUFFERS };

struct Params : Model {
    // weights and tables, device memory
    u64 tape;        // one tape a block, tape_stride bytes apart
    u64 tape_stride;
    u64 schedule;    // u32 [blocks][phases]: first unit << 16 | units
    u64 embed;       // f16 [V][D]
    u64 rope;        // f32 [context][h/2][2] cosine, sine
    u64 bias;        // f32 [N][lanes][R] or 0; R = (heads + 2 kv_heads) * h of one lane
    u64 qk_norm;     // f32 [N][2][h] or 0
    u64 steps;       // Step [2N]
    u64 kv;          // f16 [N][2][lanes*K][capacity][h]
    // exchange buffers, tagged words of 8 bytes
    // R: copies, of pbuf and sbuf where the merge is direct
    u64 xbuf;        // [R][2][lanes][W][D/2]  stream, f16 pairs
    u64 qbuf;        // [lanes][W][R]          for each kv head its q, k, v, f32
    u64 pbuf;        // [R][lanes][W][min(S,4)][H*h/4][S/4][2]  attention of one split, f16 pairs
    u64 sbuf;        // [R][lanes][W][H][S]    its log2 of the sum of exponentials, f32
    u64 abuf;        // [R][lanes][W][H*h/2]   attention, f16 pairs
    u64 hbuf;        // [R][lanes][W][F/2]     hidden, f16 pairs
    u64 obuf;        // [2][2N][lanes][W][D]   module outputs that reach others, f32
    u64 f1;          // [lanes][D]             streams at the head, f32
    u64 f2;          // [D/2]                  their mean or sum, f16 pairs
    u64 cand;        // [2][3][blocks][2]      best id of a block
    u64 hist;        // [2][blocks][16]        partial sums of the threshold searches
    // sampling
    u64 seen;        // u8 [V]
    u64 mask;        // u32 [ceil(V/32)] or 0
    u64 stop_ids;    // int [n_stop]
    u64 pending;     // int []: the host's ids to be fed first
    u64 seed;
    // host link
    u64 dead;        // u32, device: set when a deadline was missed
    u64 token_ring;  // u64 [..][2], pinned host memory
    u64 status;      // u32 [32], pinned host memory: 2, 3 block and progress of a missed deadline, 8, 9 one | epoch then,
                     // 12 epoch of a device that gave up, 16 + d how far device d had come
    u64 abort_word;  // u32, pinned host memory
    u64 answer;      // Answer, pinned host memory
    u64 logits_out;  // f32 [V] or 0: the last row's logits, for tests and scoring
    u64 profile;     // u64 [blocks][PROFILE_SLOTS] or 0
    u64 relay;       // Relay
    u64 deadline_ns;
    int capacity, stages;
    // segment
    int n_stop, max_tokens, want_head, legal_ids;
    int guided;     // the host says before each choice which ids are legal
    int hand_over;  // ends the launch where the next pass is 1: of several rows, 2: of one row; 0: never
    u32 tag_base, epoch;
    float temperature, top_p, min_p, penalty;
    int top_k;
    Shape shape[5];            // qkv, out, gate and up, down, head
    Grammar grammar;
    // several devices, and the emulation of their links
    u64 peers[PEER_BUFFERS][MAX_DEVICES];  // [Peer][device]: where to store what that device reads
    u64 times;       // [2][2N][lanes][W][D/2]  when a pair of obuf was stored, ns; KOGAGENT_LINK
    u64 started;     // [devices]  a device has begun this launch
    u64 beats;       // [devices]  how far its first block has come
    u64 slack;       // u32 [blocks][SLACK_BINS] or 0; KOGAGENT_SLACK
    int rank, link_ns;
};
