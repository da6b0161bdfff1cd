// The arithmetic for 64-bit Arm with dot products of bytes.

#include "kernels.h"

#if defined(__aarch64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("dotprod"))), apply_to = function)
#else
#pragma GCC target("arch=armv8.2-a+dotprod")
#endif
#if !defined(__ARM_FEATURE_DOTPROD)
#define __ARM_FEATURE_DOTPROD 1
#endif
#include <arm_neon.h>
#if defined(__linux__)
#include <sys/auxv.h>
#endif

namespace kog {
namespace {

#include "isa_neon.inc"

const Kernels kTable = {"neon_dot", product, norm, gate, attend, land, largest, exp_sum, read};

bool can() {
#if defined(__APPLE__)
  return true;  // every Mac with an Arm processor
#elif defined(__linux__)
  return (getauxval(AT_HWCAP) & (1ul << 20)) != 0;  // HWCAP_ASIMDDP
#else
  return false;
#endif
}

}  // namespace

const Kernels* kernels_neon_dot() { return can() ? &kTable : nullptr; }

}  // namespace kog
#if defined(__clang__)
#pragma clang attribute pop
#endif
#else
namespace kog {
const Kernels* kernels_neon_dot() { return nullptr; }
}  // namespace kog
#endif
