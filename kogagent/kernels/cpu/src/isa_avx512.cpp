// The arithmetic for AVX-512 (F, BW, DQ, VL).

#include "kernels.h"

#if defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,prefer-vector-width=512")
#endif
#include <immintrin.h>

namespace kog {
namespace {

using V = __m512;
constexpr uint32_t kRows = 12;

inline V zero() { return _mm512_setzero_ps(); }
inline V set1(float f) { return _mm512_set1_ps(f); }
inline V load(const float* p) { return _mm512_loadu_ps(p); }
inline void store(float* p, V v) { _mm512_storeu_ps(p, v); }
inline V add(V a, V b) { return _mm512_add_ps(a, b); }
inline V mul(V a, V b) { return _mm512_mul_ps(a, b); }
inline V div(V a, V b) { return _mm512_div_ps(a, b); }
inline V fma(V a, V b, V c) { return _mm512_fmadd_ps(a, b, c); }
inline V vmax(V a, V b) { return _mm512_max_ps(a, b); }
inline V load_f16(const uint8_t* p) {
  return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
}
inline V load_bf16(const uint8_t* p) {
  const __m512i wide = _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
}
inline V load_i8(const uint8_t* p) {
  return _mm512_cvtepi32_ps(_mm512_cvtepi8_epi32(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p))));
}
inline void prefetch(const uint8_t* p) { _mm_prefetch(reinterpret_cast<const char*>(p), _MM_HINT_T0); }

inline V vexp(V x) {
  x = _mm512_max_ps(set1(-200.0f), x);  // in this order NaN stays NaN
  const V n = _mm512_roundscale_ps(mul(x, set1(1.44269504088896341f)), 8);
  V r = fma(n, set1(-0.693145751953125f), x);
  r = fma(n, set1(-1.42860682030941723e-6f), r);
  V y = set1(1.9875691500e-4f);
  y = fma(y, r, set1(1.3981999507e-3f));
  y = fma(y, r, set1(8.3334519073e-3f));
  y = fma(y, r, set1(4.1665795894e-2f));
  y = fma(y, r, set1(1.6666665459e-1f));
  y = fma(y, r, set1(5.0000001201e-1f));
  y = add(fma(mul(r, r), y, r), set1(1.0f));
  return _mm512_scalef_ps(y, n);
}

inline V between(V v, uint32_t at, uint32_t first, uint32_t last) {
  const __m512i lane = _mm512_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15);
  const __m512i place = _mm512_add_epi32(lane, _mm512_set1_epi32(int(at)));
  const __mmask16 inside = _mm512_cmpge_epu32_mask(place, _mm512_set1_epi32(int(first))) &
                           _mm512_cmplt_epu32_mask(place, _mm512_set1_epi32(int(last)));
  return _mm512_mask_mov_ps(set1(-__builtin_inff()), inside, v);
}

#include "kernels.inc"

const Kernels kTable = {"avx512", product, norm, gate, attend, largest, exp_sum};

}  // namespace

const Kernels* kernels_avx512() {
  const bool can = __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("fma");
  return can ? &kTable : nullptr;
}

}  // namespace kog
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
namespace kog {
const Kernels* kernels_avx512() { return nullptr; }
}  // namespace kog
#endif
