// AVX-512 with integer (VNNI) and BF16 products.

#define KOG_SET avx512_vnni
#define KOG_FOR KOG_X86
#define KOG_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c,avx512vnni,avx512bf16"
#define KOG_VECTOR "isa_avx512.inc"
#define KOG_BF16_DOT
#define KOG_CAN                                                                   \
  __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&      \
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && \
      __builtin_cpu_supports("fma") && __builtin_cpu_supports("avx512vnni") &&    \
      __builtin_cpu_supports("avx512bf16")
#define KOG_EMULATES
#include "isa.inc"
