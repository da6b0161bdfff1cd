// C interface: a grammar walked along a vocabulary. engine/grammar/walker.py and forced.py say the same in Python,
// bit for bit; engine/grammar/compiled.py calls this. Knows no tokenizer, no model. One caller at a time.

#ifndef KOG_WALKER_H
#define KOG_WALKER_H

#include "native.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  int32_t first, count;                 // its children, side by side
  int32_t token;                        // what ends there, or -1
} kog_node;

typedef struct {  // engine/grammar/trie.py's Tree
  const uint8_t* byte;                  // [n_nodes] of the edge into each
  const kog_node* nodes;                // [n_nodes]
  // Without groups `token` is an id. With them it is a group of ids, which behind group_first[i] stand up to
  // group_first[i + 1]; the last group is of the root.
  const int32_t* group_first;           // [groups + 1] or NULL
  const int32_t *ids, *counts;          // [group_first[groups]] and what is counted on the way to the root
  uint32_t n_nodes, groups;
} kog_tree;

typedef struct {
  kog_tree tree;
  const int32_t* twins;                 // [n_twins, 2] an id and one with the same bytes
  const int32_t* end_ids;
  const uint32_t* special_ids;          // those of the tables
  uint32_t n_twins, n_end, n_special, words;
} kog_vocabulary;

typedef struct kog_walker kog_walker;

// A configuration is a state and frames: [0] how many, then (site, count) of each, the top one first. Counts are in
// normal form: KOG_FAR and KOG_LOW stand for classes.
enum { KOG_FAR = 0xffffffff, KOG_LOW = 0xfffffffe };
enum { KOG_LONGEST = 4096 };  // bytes of a forced text, as forced.py has it

typedef struct {  // what is forced; valid until the walker's next call
  const uint8_t* text;       // [length]
  const uint32_t* borders;   // [n_borders] bytes to the end of the text: where a token may begin that goes on behind it
  uint32_t length, n_borders;
  uint32_t symbol;           // that is forced behind the text, not a byte, or KOG_NO_SYMBOL
} kog_forced;

typedef struct {  // a configuration; valid until the walker's next call
  const uint32_t* frames;    // [length]
  uint32_t length, state;
} kog_place;

enum { KOG_NO_SYMBOL = 0xffff };

// Keeps both by reference: the caller keeps the arrays. tables: those of tokens may be NULL. NULL when memory is
// not to be had.
KOG_API kog_walker* kog_open_walker(const kog_tables* tables, const kog_vocabulary* vocabulary);
KOG_API void kog_close_walker(kog_walker* walker);

// What forced.py calls Forced. 0 where no symbol is forced, 1 where one is, -1 when memory is not to be had.
KOG_API int kog_find_forced(kog_walker* walker, uint32_t state, const uint32_t* frames, kog_forced* out);

// Behind the first `bytes` of what is forced. 0, or -1 when memory is not to be had.
KOG_API int kog_go_along(kog_walker* walker, uint32_t state, const uint32_t* frames, uint32_t bytes, kog_place* out);

// Every id that is legal, into out [words], all zero before. body: NULL, or what tokens do that leave a frame whose body is in
// `base` [words]; then `base` holds the ids that stay inside. 0 when done; 1 where more than `budget` nodes would
// have to be looked at, -1 when memory is not to be had: `out` means nothing then, but
// may be given again for the same configuration.
KOG_API int kog_find_mask(kog_walker* walker, uint32_t state, const uint32_t* frames, const kog_tree* body,
                          const uint32_t* base, uint32_t budget, uint32_t* out);

// Looking ahead, as ahead.py does. Keeps walker, bodies [states] (1: of a body) and backwards, the tree of the tokens
// from their last byte to their first, by reference. NULL when memory is not to be had.
typedef struct kog_ahead kog_ahead;
KOG_API kog_ahead* kog_open_ahead(kog_walker* walker, const uint8_t* bodies, const kog_tree* backwards);
KOG_API void kog_close_ahead(kog_ahead* ahead);
// Both return 0, or -1 when memory is not to be had. met: answers a 2 of kog_look_ahead; frames NULL: there is nothing
// behind what is forced, or it is not certain.
KOG_API int kog_turn_to(kog_ahead* ahead, uint32_t state, const uint32_t* frames);
KOG_API int kog_met(kog_ahead* ahead, uint32_t state, const uint32_t* frames);
// 0: nothing is left; 1: one more class was looked at; 2: in that of `out` something is forced, and kog_met must follow.
KOG_API int kog_look_ahead(kog_ahead* ahead, kog_place* out);

#ifdef __cplusplus
}
#endif
#endif
