#include "rendezvous/pairs.h"

#include <algorithm>

#include "rendezvous/roster.h"

namespace hvdlite::rendezvous {
namespace {

bool IsV6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

bool InOneSubnet(const std::string& one, const std::string& other) {
  return InSubnetOf(one, other) && InSubnetOf(other, one);
}

}  // namespace

std::vector<InterfaceAddress> OneOfEach(const std::vector<InterfaceAddress>& selected,
                                        const std::string& like) {
  std::vector<InterfaceAddress> found;
  for (const InterfaceAddress& address : selected) {
    const bool usable = !address.loopback && address.address.find('%') == std::string::npos &&
                        IsV6(address.address) == IsV6(like);
    const bool known = std::any_of(found.begin(), found.end(), [&](const InterfaceAddress& one) {
      return one.interface == address.interface;
    });
    if (usable && !known && found.size() < kMostInterfaces) found.push_back(address);
  }
  return found;
}

bool SharesSubnet(const std::vector<InterfaceAddress>& addresses, size_t i) {
  for (size_t other = 0; other < addresses.size(); ++other) {
    if (other != i && InOneSubnet(addresses[i].ToString(), addresses[other].ToString()))
      return true;
  }
  return false;
}

std::vector<std::pair<size_t, size_t>> PairInterfaces(const std::vector<std::string>& lower,
                                                      const std::vector<std::string>& higher) {
  std::vector<std::pair<size_t, size_t>> pairs;
  std::vector<bool> lower_used(lower.size()), higher_used(higher.size());
  const auto pair_up = [&](auto&& fit) {
    for (size_t i = 0; i < lower.size(); ++i) {
      for (size_t j = 0; j < higher.size() && !lower_used[i]; ++j) {
        if (higher_used[j] || !fit(lower[i], higher[j])) continue;
        lower_used[i] = higher_used[j] = true;
        pairs.emplace_back(i, j);
      }
    }
  };
  pair_up(InOneSubnet);
  pair_up([](const std::string& a, const std::string& b) { return IsV6(a) == IsV6(b); });
  std::sort(pairs.begin(), pairs.end());
  return pairs;
}

}  // namespace hvdlite::rendezvous
