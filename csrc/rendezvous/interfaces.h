// The addresses of this machine that other ranks might use, best first.
//
// Thread-safety: free functions. ListAddresses asks the system; the others are pure.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "base/status.h"

namespace hvdlite::rendezvous {

struct InterfaceAddress {
  std::string interface;  // "eth0"
  std::string address;    // "10.0.0.5", "fe80::1%eth0"
  int prefix = 0;         // bits of the subnet
  bool loopback = false;
  bool running = true;  // has a carrier
  bool operator==(const InterfaceAddress&) const = default;
  // The form in a Member: "10.0.0.5/24".
  std::string ToString() const { return address + "/" + std::to_string(prefix); }
};

// "eth0, ib0" -> eth0 ib0. Empty text gives no names, which means: any interface.
std::vector<std::string> ParseInterfaceNames(std::string_view text);

// Keeps the named interfaces, in the order of the names. A name that has no address here is an
// error that lists the interfaces there are. Without names the order is: real interfaces, then
// those of containers and virtual machines (docker0, virbr0: the same address on every host) and
// those without a carrier, then loopback; IPv4 before IPv6, link-local last.
Status SelectAddresses(const std::vector<InterfaceAddress>& all,
                       const std::vector<std::string>& names,
                       std::vector<InterfaceAddress>* selected);

// All IPv4 and IPv6 addresses of interfaces that are up, in the system's order.
Status ListAddresses(std::vector<InterfaceAddress>* addresses);

// Lists and selects the addresses that a Member carries; at most 64.
Status AddressesToTell(const std::vector<std::string>& names, std::vector<std::string>* addresses);

}  // namespace hvdlite::rendezvous
