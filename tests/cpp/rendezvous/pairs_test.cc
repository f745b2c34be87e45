#include "rendezvous/pairs.h"

#include <gtest/gtest.h>

namespace hvdlite::rendezvous::pairs_testing {
namespace {

using Addresses = std::vector<std::string>;
using Pairs = std::vector<std::pair<size_t, size_t>>;

InterfaceAddress Make(const std::string& interface, const std::string& address, int prefix = 24,
                      bool loopback = false) {
  return InterfaceAddress{interface, address, prefix, loopback, true};
}

TEST(Pairs, interfaces_of_two_hosts) {
  const struct {
    const char* what;
    Addresses lower, higher;
    Pairs pairs;
  } table[] = {
      {"one each", {"10.0.0.1/24"}, {"10.0.0.2/24"}, {{0, 0}}},
      {"none", {}, {"10.0.0.2/24"}, {}},
      {"in one order",
       {"10.0.0.1/24", "10.0.1.1/24"},
       {"10.0.0.2/24", "10.0.1.2/24"},
       {{0, 0}, {1, 1}}},
      {"a common subnet goes before the order",
       {"10.0.0.1/24", "10.0.1.1/24"},
       {"10.0.1.2/24", "10.0.0.2/24"},
       {{0, 1}, {1, 0}}},
      {"all in one subnet",
       {"10.0.0.1/24", "10.0.0.2/24"},
       {"10.0.0.3/24", "10.0.0.4/24"},
       {{0, 0}, {1, 1}}},
      {"the host with fewer decides",
       {"10.0.0.1/24", "10.0.1.1/24", "10.0.2.1/24"},
       {"10.0.2.2/24", "10.0.0.2/24"},
       {{0, 1}, {2, 0}}},
      {"routed: by order",
       {"10.0.0.1/31", "10.0.1.1/31"},
       {"10.0.2.1/31", "10.0.3.1/31"},
       {{0, 0}, {1, 1}}},
      {"one common subnet, the others by order",
       {"10.0.0.1/31", "10.0.1.1/24"},
       {"10.0.1.2/24", "10.0.3.1/31"},
       {{0, 1}, {1, 0}}},
      {"prefixes that contradict each other are no common subnet",
       {"10.0.0.1/8", "10.0.1.1/24"},
       {"10.0.1.2/24", "10.0.7.2/24"},
       {{0, 1}, {1, 0}}},
      {"IPv6", {"fd00::1/64", "fd01::1/64"}, {"fd01::2/64", "fd00::2/64"}, {{0, 1}, {1, 0}}},
      {"two families never", {"10.0.0.1/24", "fd00::1/64"}, {"fd00::2/64"}, {{1, 0}}},
      {"no text of an address", {"eth0", ""}, {"10.0.0.1/24"}, {{0, 0}}},
  };
  for (const auto& row : table)
    EXPECT_EQ(PairInterfaces(row.lower, row.higher), row.pairs) << row.what;
}

TEST(Pairs, one_address_of_each_interface_in_the_family_of_the_door) {
  const std::vector<InterfaceAddress> selected = {
      Make("eth0", "10.0.0.1"), Make("eth0", "10.9.0.1"),   Make("eth0", "fd00::1"),
      Make("ib0", "fd01::1"),   Make("ib0", "fe80::1%ib0"), Make("lo", "127.0.0.1", 8, true),
      Make("eth1", "10.0.1.1")};
  EXPECT_EQ(OneOfEach(selected, "10.0.0.1"),
            (std::vector<InterfaceAddress>{selected[0], selected[6]}));
  EXPECT_EQ(OneOfEach(selected, "fd00::1"),
            (std::vector<InterfaceAddress>{selected[2], selected[3]}));
  std::vector<InterfaceAddress> many;
  for (int i = 0; i < 20; ++i)
    many.push_back(Make("eth" + std::to_string(i), "10.0.0." + std::to_string(i)));
  EXPECT_EQ(OneOfEach(many, "10.0.0.1").size(), kMostInterfaces);
}

TEST(Pairs, interfaces_in_one_subnet_are_known) {
  const std::vector<InterfaceAddress> addresses = {
      Make("eth0", "10.0.0.1"), Make("eth1", "10.0.1.1"), Make("eth2", "10.0.0.2")};
  EXPECT_TRUE(SharesSubnet(addresses, 0));
  EXPECT_FALSE(SharesSubnet(addresses, 1));
  EXPECT_TRUE(SharesSubnet(addresses, 2));
}

}  // namespace
}  // namespace hvdlite::rendezvous::pairs_testing
