// A decode segment in one call: pass, mask, draw, forced runs, ends. engine/backends/host.py says what each means.

#include <algorithm>
#include <cmath>
#include <exception>

#include "model.h"
#include "sampler.h"
#include "walk.h"

namespace kog {
namespace {

struct Store {
  uint8_t* keys;
  uint8_t* values;
  uint32_t capacity, position;
};

class Segment {
 public:
  Segment(Model& model, const Store& store, kog_segment& segment) : model_(model), store_(store), s_(segment) {}

  int go() {
    const Clock::time_point start = Clock::now();
    bool ran = false, was_prompt = false;
    for (;;) {
      if (!ran && stopped()) return KOG_CANCELLED;
      if (s_.grammar != nullptr && !s_.opened) {
        const int why = take_forced();
        if (why != KOG_GOES_ON) return why;
        s_.opened = 1;
      }
      if (ran && (was_prompt || seconds_since(start) >= s_.seconds)) return KOG_GOES_ON;
      if (stopped()) return KOG_CANCELLED;
      const uint32_t* mask = nullptr;
      uint32_t words = 0;
      if (!legal_now(mask, words)) return KOG_UNKNOWN;
      was_prompt = s_.passes == 0 && s_.prompt > 1;
      const int why = pass(mask, words, was_prompt);
      ran = true;
      s_.opened = 0;
      if (why != KOG_GOES_ON) return why;
    }
  }

 private:
  bool stopped() const { return __atomic_load_n(s_.stop, __ATOMIC_RELAXED) != 0; }

  // The mask of the next id, NULL where every id is legal; false where the grammar does not know it.
  bool legal_now(const uint32_t*& mask, uint32_t& words) {
    if (s_.grammar == nullptr) return true;
    if (s_.walk->run_at < s_.walk->run_end) {  // a run that is sampled: its first id alone
      const uint32_t id = s_.walk->run[s_.walk->run_at];
      only_.assign(id / 32 + 1, 0);
      only_.back() = 1u << id % 32;
      mask = only_.data();
      words = uint32_t(only_.size());
      return true;
    }
    const kog_grammar::Entry* entry = s_.grammar->find(*s_.walk);
    if (entry == nullptr || !entry->has_mask) return false;
    mask = entry->mask.data();
    words = uint32_t(entry->mask.size());
    return true;
  }

  // Runs what has not run and draws one id.
  int pass(const uint32_t* mask, uint32_t words, bool is_prompt) {
    const Clock::time_point start = Clock::now();
    const uint32_t rows = s_.filled - s_.ran, forced = s_.new_forced;
    const Job job{store_.keys, store_.values, store_.capacity, store_.position + s_.ran, rows, KOG_LAST,
                  s_.ids + s_.ran, s_.logits, s_.legal};
    model_.run(job);
    s_.ran = s_.filled;
    s_.passes++;
    s_.new_forced = 0;
    const Summary found = model_.summary(job);
    if (!std::isfinite(found.top) || !std::isfinite(found.total)) return KOG_BROKEN;
    uint32_t id = found.best;
    if (mask != nullptr || s_.seen != nullptr || s_.temperature > 0.0f)
      id = sampler_.draw(s_, *model_.k, s_.logits, store_.position + s_.ran, mask, words);
    if (id >= s_.legal || !std::isfinite(s_.logits[id])) return KOG_BROKEN;
    const int why = emit(id, float(double(s_.logits[id] - found.top) - log(found.total)), false);
    const double elapsed = seconds_since(start);
    if (is_prompt) {
      s_.prefill_s += elapsed;
    } else {
      s_.forced_s += elapsed * forced / (forced + 1);
      s_.sampled_s += elapsed / (forced + 1);
    }
    return why;
  }

  // Emits what the grammar leaves no choice about; ends where it allows nothing more.
  int take_forced() {
    const Clock::time_point start = Clock::now();
    kog_walk& walk = *s_.walk;
    int why = KOG_GOES_ON;
    while (why == KOG_GOES_ON && !s_.grammar->finished(walk)) {
      if (walk.run_at == walk.run_end) {
        const kog_grammar::Entry* entry = s_.grammar->find(walk);
        if (entry == nullptr) return KOG_UNKNOWN;
        walk.run_at = 0;  // what does not fit is forced again behind it
        walk.run_end = std::min(walk.run_room, uint32_t(entry->run.size()));
        std::copy_n(entry->run.data(), walk.run_end, walk.run);
      }
      if (!s_.force || walk.run_at == walk.run_end) break;
      while (why == KOG_GOES_ON && walk.run_at < walk.run_end) why = emit(walk.run[walk.run_at], 0.0f, true);
    }
    if (why == KOG_GOES_ON && s_.grammar->finished(walk)) why = KOG_GRAMMAR;
    s_.forced_s += seconds_since(start);
    return why;
  }

  int emit(uint32_t id, float logprob, bool forced) {
    if (s_.grammar != nullptr) {
      if (!s_.grammar->advance(*s_.walk, id)) return KOG_ILLEGAL;
      s_.walk->run_at += s_.walk->run_at < s_.walk->run_end;
    }
    s_.ids[s_.filled] = id;
    s_.logprobs[s_.filled] = logprob;
    s_.forced[s_.filled++] = forced;
    s_.new_forced += forced;
    if (s_.seen != nullptr) s_.seen[id] = 1;
    if (s_.stops[id]) return KOG_STOP;
    if (s_.filled == s_.most) return KOG_LENGTH;
    if (store_.position + s_.filled > store_.capacity) return KOG_CONTEXT;
    return KOG_GOES_ON;
  }

  Model& model_;
  const Store store_;
  kog_segment& s_;
  Sampler sampler_;
  std::vector<uint32_t> only_;
};

}  // namespace
}  // namespace kog

extern "C" {

int kog_run_segment(kog_model* model, void* keys, void* values, uint32_t capacity, uint32_t position,
                    kog_segment* segment) {
  try {
    const kog::Store store{static_cast<uint8_t*>(keys), static_cast<uint8_t*>(values), capacity, position};
    return kog::Segment(*model, store, *segment).go();
  } catch (const std::exception&) {
    return KOG_NO_MEMORY;
  }
}

uint32_t kog_draw(const kog_segment* plan, uint32_t vocab, uint32_t position, const uint32_t* mask, uint32_t words) {
  kog::Sampler sampler;
  const uint32_t id = sampler.draw(*plan, *kog::best_kernels(), plan->logits, position, mask, words);
  return id == kog::Sampler::kNone ? vocab : id;
}

kog_grammar* kog_open_grammar(const kog_tables* tables) {
  try {
    return new kog_grammar(*tables);
  } catch (const std::exception&) {
    return nullptr;
  }
}

void kog_close_grammar(kog_grammar* grammar) { delete grammar; }

int kog_learn(kog_grammar* grammar, const kog_walk* walk, const uint32_t* run, uint32_t run_length,
              const uint32_t* mask, uint32_t words) {
  try {
    grammar->learn(*walk, run, run_length, mask, words);
    return 0;
  } catch (const std::exception&) {
    return -1;
  }
}

int kog_step(kog_grammar* grammar, kog_walk* walk, uint32_t id) { return grammar->advance(*walk, id) ? 1 : 0; }

}  // extern "C"
