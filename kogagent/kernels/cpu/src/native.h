// The C interface of the CPU program: what Python calls through ctypes. Knows no tensors' names, no text.
//
// Letters as in spec.py: V vocabulary, D width, N layers, L lanes, H heads, K key-value heads, h head width,
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

enum { KOG_F32 = 0, KOG_F16 = 1, KOG_BF16 = 2, KOG_I8 = 3 };            // weights; I8 only once packed
enum { KOG_HEAD_REPLICATE = 0, KOG_HEAD_SPLIT = 1, KOG_HEAD_SUM = 2 };  // ModelSpec.head
enum { KOG_QKV = 0, KOG_OUT = 1, KOG_GATE_UP = 2, KOG_DOWN = 3 };       // matrices of a layer
enum { KOG_NONE = 0, KOG_LAST = 1, KOG_ALL = 2 };                       // which rows' logits

typedef struct {
  uint32_t vocab, dim, layers, lanes, heads, kv_heads, head_dim, ffn;
  uint32_t head;            // KOG_HEAD_*
  uint32_t weights;         // KOG_F32, KOG_F16, KOG_BF16 or KOG_I8: the type once packed
  uint32_t cache;           // KOG_F32 or KOG_F16: the type of keys and values
  uint32_t threads;         // the caller's own included
  uint32_t slots;           // module outputs that are kept at a time
  float norm_eps;
  const double* frequencies;  // [h/2] radians a position
  const uint32_t* windows;    // [N], 0 is full attention
  const uint32_t* step_slot;  // [2N] where module k leaves its output
  const uint32_t* step_first; // [2N+1] landings of module k: step_first[k] .. step_first[k+1]
  const uint32_t* land_slot;  // [landings]
  const float* land_own;      // [landings]
  const float* land_others;   // [landings]
} kog_shape;

typedef struct kog_model kog_model;

typedef struct {  // what a greedy segment needs and gives
  uint32_t legal;             // ids at or above it are never taken
  uint32_t most;              // tokens to emit at most
  const uint8_t* stops;       // [V] 1 where an id ends the segment
  const volatile uint8_t* stop;  // set by another thread: end at the next token border
  double seconds;             // return at the first token border after so long
  float* logits;              // [V] of the last pass
  uint32_t* ids;              // [most]
  float* logprobs;            // [most]
  uint32_t emitted;           // out
  uint32_t passes;            // out: passes whose keys and values are in the cache
  uint32_t broken;            // out: 1 where the logits of the last pass are not numbers or none may be taken
} kog_greedy;

// The digest of the sources that this library was built from, to be found in the file's bytes.
KOG_API extern const char kog_sources[];

// NULL when memory or threads are not to be had.
KOG_API kog_model* kog_open(const kog_shape* shape);
KOG_API void kog_close(kog_model* model);
// "avx512", "avx2" or "portable"; asked for by name with kog_choose, the best one otherwise.
KOG_API const char* kog_program(const kog_model* model);
// 0 when this processor cannot run that program.
KOG_API int kog_choose(kog_model* model, const char* program);

// Matrices [L, out, in] in the packed type, for I8 in F32; gate_up takes two. Returns the largest difference
// between a weight and its packed value, relative to the largest weight of its row (0 except for I8).
KOG_API float kog_pack(kog_model* model, uint32_t layer, uint32_t matrix, const void* first, const void* second);
// The head [V, D] in the packed type. It is the table of embeddings as well, unless another is set.
KOG_API float kog_pack_head(kog_model* model, const void* head);
// An untied table [V, D] in the packed type (F32 for I8), read in place: the caller keeps it.
KOG_API void kog_set_embedding(kog_model* model, const void* table);
// FP32, copied. bias [L, (H+2K)/L * h] or NULL; q_norm, k_norm [h] or NULL.
KOG_API void kog_set_vectors(kog_model* model, uint32_t layer, const float* attn_norm, const float* ffn_norm,
                     const float* bias, const float* q_norm, const float* k_norm);
KOG_API void kog_set_norm(kog_model* model, const float* norm);

// keys [N, K, ceil(capacity/16), h, 16], values [N, K, capacity, ceil(h/16)*16]. Runs ids at
// position.. and writes their keys and values. logits: [V] for KOG_LAST, [n, V] for KOG_ALL. Returns 0, or
// -1 when memory is not to be had.
KOG_API int kog_run(kog_model* model, void* keys, void* values, uint32_t capacity, uint32_t position,
            const uint32_t* ids, uint32_t n, uint32_t want, float* logits);
// Runs the pending ids and takes the largest logit, again and again. Returns as kog_run.
KOG_API int kog_run_greedy(kog_model* model, void* keys, void* values, uint32_t capacity, uint32_t position,
                   const uint32_t* ids, uint32_t n, kog_greedy* plan);

#ifdef __cplusplus
}
#endif
#endif
