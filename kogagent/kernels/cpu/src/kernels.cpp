// Which instruction sets there are on this processor, best first.

#include "kernels.h"

#include <string.h>

namespace kog {
namespace {

const Kernels* at(uint32_t i) {
  switch (i) {
    case 0: return kernels_avx512_vnni();
    case 1: return kernels_avx512();
    case 2: return kernels_avx2();
    case 3: return kernels_neon_dot();
    case 4: return kernels_neon();
    default: return kernels_portable();
  }
}

}  // namespace

const Kernels* best_kernels() {
  uint32_t i = 0;
  while (at(i) == nullptr) i++;
  return at(i);
}

const Kernels* named_kernels(const char* name) {
  for (uint32_t i = 0; i < 6; i++)
    if (at(i) != nullptr && strcmp(at(i)->name, name) == 0) return at(i);
  return nullptr;
}

}  // namespace kog
