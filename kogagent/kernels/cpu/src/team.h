// A persistent team of threads that run one function together. Spins a while, then parks. Knows no model.
//
// Work is cut into as many parts as there are threads. Where other programs want the same cores, a thread that is
// not running holds up all that wait for it, at every barrier: then fewer threads take the same parts, one after
// the other, so that the results keep their bits and nobody waits. From time to time all are tried again.

#ifndef KOG_TEAM_H
#define KOG_TEAM_H

#include <stdint.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace kog {

using Clock = std::chrono::steady_clock;

inline double seconds_since(Clock::time_point start) {
  return std::chrono::duration<double>(Clock::now() - start).count();
}

// A number that only grows and that threads wait to see reach a value; it may wrap around.
class Signal {
 public:
  uint32_t now() const { return value_.load(std::memory_order_acquire); }
  bool reached(uint32_t value) const { return int32_t(now() - value) >= 0; }

  // To be called by one thread at a time.
  void raise() {
    value_.fetch_add(1);  // sequentially consistent with the load below: see wait
    if (parked_.load() != 0) {
      const std::lock_guard<std::mutex> lock(mutex_);
      wake_.notify_all();
    }
  }

  // Until the number is `value` or past it. Returns the seconds that it was parked.
  double wait(uint32_t value, uint32_t spins) {
    for (uint32_t i = 0; i < spins; i++) {
      if (reached(value)) return 0.0;
      pause();
    }
    const Clock::time_point start = Clock::now();
    std::unique_lock<std::mutex> lock(mutex_);
    parked_.fetch_add(1);  // before the value is read again, so that raise sees it or we see the change
    wake_.wait(lock, [&] { return int32_t(value_.load() - value) >= 0; });
    parked_.fetch_sub(1);
    return seconds_since(start);
  }

 private:
  static void pause() {
#if defined(__x86_64__)
    __builtin_ia32_pause();
#elif defined(__aarch64__)
    __asm__ __volatile__("yield");
#endif
  }

  alignas(64) std::atomic<uint32_t> value_{0};
  alignas(64) std::atomic<uint32_t> parked_{0};
  std::mutex mutex_;
  std::condition_variable wake_;
};

class Team {
 public:
  // `count` parts and threads, the caller of `run` among them as number 0.
  explicit Team(uint32_t count)
      : count_(count), active_(count), progress_(std::make_unique<Signal[]>(count)), parked_(count) {
    for (uint32_t w = 1; w < count; w++) threads_.emplace_back([this, w] { serve(w); });
  }

  ~Team() {
    work_ = nullptr;
    active_ = count_;
    start(true);
    for (std::thread& thread : threads_) thread.join();
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint32_t count() const { return count_; }

  // Calls work(w) on every active thread w and returns when all have ended.
  void run(const std::function<void(uint32_t)>& work) {
    const Clock::time_point now = Clock::now();
    const uint32_t before = active_;
    const bool trial = active_ < count_ && now >= again_;
    if (trial) active_ = count_;
    work_ = &work;
    start(trial);
    work(0);
    barrier(0, [] {});
    if (count_ > 1) adapt(seconds_since(now), before, trial);
  }

  // Calls part(t) for each part that is w's.
  template <class F>
  void each(uint32_t w, const F& part) const {
    const uint32_t end = first(w + 1);
    for (uint32_t t = first(w); t < end; t++) part(t);
  }
  // The first part that is w's.
  uint32_t first(uint32_t w) const { return uint32_t(uint64_t(count_) * w / active_); }

  // Until all active threads have come here. A thread that must wait calls meanwhile() first.
  template <class F>
  void barrier(uint32_t w, const F& meanwhile) {
    const uint32_t active = active_;  // the caller of run may change it as soon as all have come
    if (active == 1) return;
    const uint32_t next = step_.now() + 1;
    if (arrived_.fetch_add(1) + 1 == active) {
      arrived_.store(0, std::memory_order_relaxed);  // published by raise
      step_.raise();
    } else {
      meanwhile();
      const double seconds = step_.wait(next, kSpins);
      if (w != kLeaving) parked_[w].seconds += seconds;
    }
  }

  // How far a part has come: a number of its own that others wait for.
  uint32_t progress(uint32_t t) const { return progress_[t].now(); }
  void advance(uint32_t t) { progress_[t].raise(); }
  void wait_for_all(uint32_t w, uint32_t value) {
    for (uint32_t t = 0; t < count_; t++) parked_[w].seconds += progress_[t].wait(value, kSpins);
  }

 private:
  static constexpr uint32_t kSpins = 4000;       // some 50 to 100 microseconds
  static constexpr uint32_t kIdleSpins = 16000;  // between two calls: a token's handing over fits
  static constexpr double kTooLong = 0.4;        // of a run's time, parked
  static constexpr double kRemembered = 0.1;     // seconds that `recent_` goes back, about
  static constexpr double kFirstPause = 0.05, kLongestPause = 1.0;  // seconds until all are tried again

  static constexpr uint32_t kLeaving = 0xffffffff;

  struct alignas(64) Parked {
    double seconds = 0.0;
  };

  // Lets the active threads run work_. grown: some of them may have been left out before.
  void start(bool grown) {
    plan_.store(uint64_t(start_.now() + 1) << 32 | active_, std::memory_order_release);
    if (grown) grown_.raise();
    start_.raise();
  }

  void serve(uint32_t w) {
    uint32_t seen = 0;
    for (;;) {
      start_.wait(seen + 1, kIdleSpins);
      const uint32_t grown = grown_.now();  // before the plan is read, so that no growth is missed
      const uint64_t plan = plan_.load(std::memory_order_acquire);
      seen = uint32_t(plan >> 32);
      if (w >= uint32_t(plan)) {
        grown_.wait(grown + 1, 0);
        continue;
      }
      if (work_ == nullptr) return;
      (*work_)(w);
      barrier(kLeaving, [] {});  // its time parked is nobody's: the next run may have begun
    }
  }

  void adapt(double seconds, uint32_t before, bool trial) {
    double parked = 0.0;
    for (Parked& one : parked_) parked += std::exchange(one.seconds, 0.0);
    const double share = active_ > 1 ? parked / (seconds * (active_ - 1)) : 0.0;
    if (trial && share > kTooLong) {
      active_ = before;
      rest();
      return;
    }
    if (trial) recent_ = 0.0;
    // A core that is away for 10 ms, as those of virtual machines are now and then, is no reason.
    recent_ += std::min(0.3, seconds / kRemembered) * (share - recent_);
    if (recent_ > kTooLong) {
      active_ = std::max(1u, active_ / 2);
      recent_ = 0.0;
      rest();
    } else if (active_ == count_ && ++calm_ == 64) {
      pause_ = kFirstPause;
    }
  }

  void rest() {
    calm_ = 0;
    again_ = Clock::now() + std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(pause_));
    pause_ = std::min(2 * pause_, kLongestPause);
  }

  const uint32_t count_;
  uint32_t active_;
  const std::function<void(uint32_t)>* work_ = nullptr;
  std::atomic<uint64_t> plan_{0};  // the number of the newest run, and its active threads: published together
  Signal start_, step_, grown_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  std::unique_ptr<Signal[]> progress_;
  std::vector<Parked> parked_;  // of each thread in this run
  double recent_ = 0.0, pause_ = kFirstPause;
  uint32_t calm_ = 0;
  Clock::time_point again_{};
  std::vector<std::thread> threads_;
};

}  // namespace kog
#endif
