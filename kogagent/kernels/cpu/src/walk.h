// A walk through a grammar's tables, and what is known of its configurations. Knows no model, no text.
//
// `step` is engine/grammar/tables.py's, `key` is Walker.normal's: masks and runs come from there, once for each
// class of configurations, and are found again here.

#ifndef KOG_WALK_H
#define KOG_WALK_H

#include <stdint.h>
#include <string.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "native.h"

struct kog_grammar {
  struct Entry {
    std::vector<uint32_t> run, mask;
    bool has_mask = false;
  };

  explicit kog_grammar(const kog_tables& tables) : t(tables) {}

  bool finished(const kog_walk& at) const { return at.state == kFinished; }

  // The entry of a configuration, nullptr where none is known. Valid until `learn`.
  const Entry* find(const kog_walk& at) {
    write_key(at);
    const auto found = known_.find(key_);
    return found == known_.end() ? nullptr : &found->second;
  }

  void learn(const kog_walk& at, const uint32_t* run, uint32_t run_length, const uint32_t* mask, uint32_t words) {
    if (known_.size() >= kKept) known_.clear();
    write_key(at);
    Entry& entry = known_[key_];
    entry.run.assign(run, run + run_length);
    if (mask == nullptr) return;
    entry.mask.assign(mask, mask + words);
    entry.has_mask = true;
  }

  bool advance(kog_walk& at, uint32_t id) const {
    if (id >= t.tokens || t.token_code[id] == KOG_NEVER) return false;
    if (t.token_code[id] != KOG_BYTES) return step(at, t.token_code[id]);
    const uint32_t from = t.token_first[id], to = t.token_first[id + 1];
    for (uint32_t i = from; i < to; i++)
      if (!step(at, t.text[i])) return false;
    return true;
  }

 private:
  static constexpr uint32_t kFinished = 1, kReturn = 2;             // automaton.py
  static constexpr uint32_t kCount = 0x4000, kPush = 0x8000, kTarget = 0x3fff;
  static constexpr uint32_t kEnd = 256, kFar = 0xffffffff, kLow = 0xfffffffe;
  static constexpr size_t kKept = 2048;

  uint32_t move(uint32_t state, uint32_t code) const {
    if (state < t.lone) return t.lone_code[state] == code ? t.lone_move[state] : 0;
    const uint32_t column = code < kEnd ? t.byte_class[code] : t.end_class + code - kEnd;
    return t.moves[size_t(state - t.lone) * t.classes + column];
  }

  bool pop(kog_walk& at) const {
    const uint32_t site = at.sites[at.top];
    if (at.top == 0 || at.counts[at.top] < t.site_least[site]) return false;
    at.state = t.site_follow[site];
    at.top--;
    return true;
  }

  bool step(kog_walk& at, uint32_t code) const {
    uint32_t found;
    while ((found = move(at.state, code)) == 0)
      if (!t.final_states[at.state] || !pop(at)) return false;
    const uint32_t target = found & kTarget, need = found & kPush ? 0 : t.need[target];
    if (found & kCount) at.counts[at.top]++;
    if ((found & kCount || need) && uint64_t(at.counts[at.top]) + need > t.site_most[at.sites[at.top]]) return false;
    if (found & kPush) {
      if (at.top + 1 >= t.depth) return false;
      at.top++;
      at.sites[at.top] = target;
      at.counts[at.top] = 0;
      at.state = t.site_entry[target];
      return true;
    }
    at.state = target;
    while (at.state == kReturn)
      if (!pop(at)) return false;
    return true;
  }

  void put(uint32_t number) { key_.append(reinterpret_cast<const char*>(&number), sizeof number); }

  void write_key(const kog_walk& at) {
    key_.clear();
    put(at.state);
    put(at.sites[0]);
    put(at.counts[0]);
    for (uint32_t i = 1; i <= at.top; i++) {
      const uint32_t site = at.sites[i];
      const int64_t count = at.counts[i], least = t.site_least[site], most = t.site_most[site];
      put(site);
      if (least - count > int64_t(t.reach))
        put(kLow);
      else if (count >= least && most - count >= int64_t(t.margin))
        put(kFar);
      else
        put(uint32_t(count));
    }
  }

  const kog_tables t;
  std::unordered_map<std::string, Entry> known_;
  std::string key_;
};
#endif
