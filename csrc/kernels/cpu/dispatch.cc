#include "kernels/cpu/dispatch.h"

#if defined(__x86_64__)
#include <cpuid.h>
#endif

namespace hvdlite::kernels::cpu {

extern const KernelTable kBaselineTable;
#if defined(__x86_64__)
extern const KernelTable kAvx2Table;
extern const KernelTable kAvx512Table;
#endif

namespace {

#if defined(__x86_64__)
// __builtin_cpu_supports also checks that the operating system saves the wide registers, which a
// bare cpuid does not. But not every compiler knows the name "f16c".
bool HasF16c() {
  unsigned eax = 0, ebx = 0, ecx = 0, edx = 0;
  return __get_cpuid(1, &eax, &ebx, &ecx, &edx) != 0 && (ecx & bit_F16C) != 0;
}
bool HasAvx2() {
  return __builtin_cpu_supports("avx2") && HasF16c();
}
bool HasAvx512() {
  return HasAvx2() && __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
         __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl");
}
#endif

}  // namespace

std::vector<const KernelTable*> SupportedTables() {
  std::vector<const KernelTable*> tables = {&kBaselineTable};
#if defined(__x86_64__)
  if (HasAvx2()) tables.push_back(&kAvx2Table);
  if (HasAvx512()) tables.push_back(&kAvx512Table);
#endif
  return tables;
}

const KernelTable& ActiveTable() {
  static const KernelTable& table = *SupportedTables().back();
  return table;
}

}  // namespace hvdlite::kernels::cpu
