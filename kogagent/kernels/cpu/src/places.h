// Where a walk stands, cheap to copy and to go back from: frames are shared, never changed. Knows no tokens.

#ifndef KOG_PLACES_H
#define KOG_PLACES_H

#include <memory>
#include <vector>

#include "automaton.h"
#include "walker.h"

namespace kog {

struct Frame {
  const Frame* below;  // nullptr: the bottom
  int64_t count;
  uint32_t site;
};

// The top frame is held by value; what is pushed on goes to `room`, which a step needs once.
struct Place {
  uint32_t state;
  Frame top;
  Frame* room;

  bool bottom() const { return top.below == nullptr; }
  uint32_t site() const { return top.site; }
  int64_t count() const { return top.count; }
  void set_count(int64_t count) { top.count = count; }
  void pop() { top = *top.below; }
  bool push(uint32_t site) {
    if (room == nullptr) return false;  // cannot be: a step pushes once
    *room = top;
    top = {room, 0, site};
    room = nullptr;
    return true;
  }
};

inline bool same_frames(const Frame* a, const Frame* b) {
  while (a != b) {
    if (a == nullptr || b == nullptr || a->site != b->site || a->count != b->count) return false;
    a = a->below;
    b = b->below;
  }
  return true;
}

inline bool same_place(const Place& a, const Place& b) { return a.state == b.state && same_frames(&a.top, &b.top); }

// Frames that live until `clear`.
class Frames {
 public:
  Frame* make() {
    if (used_ == kChunk * chunks_.size()) chunks_.push_back(std::make_unique<Frame[]>(kChunk));
    Frame* const found = &chunks_[used_ / kChunk][used_ % kChunk];
    used_++;
    return found;
  }
  void clear() { used_ = 0; }

  // A configuration of the C interface.
  Place read(uint32_t state, const uint32_t* from) {
    const Frame* below = nullptr;
    for (uint32_t i = from[0]; i-- > 0;) {
      const uint32_t shown = from[2 + 2 * i];
      const int64_t count = shown == KOG_FAR ? kFar : shown == KOG_LOW ? kLow : int64_t(shown);
      Frame* const frame = make();
      *frame = {below, count, from[1 + 2 * i]};
      below = frame;
    }
    return {state, *below, nullptr};
  }

 private:
  static constexpr size_t kChunk = 512;
  std::vector<std::unique_ptr<Frame[]>> chunks_;
  size_t used_ = 0;
};

inline void write_frames(const Place& at, std::vector<uint32_t>& out) {
  out.assign({0});
  for (const Frame* frame = &at.top; frame != nullptr; frame = frame->below) {
    out.push_back(frame->site);
    out.push_back(uint32_t(frame->count));  // -1 and -2 are KOG_FAR and KOG_LOW
    out[0]++;
  }
}

}  // namespace kog
#endif
