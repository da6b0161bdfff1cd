// What a walk through a grammar can come to next: engine/grammar/ahead.py, class for class. Knows no ids.

#ifndef KOG_AHEAD_H
#define KOG_AHEAD_H

#include <functional>
#include <queue>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include "masks.h"

namespace kog {

// Frames in normal form, each once: equal ones have one address.
class KnownFrames {
 public:
  explicit KnownFrames(const Rules& rules) : rules_(rules) {}

  const Frame* normal(const Frame& frame) {
    const Frame* const below = frame.below == nullptr ? nullptr : normal(*frame.below);
    const int64_t count = below == nullptr ? frame.count : class_of(rules_, frame.site, frame.count);
    const Frame*& found = known_[{below, count, frame.site}];
    if (found == nullptr) {
      Frame* const made = kept_.make();
      *made = {below, count, frame.site};
      found = made;
    }
    return found;
  }

 private:
  struct Key {
    const Frame* below;
    int64_t count;
    uint32_t site;
    bool operator==(const Key& o) const { return below == o.below && count == o.count && site == o.site; }
  };
  struct Hash {
    size_t operator()(const Key& k) const {
      const size_t h = std::hash<const void*>()(k.below) * 31 + size_t(k.count);
      return (h * 31 + k.site) * 0x9E3779B97F4A7C15ull;
    }
  };

  const Rules& rules_;
  Frames kept_;
  std::unordered_map<Key, const Frame*, Hash> known_;
};

class Ahead {
 public:
  Ahead(Walker& walker, const uint8_t* bodies, const kog_tree& backwards)
      : walker_(walker), rules_(walker.rules()), tree_(walker.tree()), backwards_(backwards), frames_(rules_),
        bodies_(bodies), ways_(rules_.t.states), lasts_(rules_.t.states) {}

  void turn_to(uint32_t state, const uint32_t* frames) {
    if (state == kFinished || looked_ >= kMost) return;
    walker_.frames.clear();
    turn_++;
    near_ = {};
    push(named(walker_.frames.read(state, frames), true), 0);
  }

  // 0: nothing is left; 1: one more class was looked at; 2: `met` must say what is forced in that of `out`.
  int step(kog_place& out) {
    while (opened_ != 0) {
      int distance = 0;
      if (near_.empty()) {
        here_ = first_opened();
        classes_[here_].turn = turn_;
      } else {
        std::tie(distance, std::ignore, here_) = near_.top();
        near_.pop();
      }
      if (classes_[here_].looked) {
        push_behind(here_, distance);
        continue;
      }
      close(here_);
      distance_ = distance;
      behind_.clear();
      looks_++;
      walker_.frames.clear();
      const Place at = place(here_);
      if (walker_.only(at) != KOG_NO_SYMBOL) {
        write_frames(at, written_);
        out = {written_.data(), uint32_t(written_.size()), at.state};
        return 2;
      }
      look(at);
      finish();
      return 1;
    }
    return 0;
  }

  // frames: NULL where the text has ended, or what is behind the ids that are forced is not certain.
  void met(uint32_t state, const uint32_t* frames) {
    walker_.frames.clear();
    if (frames != nullptr) {
      const Place after = walker_.frames.read(state, frames);
      if (same_place(after, place(here_))) {  // no id is certain: the text is, but not where its ids end
        inside(-1, after, true);
        bounds(after);
      } else {
        add(after, true, kRun);
      }
    }
    finish();
  }

 private:
  static constexpr uint32_t kMost = 4096, kLongest = 24, kCrossed = 8;  // ahead.py
  static constexpr int kByte = 1, kRun = 3;

  struct Class {
    uint32_t state = 0;
    const Frame* frame = nullptr;
    bool alone = false, looked = false, open = false;
    uint32_t turn = 0, added = 0;
    size_t opened_at = 0;
    std::vector<std::pair<int, int>> behind;  // class, how far
  };
  struct Name {
    uint32_t state;
    const Frame* frame;
    bool operator==(const Name& o) const { return state == o.state && frame == o.frame; }
  };
  struct Hash {
    size_t operator()(const Name& n) const {
      return (std::hash<const void*>()(n.frame) * 31 + n.state) * 0x9E3779B97F4A7C15ull;
    }
  };
  using Way = std::pair<uint32_t, uint32_t>;  // code, move

  Place place(int number) const { return {classes_[number].state, *classes_[number].frame, nullptr}; }

  int named(const Place& at, bool alone) {
    const Name name{at.state, frames_.normal(at.top)};
    const auto [found, fresh] = numbers_.try_emplace(name, int(classes_.size()));
    if (fresh) {
      classes_.emplace_back();
      classes_.back().state = name.state;
      classes_.back().frame = name.frame;
      classes_.back().alone = alone;
      open(found->second);
    } else if (Class& known = classes_[found->second]; known.alone && !alone) {  // more may lie behind it than was seen
      known.alone = known.looked = false;
      known.turn = 0;
      open(found->second);
    }
    return found->second;
  }

  void open(int number) {
    Class& c = classes_[number];
    if (c.open) return;
    c.open = true;
    c.opened_at = order_.size();
    order_.push_back(number);
    opened_++;
  }
  void close(int number) {
    classes_[number].open = false;
    opened_--;
  }
  int first_opened() {
    while (!classes_[order_[first_]].open || classes_[order_[first_]].opened_at != first_) first_++;
    return order_[first_];
  }

  void push(int number, int distance) {
    if (classes_[number].turn >= turn_) return;
    classes_[number].turn = turn_;
    near_.emplace(distance, arrival_++, number);
  }
  void push_behind(int number, int distance) {
    for (const auto& [after, further] : classes_[number].behind) push(after, distance + further);
  }

  void add(const Place& at, bool alone, int distance) {
    const int number = named(at, alone);
    if (classes_[number].added == looks_) return;
    classes_[number].added = looks_;
    behind_.emplace_back(number, distance);
  }

  void finish() {
    Class& here = classes_[here_];
    here.behind = behind_;
    here.looked = !here.open;  // open again: it lies behind itself, and there is more to look at than was seen
    push_behind(here_, distance_);
    if (++looked_ < kMost) return;
    for (Class& c : classes_) c.open = false;
    opened_ = 0;
  }

  void look(const Place& at) {
    if (bodies_[at.state] && !at.bottom()) {
      Place left = at;
      if (at.count() != kLow && returned(left))
        for (const uint32_t last : last_bytes(at.state)) inside(int(last), left, false);
    } else {
      branches(at);
    }
    bounds(at);
  }

  // What a count that grows one by one comes to: enough, and no room left.
  void bounds(const Place& at) {
    const int64_t count = at.count();
    if (at.bottom() || count == kFar) return;
    const int64_t least = rules_.site(at.site()).least, most = rules_.site(at.site()).most;
    const int64_t bound = count == kLow || count < least ? least : most;
    if (count >= bound) return;
    Place there = at;
    there.set_count(bound);
    add(there, false, kRun);
  }

  bool returned(Place& at) const {
    at.state = rules_.site(at.site()).follow;
    at.pop();
    while (at.state == kReturn)
      if (!leave(rules_, at)) return false;
    return true;
  }

  bool go(Place& at, uint32_t code) const {
    at.room = walker_.frames.make();
    return kog::step(rules_, at, code);
  }

  // One symbol of each move of a state's row, but of those in `taken`; END and special ids each.
  std::vector<Way> distinct(uint32_t state, const std::vector<bool>& taken) const {
    std::vector<Way> out;
    for (uint32_t code = 0; code <= kEnd + walker_.specials(); code++) {
      const uint32_t move = taken.empty() || !taken[code] ? rules_.move(state, code) : 0;
      if (move == 0) continue;
      bool known = false;
      for (const Way& way : out) known = known || (code < kEnd && way.second == move);
      if (!known) out.emplace_back(code, move);
    }
    return out;
  }
  const std::vector<Way>& ways(uint32_t state) {
    if (ways_[state].empty()) ways_[state] = distinct(state, {});
    return ways_[state];
  }

  void branches(const Place& at) {
    take(at, ways(at.state));
    std::vector<bool> taken;
    for (Place below = at; rules_.state(below.state).leaves;) {
      taken.resize(kEnd + 1 + walker_.specials());
      for (uint32_t code = 0; code < taken.size(); code++) taken[code] = taken[code] || rules_.move(below.state, code);
      if (!leave(rules_, below)) return;
      take(at, distinct(below.state, taken));
    }
  }
  void take(const Place& at, const std::vector<Way>& some) {
    const bool alone = classes_[here_].alone;
    for (const auto& [code, move] : some) {
      Place after = at;
      if (!go(after, code)) continue;
      if (code < kEnd)
        inside(int(code), after, alone);
      else if (after.state != kFinished)
        add(after, true, kRun);
    }
  }

  // The bytes by which a body is left that has come to this state.
  const std::vector<uint32_t>& last_bytes(uint32_t state) {
    std::vector<uint32_t>& last = lasts_[state];
    if (!last.empty()) return last;
    std::vector<uint32_t> queue{state};
    std::vector<bool> seen(rules_.t.states), is_last(kEnd);
    seen[state] = true;
    for (size_t i = 0; i < queue.size(); i++)
      for (const auto& [code, move] : ways(queue[i])) {
        if (move & kPush || code >= kEnd) continue;
        const uint32_t target = move & kTarget;
        if (target == kReturn) {
          if (!is_last[code]) last.push_back(code);
          is_last[code] = true;
        } else if (!seen[target]) {
          seen[target] = true;
          queue.push_back(target);
        }
      }
    return last;
  }

  // Adds where tokens may end from a place on until the next choice. head: the byte of a choice that led there, or -1.
  void inside(int head, const Place& from, bool alone) {
    Place at{from.state, *frames_.normal(from.top), nullptr};
    const uint32_t only = walker_.only(at);
    if (head >= 0) add(at, only != KOG_NO_SYMBOL, kByte);
    if (only == KOG_NO_SYMBOL || only >= kEnd) return;
    Place end = at;
    walker_.chain(end, KOG_LONGEST);
    text_ = walker_.text();
    size_t passed = 0;
    for (const size_t size : token_ends(head, alone)) {
      if (size == text_.size()) {
        add(end, false, kByte);
        return;
      }
      for (; passed < size; passed++) go(at, text_[passed]);
      add(at, true, kByte);
    }
  }

  // At which places of `text_`, but its beginning, a token may end that begins with `head` or, unless alone, before it.
  const std::vector<size_t>& token_ends(int head, bool alone) {
    ends_.clear();
    const size_t length = text_.size() < kLongest ? text_.size() : kLongest;
    if (!alone) {
      for (size_t size = 1; size <= length; size++)
        if (ends(head, size)) ends_.push_back(size);
      if (length < kCrossed && (ends_.empty() || ends_.back() < length)) ends_.push_back(length);
      return ends_;
    }
    int32_t node = head < 0 ? 0 : child_of(tree_, 0, uint8_t(head));
    for (size_t size = 1; size <= length && node >= 0; size++) {
      node = child_of(tree_, node, text_[size - 1]);
      if (node >= 0 && (tree_.nodes[node].token >= 0 || size == length)) ends_.push_back(size);
    }
    return ends_;
  }

  // Whether some token ends with `head` and the first bytes of `text_`.
  bool ends(int head, size_t size) const {
    int32_t node = 0;
    for (size_t i = size; i-- > 0 && node >= 0;) node = child_of(backwards_, node, text_[i]);
    if (node >= 0 && head >= 0) node = child_of(backwards_, node, uint8_t(head));
    return node >= 0;
  }

  Walker& walker_;
  const Rules& rules_;
  const kog_tree& tree_;
  const kog_tree backwards_;
  KnownFrames frames_;
  const uint8_t* const bodies_;
  std::vector<std::vector<Way>> ways_;
  std::vector<std::vector<uint32_t>> lasts_;

  std::vector<Class> classes_;
  std::unordered_map<Name, int, Hash> numbers_;
  std::vector<int> order_;  // as they were opened; those that are open hold their place
  size_t first_ = 0, opened_ = 0;
  using Near = std::tuple<int, uint64_t, int>;  // distance, arrival, class
  std::priority_queue<Near, std::vector<Near>, std::greater<Near>> near_;
  uint64_t arrival_ = 0;
  uint32_t turn_ = 0, looked_ = 0, looks_ = 0;

  int here_ = 0, distance_ = 0;  // the class that is looked at
  std::vector<std::pair<int, int>> behind_;
  std::vector<uint32_t> written_;
  std::vector<uint8_t> text_;
  std::vector<size_t> ends_;
};

}  // namespace kog
#endif
