// The arithmetic of one thread as a table of functions, one table for each instruction set.
//
// Includes no C++ header: what the instruction sets' files compile must never be shared with each other.

#ifndef KOG_KERNELS_H
#define KOG_KERNELS_H

#include <stddef.h>
#include <stdint.h>

namespace kog {

constexpr uint32_t kBlock = 16;      // rows of a packed block: lanes of the widest vector
constexpr uint32_t kGroup = 32;      // columns that share a scale
constexpr uint32_t kFewRows = 8;     // up to here rows meet the weights as they are packed
constexpr uint32_t kPanel = 512;     // columns that are unpacked at a time for more rows than that
constexpr uint32_t kPanelBlocks = 4; // and blocks
constexpr uint32_t kWordPanel = 128; // columns that share scales where integer products are made of 16-bit words
constexpr uint32_t kPlaces = 2;      // in which a thread reads its weights side by side
constexpr uint32_t kQueries = 8;     // queries of one Attend at most

// A packed block holds 16 rows of `in` columns:
//   F32, F16        column after column, 16 weights each
//   BF16            two columns at a time, 16 pairs of weights
//   I8, I8_ROW      four columns at a time, 16 quads of (weight + 128); columns filled up to a group with 128.
//                   I8: 16 FP16 scales for each of the next two groups lead them (64 bytes);
//                   I8_ROW: 16 FP32 scales lead the block.
//   I4, I5          groups of 32 columns: 16 FP16 scales, 16 FP16 least values, then the integers, 0 .. 15 or 31. A weight
//                   is least + scale * integer; of columns past `in` nothing is known.
//   K4, K5          eight groups at a time: 16 FP16 scales, 16 FP16 least values, for each group 16 bytes that multiply the
//                   scales and 16 that multiply the least values, then the groups' integers.
//   K6              eight groups at a time: 16 FP32 scales, for each group two times 16 signed bytes that multiply them, one
//                   for each 16 columns, then the groups' integers, 0 .. 63. A weight is scale * (integer - 32).
// A group of integers below 8 bits: the bits above the lower four, of 16 quads as many quads beside each other in a byte
// as there is room for, the first in the lowest bits; then eight columns at a time 16 quads of the first four in the
// low halves of the bytes, of the other four in the high halves.
enum : uint32_t { kF32 = 0, kF16 = 1, kBF16 = 2, kI8 = 3, kI8Row = 4, kI4 = 5, kI5 = 6, kK4 = 7, kK5 = 8, kK6 = 9 };

inline bool is_quantised(uint32_t type) { return type >= kI8; }
constexpr bool is_super(uint32_t type) { return type >= kK4; }
constexpr uint32_t bits_of(uint32_t type) {  // of an integer
  return type == kI4 || type == kK4 ? 4 : type == kI5 || type == kK5 ? 5 : type == kK6 ? 6 : 8;
}
inline uint32_t groups_of(uint32_t in) { return (in + kGroup - 1) / kGroup; }
inline uint32_t word_panels(uint32_t in) { return (in + kWordPanel - 1) / kWordPanel; }

// Integers below 8 bits: bytes of a group's, of what leads one group or eight; where that and group g's integers lie.
constexpr size_t whole_bytes(uint32_t type) { return bits_of(type) * 64; }
constexpr size_t lead_bytes(uint32_t type) { return is_super(type) ? 64 + 8 * 32 : 64; }
constexpr uint32_t led_groups(uint32_t type) { return is_super(type) ? 8 : 1; }
constexpr size_t lead_at(uint32_t type, uint32_t g) {
  return g / led_groups(type) * (lead_bytes(type) + led_groups(type) * whole_bytes(type));
}
constexpr size_t whole_at(uint32_t type, uint32_t g) {
  return lead_at(type, g) + lead_bytes(type) + g % led_groups(type) * whole_bytes(type);
}

inline size_t block_bytes(uint32_t type, uint32_t in) {
  switch (type) {
    case kF32: return size_t(in) * 64;
    case kF16: return size_t(in) * 32;
    case kBF16: return size_t(in + 1) / 2 * 64;
    case kI8: return size_t(groups_of(in)) * 512 + size_t(groups_of(in) + 1) / 2 * 64;
    case kI8Row: return size_t(groups_of(in)) * 512 + 64;
    default: return lead_at(type, groups_of(in) + led_groups(type) - 1);
  }
}

// Bytes of room a product needs: a panel of floats, or rows in the form that the packed weights meet, or rows of
// integer products as words with a scale for some columns.
inline size_t product_room(uint32_t type, uint32_t in, uint32_t rows) {
  const size_t panel = size_t(kPanelBlocks) * kPanel * kBlock * sizeof(float);
  const size_t few = size_t(kFewRows) * groups_of(in) * (2 * kGroup * sizeof(float));
  const size_t words = word_panels(in) * (kWordPanel * sizeof(int16_t) + sizeof(float));
  const size_t many = is_quantised(type) && rows > kFewRows ? (rows + kBlock) * words : 0;
  const size_t most = panel > few ? panel : few;
  return most > many ? most : many;
}

// Neighbouring packed blocks: the first one's number, how many.
struct Place {
  const uint8_t* w;
  uint32_t block, blocks;
};

// y[r][b*16 + i] = sum_k w[b][k][i] * x[r][k] for the blocks b of some places; only the first `valid` columns of y are
// written.
struct Product {
  uint32_t type, in;
  const float* x;
  size_t ldx;
  uint32_t rows;
  float* y;
  size_t ldy;
  uint32_t valid;
  void* room;  // product_room bytes, aligned to 64
  bool again;  // room holds what the product before has made of the same rows
  Place places[kPlaces];  // no place has more blocks than the one before
};

// Queries that share keys and values. Query i sees positions first[i] .. last[i]-1; all positions below the
// largest `last` hold keys and values. scores has room for `count` rows of `stride` floats, stride a multiple
// of 16 and at least the largest `last` rounded up.
struct Attend {
  const void* keys;    // [tiles, h, 16]
  const void* values;  // [capacity, width]
  uint32_t type;       // kF32 or kF16
  uint32_t h, width, count;
  const float* q[kQueries];
  float* out[kQueries];
  uint32_t first[kQueries], last[kQueries];
  float* scores;
  size_t stride;
};

// What lands in the streams of some lanes, in `n` columns of one row: own * source[lane] and, where others is
// not 0, others * the sum of all other lanes' sources. lane_step: floats from one lane to the next.
struct Landing {
  float* streams;
  const float* source;
  size_t lane_step;
  uint32_t lanes, first, last;  // all there are; those that are written
  uint32_t n;
  float own, others;
};

struct Kernels {
  const char* name;
  uint32_t queries;  // of one Attend, here
  void (*product)(const Product&);
  void (*norm)(const float* x, const float* weight, float eps, uint32_t n, float* out);
  // both: 16 gates, then 16 values; out[i] = silu(gate) * value for i < n
  void (*gate)(const float* both, uint32_t n, float* out);
  void (*attend)(const Attend&);
  void (*land)(const Landing&);
  // largest of x and, given it, the sum of exp(x - largest)
  float (*largest)(const float* x, size_t n);
  double (*exp_sum)(const float* x, size_t n, float top);
  // n floats as FP16: nearest, ties to even
  void (*to_halves)(const float* x, size_t n, uint16_t* out);
  void (*to_floats)(const uint8_t* halves, size_t n, float* out);
  float (*largest_size)(const float* x, uint32_t n);
  // n weights, and zeros up to kGroup, as bytes: 128 plus the integer within -127..127 that is nearest to w / scale,
  // each four 64 bytes behind those before. Returns the largest |w - integer * scale|.
  float (*to_bytes)(const float* w, uint32_t n, float scale, uint8_t* quads);
  // reads n bytes, a multiple of 1024, in `streams` places at once, as fast as it can; something of all of them
  float (*read)(const uint8_t* p, size_t n, uint32_t streams);
};

const Kernels* best_kernels();                    // of those this processor runs
const Kernels* named_kernels(const char* name);  // nullptr where it runs none of that name

// nullptr where it was not compiled or this processor lacks it
const Kernels* kernels_avx512_vnni();
const Kernels* kernels_avx512();
const Kernels* kernels_avx2();
const Kernels* kernels_neon_dot();
const Kernels* kernels_neon();
const Kernels* kernels_portable();

}  // namespace kog
#endif
