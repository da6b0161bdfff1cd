// The arithmetic for AVX2 with FMA and F16C.

#include "kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx2,fma,f16c"))), apply_to = function)
#else
#pragma GCC target("avx2,fma,f16c")
#endif
#include <immintrin.h>

namespace kog {
namespace {

struct V {
  __m256 a, b;
};
constexpr uint32_t kRows = 6, kTileBlocks = 1, kPairRows = 2, kDigitRows = 2;

inline V zero() { return {_mm256_setzero_ps(), _mm256_setzero_ps()}; }
inline V set1(float f) {
  const __m256 v = _mm256_set1_ps(f);
  return {v, v};
}
inline V load(const float* p) { return {_mm256_loadu_ps(p), _mm256_loadu_ps(p + 8)}; }
inline void store(float* p, V v) {
  _mm256_storeu_ps(p, v.a);
  _mm256_storeu_ps(p + 8, v.b);
}
inline V add(V x, V y) { return {_mm256_add_ps(x.a, y.a), _mm256_add_ps(x.b, y.b)}; }
inline V mul(V x, V y) { return {_mm256_mul_ps(x.a, y.a), _mm256_mul_ps(x.b, y.b)}; }
inline V div(V x, V y) { return {_mm256_div_ps(x.a, y.a), _mm256_div_ps(x.b, y.b)}; }
inline V fma(V x, V y, V z) { return {_mm256_fmadd_ps(x.a, y.a, z.a), _mm256_fmadd_ps(x.b, y.b, z.b)}; }
inline V vmax(V x, V y) { return {_mm256_max_ps(x.a, y.a), _mm256_max_ps(x.b, y.b)}; }
inline __m128i half(const uint8_t* p) { return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p)); }
inline V load_f16(const uint8_t* p) { return {_mm256_cvtph_ps(half(p)), _mm256_cvtph_ps(half(p + 16))}; }
inline __m256i bytes(const uint8_t* p) { return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)); }
inline void load_bf16_pairs(const uint8_t* p, V& first, V& second) {
  const __m256i a = bytes(p), b = bytes(p + 32), high = _mm256_set1_epi32(int(0xffff0000u));
  first = {_mm256_castsi256_ps(_mm256_slli_epi32(a, 16)), _mm256_castsi256_ps(_mm256_slli_epi32(b, 16))};
  second = {_mm256_castsi256_ps(_mm256_and_si256(a, high)), _mm256_castsi256_ps(_mm256_and_si256(b, high))};
}
inline void load_quads(const uint8_t* p, V* out) {
  __m256i a = bytes(p), b = bytes(p + 32);
  const __m256i low = _mm256_set1_epi32(255);
  const __m256 shift = _mm256_set1_ps(-128.0f);
  for (uint32_t i = 0; i < 4; i++) {
    out[i] = {_mm256_add_ps(_mm256_cvtepi32_ps(_mm256_and_si256(a, low)), shift),
              _mm256_add_ps(_mm256_cvtepi32_ps(_mm256_and_si256(b, low)), shift)};
    a = _mm256_srli_epi32(a, 8);
    b = _mm256_srli_epi32(b, 8);
  }
}

struct Quads {
  __m256i a, b;
  explicit Quads(const uint8_t* p) : a(bytes(p)), b(bytes(p + 32)) {}
};
struct Sums {  // bytes times digits of at most 64 stay within 16 bits, two by two
  __m256i a, b;
  Sums() = default;
  explicit Sums(int32_t sum) : a(_mm256_set1_epi32(-128 * sum)), b(a) {}
  static __m256i products(__m256i w, __m256i hi, __m256i lo) {
    return _mm256_add_epi32(_mm256_madd_epi16(_mm256_maddubs_epi16(w, hi), _mm256_set1_epi16(128)),
                            _mm256_madd_epi16(_mm256_maddubs_epi16(w, lo), _mm256_set1_epi16(1)));
  }
  void add(const Quads& w, int32_t hi, int32_t lo) {
    const __m256i high = _mm256_set1_epi32(hi), low = _mm256_set1_epi32(lo);
    a = _mm256_add_epi32(a, products(w.a, high, low));
    b = _mm256_add_epi32(b, products(w.b, high, low));
  }
  V floats() const { return {_mm256_cvtepi32_ps(a), _mm256_cvtepi32_ps(b)}; }
};

inline void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

inline __m256 exp8(__m256 x) {
  const __m256 low = _mm256_set1_ps(-87.3f);
  const __m256 keep = _mm256_cmp_ps(x, low, _CMP_NLT_UQ);  // NaN stays NaN
  x = _mm256_max_ps(low, _mm256_min_ps(_mm256_set1_ps(88.7f), x));
  const __m256 n = _mm256_round_ps(_mm256_mul_ps(x, _mm256_set1_ps(1.44269504088896341f)), 8);
  __m256 r = _mm256_fmadd_ps(n, _mm256_set1_ps(-0.693145751953125f), x);
  r = _mm256_fmadd_ps(n, _mm256_set1_ps(-1.42860682030941723e-6f), r);
  __m256 y = _mm256_set1_ps(1.9875691500e-4f);
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.3981999507e-3f));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(8.3334519073e-3f));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(4.1665795894e-2f));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(1.6666665459e-1f));
  y = _mm256_fmadd_ps(y, r, _mm256_set1_ps(5.0000001201e-1f));
  y = _mm256_add_ps(_mm256_fmadd_ps(_mm256_mul_ps(r, r), y, r), _mm256_set1_ps(1.0f));
  // 2**n in two steps: n reaches 128
  const __m256i whole = _mm256_cvtps_epi32(n), first = _mm256_srai_epi32(whole, 1);
  const __m256i bias = _mm256_set1_epi32(127);
  const __m256 p = _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_add_epi32(first, bias), 23));
  const __m256 q = _mm256_castsi256_ps(
      _mm256_slli_epi32(_mm256_add_epi32(_mm256_sub_epi32(whole, first), bias), 23));
  return _mm256_and_ps(keep, _mm256_mul_ps(_mm256_mul_ps(y, p), q));
}
inline V vexp(V x) { return {exp8(x.a), exp8(x.b)}; }

inline __m256 between8(__m256 v, int at, int first, int last) {
  const __m256i place =
      _mm256_add_epi32(_mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7), _mm256_set1_epi32(at));
  const __m256i outside = _mm256_or_si256(_mm256_cmpgt_epi32(_mm256_set1_epi32(first), place),
                                          _mm256_cmpgt_epi32(place, _mm256_set1_epi32(last - 1)));
  return _mm256_blendv_ps(v, _mm256_set1_ps(-__builtin_inff()), _mm256_castsi256_ps(outside));
}
inline V between(V v, uint32_t at, uint32_t first, uint32_t last) {
  return {between8(v.a, int(at), int(first), int(last)), between8(v.b, int(at) + 8, int(first), int(last))};
}

#include "kernels.inc"

const Kernels kTable = {"avx2", product, norm, gate, attend, land, largest, exp_sum, read};

}  // namespace

const Kernels* kernels_avx2() {
  const bool can = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c");
  return can ? &kTable : nullptr;
}

}  // namespace kog
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
namespace kog {
const Kernels* kernels_avx2() { return nullptr; }
}  // namespace kog
#endif
