// Any processor.

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("O2", "tree-vectorize")  // O3 takes four times as long and gains nothing
#endif
#define KOG_SET portable
#define KOG_FOR KOG_ANY
#define KOG_VECTOR "isa_portable.inc"
#define KOG_CAN true
#include "isa.inc"
