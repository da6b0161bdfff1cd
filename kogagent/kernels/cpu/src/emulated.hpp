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

inline simde__m512 kog_emulated_cvtph_ps(simde__m256i halves) {
  uint16_t from[16];
  float to[16];
  memcpy(from, &halves, sizeof from);
  for (int i = 0; i < 16; i++) to[i] = kog::from_f16(from[i]);
  return simde_mm512_loadu_ps(to);
}
#define _mm512_cvtph_ps kog_emulated_cvtph_ps

inline simde__m256i kog_emulated_cvtps_ph(simde__m512 floats) {
  float from[16];
  uint16_t to[16];
  simde_mm512_storeu_ps(from, floats);
  for (int i = 0; i < 16; i++) to[i] = kog::to_f16(from[i]);
  return simde_mm256_loadu_si256(to);
}
#define _mm512_cvtps_ph(floats, how) kog_emulated_cvtps_ph(floats)

inline simde__m512 kog_emulated_cvtepi32_ps(simde__m512i whole) {
  int32_t from[16];
  float to[16];
  memcpy(from, &whole, sizeof from);
  for (int i = 0; i < 16; i++) to[i] = float(from[i]);
  return simde_mm512_loadu_ps(to);
}
#define _mm512_cvtepi32_ps kog_emulated_cvtepi32_ps

inline simde__m512i kog_emulated_cvtps_epi32(simde__m512 floats) {
  float from[16];
  int32_t to[16];
  simde_mm512_storeu_ps(from, floats);
  for (int i = 0; i < 16; i++) to[i] = int32_t(__builtin_rintf(from[i]));
  return simde_mm512_loadu_si512(to);
}
#define _mm512_cvtps_epi32 kog_emulated_cvtps_epi32

inline simde__m256i kog_emulated_cvtepi32_epi16(simde__m512i whole) {
  int32_t from[16];
  int16_t to[16];
  memcpy(from, &whole, sizeof from);
  for (int i = 0; i < 16; i++) to[i] = int16_t(from[i]);
  return simde_mm256_loadu_si256(to);
}
#define _mm512_cvtepi32_epi16 kog_emulated_cvtepi32_epi16

#endif
