// 16 rows of a matrix to a packed block, and back: how each type lies, kernels.h says. Knows no threads.

#ifndef KOG_ROWS_H
#define KOG_ROWS_H

#include <string.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <vector>

#include "blocks.h"
#include "halves.h"
#include "kernels.h"
#include "native.h"

namespace kog {

inline uint16_t half_at(const void* p, size_t i) {
  uint16_t half;
  memcpy(&half, static_cast<const uint8_t*>(p) + 2 * i, 2);
  return half;
}

// A row of an unpacked matrix: numbers of a type, or, from kOfBlocks on, GGML's blocks of a kind.
constexpr uint32_t kOfBlocks = KOG_OF_BLOCKS;
static_assert(kNumbers == kGroup, "a block's numbers share what a group's weights share");

inline size_t row_bytes(uint32_t type, uint32_t in) {
  if (type >= kOfBlocks) {
    const Blocks& f = *blocks_of(type - kOfBlocks);
    return size_t(in / kNumbers / f.groups) * f.bytes();
  }
  return size_t(in) * (type == kF32 ? 4 : 2);
}

// Where group g's quads lie in an INT8 block, and the FP16 scales of a group.
inline size_t quads_at(uint32_t type, uint32_t g) {
  return size_t(g) * 512 + (type == kI8 ? size_t(g / 2 + 1) * 64 : 64);
}
inline size_t scales_at(uint32_t g) { return size_t(g / 2) * (2 * 512 + 64) + g % 2 * 32; }

// n numbers of a 16-bit type or FP32 as floats.
inline void widen(const Kernels& k, uint32_t type, const uint8_t* from, size_t n, float* to) {
  switch (type) {
    case kF16: return k.to_floats(from, n, to);
    case kBF16:
      for (size_t i = 0; i < n; i++) to[i] = from_bf16(half_at(from, i));
      return;
    default: memcpy(to, from, n * sizeof(float));
  }
}

// n floats in a 16-bit type. Returns 0, or infinity where a number lies beyond that type's range.
inline float narrow(const Kernels& k, uint32_t type, const float* from, size_t n, uint16_t* to) {
  if (type == kBF16) {
    for (size_t i = 0; i < n; i++) to[i] = to_bf16(from[i]);
  } else {
    k.to_halves(from, n, to);
  }
  const uint32_t infinity = type == kBF16 ? 0x7f80u : 0x7c00u;
  uint32_t found = 0;
  for (size_t i = 0; i < n; i++) found |= (to[i] & 0x7fffu) == infinity;
  for (size_t i = 0; found && i < n; i++)
    if ((to[i] & 0x7fffu) == infinity && std::isfinite(from[i])) return INFINITY;
  return 0.0f;
}

// Row r's 32 integers of a group below 8 bits.
inline void put_whole(uint32_t type, const int32_t* whole, uint32_t r, uint8_t* group) {
  const uint32_t above = bits_of(type) - 4;
  uint8_t* halves = group + above * 64;
  for (uint32_t i = 0; i < kGroup; i += 4)
    for (uint32_t j = 0; j < 4; j++) {
      uint8_t& both = halves[i / 8 * 64 + 4 * r + j];
      const uint32_t one = uint32_t(whole[i + j]), low = one & 15u;
      both = uint8_t(i % 8 ? both | low << 4 : low);
      if (above == 0) continue;
      uint8_t& high = group[above * i / 32 * 64 + 4 * r + j];
      const uint32_t at = above * i / 4 % 8, bits = one >> 4 << at;
      high = uint8_t(at ? high | bits : bits);
    }
}

inline uint32_t get_whole(uint32_t type, uint32_t r, uint32_t i, const uint8_t* group) {
  const uint32_t above = bits_of(type) - 4, at = 4 * r + i % 4;
  const uint32_t both = group[above * 64 + i / 8 * 64 + at], low = i % 8 < 4 ? both & 15u : both >> 4u;
  if (above == 0) return low;
  return low | (group[above * i / 32 * 64 + at] >> above * (i / 4) % 8 & ((1u << above) - 1u)) << 4;
}

// n weights of a group as the nearest of 16 steps from the least to the largest, in FP16 both step and least. Returns
// the largest difference, infinity beyond FP16's range.
inline float pack_group(const float* w, uint32_t n, uint32_t r, uint8_t* lead, uint8_t* group) {
  float low = n ? w[0] : 0.0f, high = low, off = 0.0f;
  for (uint32_t i = 1; i < n; i++) {
    low = std::min(low, w[i]);
    high = std::max(high, w[i]);
  }
  const uint16_t least = to_f16(low), scale = to_f16((high - low) / 15.0f);
  const float from = from_f16(least), step = from_f16(scale), inverse = step > 0.0f ? 1.0f / step : 0.0f;
  if (!std::isfinite(from) || !std::isfinite(step)) return INFINITY;
  int32_t whole[kGroup] = {};
  for (uint32_t i = 0; i < n; i++) {
    whole[i] = int32_t(std::min(15.0f, std::max(0.0f, std::nearbyint((w[i] - from) * inverse))));
    off = std::max(off, std::fabs(w[i] - (from + step * float(whole[i]))));
  }
  memcpy(lead + 2 * r, &scale, 2);
  memcpy(lead + 2 * kBlock + 2 * r, &least, 2);
  put_whole(kI4, whole, r, group);
  return off;
}

// Whether an integer type says all that blocks of a kind say.
inline bool holds(uint32_t type, const Blocks& f) {
  if (type < kI4) return type == kI8 && !f.is_super() && !f.has_least;
  return is_super(type) == f.is_super() && f.bits <= bits_of(type) && f.bits < 8 && (type == kK6) == (f.bits == 6);
}

// A row of blocks in a type that holds them; nullptr: zeros, where a type holds nothing but blocks.
inline void pack_row_of_blocks(uint32_t type, uint32_t in, const Blocks* f, const uint8_t* row, uint32_t r, uint8_t* to) {
  for (uint32_t g = 0; g < groups_of(in); g++) {
    Opened group{};
    if (f != nullptr) open_group(*f, row + g / f->groups * f->bytes(), g % f->groups, group);
    if (type == kI8) {  // few bits as high ones, where their scale allows: products of words have so many of 127
      const float scale = from_f16(group.scale);
      int32_t times = f->bits < 8 ? 1 << (7 - f->bits) : 1;
      while (times > 1 && from_f16(to_f16(scale / float(times))) * float(times) != scale) times /= 2;
      const uint16_t half = to_f16(scale / float(times));
      memcpy(to + scales_at(g) + 2 * r, &half, 2);
      for (uint32_t i = 0; i < kGroup; i++)
        to[quads_at(kI8, g) + i / 4 * 64 + 4 * r + i % 4] = uint8_t((group.whole[i] - int32_t(f->zero)) * times + 128);
      continue;
    }
    uint8_t* lead = to + lead_at(type, g);
    put_whole(type, group.whole, r, to + whole_at(type, g));
    if (is_super(type))
      for (uint32_t i = 0; i < 2; i++) lead[64 + g % 8 * 32 + i * kBlock + r] = uint8_t(group.steps[i]);
    if (type == kK6) {
      const float scale = from_f16(group.scale);
      memcpy(lead + 4 * r, &scale, 4);
      continue;
    }
    uint16_t least = group.least;
    if (is_super(type)) least ^= 0x8000u;  // there it is taken off
    else if (f != nullptr && !f->has_least) least = to_f16(-float(f->zero) * from_f16(group.scale));
    memcpy(lead + 2 * r, &group.scale, 2);
    memcpy(lead + 2 * kBlock + 2 * r, &least, 2);
  }
}

// One row of a block of I8, I8_ROW or I4. Returns what kog_pack does.
inline float pack_row(uint32_t type, uint32_t in, const Kernels& k, const float* w, uint32_t r, uint8_t* to) {
  const float top = w == nullptr ? 0.0f : k.largest_size(w, in);
  float scale = top / 127.0f, off = 0.0f;
  if (type == kI8Row) memcpy(to + 4 * r, &scale, 4);
  for (uint32_t g = 0; g < groups_of(in); g++) {
    const uint32_t from = g * kGroup, n = w == nullptr ? 0 : std::min(kGroup, in - from);
    if (type == kI4) {
      off = std::max(off, pack_group(n ? w + from : nullptr, n, r, to + lead_at(kI4, g), to + whole_at(kI4, g)));
      continue;
    }
    if (type == kI8) {
      const uint16_t half = to_f16(n ? k.largest_size(w + from, n) / 127.0f : 0.0f);
      scale = from_f16(half);
      memcpy(to + scales_at(g) + 2 * r, &half, 2);
    }
    off = std::max(off, k.to_bytes(n ? w + from : nullptr, n, scale, to + quads_at(type, g) + 4 * r));
  }
  return top > 0 ? off / top : 0.0f;
}

// One row of a matrix as floats.
inline void widen_row(const Kernels& k, uint32_t type, const uint8_t* row, uint32_t n, float* to) {
  if (type < kOfBlocks) return widen(k, type, row, n, to);
  const Blocks& f = *blocks_of(type - kOfBlocks);
  for (uint32_t g = 0; g < n / kNumbers; g++)
    numbers_of(f, row + g / f.groups * f.bytes(), g % f.groups, to + g * kNumbers);
}

struct Row {  // of an unpacked matrix; nullptr: zeros
  uint32_t type;
  const uint8_t* data;
};

// 16 rows of `in` columns in an integer type.
inline float pack_integers(uint32_t type, uint32_t in, const Kernels& k, const Row* rows, uint8_t* to) {
  // The scales of a group that is not there: what is packed depends on nothing that the memory held before.
  if (type == kI8 && groups_of(in) % 2) memset(to + scales_at(groups_of(in)), 0, 2 * kBlock);
  const bool only_blocks = type == kI5 || is_super(type);
  std::vector<float> opened(in);
  float worst = 0.0f;
  for (uint32_t r = 0; r < kBlock; r++) {
    const Blocks* f = rows[r].data && rows[r].type >= kOfBlocks ? blocks_of(rows[r].type - kOfBlocks) : nullptr;
    if (f ? holds(type, *f) : !rows[r].data && only_blocks) {
      pack_row_of_blocks(type, in, f, rows[r].data, r, to);
    } else if (only_blocks) {
      return INFINITY;
    } else {
      if (rows[r].data) widen_row(k, rows[r].type, rows[r].data, in, opened.data());
      worst = std::max(worst, pack_row(type, in, k, rows[r].data ? opened.data() : nullptr, r, to));
    }
  }
  return worst;
}

// 16 rows of `in` columns. Returns what kog_pack does.
inline float pack_block(uint32_t type, uint32_t in, const Kernels& k, const Row* rows, uint8_t* to) {
  if (is_quantised(type)) return pack_integers(type, in, k, rows, to);
  std::vector<float> opened;  // rows of blocks
  constexpr uint32_t some = 64;  // a few columns at a time: their lines stay in the cache
  float worst = 0.0f;
  if (rows[kBlock - 1].data == nullptr || type == kBF16) memset(to, 0, block_bytes(type, in));
  std::array<Row, kBlock> plain;
  std::copy_n(rows, kBlock, plain.begin());
  for (uint32_t r = 0; r < kBlock; r++) {
    if (rows[r].data == nullptr || rows[r].type < kOfBlocks) continue;
    opened.resize(size_t(kBlock) * in);
    widen_row(k, rows[r].type, rows[r].data, in, &opened[size_t(r) * in]);
    plain[r] = {kF32, reinterpret_cast<const uint8_t*>(&opened[size_t(r) * in])};
  }
  for (uint32_t from = 0; from < in; from += some) {
    const uint32_t n = std::min(some, in - from);
    for (uint32_t r = 0; r < kBlock && plain[r].data != nullptr; r++) {
      const uint8_t* row = plain[r].data + row_bytes(plain[r].type, from);
      float floats[some];
      uint16_t halves[some];
      if (plain[r].type != type) {
        widen(k, plain[r].type, row, n, floats);
        row = reinterpret_cast<const uint8_t*>(floats);
        if (type != kF32) {
          worst = std::max(worst, narrow(k, type, floats, n, halves));
          row = reinterpret_cast<const uint8_t*>(halves);
        }
      }
      switch (type) {
        case kF32:
          for (uint32_t i = 0; i < n; i++) memcpy(to + (size_t(from + i) * kBlock + r) * 4, row + size_t(i) * 4, 4);
          break;
        case kF16:
          for (uint32_t i = 0; i < n; i++) memcpy(to + (size_t(from + i) * kBlock + r) * 2, row + size_t(i) * 2, 2);
          break;
        default:
          for (uint32_t i = 0; i < n; i++)
            memcpy(to + (size_t((from + i) / 2) * kBlock + r) * 4 + i % 2 * 2, row + size_t(i) * 2, 2);
      }
    }
  }
  return worst;
}

// Row `row` (0..15) of a packed block as floats.
inline void unpack_row(uint32_t type, uint32_t in, const uint8_t* block, uint32_t row, float* out) {
  for (uint32_t k = 0; k < in; k++) {
    const uint32_t g = k / kGroup, i = k % kGroup;
    switch (type) {
      case kF32: memcpy(out + k, block + (size_t(k) * kBlock + row) * 4, 4); break;
      case kF16: out[k] = from_f16(half_at(block, size_t(k) * kBlock + row)); break;
      case kBF16: out[k] = from_bf16(half_at(block, (size_t(k / 2) * kBlock + row) * 2 + k % 2)); break;
      case kI8:
      case kI8Row: {
        float scale;
        if (type == kI8Row)
          memcpy(&scale, block + 4 * row, 4);
        else
          scale = from_f16(half_at(block + scales_at(g), row));
        const uint8_t q = block[quads_at(type, g) + i / 4 * 64 + 4 * row + i % 4];
        out[k] = float(int32_t(q) - 128) * scale;
        break;
      }
      default: {
        const uint8_t* lead = block + lead_at(type, g);
        const int8_t* steps = reinterpret_cast<const int8_t*>(lead + 64 + g % led_groups(type) * 32) + row;
        const float whole = float(get_whole(type, row, i, block + whole_at(type, g)));
        float scale = from_f16(half_at(lead, row)), least = from_f16(half_at(lead + 2 * kBlock, row));
        if (type == kK6) {
          memcpy(&scale, lead + 4 * row, 4);
          out[k] = scale * float(steps[i / 16 * kBlock]) * (whole - 32.0f);
          break;
        }
        if (is_super(type)) {
          scale *= float(steps[0]);
          least *= float(steps[kBlock]);
        }
        out[k] = scale * whole + least;
      }
    }
  }
}

}  // namespace kog
#endif
