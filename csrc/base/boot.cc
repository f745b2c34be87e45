#include "base/boot.h"

#include <fstream>

namespace hvdlite {

std::string BootId() {
  std::string id;
  std::ifstream("/proc/sys/kernel/random/boot_id") >> id;
  return id;
}

}  // namespace hvdlite
