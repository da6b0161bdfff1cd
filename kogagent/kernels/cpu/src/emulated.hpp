// AVX-512 by SIMDe on a processor without it: slow, exact, for tests of what this machine cannot run.
// scripts/check_native.sh sets KOG_EMULATED; the package is Debian's libsimde-dev.

#ifndef KOG_EMULATED_H
#define KOG_EMULATED_H

#define SIMDE_ENABLE_NATIVE_ALIASES
#include <simde/x86/avx512.h>
#include <simde/x86/f16c.h>
#include <simde/x86/fma.h>
#include <string.h>

#include "halves.h"

// What SIMDe 0.7 lacks of what isa_avx512.inc uses.
using __mmask16 = simde__mmask16;

#undef _mm512_madd_epi16  // its alias takes four arguments
#define _mm512_madd_epi16 simde_mm512_madd_epi16
#define _mm512_cmplt_epu32_mask(a, b) __mmask16(~_mm512_cmple_epu32_mask(b, a))

// Sixteen lanes, one after the other.
template <class From, class Out, class In, class Each>
Out kog_emulated_lanes(In in, Each each) {
  From from[16];
  decltype(each(From())) to[16];
  static_assert(sizeof in == sizeof from && sizeof(Out) == sizeof to, "sixteen lanes");
  memcpy(from, &in, sizeof from);
  for (int i = 0; i < 16; i++) to[i] = each(from[i]);
  Out out;
  memcpy(&out, to, sizeof out);
  return out;
}

inline simde__m512 kog_emulated_cvtph_ps(simde__m256i halves) {
  return kog_emulated_lanes<uint16_t, simde__m512>(halves, [](uint16_t x) { return kog::from_f16(x); });
}
#define _mm512_cvtph_ps kog_emulated_cvtph_ps

inline simde__m256i kog_emulated_cvtps_ph(simde__m512 floats) {
  return kog_emulated_lanes<float, simde__m256i>(floats, [](float x) { return uint16_t(kog::to_f16(x)); });
}
#define _mm512_cvtps_ph(floats, how) kog_emulated_cvtps_ph(floats)

inline simde__m512 kog_emulated_cvtepi32_ps(simde__m512i whole) {
  return kog_emulated_lanes<int32_t, simde__m512>(whole, [](int32_t x) { return float(x); });
}
#define _mm512_cvtepi32_ps kog_emulated_cvtepi32_ps

inline simde__m512i kog_emulated_cvtps_epi32(simde__m512 floats) {
  return kog_emulated_lanes<float, simde__m512i>(floats, [](float x) { return int32_t(__builtin_rintf(x)); });
}
#define _mm512_cvtps_epi32 kog_emulated_cvtps_epi32

inline simde__m256i kog_emulated_cvtepi32_epi16(simde__m512i whole) {
  return kog_emulated_lanes<int32_t, simde__m256i>(whole, [](int32_t x) { return int16_t(x); });
}
#define _mm512_cvtepi32_epi16 kog_emulated_cvtepi32_epi16

inline simde__m256 kog_emulated_extractf32x8_ps(simde__m512 floats, int which) {
  simde__m256 out;
  memcpy(&out, reinterpret_cast<const char*>(&floats) + which * sizeof out, sizeof out);
  return out;
}
#define _mm512_extractf32x8_ps kog_emulated_extractf32x8_ps

inline simde__m512i kog_emulated_cvtepu16_epi32(simde__m256i halves) {
  return kog_emulated_lanes<uint16_t, simde__m512i>(halves, [](uint16_t x) { return uint32_t(x); });
}
#define _mm512_cvtepu16_epi32 kog_emulated_cvtepu16_epi32

inline simde__m128i kog_emulated_cvtepi32_epi8(simde__m512i whole) {
  return kog_emulated_lanes<int32_t, simde__m128i>(whole, [](int32_t x) { return int8_t(x); });
}
#define _mm512_cvtepi32_epi8 kog_emulated_cvtepi32_epi8

inline simde__m512i kog_emulated_cvtepi8_epi32(simde__m128i bytes) {
  return kog_emulated_lanes<int8_t, simde__m512i>(bytes, [](int8_t x) { return int32_t(x); });
}
#define _mm512_cvtepi8_epi32 kog_emulated_cvtepi8_epi32

inline simde__m256i kog_emulated_cvtneps_pbh(simde__m512 floats) {
  return kog_emulated_lanes<float, simde__m256i>(floats, [](float x) { return kog::to_bf16(x); });
}
#define _mm512_cvtneps_pbh kog_emulated_cvtneps_pbh

#endif
