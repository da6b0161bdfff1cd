// The arithmetic of one thread as a table of functions, one table for each instruction set.
//
// Includes no C++ header: what the instruction sets' files compile must never be shared with each other.

#ifndef KOG_KERNELS_H
#define KOG_KERNELS_H

#include <stddef.h>
#include <stdint.h>

namespace kog {

constexpr uint32_t kBlock = 16;   // rows of a packed block: lanes of the widest vector
constexpr uint32_t kGroup = 32;   // columns that share a scale in I8
constexpr uint32_t kQueries = 8;  // queries of one Attend

// Bytes of a packed block of 16 rows and `in` columns: column after column, 16 weights each; in I8 every 32
// columns are led by their 16 scales in FP16.
inline size_t block_bytes(uint32_t type, uint32_t in) {
  if (type == 0) return size_t(in) * 64;
  if (type == 3) return size_t(in) * 16 + size_t((in + kGroup - 1) / kGroup) * 32;
  return size_t(in) * 32;
}

// y[r][b*16 + i] = sum_k w[b][k][i] * x[r][k]; only the first `valid` columns of y are written.
struct Product {
  const uint8_t* w;
  uint32_t type, in, blocks;
  const float* x;
  size_t ldx;
  uint32_t rows;
  float* y;
  size_t ldy;
  uint32_t valid;
};

// Queries that share keys and values. Query i sees positions first[i] .. last[i]-1; all positions below the
// largest `last` hold keys and values. scores has room for `count` rows of `stride` floats, stride a multiple
// of 16 and at least the largest `last` rounded up.
struct Attend {
  const void* keys;    // [tiles, h, 16]
  const void* values;  // [capacity, width]
  uint32_t type;       // 0 FP32, 1 FP16
  uint32_t h, width, count;
  const float* q[kQueries];
  float* out[kQueries];
  uint32_t first[kQueries], last[kQueries];
  float* scores;
  size_t stride;
};

struct Kernels {
  const char* name;
  void (*product)(const Product&);
  void (*norm)(const float* x, const float* weight, float eps, uint32_t n, float* out);
  // both: 16 gates, then 16 values; out[i] = silu(gate) * value for i < n
  void (*gate)(const float* both, uint32_t n, float* out);
  void (*attend)(const Attend&);
  // largest of x and, given it, the sum of exp(x - largest)
  float (*largest)(const float* x, size_t n);
  double (*exp_sum)(const float* x, size_t n, float top);
};

const Kernels* kernels_avx512();  // nullptr where it was not compiled or this processor lacks it
const Kernels* kernels_avx2();
const Kernels* kernels_portable();

}  // namespace kog
#endif
