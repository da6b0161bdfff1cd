// 64-bit Arm with dot products of bytes.

#if defined(__aarch64__) && defined(__linux__)
#include <sys/auxv.h>
#define KOG_CAN (getauxval(AT_HWCAP) & (1ul << 20)) != 0  // HWCAP_ASIMDDP
#elif defined(__APPLE__)
#define KOG_CAN true  // every Mac with an Arm processor
#else
#define KOG_CAN false
#endif

#define KOG_SET neon_dot
#define KOG_FOR KOG_ARM
#if defined(__clang__)
#define KOG_TARGET "dotprod"
#else
#define KOG_TARGET "arch=armv8.2-a+dotprod"
#endif
#if defined(__aarch64__) && !defined(__ARM_FEATURE_DOTPROD)
#define __ARM_FEATURE_DOTPROD 1
#endif
#define KOG_VECTOR "isa_neon.inc"
#include "isa.inc"
