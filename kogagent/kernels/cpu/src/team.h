// A persistent team of threads that run one function together. Spins a while, then parks. Knows no model.

#ifndef KOG_TEAM_H
#define KOG_TEAM_H

#include <stdint.h>

#include <atomic>
#include <condition_variable>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

namespace kog {

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

  // Until the number is `value` or past it.
  void wait(uint32_t value, uint32_t spins) {
    for (uint32_t i = 0; i < spins; i++) {
      if (reached(value)) return;
      pause();
    }
    std::unique_lock<std::mutex> lock(mutex_);
    parked_.fetch_add(1);  // before the value is read again, so that raise sees it or we see the change
    wake_.wait(lock, [&] { return int32_t(value_.load() - value) >= 0; });
    parked_.fetch_sub(1);
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
  // `count` threads, the caller of `run` among them as number 0.
  explicit Team(uint32_t count) : count_(count), progress_(std::make_unique<Signal[]>(count)) {
    for (uint32_t t = 1; t < count; t++) threads_.emplace_back([this, t] { serve(t); });
  }

  ~Team() {
    work_ = nullptr;
    start_.raise();
    for (std::thread& thread : threads_) thread.join();
  }

  Team(const Team&) = delete;
  Team& operator=(const Team&) = delete;

  uint32_t count() const { return count_; }

  // Calls work(t) on every thread t and returns when all have ended.
  void run(const std::function<void(uint32_t)>& work) {
    work_ = &work;
    start_.raise();
    work(0);
    barrier();
  }

  // Until all threads have come here. A thread that must wait calls meanwhile() first.
  template <class F>
  void barrier(const F& meanwhile) {
    if (count_ == 1) return;
    const uint32_t next = step_.now() + 1;
    if (arrived_.fetch_add(1) + 1 == count_) {
      arrived_.store(0, std::memory_order_relaxed);  // published by raise
      step_.raise();
    } else {
      meanwhile();
      step_.wait(next, kSpins);
    }
  }
  void barrier() {
    barrier([] {});
  }

  // How far a thread has come: a number of its own that others wait for.
  uint32_t progress(uint32_t t) const { return progress_[t].now(); }
  void advance(uint32_t t) { progress_[t].raise(); }
  void wait_for_all(uint32_t value) {
    for (uint32_t t = 0; t < count_; t++) progress_[t].wait(value, kSpins);
  }

 private:
  static constexpr uint32_t kSpins = 4000;       // some 50 to 100 microseconds
  static constexpr uint32_t kIdleSpins = 16000;  // between two calls: a token's handing over fits

  void serve(uint32_t t) {
    uint32_t seen = 0;
    for (;;) {
      start_.wait(++seen, kIdleSpins);
      if (work_ == nullptr) return;
      (*work_)(t);
      barrier();
    }
  }

  const uint32_t count_;
  const std::function<void(uint32_t)>* work_ = nullptr;
  Signal start_, step_;
  alignas(64) std::atomic<uint32_t> arrived_{0};
  std::unique_ptr<Signal[]> progress_;
  std::vector<std::thread> threads_;
};

}  // namespace kog
#endif
