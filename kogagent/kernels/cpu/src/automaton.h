// One step of engine/grammar/tables.py's automaton, for any kind of stack. Knows symbols and states, no tokens.

#ifndef KOG_AUTOMATON_H
#define KOG_AUTOMATON_H

#include <stddef.h>
#include <stdint.h>

#include "native.h"

namespace kog {

constexpr uint32_t kFinished = 1, kReturn = 2;  // states, as automaton.py names them
constexpr uint32_t kCount = 0x4000, kPush = 0x8000, kTarget = 0x3fff;  // of a move
constexpr uint32_t kEnd = 256, kNoCode = 0xffff;
// Counts that stand for a class: past the least one and far from the most one; far below the least one.
constexpr int64_t kFar = -1, kLow = -2;

inline uint32_t move_of(const kog_tables& t, uint32_t state, uint32_t code) {
  if (state < t.lone) return t.lone_code[state] == code ? t.lone_move[state] : 0;
  const uint32_t column = code < kEnd ? t.byte_class[code] : t.end_class + code - kEnd;
  return t.moves[size_t(state - t.lone) * t.classes + column];
}

// The count of a frame in normal form (walker.py).
inline int64_t class_of(const kog_tables& t, uint32_t site, int64_t count) {
  if (count < 0) return count;
  const int64_t least = t.site_least[site], most = t.site_most[site];
  if (least - count > int64_t(t.reach)) return kLow;
  return count >= least && most - count >= int64_t(t.margin) ? kFar : count;
}

// At: `state`, and of the top frame `bottom()`, `site()`, `count()`, `set_count(n)`, `pop()`, `push(site)`,
// the last of which says whether there is room. Counts are int64_t, those below zero are classes.

// Leaves the top frame, where its count is enough.
template <class At>
bool leave(const kog_tables& t, At& at) {
  const uint32_t site = at.site();
  const int64_t count = at.count();
  if (at.bottom() || (count < int64_t(t.site_least[site]) && count != kFar)) return false;
  at.state = t.site_follow[site];
  at.pop();
  return true;
}

// False where the symbol is illegal; the place is lost then.
template <class At>
bool step(const kog_tables& t, At& at, uint32_t code) {
  uint32_t found;
  while ((found = move_of(t, at.state, code)) == 0)
    if (!t.final_states[at.state] || !leave(t, at)) return false;
  const uint32_t target = found & kTarget, need = found & kPush ? 0 : t.need[target];
  if (found & kCount || need) {
    int64_t count = at.count();
    if (count >= 0) {
      if (found & kCount) at.set_count(++count);
      if (count + need > int64_t(t.site_most[at.site()])) return false;
    }
  }
  if (found & kPush) {
    if (!at.push(target)) return false;
    at.state = t.site_entry[target];
    return true;
  }
  at.state = target;
  while (at.state == kReturn)
    if (!leave(t, at)) return false;
  return true;
}

}  // namespace kog
#endif
