// Walks from a configuration: by every token at once, by the one symbol that is legal. Knows no text_.

#ifndef KOG_MASKS_H
#define KOG_MASKS_H

#include <string.h>

#include <type_traits>
#include <vector>

#include "places.h"

namespace kog {

// The node one byte further, or -1.
inline int32_t child_of(const kog_tree& tree, int32_t node, uint8_t byte) {
  const kog_node& from = tree.nodes[node];
  const void* const found = from.count ? memchr(tree.byte + from.first, byte, size_t(from.count)) : nullptr;
  return found == nullptr ? -1 : int32_t(static_cast<const uint8_t*>(found) - tree.byte);
}

class Walker {
 public:
  Walker(const kog_tables& tables, const kog_vocabulary& vocabulary) : rules_(tables), v(vocabulary) {
    for (uint32_t byte = 256; byte-- > 0;) {
      const uint32_t k = rules_.t.byte_class[byte];
      if (k >= classes_.size()) classes_.resize(k + 1);
      classes_[k].bytes++;
      classes_[k].first = byte;
    }
    levels_.resize(tables.reach + 1);
  }

  // The one symbol that is legal, KOG_NO_SYMBOL where there are several or none.
  uint32_t only(const Place& at) const {
    const Rules::State& here = rules_.state(at.state);
    uint32_t found = KOG_NO_SYMBOL;
    const auto two = [&](uint32_t code, uint32_t symbols) {  // whether more than one is legal now
      if (!legal(at, code)) return false;
      if (symbols > 1 || found != KOG_NO_SYMBOL) return true;
      found = code;
      return false;
    };
    if (!rules_.has_row(at.state) && !here.leaves) {
      if (here.code != kNoCode) two(here.code, 1);
      return found;
    }
    if (rules_.has_row(at.state))
      for (const Class& k : classes_)
        if (rules_.move(at.state, k.first) != 0 && two(k.first, k.bytes)) return KOG_NO_SYMBOL;
    if (here.leaves) {  // what stands below is read as well, where this state reads nothing
      found = KOG_NO_SYMBOL;
      for (uint32_t byte = 0; byte < 256; byte++)
        if (two(byte, 1)) return KOG_NO_SYMBOL;
    }
    for (uint32_t code = kEnd; code <= kEnd + v.n_special; code++)
      if (two(code, 1)) return KOG_NO_SYMBOL;
    return found;
  }

  // The bytes that are forced and what comes behind them; false where there is nothing.
  bool forced(Place at, kog_forced& out) {
    out.symbol = chain(at, KOG_LONGEST);
    if (text_.empty() && out.symbol == KOG_NO_SYMBOL) return false;
    backs_.clear();
    if (out.symbol == KOG_NO_SYMBOL) find_borders(at);
    out.text = text_.data();
    out.length = uint32_t(text_.size());
    out.borders = backs_.data();
    out.n_borders = uint32_t(backs_.size());
    return true;
  }

  // Behind the first of the bytes that are forced.
  void go_along(Place at, uint32_t bytes, kog_place& out) {
    chain(at, bytes);
    write_frames(at, after_);
    out = {after_.data(), uint32_t(after_.size()), at.state};
  }

  bool mask(Place at, const kog_tree* body, const uint32_t* base, uint32_t budget, uint32_t* out) {
    if (body == nullptr) {
      const auto flag = [&](int32_t id) { out[id >> 5] |= 1u << (id & 31); };
      if (!walk(v.tree, 0, at, budget, flag)) return false;
      for (uint32_t i = 0; i < v.n_twins; i++) {
        const int32_t id = v.twins[2 * i];
        if (out[id >> 5] >> (id & 31) & 1) flag(v.twins[2 * i + 1]);
      }
    } else {
      memcpy(out, base, 4 * size_t(v.words));
      if (!mask_exits(at, *body, budget, out)) return false;
    }
    const auto flag = [&](uint32_t id) { out[id >> 5] |= 1u << (id & 31); };
    if (legal(at, kEnd))
      for (uint32_t i = 0; i < v.n_end; i++) flag(uint32_t(v.end_ids[i]));
    for (uint32_t i = 0; i < v.n_special; i++)
      if (legal(at, kEnd + 1 + i)) flag(v.special_ids[i]);
    return true;
  }

  const Rules& rules() const { return rules_; }
  const kog_tree& tree() const { return v.tree; }
  uint32_t specials() const { return v.n_special; }
  const std::vector<uint8_t>& text() const { return text_; }  // of the last chain

  // Puts what is forced into `text_`, at most so many bytes, and goes there; the symbol behind it.
  uint32_t chain(Place& at, uint32_t most) {
    text_.clear();
    while (text_.size() < most) {
      const uint32_t code = only(at);
      if (code >= kEnd) return code;  // KOG_NO_SYMBOL too
      text_.push_back(uint8_t(code));
      Place after = at;
      after.room = frames.make();
      if (!step(rules_, after, code) || (after.count() < 0 && same_place(after, at))) return KOG_NO_SYMBOL;
      at = after;
    }
    return KOG_NO_SYMBOL;
  }

  Frames frames;  // of the call that goes on

 private:
  struct Class {
    uint32_t bytes = 0, first = 0;
  };
  struct Level {  // of a walk: the children that are left, where their parent stands, what it pushed
    int32_t at, end;
    Place place;
    Frame pushed;
  };
  bool legal(const Place& at, uint32_t code) const {
    if (rules_.move(at.state, code) == 0 && !rules_.state(at.state).leaves) return false;
    Frame pushed;
    Place after = at;
    after.room = &pushed;
    return step(rules_, after, code);
  }

  // From the end of `text_` on.
  void find_borders(const Place& at) {
    backs_.push_back(0);
    for (uint32_t back = 1; back < rules_.t.reach && back <= text_.size(); back++) {
      int32_t node = 0;
      for (size_t i = text_.size() - back; i < text_.size() && node >= 0; i++) node = child_of(v.tree, node, text_[i]);
      if (node < 0) continue;
      bool goes_on = false;
      walk(v.tree, node, at, 0xffffffff, [&](int32_t) { return goes_on = true; });
      if (goes_on) backs_.push_back(back);
    }
  }

  // The ids behind an exit that are legal, by what their bytes behind it do.
  bool mask_exits(const Place& at, const kog_tree& body, uint32_t budget, uint32_t* out) {
    const int64_t count = at.count();
    if (at.bottom() || count == kLow) return true;
    const Rules::Site& site = rules_.site(at.site());
    const int64_t most = site.most, least = site.least;
    const int64_t high = count < 0 ? INT64_MAX : most - count, low = count < 0 ? 0 : least - count;
    Place after = at;
    after.state = site.follow;
    after.pop();
    while (after.state == kReturn)
      if (!leave(rules_, after)) return true;
    const auto flag = [&](int32_t group) {
      for (int32_t i = body.group_first[group]; i < body.group_first[group + 1]; i++)
        if (body.counts[i] >= low && body.counts[i] <= high) out[body.ids[i] >> 5] |= 1u << (body.ids[i] & 31);
    };
    flag(int32_t(body.groups) - 1);
    return walk(body, 0, after, budget, flag);
  }

  // Calls `found` with what ends at each node below `node` that is legal from `from` there. `found` may return true to
  // end the walk. False where more than `budget` nodes would have to be looked at.
  template <class Found>
  bool walk(const kog_tree& tree, int32_t node, const Place& from, uint32_t budget, Found&& found) {
    if (tree.nodes[node].count == 0) return true;
    size_t depth = 0;
    levels_[0].place = from;
    open(tree, node, levels_[0]);
    uint32_t looked = 0;
    for (;;) {
      Level& level = levels_[depth];
      if (level.at == level.end) {
        if (depth == 0) return true;
        depth--;
        continue;
      }
      const int32_t child = level.at++;
      const uint8_t byte = tree.byte[child];
      if (looked++ == budget) return false;
      if (rules_.move(level.place.state, byte) == 0 && !rules_.state(level.place.state).leaves) continue;
      Level& next = levels_[depth + 1];
      next.place = level.place;
      next.place.room = &next.pushed;
      if (!step(rules_, next.place, byte)) continue;
      const kog_node& there = tree.nodes[child];
      if (there.token >= 0 && tells(found, there.token)) return true;
      if (there.count == 0) continue;
      open(tree, child, next);
      depth++;
    }
  }

  // The children of a node that may be legal, where it is cheap to say.
  void open(const kog_tree& tree, int32_t node, Level& level) const {
    level.at = tree.nodes[node].first;
    level.end = level.at + tree.nodes[node].count;
    const Rules::State& state = rules_.state(level.place.state);
    if (rules_.has_row(level.place.state) || state.leaves) return;
    const int32_t child = state.code < kEnd ? child_of(tree, node, uint8_t(state.code)) : -1;
    level.at = child < 0 ? level.end : child;
    level.end = child < 0 ? level.end : child + 1;
  }

  template <class Found>
  static auto tells(Found& found, int32_t token) -> std::enable_if_t<std::is_same_v<decltype(found(token)), bool>, bool> {
    return found(token);
  }
  template <class Found>
  static auto tells(Found& found, int32_t token) -> std::enable_if_t<std::is_void_v<decltype(found(token))>, bool> {
    found(token);
    return false;
  }

  const Rules rules_;
  const kog_vocabulary v;
  std::vector<Class> classes_;
  std::vector<Level> levels_;
  std::vector<uint8_t> text_;
  std::vector<uint32_t> backs_, after_;
};

}  // namespace kog
#endif
