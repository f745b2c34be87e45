// The instruction set that every machine of this architecture has: SSE2 on x86-64, NEON on aarch64.
// The compiler makes the 16-byte vectors of whatever it has; without vector registers, of scalar
// code.
#define HVDLITE_VECTOR_BYTES 16
#include "kernels/cpu/table_impl.h"

namespace hvdlite::kernels::cpu {

extern const KernelTable kBaselineTable;
#if defined(__SSE2__)
constinit const KernelTable kBaselineTable = MakeTable("sse2");
#elif defined(__ARM_NEON)
constinit const KernelTable kBaselineTable = MakeTable("neon");
#else
constinit const KernelTable kBaselineTable = MakeTable("scalar");
#endif

}  // namespace hvdlite::kernels::cpu
