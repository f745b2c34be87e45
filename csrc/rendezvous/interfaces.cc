#include "rendezvous/interfaces.h"

#include <arpa/inet.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>

#include <algorithm>
#include <bit>
#include <cerrno>
#include <memory>

namespace hvdlite::rendezvous {
namespace {

constexpr size_t kMostAddresses = 64;  // a Member may carry no more

// Bridges and pairs of docker, podman, libvirt, LXC, VirtualBox, VMware and of Kubernetes' network
// plug-ins.
constexpr std::string_view kVirtual[] = {"docker", "br-",  "virbr",   "veth",    "vnet",
                                         "podman", "lxc",  "lxdbr",   "vboxnet", "vmnet",
                                         "cni",    "cali", "flannel", "kube-"};

bool IsVirtual(const std::string& interface) {
  return std::any_of(std::begin(kVirtual), std::end(kVirtual), [&](std::string_view prefix) {
    return interface.compare(0, prefix.size(), prefix) == 0;
  });
}

bool IsLinkLocal(const std::string& address) {
  return address.compare(0, 8, "169.254.") == 0 || address.find('%') != std::string::npos;
}

// Lower is better.
int Order(const InterfaceAddress& address) {
  const int kind = address.loopback               ? 3
                   : !address.running             ? 2
                   : IsVirtual(address.interface) ? 1
                                                  : 0;
  const int family = IsLinkLocal(address.address)                     ? 2
                     : address.address.find(':') != std::string::npos ? 1
                                                                      : 0;
  return 10 * kind + family;
}

int PrefixOf(const sockaddr* mask, int family) {
  const bool v4 = family == AF_INET;
  if (mask == nullptr) return v4 ? 32 : 128;  // no other address is known to be near
  const auto* bytes =
      v4 ? reinterpret_cast<const uint8_t*>(&reinterpret_cast<const sockaddr_in*>(mask)->sin_addr)
         : reinterpret_cast<const uint8_t*>(
               &reinterpret_cast<const sockaddr_in6*>(mask)->sin6_addr);
  int bits = 0;
  for (int i = 0; i < (v4 ? 4 : 16); ++i) bits += std::popcount(bytes[i]);
  return bits;
}

}  // namespace

std::vector<std::string> ParseInterfaceNames(std::string_view text) {
  std::vector<std::string> names;
  while (!text.empty()) {
    const size_t comma = std::min(text.find(','), text.size());
    std::string name(text.substr(0, comma));
    std::erase_if(name, [](char c) { return c == ' ' || c == '\t'; });
    if (!name.empty()) names.push_back(name);
    text.remove_prefix(std::min(comma + 1, text.size()));
  }
  return names;
}

Status SelectAddresses(const std::vector<InterfaceAddress>& all,
                       const std::vector<std::string>& names,
                       std::vector<InterfaceAddress>* selected) {
  std::vector<InterfaceAddress> ordered = all;
  std::stable_sort(
      ordered.begin(), ordered.end(),
      [](const InterfaceAddress& a, const InterfaceAddress& b) { return Order(a) < Order(b); });
  selected->clear();
  if (names.empty()) {
    *selected = std::move(ordered);
    return Status::Ok();
  }
  for (const std::string& name : names) {
    const size_t before = selected->size();
    std::copy_if(ordered.begin(), ordered.end(), std::back_inserter(*selected),
                 [&](const InterfaceAddress& address) { return address.interface == name; });
    if (selected->size() > before) continue;
    std::string present;
    for (const InterfaceAddress& address : ordered) {
      present += (present.empty() ? "" : ", ") + address.interface + " (" + address.address + ")";
    }
    return Status::InvalidArgument("network interface '" + name +
                                   "' is down, has no address, or does not exist; this " +
                                   "machine has: " + (present.empty() ? "none" : present));
  }
  return Status::Ok();
}

Status ListAddresses(std::vector<InterfaceAddress>* addresses) {
  addresses->clear();
  ifaddrs* list = nullptr;
  if (getifaddrs(&list) != 0)
    return Status::FromErrno("cannot list this machine's network interfaces", errno);
  const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(list, freeifaddrs);
  for (const ifaddrs* entry = list; entry != nullptr; entry = entry->ifa_next) {
    if (entry->ifa_addr == nullptr || (entry->ifa_flags & IFF_UP) == 0) continue;
    const int family = entry->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    char host[NI_MAXHOST];
    const socklen_t length = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
    if (getnameinfo(entry->ifa_addr, length, host, sizeof(host), nullptr, 0, NI_NUMERICHOST) != 0)
      continue;
    addresses->push_back({entry->ifa_name, host, PrefixOf(entry->ifa_netmask, family),
                          (entry->ifa_flags & IFF_LOOPBACK) != 0,
                          (entry->ifa_flags & IFF_RUNNING) != 0});
  }
  return Status::Ok();
}

Status AddressesToTell(const std::vector<std::string>& names, std::vector<std::string>* addresses) {
  std::vector<InterfaceAddress> all;
  std::vector<InterfaceAddress> selected;
  HVDLITE_RETURN_IF_ERROR(ListAddresses(&all));
  HVDLITE_RETURN_IF_ERROR(SelectAddresses(all, names, &selected));
  addresses->clear();
  for (const InterfaceAddress& address : selected) {
    if (addresses->size() < kMostAddresses) addresses->push_back(address.ToString());
  }
  return Status::Ok();
}

}  // namespace hvdlite::rendezvous
