// Any 64-bit Arm.

#define KOG_SET neon
#define KOG_FOR KOG_ARM
#define KOG_VECTOR "isa_neon.inc"
#define KOG_CAN true
#include "isa.inc"
