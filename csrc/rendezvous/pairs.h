// Pairs: which network interfaces of two hosts work together when a job uses several. DECIDES;
// pure. Both ends call these functions with the same arguments in the same order, so they agree.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "rendezvous/interfaces.h"

namespace hvdlite::rendezvous {

// More would gain nothing: a processor does not fill so many.
constexpr size_t kMostInterfaces = 8;

// One address of each interface, in the order of `selected`: the first of the family of `like`.
// Loopback and IPv6 link-local addresses are left out: no other host reaches them by their number.
std::vector<InterfaceAddress> OneOfEach(const std::vector<InterfaceAddress>& selected,
                                        const std::string& like);

// Whether another of these addresses is in the subnet of `addresses[i]`. Then the system's routes
// do not tell the interfaces apart, so connections have to be bound to theirs.
bool SharesSubnet(const std::vector<InterfaceAddress>& addresses, size_t i);

// Pairs the interfaces of two hosts, given as addresses with prefix lengths ("10.0.0.5/24"): first
// those in a common subnet, then the others by their order. Each is in one pair at most, so the
// host with fewer interfaces decides how many pairs there are. The pairs are in the order of
// `lower`, the addresses of the lower rank.
std::vector<std::pair<size_t, size_t>> PairInterfaces(const std::vector<std::string>& lower,
                                                      const std::vector<std::string>& higher);

}  // namespace hvdlite::rendezvous
