// BootId: the kernel's own number of this boot. Processes that read the same text share
// CLOCK_MONOTONIC. Empty where it cannot be read (no /proc in a jail).
#pragma once

#include <string>

namespace hvdlite {

std::string BootId();

}  // namespace hvdlite
