// GGML's quantised blocks of 32 numbers to FP16. Knows no file and no model.

#include <string.h>

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "halves.h"
#include "kernels.h"
#include "native.h"

namespace kog {
namespace {

constexpr uint32_t kNumbers = 32;        // of a block
constexpr uint64_t kBlocksEach = 1 << 12;  // below that many a thread costs more than it saves

struct Format {  // x = d * (q - zero) + m: d, then m and the fifth bits where there are some, then q
  uint32_t kind, bits, zero;  // kind: GGML's number of the type
  bool has_least;
};
constexpr Format kFormats[] = {{2, 4, 8, false}, {3, 4, 0, true}, {6, 5, 16, false}, {7, 5, 0, true}, {8, 8, 0, false}};

uint16_t half(const uint8_t* p) { return uint16_t(p[0] | p[1] << 8); }

uint32_t bytes_of(const Format& f) { return 2 + (f.has_least ? 2 : 0) + (f.bits == 5 ? 4 : 0) + (f.bits == 8 ? 32 : 16); }

void dequantise(const Format& f, const Kernels& k, const uint8_t* block, uint64_t count, uint16_t* to) {
  const uint32_t size = bytes_of(f);
  for (uint64_t n = 0; n < count; n++, block += size, to += kNumbers) {
    const float d = from_f16(half(block)), least = f.has_least ? from_f16(half(block + 2)) : 0.0f;
    const uint8_t* q = block + size - (f.bits == 8 ? 32 : 16);
    float x[kNumbers];
    if (f.bits == 8) {
      for (uint32_t i = 0; i < kNumbers; i++) x[i] = d * float(int8_t(q[i]));
    } else {
      uint8_t whole[kNumbers];
      for (uint32_t i = 0; i < 16; i++) {
        whole[i] = q[i] & 15u;
        whole[i + 16] = uint8_t(q[i] >> 4u);
      }
      if (f.bits == 5) {
        uint32_t fifth = 0;
        for (uint32_t i = 0; i < 4; i++) fifth |= uint32_t(q[int(i) - 4]) << 8 * i;
        for (uint32_t i = 0; i < kNumbers; i++) whole[i] |= uint8_t((fifth >> i & 1u) << 4);
      }
      for (uint32_t i = 0; i < kNumbers; i++) x[i] = d * float(int32_t(whole[i]) - int32_t(f.zero));
      for (uint32_t i = 0; f.has_least && i < kNumbers; i++) x[i] += least;
    }
    k.to_halves(x, kNumbers, to);
  }
}

}  // namespace
}  // namespace kog

extern "C" int kog_dequantise(uint32_t kind, const uint8_t* blocks, uint64_t count, uint16_t* to, uint32_t threads) {
  for (const kog::Format& f : kog::kFormats) {
    if (f.kind != kind) continue;
    const uint64_t parts = std::max<uint64_t>(1, std::min<uint64_t>(threads, count / kog::kBlocksEach));
    const auto part = [&](uint64_t i) {
      const uint64_t from = count * i / parts, until = count * (i + 1) / parts;
      kog::dequantise(f, *kog::best_kernels(), blocks + from * kog::bytes_of(f), until - from,
                      to + from * kog::kNumbers);
    };
    std::vector<std::thread> team;
    for (uint64_t i = 1; i < parts; i++) {
      try {
        team.emplace_back(part, i);
      } catch (const std::exception&) {  // no thread to be had
        part(i);
      }
    }
    part(0);
    for (std::thread& one : team) one.join();
    return 1;
  }
  return 0;
}
