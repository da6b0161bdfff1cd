// FP16 and BF16 to and from FP32, by integers: the same bits on every machine.

#ifndef KOG_HALVES_H
#define KOG_HALVES_H

#include <stdint.h>
#include <string.h>

namespace kog {
namespace {

inline float from_bits(uint32_t bits) {
  float f;
  memcpy(&f, &bits, 4);
  return f;
}

inline uint32_t to_bits(float f) {
  uint32_t bits;
  memcpy(&bits, &f, 4);
  return bits;
}

inline float from_f16(uint16_t half) {
  const uint32_t sign = uint32_t(half & 0x8000u) << 16, rest = half & 0x7fffu;
  if (rest >= 0x7c00u) return from_bits(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
  const float value = from_bits(rest << 13) * 0x1p112f;  // the exponent's bias changes by 112
  return from_bits(sign | to_bits(value));
}

inline uint16_t to_f16(float f) {  // nearest, ties to even; overflow gives infinity
  const uint32_t bits = to_bits(f), sign = bits >> 16 & 0x8000u, rest = bits & 0x7fffffffu;
  if (rest > 0x7f800000u) return uint16_t(sign | 0x7e00u);
  if (rest >= 0x477ff000u) return uint16_t(sign | 0x7c00u);
  if (rest < 0x38800000u) {  // subnormal: let the adder round at 2**-24
    const float shifted = from_bits(rest) + 0.5f;
    return uint16_t(sign | (to_bits(shifted) - 0x3f000000u));
  }
  return uint16_t(sign | (rest - 0x38000000u + 0xfffu + (rest >> 13 & 1u)) >> 13);
}

inline uint16_t to_bf16(float f) {  // nearest, ties to even; no number stays none
  const uint32_t bits = to_bits(f);
  if ((bits & 0x7fffffffu) > 0x7f800000u) return uint16_t(bits >> 16 | 0x40u);
  return uint16_t((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

inline float from_bf16(uint16_t half) { return from_bits(uint32_t(half) << 16); }

}  // namespace
}  // namespace kog
#endif
