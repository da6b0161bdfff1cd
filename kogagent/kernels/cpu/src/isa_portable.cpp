// The arithmetic in plain C++: any processor; compilers make vectors of its loops.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2", "tree-vectorize")  // O3 takes four times as long and gains nothing
#endif
#include <math.h>

#include "halves.h"
#include "kernels.h"

namespace kog {
namespace {

struct V {
  float v[kBlock];
};
constexpr uint32_t kRows = 2, kTileBlocks = 1, kPairRows = 1, kDigitRows = 2;

#define KOG_EACH(expression)                                  \
  V out;                                                      \
  for (uint32_t i = 0; i < kBlock; i++) out.v[i] = expression; \
  return out

inline V zero() { KOG_EACH(0.0f); }
inline V set1(float f) { KOG_EACH(f); }
inline V load(const float* p) { KOG_EACH(p[i]); }
inline void store(float* p, const V& v) {
  for (uint32_t i = 0; i < kBlock; i++) p[i] = v.v[i];
}
inline V add(const V& a, const V& b) { KOG_EACH(a.v[i] + b.v[i]); }
inline V mul(const V& a, const V& b) { KOG_EACH(a.v[i] * b.v[i]); }
inline V div(const V& a, const V& b) { KOG_EACH(a.v[i] / b.v[i]); }
inline V fma(const V& a, const V& b, const V& c) { KOG_EACH(a.v[i] * b.v[i] + c.v[i]); }
inline V vmax(const V& a, const V& b) { KOG_EACH(a.v[i] > b.v[i] ? a.v[i] : b.v[i]); }
inline uint16_t pair(const uint8_t* p) {
  uint16_t both;
  memcpy(&both, p, 2);
  return both;
}
inline V load_f16(const uint8_t* p) { KOG_EACH(from_f16(pair(p + 2 * i))); }
inline void load_bf16_pairs(const uint8_t* p, V& first, V& second) {
  for (uint32_t i = 0; i < kBlock; i++) {
    first.v[i] = from_bf16(pair(p + 4 * i));
    second.v[i] = from_bf16(pair(p + 4 * i + 2));
  }
}
inline void load_quads(const uint8_t* p, V* out) {
  for (uint32_t i = 0; i < 4; i++)
    for (uint32_t r = 0; r < kBlock; r++) out[i].v[r] = float(int32_t(p[4 * r + i]) - 128);
}

struct Quads {
  const uint8_t* p;
  explicit Quads(const uint8_t* at) : p(at) {}
};
struct Sums {
  int32_t v[kBlock];
  Sums() = default;
  explicit Sums(int32_t sum) {
    for (int32_t& one : v) one = -128 * sum;
  }
  void add(const Quads& w, int32_t hi, int32_t lo) {
    int8_t high[4], low[4];
    memcpy(high, &hi, 4);
    memcpy(low, &lo, 4);
    for (uint32_t r = 0; r < kBlock; r++)
      for (uint32_t i = 0; i < 4; i++) v[r] += int32_t(w.p[4 * r + i]) * (128 * high[i] + low[i]);
  }
  V floats() const { KOG_EACH(float(v[i])); }
};

inline void prefetch(const uint8_t* p) {
#if defined(__GNUC__)
  __builtin_prefetch(p);
#else
  (void)p;
#endif
}
inline V vexp(const V& x) { KOG_EACH(expf(x.v[i])); }
inline V between(const V& v, uint32_t at, uint32_t first, uint32_t last) {
  KOG_EACH(at + i >= first && at + i < last ? v.v[i] : -INFINITY);
}

#include "kernels.inc"

const Kernels kTable = {"portable", product, norm, gate, attend, land, largest, exp_sum, read};

}  // namespace

const Kernels* kernels_portable() { return &kTable; }

}  // namespace kog
