// One step of engine/grammar/tables.py's automaton, for any kind of stack. Knows symbols and states, no tokens.

#ifndef KOG_AUTOMATON_H
#define KOG_AUTOMATON_H

#include <stddef.h>
#include <stdint.h>

#include <vector>

#include "native.h"

namespace kog {

constexpr uint32_t kFinished = 1, kReturn = 2;  // states, as automaton.py names them
constexpr uint32_t kCount = 0x4000, kPush = 0x8000, kTarget = 0x3fff;  // of a move
constexpr uint32_t kEnd = 256;
constexpr uint16_t kNoCode = 0xffff;
// Counts that stand for a class: past the least one and far from the most one; far below the least one.
constexpr int64_t kFar = -1, kLow = -2;

// The tables as they are asked for: what is said of one state lies side by side.
class Rules {
 public:
  struct State {
    uint16_t code, move, need;  // code, move: of a state of at most one move
    bool leaves;                // its frame may be left with the symbol still to be read
  };
  struct Site {
    uint32_t least, most;
    uint16_t entry, follow;
  };

  explicit Rules(const kog_tables& tables) : t(tables), states_(t.states), sites_(t.sites) {
    for (uint32_t i = 0; i < t.states; i++) {
      const bool one = i < t.lone;
      states_[i] = {one ? t.lone_code[i] : kNoCode, one ? t.lone_move[i] : uint16_t(0), t.need[i],
                    t.final_states[i] != 0};
    }
    for (uint32_t i = 0; i < t.sites; i++)
      sites_[i] = {t.site_least[i], t.site_most[i], t.site_entry[i], t.site_follow[i]};
  }

  const State& state(uint32_t number) const { return states_[number]; }
  const Site& site(uint32_t number) const { return sites_[number]; }
  bool has_row(uint32_t state) const { return state >= t.lone; }

  uint32_t move(uint32_t state, uint32_t code) const {
    if (state < t.lone) return states_[state].code == code ? states_[state].move : 0;
    const uint32_t column = code < kEnd ? t.byte_class[code] : t.end_class + code - kEnd;
    return t.moves[size_t(state - t.lone) * t.classes + column];
  }

  const kog_tables t;

 private:
  std::vector<State> states_;
  std::vector<Site> sites_;
};

// The count of a frame in normal form (walker.py).
inline int64_t class_of(const Rules& rules, uint32_t site, int64_t count) {
  if (count < 0) return count;
  const int64_t least = rules.site(site).least, most = rules.site(site).most;
  if (least - count > int64_t(rules.t.reach)) return kLow;
  return count >= least && most - count >= int64_t(rules.t.margin) ? kFar : count;
}

// At: `state`, and of the top frame `bottom()`, `site()`, `count()`, `set_count(n)`, `pop()`, `push(site)`,
// the last of which says whether there is room. Counts are int64_t, those below zero are classes.

// Leaves the top frame, where its count is enough.
template <class At>
bool leave(const Rules& rules, At& at) {
  const Rules::Site& site = rules.site(at.site());
  const int64_t count = at.count();
  if (at.bottom() || (count < int64_t(site.least) && count != kFar)) return false;
  at.state = site.follow;
  at.pop();
  return true;
}

// False where the symbol is illegal; the place is lost then.
template <class At>
bool step(const Rules& rules, At& at, uint32_t code) {
  uint32_t found;
  while ((found = rules.move(at.state, code)) == 0)
    if (!rules.state(at.state).leaves || !leave(rules, at)) return false;
  const uint32_t target = found & kTarget, need = found & kPush ? 0 : rules.state(target).need;
  if (found & kCount || need) {
    int64_t count = at.count();
    if (count >= 0) {
      if (found & kCount) at.set_count(++count);
      if (count + need > int64_t(rules.site(at.site()).most)) return false;
    }
  }
  if (found & kPush) {
    if (!at.push(target)) return false;
    at.state = rules.site(target).entry;
    return true;
  }
  at.state = target;
  while (at.state == kReturn)
    if (!leave(rules, at)) return false;
  return true;
}

}  // namespace kog
#endif
