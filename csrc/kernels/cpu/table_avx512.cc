// Compiled with AVX-512 F, BW, DQ and VL (simd.cmake); called only if dispatch.cc has found them
// all.
#if defined(__x86_64__)
#define HVDLITE_VECTOR_BYTES 64
#include "kernels/cpu/table_impl.h"

namespace hvdlite::kernels::cpu {

extern const KernelTable kAvx512Table;
constinit const KernelTable kAvx512Table = MakeTable("avx512");

}  // namespace hvdlite::kernels::cpu
#endif
