// GGML's quantised blocks, seen as groups of 32 numbers. Knows no file and no model.

#ifndef KOG_BLOCKS_H
#define KOG_BLOCKS_H

#include <stdint.h>

#include "halves.h"

namespace kog {

constexpr uint32_t kNumbers = 32;  // of a group

// A group is x = scale * (q - zero) + least. A block is one of them: its scale, its least value where it has one, fifth
// bits where there are some, then q. Or it is eight under a scale, and one of least values, that small integers multiply:
// Q4_K and Q5_K have two for each group, Q6_K one for each 16 numbers.
struct Blocks {
  uint32_t kind, bits, zero;  // kind: GGML's number of the type
  bool has_least;
  uint32_t groups;

  bool is_super() const { return groups > 1; }
  uint32_t bytes() const {
    const uint32_t shared = is_super() ? (has_least ? 16 : 18) : (has_least ? 4 : 2);
    return shared + groups * bits * (kNumbers / 8);
  }
};

constexpr Blocks kBlockKinds[] = {{2, 4, 8, false, 1},  {3, 4, 0, true, 1},  {6, 5, 16, false, 1}, {7, 5, 0, true, 1},
                                  {8, 8, 0, false, 1},  {12, 4, 0, true, 8}, {13, 5, 0, true, 8},  {14, 6, 32, false, 8}};

inline const Blocks* blocks_of(uint32_t kind) {  // nullptr for a kind that is not known here
  for (const Blocks& one : kBlockKinds)
    if (one.kind == kind) return &one;
  return nullptr;
}

struct Opened {             // a group
  uint16_t scale, least;    // the block's FP16 numbers
  int8_t steps[2];          // that multiply them in Q4_K and Q5_K; both the scale in Q6_K
  int32_t whole[kNumbers];  // q
};

inline uint16_t half_of(const uint8_t* p) { return uint16_t(p[0] | p[1] << 8); }

// Numbers 0..31 of bytes that hold two: the low halves of 32 or of 16 bytes, then the high ones.
inline void open_halves(const uint8_t* q, uint32_t shift, uint32_t n, int32_t* to) {
  for (uint32_t i = 0; i < n; i++) to[i] = q[i] >> shift & 15;
}

inline void open_super(const Blocks& f, const uint8_t* block, uint32_t g, Opened& to) {
  if (f.has_least) {
    const uint8_t *steps = block + 4, *fifth = block + 16, *q = fifth + (f.bits - 4) * kNumbers;
    to.scale = half_of(block);
    to.least = half_of(block + 2);
    if (g < 4) {
      to.steps[0] = int8_t(steps[g] & 63);
      to.steps[1] = int8_t(steps[g + 4] & 63);
    } else {
      to.steps[0] = int8_t((steps[g + 4] & 15) | steps[g - 4] >> 6 << 4);
      to.steps[1] = int8_t(steps[g + 4] >> 4 | steps[g] >> 6 << 4);
    }
    open_halves(q + g / 2 * kNumbers, g % 2 * 4, kNumbers, to.whole);
    for (uint32_t i = 0; f.bits == 5 && i < kNumbers; i++) to.whole[i] |= (fifth[i] >> g & 1) << 4;
    return;
  }
  const uint8_t *high = block + 128 + g / 4 * kNumbers, *steps = block + 192;
  to.scale = half_of(block + 208);
  to.least = 0;
  for (uint32_t i = 0; i < 2; i++) to.steps[i] = int8_t(steps[2 * g + i]);
  open_halves(block + g / 4 * 64 + g % 2 * kNumbers, g % 4 / 2 * 4, kNumbers, to.whole);
  for (uint32_t i = 0; i < kNumbers; i++) to.whole[i] |= (high[i] >> g % 4 * 2 & 3) << 4;
}

// Group g of a block.
inline void open_group(const Blocks& f, const uint8_t* block, uint32_t g, Opened& to) {
  if (f.is_super()) return open_super(f, block, g, to);
  to.scale = half_of(block);
  to.least = f.has_least ? half_of(block + 2) : 0;
  const uint8_t* q = block + f.bytes() - (f.bits == 8 ? 32 : 16);
  if (f.bits == 8) {
    for (uint32_t i = 0; i < kNumbers; i++) to.whole[i] = int8_t(q[i]);
    return;
  }
  open_halves(q, 0, 16, to.whole);
  open_halves(q, 4, 16, to.whole + 16);
  uint32_t fifth = 0;
  for (uint32_t i = 0; f.bits == 5 && i < 4; i++) fifth |= uint32_t(q[int(i) - 4]) << 8 * i;
  for (uint32_t i = 0; i < kNumbers; i++) to.whole[i] |= int32_t((fifth >> i & 1u) << 4);
}

// Its 32 numbers.
inline void numbers_of(const Blocks& f, const uint8_t* block, uint32_t g, float* to) {
  Opened opened;
  open_group(f, block, g, opened);
  const float scale = from_f16(opened.scale);
  float scales[2] = {scale, scale}, least = from_f16(opened.least);
  if (f.is_super()) {
    scales[0] = scale * float(opened.steps[0]);
    scales[1] = f.has_least ? scales[0] : scale * float(opened.steps[1]);
    least *= -float(opened.steps[1]);
  }
  for (uint32_t i = 0; i < kNumbers; i++) {
    to[i] = scales[i / 16] * float(opened.whole[i] - int32_t(f.zero));
    if (f.has_least) to[i] += least;
  }
}

}  // namespace kog
#endif
