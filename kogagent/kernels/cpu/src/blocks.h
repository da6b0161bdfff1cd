// GGML's quantised blocks of 32 numbers. Knows no file and no model.

#ifndef KOG_BLOCKS_H
#define KOG_BLOCKS_H

#include <stdint.h>

#include "halves.h"

namespace kog {

constexpr uint32_t kNumbers = 32;  // of a block

struct Blocks {  // x = d * (q - zero) + least: d, then least and the fifth bits where there are some, then q
  uint32_t kind, bits, zero;  // kind: GGML's number of the type
  bool has_least;

  uint32_t bytes() const { return 2 + (has_least ? 2 : 0) + (bits == 5 ? 4 : 0) + (bits == 8 ? 32 : 16); }
};

constexpr Blocks kBlockKinds[] = {{2, 4, 8, false}, {3, 4, 0, true}, {6, 5, 16, false}, {7, 5, 0, true}, {8, 8, 0, false}};

inline const Blocks* blocks_of(uint32_t kind) {  // nullptr for a kind that is not known here
  for (const Blocks& one : kBlockKinds)
    if (one.kind == kind) return &one;
  return nullptr;
}

struct Opened {  // a block: x = scale * (whole - zero) + least
  float scale, least;
  int32_t whole[kNumbers];
};

inline uint16_t half_of(const uint8_t* p) { return uint16_t(p[0] | p[1] << 8); }

inline void open_block(const Blocks& f, const uint8_t* block, Opened& to) {
  to.scale = from_f16(half_of(block));
  to.least = f.has_least ? from_f16(half_of(block + 2)) : 0.0f;
  const uint8_t* q = block + f.bytes() - (f.bits == 8 ? 32 : 16);
  if (f.bits == 8) {
    for (uint32_t i = 0; i < kNumbers; i++) to.whole[i] = int8_t(q[i]);
    return;
  }
  uint32_t fifth = 0;
  for (uint32_t i = 0; f.bits == 5 && i < 4; i++) fifth |= uint32_t(q[int(i) - 4]) << 8 * i;
  for (uint32_t i = 0; i < kNumbers; i++) {
    const uint32_t four = i < 16 ? q[i] & 15u : uint32_t(q[i - 16] >> 4u);
    to.whole[i] = int32_t(four | (fifth >> i & 1u) << 4);
  }
}

inline void numbers_of(const Blocks& f, const uint8_t* block, float* to) {
  Opened opened;
  open_block(f, block, opened);
  for (uint32_t i = 0; i < kNumbers; i++) to[i] = opened.scale * float(opened.whole[i] - int32_t(f.zero));
  for (uint32_t i = 0; f.has_least && i < kNumbers; i++) to[i] += opened.least;
}

}  // namespace kog
#endif
