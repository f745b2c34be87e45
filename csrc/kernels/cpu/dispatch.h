// The instruction sets that this build and this CPU have. Internal to kernels/; tests compare all
// of them. Thread-safe. Tables live as long as the process.
#pragma once

#include <vector>

#include "kernels/cpu/table.h"

namespace hvdlite::kernels::cpu {

// The fastest table that this CPU and operating system can run; decided at the first call.
const KernelTable& ActiveTable();

// Every table that can run here, slowest first. Never empty.
std::vector<const KernelTable*> SupportedTables();

}  // namespace hvdlite::kernels::cpu
