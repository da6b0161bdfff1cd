// AVX2 with FMA and F16C.

#define KOG_SET avx2
#define KOG_FOR KOG_X86
#define KOG_TARGET "avx2,fma,f16c"
#define KOG_VECTOR "isa_avx2.inc"
#define KOG_CAN __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") && __builtin_cpu_supports("f16c")
#include "isa.inc"
