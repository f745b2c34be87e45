// The function of kernels/select.h with the table of kernels as an argument, `stretch` elements at
// a time. So tests can run every instruction set that this CPU has.
#pragma once

#include "kernels/cpu/table.h"
#include "kernels/select.h"

namespace hvdlite::kernels::cpu {

void Select(const KernelTable& table, const Selection& selection, int64_t stretch);

}  // namespace hvdlite::kernels::cpu
