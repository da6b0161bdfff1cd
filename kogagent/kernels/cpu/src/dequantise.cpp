// GGML's quantised blocks to FP16, all of a tensor.

#include <algorithm>
#include <exception>
#include <thread>
#include <vector>

#include "blocks.h"
#include "kernels.h"
#include "native.h"

namespace kog {
namespace {

constexpr uint64_t kNumbersEach = 1 << 17;  // below that many a thread costs more than it saves

void dequantise(const Blocks& f, const Kernels& k, const uint8_t* block, uint64_t count, uint16_t* to) {
  for (uint64_t n = 0; n < count; n++, block += f.bytes())
    for (uint32_t g = 0; g < f.groups; g++, to += kNumbers) {
      float x[kNumbers];
      numbers_of(f, block, g, x);
      k.to_halves(x, kNumbers, to);
    }
}

}  // namespace
}  // namespace kog

extern "C" int kog_dequantise(uint32_t kind, const uint8_t* blocks, uint64_t count, uint16_t* to, uint32_t threads) {
  const kog::Blocks* f = kog::blocks_of(kind);
  if (f == nullptr) return 0;
  const uint64_t each = f->groups * kog::kNumbers;
  const uint64_t parts = std::max<uint64_t>(1, std::min<uint64_t>(threads, count * each / kog::kNumbersEach));
  const auto part = [&](uint64_t i) {
    const uint64_t from = count * i / parts, until = count * (i + 1) / parts;
    kog::dequantise(*f, *kog::best_kernels(), blocks + from * f->bytes(), until - from, to + from * each);
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
