// The arithmetic for any 64-bit Arm.

#include "kernels.h"

#if defined(__aarch64__) && defined(__GNUC__)
#include <arm_neon.h>

namespace kog {
namespace {

#include "isa_neon.inc"

const Kernels kTable = {"neon", product, norm, gate, attend, land, largest, exp_sum, read};

}  // namespace

const Kernels* kernels_neon() { return &kTable; }

}  // namespace kog
#else
namespace kog {
const Kernels* kernels_neon() { return nullptr; }
}  // namespace kog
#endif
