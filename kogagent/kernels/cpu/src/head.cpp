// The end of a pass: the last norm, the logits and what is known of them before one is drawn.

#include <string.h>

#include <algorithm>
#include <cmath>

#include "model.h"

namespace kog {

void Model::logits(const Job& job, uint32_t w) {
  const uint32_t first = job.want == KOG_ALL ? 0 : job.rows - 1, rows = job.rows - first;
  Scratch& own = scratch[team.first(w)];
  float* x = own.head.data();
  norm_ends(job, first, rows, x);
  uint32_t last_lane = s.lanes;
  share_out(head, uint32_t(2 * steps.size()), rows, true, w, [&](const Piece& piece) {
    const uint32_t lane = piece.run->lane;
    multiply({head.type(), s.dim, x + size_t(lane) * rows * s.dim, s.dim, rows, job.logits + size_t(lane) * head.out,
              s.vocab, head.out, nullptr, lane == last_lane, {}},
             piece.places, own);
    last_lane = lane;
    for (const Place& place : piece.places)
      if (job.want == KOG_LAST) summarise(job, lane, place);
  });
}

// What the head multiplies, of `rows` rows from `first` on: one input for all its parts, or one for each. Behind it
// lies room for two rows more.
void Model::norm_ends(const Job& job, uint32_t first, uint32_t rows, float* x) const {
  float* spare = x + size_t(head.lanes) * rows * s.dim;
  for (uint32_t r = 0; r < rows; r++) {
    float* to = x + size_t(r) * s.dim;
    if (s.head == KOG_HEAD_SPLIT) {
      for (uint32_t lane = 0; lane < s.lanes; lane++)
        k->norm(&streams[row(lane, first + r, job, s.dim)], norm.data(), s.norm_eps, s.dim,
                to + size_t(lane) * rows * s.dim);
      continue;
    }
    memset(spare, 0, s.dim * sizeof(float));
    for (uint32_t lane = 0; lane < s.lanes; lane++) {
      const float* stream = &streams[row(lane, first + r, job, s.dim)];
      if (s.head == KOG_HEAD_REPLICATE) {
        k->norm(stream, norm.data(), s.norm_eps, s.dim, spare + s.dim);
        stream = spare + s.dim;
      }
      for (uint32_t d = 0; d < s.dim; d++) spare[d] += stream[d];
    }
    if (s.head == KOG_HEAD_SUM)
      k->norm(spare, norm.data(), s.norm_eps, s.dim, to);
    else
      for (uint32_t d = 0; d < s.dim; d++) to[d] = spare[d] / float(s.lanes);
  }
}

// Of each grain of these blocks, which begin with one.
void Model::summarise(const Job& job, uint32_t lane, const Place& place) {
  const uint32_t of_lane = (head.blocks() + head.grain - 1) / head.grain;
  for (uint32_t b = place.block; b < place.block + place.blocks; b += head.grain) {
    const uint32_t in_lane = b * kBlock, at = lane * head.out + in_lane;
    const uint32_t n = std::min(head.grain * kBlock, head.out - in_lane);
    const float* x = job.logits + at;
    Summary& own = summaries[size_t(lane) * of_lane + b / head.grain];
    own = {k->largest(x, n), 0.0, -INFINITY, job.legal};
    own.total = k->exp_sum(x, n, own.top > -INFINITY ? own.top : 0.0f);
    if (at >= job.legal) continue;
    const uint32_t legal = std::min(n, job.legal - at);
    own.best_value = legal == n ? own.top : k->largest(x, legal);
    own.best = at;  // its first; where it is looked for once all are known
  }
}

// Of all logits; in the order of ids: the same bits on every run.
Summary Model::summary(const Job& job) const {
  Summary all{-INFINITY, 0.0, -INFINITY, job.legal};
  for (const Summary& one : summaries) {
    all.top = std::max(all.top, one.top);
    if (!(one.best_value > all.best_value)) continue;
    all.best_value = one.best_value;
    all.best = one.best;
  }
  for (const Summary& one : summaries)  // what is no number stays none
    all.total += one.total > 0 ? one.total * exp(double(one.top - all.top)) : one.total;
  while (all.best < job.legal && job.logits[all.best] != all.best_value) all.best++;
  return all;
}

}  // namespace kog
