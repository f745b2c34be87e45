#include "rendezvous/host_id.h"

#include <limits.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/boot.h"

namespace hvdlite::rendezvous {

std::string HostId(const std::string& configured) {
  if (!configured.empty()) return configured;
  char name[HOST_NAME_MAX + 1] = "localhost";
  if (gethostname(name, sizeof(name)) != 0) name[0] = '\0';
  name[HOST_NAME_MAX] = '\0';
  // A file that cannot be read (no /proc in a jail) is left out on every rank of that host alike.
  struct stat network{};
  const bool known = stat("/proc/self/ns/net", &network) == 0;
  return std::string(name) + "#" + BootId() + "#" + (known ? std::to_string(network.st_ino) : "");
}

std::string HostName(const std::string& host_id) {
  return host_id.substr(0, host_id.find('#'));
}

}  // namespace hvdlite::rendezvous
