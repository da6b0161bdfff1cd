// Drawing the next id from logits: engine/sampling.py once more, line by line. Knows no model.

#ifndef KOG_SAMPLER_H
#define KOG_SAMPLER_H

#include <math.h>
#include <stdint.h>

#include <algorithm>
#include <functional>
#include <vector>

#include "kernels.h"
#include "native.h"

namespace kog {

inline uint64_t splitmix64(uint64_t x) {
  x += 0x9E3779B97F4A7C15u;
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

inline uint32_t lowbias32(uint32_t x) {
  x ^= x >> 16;
  x *= 0x7FEB352Du;
  x ^= x >> 15;
  x *= 0x846CA68Bu;
  return x ^ (x >> 16);
}

class Sampler {
 public:
  static constexpr uint32_t kNone = 0xffffffff;

  // The id at `position`, kNone where no legal id has a finite logit. mask: bits of `words` words, or NULL.
  uint32_t draw(const kog_segment& plan, const Kernels& k, const float* logits, uint32_t position,
                const uint32_t* mask, uint32_t words) {
    const auto value = [&](uint32_t id) {
      const float x = logits[id];
      if (plan.seen == nullptr || !plan.seen[id]) return x;
      return x > 0.0f ? x / plan.penalty : x * plan.penalty;
    };
    ids_.clear();
    z_.clear();
    uint32_t best = kNone;
    float most = -INFINITY;
    const bool greedy = !(plan.temperature > 0.0f);
    const auto look = [&](uint32_t id) {
      const float x = value(id);
      if (!(x > -INFINITY)) return;
      if (x > most || best == kNone) {
        most = x;
        best = id;
      }
      if (greedy) return;
      ids_.push_back(id);
      z_.push_back(x / plan.temperature);
    };
    if (mask == nullptr) {
      for (uint32_t id = 0; id < plan.legal; id++) look(id);
    } else {
      for (uint32_t w = 0; w < words; w++)
        for (uint32_t bits = mask[w], id = w * 32; bits != 0 && id < plan.legal; bits >>= 1, id++)
          if (bits & 1u) look(id);
    }
    if (best == kNone || !isfinite(most)) return kNone;
    return greedy ? best : noisy(plan, k, most / plan.temperature, position);
  }

 private:
  uint32_t noisy(const kog_segment& plan, const Kernels& k, float top, uint32_t position) {
    const float least = threshold(plan, k, top);
    const uint64_t key = splitmix64(plan.seed ^ splitmix64(position));
    uint32_t best = kNone;
    float most = -INFINITY;
    for (size_t i = 0; i < z_.size(); i++) {
      if (!(z_[i] >= least)) continue;
      const uint32_t bits = lowbias32(lowbias32(ids_[i] ^ uint32_t(key)) + uint32_t(key >> 32));
      // G(u) <= -log(1 - u) and 1 - u > 2**-(leading ones + 1): most ids are out without a logarithm.
      const uint32_t ones = bits == 0xffffffffu ? 33 : uint32_t(__builtin_clz(~bits)) + 1;
      if (best != kNone && z_[i] + 0.693148f * float(ones) + 1e-3f < most) continue;
      const double u = (double(bits) + 0.5) * 0x1p-32;
      const float noise = float(-log(-log(u))), sum = z_[i] + noise;
      if (best == kNone || sum > most) {
        best = ids_[i];
        most = sum;
      }
    }
    return best;
  }

  // The smallest z that top-k, top-p and min-p all keep.
  float threshold(const kog_segment& plan, const Kernels& k, float top) {
    float least = -INFINITY;
    if (plan.top_k > 0 && plan.top_k < z_.size()) {
      sorted_ = z_;
      std::nth_element(sorted_.begin(), sorted_.begin() + (plan.top_k - 1), sorted_.end(), std::greater<float>());
      least = sorted_[plan.top_k - 1];
    }
    if (plan.top_p < 1.0f) least = nucleus(plan, k, top, least);
    if (plan.min_p_log > -INFINITY) least = std::max(least, top + plan.min_p_log);
    return least;
  }

  float nucleus(const kog_segment& plan, const Kernels& k, float top, float least) {
    sorted_.clear();
    for (const float z : z_)
      if (z >= least) sorted_.push_back(z);
    const size_t n = sorted_.size();
    const auto share = [top](float z) { return exp(double(z - top)); };
    // Of many the sum in FP32 vectors: it decides where the last id lies within 1e-7 of the border only.
    double all = 0.0;
    if (n > kExact)
      all = k.exp_sum(sorted_.data(), n, top);
    size_t have = 0;
    double mass = 0.0;
    for (size_t more = n > kExact ? 256 : n; have < n; more *= 4) {
      const size_t end = std::min(n, have + more);
      if (end < n) std::nth_element(sorted_.begin() + have, sorted_.begin() + end, sorted_.end(), std::greater<float>());
      std::sort(sorted_.begin() + have, sorted_.begin() + end, std::greater<float>());
      if (n <= kExact)
        for (const float z : sorted_) all += share(z);
      for (; have < end; have++) {
        mass += share(sorted_[have]);
        if (mass >= double(plan.top_p) * all) return sorted_[have];
      }
    }
    return sorted_.back();
  }

  static constexpr size_t kExact = 2048;
  std::vector<uint32_t> ids_;
  std::vector<float> z_, sorted_;
};

}  // namespace kog
#endif
