// The C interface of the CPU program: what Python calls through ctypes. Knows no tensors' names, no text.
//
// Letters as in kogagent/spec/model.py: V vocabulary, D width, N layers, L lanes, H heads, K key-value heads, h head width,
// F feed-forward width. A model is opened, its matrices are packed, then it runs; one caller at a time.

#ifndef KOG_NATIVE_H
#define KOG_NATIVE_H

#include <stdint.h>

#if defined(__GNUC__)
#define KOG_API __attribute__((visibility("default")))
#else
#define KOG_API
#endif

#ifdef __cplusplus
extern "C" {
#endif

// Weights. Only once packed: I8 with a scale for 32 weights of a row, or for a row; I4 and I5 with a scale and a least
// value for 32; K4, K5 and K6 with what GGML's blocks of 256 share. I5 and K hold such blocks and are made of nothing
// else. Only before: from KOG_OF_BLOCKS on GGML's blocks, that and GGML's number of their type.
enum { KOG_F32 = 0, KOG_F16 = 1, KOG_BF16 = 2, KOG_I8 = 3, KOG_I8_ROW = 4, KOG_I4 = 5, KOG_I5 = 6, KOG_K4 = 7,
       KOG_K5 = 8, KOG_K6 = 9, KOG_OF_BLOCKS = 16 };
enum { KOG_HEAD_REPLICATE = 0, KOG_HEAD_SPLIT = 1, KOG_HEAD_SUM = 2 };  // ModelSpec.head
enum { KOG_QKV = 0, KOG_OUT = 1, KOG_GATE_UP = 2, KOG_DOWN = 3, KOG_HEAD = 4 };  // matrices; the last is of no layer
enum { KOG_NONE = 0, KOG_LAST = 1, KOG_ALL = 2 };                       // which rows' logits

typedef struct {
  uint32_t vocab, dim, layers, lanes, heads, kv_heads, head_dim, ffn;
  uint32_t head;            // KOG_HEAD_*
  uint32_t cache;           // KOG_F32 or KOG_F16: the type of keys and values
  uint32_t threads;         // the caller's own included
  uint32_t slots;           // module outputs that are kept at a time
  float norm_eps;
  const uint32_t* types;      // [6N+1] once packed: a layer's q, k, v, out, gate and up, down; the head. q, k and v are of
                              // several types only where k and v begin at multiples of 16 rows of a lane
  const double* frequencies;  // [h/2] radians a position
  const uint32_t* windows;    // [N], 0 is full attention
  const uint32_t* step_slot;  // [2N] where module k leaves its output
  const uint32_t* step_free;  // [2N] all landings of modules below it come before module k writes there
  const uint32_t* step_first; // [2N+1] landings of module k: step_first[k] .. step_first[k+1]
  const uint32_t* land_source;  // [landings] the module whose output lands
  const float* land_own;      // [landings]
  const float* land_others;   // [landings]
} kog_shape;

typedef struct kog_model kog_model;

typedef struct kog_grammar kog_grammar;

// ── grammars: engine/grammar/tables.py as it stands there, and what is known of its configurations ──

typedef struct {
  const uint16_t *lone_code, *lone_move;  // [lone]
  const uint16_t* moves;                  // [states - lone, classes]
  const uint8_t* byte_class;              // [256]
  const uint8_t* final_states;            // [states]
  const uint16_t* need;                   // [states]
  const uint16_t *site_entry, *site_follow;  // [sites]
  const uint32_t *site_least, *site_most;    // [sites]
  const uint32_t* token_code;  // [tokens] KOG_BYTES, KOG_NEVER, or the code of its symbol
  const uint32_t* token_first; // [tokens+1] its bytes: text[token_first[i]] .. text[token_first[i+1]]
  const uint8_t* text;
  uint32_t lone, states, classes, end_class, sites, tokens, depth;
  uint32_t reach, margin;      // Walker.normal: which counts no token can tell apart
} kog_tables;

enum { KOG_BYTES = 0xffffffff, KOG_NEVER = 0xfffffffe };

typedef struct {  // where a walk stands; sites and counts [depth] are filled up to top
  uint32_t state, top;
  uint32_t* sites;
  uint32_t* counts;
  uint32_t* run;        // [run_room] forced ids; those from run_at to run_end are still to come
  uint32_t run_room, run_at, run_end;
} kog_walk;

// ── segments ──

enum {  // why a call of kog_run_segment returned
  KOG_GOES_ON = 0,    // tokens to hand over; call again
  KOG_STOP = 1, KOG_LENGTH = 2, KOG_CONTEXT = 3, KOG_CANCELLED = 4, KOG_GRAMMAR = 5,  // it has ended
  KOG_UNKNOWN = 6,    // of this configuration the grammar knows no run, or no mask: kog_learn, then call again
  KOG_BROKEN = 7,     // the last logits are not numbers, or no legal id has a finite one
  KOG_NO_MEMORY = 8,
  KOG_ILLEGAL = 9     // an emitted id is not legal: run or mask do not belong to this grammar
};

typedef struct {
  // the plan
  float temperature, top_p, min_p_log, penalty;  // min_p_log: log(min_p), -inf for none
  uint32_t top_k;
  uint64_t seed;
  uint32_t legal;                // ids at or above it are never taken
  uint32_t force;                // whether forced runs are taken without sampling
  const uint8_t* stops;          // [V] 1 where an id ends the segment
  const uint8_t* stop;           // set by another thread: end at the next token border
  uint8_t* seen;                 // [V] ids whose repetition is penalised, kept up to date; NULL without a penalty
  kog_grammar* grammar;          // NULL: none
  kog_walk* walk;
  double seconds;                // return at the first token border after so long, or after the prompt
  // the sequence: `ids` holds the pending ids, behind them what is emitted
  uint32_t* ids;                 // [most]
  float* logprobs;               // [most]; 0 for a forced id
  uint8_t* forced;               // [most]
  float* logits;                 // [V] of the last pass
  uint32_t prompt;               // pending ids at the beginning
  uint32_t most;                 // prompt + tokens to emit at most
  uint32_t filled, ran;          // ids there are; ids whose keys and values are in the cache. Begin: prompt, 0
  uint32_t new_forced;           // of those that have not run, forced ones
  uint32_t passes;
  uint32_t opened;               // begin: 0
  double prefill_s, sampled_s, forced_s;
} kog_segment;

// The digest of the sources that this library was built from, to be found in the file's bytes.
KOG_API extern const char kog_sources[];

// NULL when memory or threads are not to be had.
KOG_API kog_model* kog_open(const kog_shape* shape);
KOG_API void kog_close(kog_model* model);
// The name of the instruction set that runs: the best one, or what kog_choose asked for. Of NULL: the best one.
KOG_API const char* kog_program(const kog_model* model);
// 0 when this processor cannot run that program.
KOG_API int kog_choose(kog_model* model, const char* program);

typedef struct {  // [L, out, in]
  uint32_t type;  // F32, F16, BF16 or a kind of blocks
  const void* data;
} kog_tensor;

// One matrix: q, k and v; gate and up; of the others one tensor. The head [V, D] is the table of embeddings as well,
// unless another is set. Returns, for I8 and I4, the largest difference between a weight and its packed value, relative
// to the largest weight of its row; else 0, or infinity where a weight lies beyond the packed type's range or that is
// not made of such tensors.
KOG_API float kog_pack(kog_model* model, uint32_t layer, uint32_t matrix, const kog_tensor* tensors);
// What all calls of kog_pack have made, for a model of the same shape on the same program: the bytes that each of
// the `threads` threads reads. kog_fill takes them in place of kog_pack, one address a thread.
KOG_API uint64_t kog_stream_bytes(const kog_model* model, uint32_t thread);
KOG_API const void* kog_stream(const kog_model* model, uint32_t thread);
KOG_API void kog_fill(kog_model* model, const void* const* streams);
// n floats in F16 or BF16. Returns 0, or infinity where one lies beyond that type's range.
KOG_API float kog_narrow(uint32_t type, const float* from, uint64_t n, uint16_t* to);
// GGML's blocks in F16, rounded once. Returns 0 where that kind is not known here.
KOG_API int kog_dequantise(uint32_t kind, const uint8_t* blocks, uint64_t count, uint16_t* to, uint32_t threads);
// An untied table [V, D] in a type that tensors have, read in place: the caller keeps it.
KOG_API void kog_set_embedding(kog_model* model, uint32_t type, const void* table);
// FP32, copied. bias [L, (H+2K)/L * h] or NULL; q_norm, k_norm [h] or NULL.
KOG_API void kog_set_vectors(kog_model* model, uint32_t layer, const float* attn_norm, const float* ffn_norm,
                     const float* bias, const float* q_norm, const float* k_norm);
KOG_API void kog_set_norm(kog_model* model, const float* norm);

// keys [N, K, ceil(capacity/16), h, 16], values [N, K, capacity, ceil(h/16)*16]. Runs ids at
// position.. and writes their keys and values. logits: [V] for KOG_LAST, [n, V] for KOG_ALL. Returns 0, or
// -1 when memory is not to be had.
KOG_API int kog_run(kog_model* model, void* keys, void* values, uint32_t capacity, uint32_t position,
            const uint32_t* ids, uint32_t n, uint32_t want, float* logits);
// Runs a segment whose first pending id has the place `position`. Returns why it came back.
KOG_API int kog_run_segment(kog_model* model, void* keys, void* values, uint32_t capacity, uint32_t position,
                            kog_segment* segment);

// A grammar keeps the tables by reference: the caller keeps them. NULL when memory is not to be had.
KOG_API kog_grammar* kog_open_grammar(const kog_tables* tables);
KOG_API void kog_close_grammar(kog_grammar* grammar);
// What is known of the configuration of `walk` and all that no token can tell from it: its forced run, its mask
// of `words` 32-bit words or NULL. Copied. Returns 0, or -1 when memory is not to be had.
KOG_API int kog_learn(kog_grammar* grammar, const kog_walk* walk, const uint32_t* run, uint32_t run_length,
                      const uint32_t* mask, uint32_t words);
// 1 when the walk is now behind the id, 0 when that is not legal there; then the walk must not be used further.
KOG_API int kog_step(kog_grammar* grammar, kog_walk* walk, uint32_t id);

// Draws as engine/sampling.py does, for tests: segment's plan, logits[V], and mask [words] or NULL. Returns the
// id, or V where there is none.
KOG_API uint32_t kog_draw(const kog_segment* plan, uint32_t vocab, uint32_t position, const uint32_t* mask,
                          uint32_t words);

// Bytes a second that `threads` threads read over `repeats` readings of `bytes` of memory, written before: the best of
// one, two and four places at a time in each thread's part. 0 when memory is not to be had.
KOG_API double kog_read_bandwidth(uint32_t threads, uint64_t bytes, uint32_t repeats);

#ifdef __cplusplus
}
#endif
#endif
