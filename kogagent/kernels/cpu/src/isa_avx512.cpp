// AVX-512 without VNNI: its first processors.

#define KOG_SET avx512
#define KOG_FOR KOG_X86
#define KOG_TARGET "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma,f16c"
#define KOG_VECTOR "isa_avx512.inc"
#define KOG_CAN                                                                 \
  __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&    \
      __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") && \
      __builtin_cpu_supports("fma")
#define KOG_EMULATES
#include "isa.inc"
