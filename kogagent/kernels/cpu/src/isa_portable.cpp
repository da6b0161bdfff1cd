// The arithmetic in plain C++: any processor; compilers make vectors of its loops.

#include <math.h>

#include "halves.h"
#include "kernels.h"

namespace kog {
namespace {

struct V {
  float v[kBlock];
};
constexpr uint32_t kRows = 2;

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
#if defined(__aarch64__)
inline V load_f16(const uint8_t* p) {
  __fp16 halves[kBlock];
  memcpy(halves, p, sizeof halves);
  KOG_EACH(float(halves[i]));
}
#else
inline V load_f16(const uint8_t* p) { KOG_EACH(from_f16(pair(p + 2 * i))); }
#endif
inline V load_bf16(const uint8_t* p) { KOG_EACH(from_bf16(pair(p + 2 * i))); }
inline V load_i8(const uint8_t* p) { KOG_EACH(float(int8_t(p[i]))); }
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

const Kernels kTable = {"portable", product, norm, gate, attend, largest, exp_sum};

}  // namespace

const Kernels* kernels_portable() { return &kTable; }

}  // namespace kog
