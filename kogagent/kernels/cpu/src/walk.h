// A walk through a grammar's tables, and what is known of its configurations. Knows no model, no text.
//
// Keys are Walker.normal's: masks and runs come from there, once for each
// class of configurations, and are found again here.

#ifndef KOG_WALK_H
#define KOG_WALK_H

#include <stdint.h>
#include <string.h>

#include <string>
#include <unordered_map>
#include <vector>

#include "automaton.h"

struct kog_grammar {
  struct Entry {
    std::vector<uint32_t> run, mask;
    bool has_mask = false;
  };

  explicit kog_grammar(const kog_tables& tables) : rules_(tables), t(rules_.t) {}

  bool finished(const kog_walk& at) const { return at.state == kog::kFinished; }

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
  static constexpr size_t kKept = 2048;

  struct At {  // automaton.h's stack, in the arrays of a kog_walk
    kog_walk& walk;
    uint32_t depth;
    uint32_t& state = walk.state;

    bool bottom() const { return walk.top == 0; }
    uint32_t site() const { return walk.sites[walk.top]; }
    int64_t count() const { return walk.counts[walk.top]; }
    void set_count(int64_t count) { walk.counts[walk.top] = uint32_t(count); }
    void pop() { walk.top--; }
    bool push(uint32_t site) {
      if (walk.top + 1 >= depth) return false;
      walk.top++;
      walk.sites[walk.top] = site;
      walk.counts[walk.top] = 0;
      return true;
    }
  };

  bool step(kog_walk& walk, uint32_t code) const {
    At at{walk, t.depth};
    return kog::step(rules_, at, code);
  }

  void put(uint32_t number) { key_.append(reinterpret_cast<const char*>(&number), sizeof number); }

  void write_key(const kog_walk& at) {
    key_.clear();
    put(at.state);
    put(at.sites[0]);
    put(at.counts[0]);
    for (uint32_t i = 1; i <= at.top; i++) {
      put(at.sites[i]);
      put(uint32_t(kog::class_of(rules_, at.sites[i], at.counts[i])));
    }
  }

  const kog::Rules rules_;
  const kog_tables& t;
  std::unordered_map<std::string, Entry> known_;
  std::string key_;
};
#endif
