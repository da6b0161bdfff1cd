// AVX-512 with integer (VNNI) and BF16 products.

#include "kernels.h"

#if defined(KOG_EMULATED)
#include "emulated.hpp"  // for tests: not among the library's sources
#elif defined(__x86_64__) && defined(__GNUC__)
#if defined(__clang__)
#pragma clang attribute push(__attribute__((target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,avx512vnni,avx512bf16"))), \
                             apply_to = function)
#else
#pragma GCC target("avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,avx512vnni,avx512bf16,prefer-vector-width=512")
#endif
#include <immintrin.h>
#endif

#if defined(KOG_EMULATED) || (defined(__x86_64__) && defined(__GNUC__))
#define KOG_BF16_DOT
namespace kog {
namespace {

#include "isa_avx512.inc"

const Kernels kTable = {"avx512_vnni", product, norm, gate, attend, land, largest, exp_sum, read};

}  // namespace

const Kernels* kernels_avx512_vnni() {
#if defined(KOG_EMULATED)
  return &kTable;
#else
  const bool can = __builtin_cpu_supports("avx512f") &&
                   __builtin_cpu_supports("avx512bw") &&
                   __builtin_cpu_supports("avx512dq") &&
                   __builtin_cpu_supports("avx512vl") &&
                   __builtin_cpu_supports("fma") &&
                   __builtin_cpu_supports("avx512vnni") &&
                   __builtin_cpu_supports("avx512bf16");
  return can ? &kTable : nullptr;
#endif
}

}  // namespace kog
#if defined(__clang__) && !defined(KOG_EMULATED)
#pragma clang attribute pop
#endif
#else
namespace kog {
const Kernels* kernels_avx512_vnni() { return nullptr; }
}  // namespace kog
#endif
