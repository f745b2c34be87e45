// Compiled with -mavx2 -mf16c (simd.cmake); called only if dispatch.cc has found both. The table is
// a constant, so nothing here runs when the library is loaded.
#if defined(__x86_64__)
#define HVDLITE_VECTOR_BYTES 32
#include "kernels/cpu/table_impl.h"

namespace hvdlite::kernels::cpu {

extern const KernelTable kAvx2Table;
constinit const KernelTable kAvx2Table = MakeTable("avx2");

}  // namespace hvdlite::kernels::cpu
#endif
