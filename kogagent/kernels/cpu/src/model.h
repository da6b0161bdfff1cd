// A model in memory and one pass of it over some rows, by a team of threads. Knows shapes, weights and the
// landings' table; no sampling.

#ifndef KOG_MODEL_H
#define KOG_MODEL_H

#include <memory>
#include <vector>

#include "deal.h"
#include "kernels.h"
#include "native.h"
#include "packed.h"
#include "rows.h"
#include "team.h"

namespace kog {

using Floats = std::vector<float>;

constexpr size_t kTogether = 80 << 10;  // about so many bytes of weights another thread takes at a time: 2 to 8 us

struct Landed {  // one landing of a step: the output of module `source` lies in `slot`
  uint32_t source, slot;
  float own, others;
};

struct Step {
  uint32_t slot;
  uint32_t free_from;  // every lane must have landed so many steps before the slot may be written again
  std::vector<Landed> landings;
};

struct Layer {
  Packed matrices[4];
  Floats attn_norm, ffn_norm, bias, q_norm, k_norm;
  uint32_t window = 0;
};

struct Job {  // one pass
  uint8_t* keys;
  uint8_t* values;
  uint32_t capacity, position, rows, want;
  const uint32_t* ids;
  float* logits;
  uint32_t legal;  // for the summary
};

// Of some of the last row's logits: the largest, the sum of exp(x - top), the first id of the largest below `legal`.
struct Summary {
  float top;
  double total;
  float best_value;
  uint32_t best;
};

struct Scratch {  // of one thread
  Floats normed, gates, scores, head, turns;
  std::vector<uint8_t> room;
  const uint8_t* next[kPlaces] = {};  // where its stream of weights goes on
};

class Model {
 public:
  explicit Model(const kog_shape& shape);

  float pack(uint32_t layer, uint32_t matrix, const kog_tensor* tensors);
  // All matrices as a model of the same shape has packed them: a stream each thread, copied by whom it belongs to.
  void fill(const void* const* packed);
  const Stream& stream(uint32_t t) const { return *weights[t]; }
  // Runs all rows; afterwards `summary` holds for a job of KOG_LAST.
  void run(const Job& whole);
  Summary summary(const Job& job) const;

  kog_shape s;
  const uint32_t group, lane_heads, lane_kv, q_width, kv_width, qkv_width, ffn, value_width;
  const size_t cache_size;
  const Kernels* k;
  std::vector<Layer> layers;
  Packed head;
  const void* table = nullptr;  // an untied embedding
  uint32_t table_type = kF32;
  Floats norm;

 private:
  void make_room(uint32_t rows, const Job& job);
  void pass(const Job& job, uint32_t w);
  void embed(const Job& job, uint32_t t);
  void norm_rows(const Job& job, uint32_t t, const Floats& weight);
  void project(const Job& job, uint32_t w, const Floats& weight, uint32_t step);
  void gate_up(const Job& job, Scratch& own, const Packed& m, const Piece& piece, const float* x, bool again);
  void append(const Job& job, uint32_t t, uint32_t n);
  void append_heads(const Job& job, Scratch& own, uint32_t n, const Run& run);
  // Calls work(which) for each k or v head of a lane that has its first row in a run.
  template <class F>
  void heads_of(const Run& run, const F& work) const;
  void append_head(const Job& job, Scratch& own, uint32_t n, uint32_t lane, uint32_t which, uint32_t m);
  void ask_for_ends(const Job& job, uint32_t w, uint32_t n) const;
  void attend(const Job& job, uint32_t t, const Layer& layer, uint32_t n);
  void give(const Job& job, uint32_t w, uint32_t step);
  void land_part(const Job& job, uint32_t t, uint32_t step);
  void land(const Job& job, uint32_t first, uint32_t last, uint32_t from, uint32_t to, uint32_t step);
  void logits(const Job& job, uint32_t w);
  void norm_ends(const Job& job, uint32_t first, uint32_t rows, float* to) const;
  void summarise(const Job& job, uint32_t lane, const Place& place);
  void turn(const Scratch& own, const Layer& layer, float* x, uint32_t lane, uint32_t head, uint32_t m) const;
  void write(uint8_t* cache, size_t at, size_t stride, const float* x) const;
  void multiply(Product p, const Place* places, Scratch& own);
  // Calls work(piece) for w's own parts of a matrix; of a few rows, where `dealt`, until all of it was among what
  // any thread called it for. of_pass: the phase, from the pass's first on.
  template <class F>
  void share_out(const Packed& m, uint32_t of_pass, uint32_t rows, bool dealt, uint32_t w, const F& work);
  void barrier(uint32_t w);
  // Between phases that need what other threads did, unless every thread stays in its own lanes.
  void meet(uint32_t w) {
    if (!by_lane) barrier(w);
  }
  // Waits, where threads stay in their lanes, for all parts to have come `advances` far since the pass began.
  void wait(uint32_t w, uint32_t base, uint32_t advances) {
    if (by_lane) team.wait_for_all(w, base + advances);
  }
  void advance(uint32_t w) {
    if (by_lane) team.each(w, [&](uint32_t t) { team.advance(t); });
  }

  size_t row(uint32_t lane, uint32_t m, const Job& job, uint32_t width) const {
    return (size_t(lane) * job.rows + m) * width;
  }
  // t's share of n units
  uint32_t share(uint32_t n, uint32_t t) const { return uint32_t(uint64_t(n) * t / s.threads); }

  bool any_integers = false;  // among the types of weights
  const bool by_lane;    // a thread owns whole lanes: it waits for others only where their outputs land
  const bool owns_heads; // whoever multiplies the rows of a k or v head has all of that head's rows
  const std::vector<double> frequencies;
  std::vector<Step> steps;
  std::vector<const uint8_t*> head_blocks;  // [parts * blocks]
  std::vector<std::unique_ptr<Stream>> weights;  // of each thread
  Floats streams, outputs, normed, qkv, mixed, hidden;
  size_t stride = 0;
  std::vector<Scratch> scratch;
  std::vector<Summary> summaries;  // [parts of the head, its grains]
  uint32_t phase = 0;              // the first of a pass: two a layer's module, one of the head
  Deal deal;
  Team team;  // last: its threads use all of the above
};

template <class F>
void Model::heads_of(const Run& run, const F& work) const {
  for (uint32_t which = 0; which < 2 * lane_kv; which++) {
    const uint32_t from = (lane_heads + which) * s.head_dim;
    if (from >= run.block * kBlock && from < (run.block + run.blocks) * kBlock) work(which);
  }
}

template <class F>
void Model::share_out(const Packed& m, uint32_t of_pass, uint32_t rows, bool dealt, uint32_t w, const F& work) {
  const auto some = [&](uint32_t t, Deal::Some part) {
    uint32_t at = 0;  // of t's units
    for (const Run& run : m.runs[t]) {
      const uint32_t units = m.units(run), end = part.first + part.count;
      const uint32_t from = std::max(part.first, at), to = std::min(end, at + units);
      if (from < to) work(m.piece(run, *weights[t], from - at, to - at));
      at += units;
    }
  };
  const uint32_t first = team.first(w), end = team.first(w + 1);
  if (!m.runs[first].empty()) {
    const Run& last = m.runs[first].back();
    for (uint32_t p = 0; p < kPlaces; p++)
      scratch[first].next[p] = weights[first]->place(p) + last.at[p] + m.bytes(last, p);
  }
  if (!dealt || rows > kFewRows || end - first == s.threads)
    return team.each(w, [&](uint32_t t) { some(t, {0, m.units(t)}); });
  const uint32_t number = phase + of_pass;
  const size_t bytes = m.grain * m.unit(m.sections[0].type);
  const uint32_t least = uint32_t(std::clamp((kTogether + bytes / 2) / bytes, size_t(1), size_t(4)));
  for (uint32_t i = 0; i < s.threads; i++) {
    const uint32_t t = (first + i) % s.threads, units = m.units(t);
    const auto take = [&] {
      return t < first || t >= end ? deal.take_other(t, number, units, least, m.kept[t])
                                   : deal.take_own(t, number, units, kPlaces, m.kept[t]);
    };
    for (Deal::Some next = take(); next.count > 0; next = take()) some(t, next);
  }
}

}  // namespace kog

struct kog_model : kog::Model {
  using Model::Model;
};
#endif
