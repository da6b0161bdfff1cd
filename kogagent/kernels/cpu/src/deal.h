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

  explicit Deal(uint32_t parts) : parts_(std::make_unique<Part[]>(parts)) {}

  // Of part t's units those that its own thread reads next: at first all but what others are likely to take, `kept` at
  // least; then half of what is left. In multiples of `least`.
  // phase: a number that all threads have in common and that differs from the phase before.
  Some take_own(uint32_t t, uint32_t phase, uint32_t units, uint32_t least, uint32_t kept) {
    Part& part = parts_[t];
    if (part.phase != phase) {
      part.learn();
      part.phase = phase;
      part.units = units;
    }
    return take(part, phase, units, [&](uint32_t taken) {
      const uint32_t some = taken == 0 ? units - part.spared(units) : (units - taken + 1) / 2;
      return std::max((some + least - 1) / least * least, taken == 0 ? kept : 0);
    });
  }

  // Of another part's units some that its thread has not come to; never of its first `kept`.
  Some take_other(uint32_t t, uint32_t phase, uint32_t units, uint32_t least, uint32_t kept) {
    Part& part = parts_[t];
    const Some some = take(part, phase, units, [&](uint32_t taken) { return taken < kept ? 0 : least; });
    if (some.count > 0) part.lost.fetch_add(some.count, std::memory_order_relaxed);
    return some;
  }

 private:
  // Its own thread begins with most of a part where nobody else takes of it, so that it reads on without a stop; with
  // half where its core is slower than others, whose threads then find enough.
  struct alignas(64) Part {
    std::atomic<uint64_t> value{0};  // phase, units: what an older phase has left there counts as none
    std::atomic<uint32_t> lost{0};   // units that others took since learn
    uint32_t phase = 0, units = 0;   // the newest; its own thread's, like what follows
    uint32_t share = 0;              // of a part that others take of late, in 4096ths

    void learn() {
      const uint64_t others = lost.exchange(0, std::memory_order_relaxed);
      const uint32_t now = units == 0 ? 0 : uint32_t(std::min(others * 4096 / units, uint64_t(4096)));
      share = (share * 15 + now) / 16;
    }
    // Of so many units: enough for several to come and for a share that grows.
    uint32_t spared(uint32_t n) const {
      return uint32_t(uint64_t(n) * std::clamp(4 * share, 4096u / 8, 4096u / 2) / 4096);
    }
  };

  template <class F>
  static Some take(Part& part, uint32_t phase, uint32_t units, const F& wish) {
    uint64_t now = part.value.load(std::memory_order_relaxed);  // what they read and write the barriers order
    for (;;) {
      const uint32_t taken = uint32_t(now >> 32) == phase ? uint32_t(now) : 0;
      const uint32_t count = std::min(wish(taken), units - taken);
      if (count == 0) return {taken, 0};
      if (part.value.compare_exchange_weak(now, uint64_t(phase) << 32 | (taken + count), std::memory_order_relaxed))
        return {taken, count};
    }
  }

  const std::unique_ptr<Part[]> parts_;
};

}  // namespace kog
#endif
