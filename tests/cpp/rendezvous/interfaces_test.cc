#include "rendezvous/interfaces.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "rendezvous/host_id.h"
#include "testing/says.h"

namespace hvdlite::rendezvous {
namespace {

InterfaceAddress Make(const std::string& interface, const std::string& address,
                      bool loopback = false, bool running = true) {
  return InterfaceAddress{interface, address, 24, loopback, running};
}

std::vector<std::string> Select(const std::vector<InterfaceAddress>& all,
                                const std::vector<std::string>& names) {
  std::vector<InterfaceAddress> selected;
  const Status status = SelectAddresses(all, names, &selected);
  if (!status.ok()) return {status.message()};
  std::vector<std::string> addresses;
  for (const InterfaceAddress& address : selected) addresses.push_back(address.address);
  return addresses;
}

TEST(InterfaceNames, AreSplitAtCommas) {
  EXPECT_EQ(ParseInterfaceNames("eth0,ib0"), (std::vector<std::string>{"eth0", "ib0"}));
  EXPECT_EQ(ParseInterfaceNames(" eth0 , ,ib0, "), (std::vector<std::string>{"eth0", "ib0"}));
  EXPECT_TRUE(ParseInterfaceNames("").empty());
  EXPECT_TRUE(ParseInterfaceNames(" ,").empty());
}

TEST(Interfaces, RealOnesComeBeforeBridgesAndLoopbackIsLast) {
  const std::vector<InterfaceAddress> all = {Make("lo", "127.0.0.1", true),
                                             Make("docker0", "172.17.0.1"),
                                             Make("eth1", "10.9.0.1", false, false),
                                             Make("eth0", "fe80::1%eth0"),
                                             Make("eth0", "fd00::1"),
                                             Make("eth0", "10.0.0.5"),
                                             Make("virbr0", "192.168.122.1"),
                                             Make("ib0", "10.1.0.5")};
  EXPECT_EQ(Select(all, {}),
            (std::vector<std::string>{"10.0.0.5", "10.1.0.5", "fd00::1", "fe80::1%eth0",
                                      "172.17.0.1", "192.168.122.1", "10.9.0.1", "127.0.0.1"}));
}

TEST(Interfaces, OnlyThoseNamedAreUsedInTheOrderOfTheNames) {
  const std::vector<InterfaceAddress> all = {Make("eth0", "10.0.0.5"), Make("ib0", "10.1.0.5"),
                                             Make("docker0", "172.17.0.1")};
  EXPECT_EQ(Select(all, {"ib0", "eth0"}), (std::vector<std::string>{"10.1.0.5", "10.0.0.5"}));
  EXPECT_EQ(Select(all, {"docker0"}), (std::vector<std::string>{"172.17.0.1"}));
}

TEST(Interfaces, AnUnknownNameIsAnErrorThatListsWhatThereIs) {
  const std::string error = Select({Make("eth0", "10.0.0.5")}, {"eth7"}).front();
  EXPECT_TRUE(Says(error, "'eth7'"));
  EXPECT_TRUE(Says(error, "eth0 (10.0.0.5)"));
}

TEST(Interfaces, ThisMachineHasALoopbackWithItsPrefix) {
  std::vector<InterfaceAddress> addresses;
  ASSERT_TRUE(ListAddresses(&addresses).ok());
  const auto loopback =
      std::find_if(addresses.begin(), addresses.end(),
                   [](const InterfaceAddress& a) { return a.address == "127.0.0.1"; });
  ASSERT_NE(loopback, addresses.end());
  EXPECT_TRUE(loopback->loopback);
  EXPECT_EQ(loopback->ToString(), "127.0.0.1/8");
  std::vector<std::string> told;
  ASSERT_TRUE(AddressesToTell({}, &told).ok());
  EXPECT_FALSE(told.empty());
  EXPECT_LE(told.size(), 64u);
  ASSERT_TRUE(AddressesToTell({loopback->interface}, &told).ok());
  EXPECT_EQ(told.front(), "127.0.0.1/8");
}

TEST(HostId, IsWhatWasConfiguredOrStaysTheSameForOneProcess) {
  EXPECT_EQ(HostId("node7"), "node7");
  const std::string id = HostId("");
  EXPECT_EQ(id, HostId(""));
  EXPECT_EQ(std::count(id.begin(), id.end(), '#'), 2);
  EXPECT_GT(id.size(), 20u);
  EXPECT_EQ(HostName("node1#abc#4026"), "node1");
  EXPECT_EQ(HostName("node7"), "node7");
}

}  // namespace
}  // namespace hvdlite::rendezvous
