// The units of a phase, dealt out beforehand in parts, whose ends go to whoever is free. Knows no matrices.

#ifndef KOG_DEAL_H
#define KOG_DEAL_H

#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <memory>

namespace kog {

// Two threads are never equally fast for long: without it each waits for the other at one barrier or the next.
class Deal {
 public:
  struct Some {
    uint32_t first, count;  // count 0: none are left
  };

  explicit Deal(uint32_t parts) : taken_(std::make_unique<Taken[]>(parts)) {}

  // Of part t's units those that its own thread reads next: half of what is left, at first `kept` at least.
  // phase: a number that all threads have in common and that differs from the phase before.
  Some take_own(uint32_t t, uint32_t phase, uint32_t units, uint32_t least, uint32_t kept) {
    return take(t, phase, units, [&](uint32_t taken) {
      const uint32_t some = (units - taken + 1) / 2;
      return std::max((some + least - 1) / least * least, taken == 0 ? kept : 0);
    });
  }

  // Of another part's units some that its thread has not come to; never of its first `kept`.
  Some take_other(uint32_t t, uint32_t phase, uint32_t units, uint32_t least, uint32_t kept) {
    return take(t, phase, units, [&](uint32_t taken) { return taken < kept ? 0 : least; });
  }

 private:
  struct alignas(64) Taken {
    std::atomic<uint64_t> value{0};  // phase, units: what an older phase has left there counts as none
  };

  template <class F>
  Some take(uint32_t t, uint32_t phase, uint32_t units, const F& wish) {
    std::atomic<uint64_t>& value = taken_[t].value;
    uint64_t now = value.load(std::memory_order_relaxed);  // what they read and write the barriers order
    for (;;) {
      const uint32_t taken = uint32_t(now >> 32) == phase ? uint32_t(now) : 0;
      const uint32_t count = std::min(wish(taken), units - taken);
      if (count == 0) return {taken, 0};
      if (value.compare_exchange_weak(now, uint64_t(phase) << 32 | (taken + count), std::memory_order_relaxed))
        return {taken, count};
    }
  }

  const std::unique_ptr<Taken[]> taken_;
};

}  // namespace kog
#endif
