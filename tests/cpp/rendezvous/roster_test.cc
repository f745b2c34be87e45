#include "rendezvous/roster.h"
#include "testing/says.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <random>

namespace hvdlite::rendezvous {
namespace {

Member On(int rank, const std::string& host) {
  Member member;
  member.rank = rank;
  member.host_id = host;
  return member;
}

Member At(const std::string& host, std::vector<std::string> addresses) {
  Member member = On(0, host);
  member.addresses = std::move(addresses);
  return member;
}

// ChooseAddress between two hosts.
std::string Choose(std::vector<std::string> mine, std::vector<std::string> theirs,
                   bool same_host = false) {
  std::string address;
  const Status status = ChooseAddress(At("a", std::move(mine)),
                                      At(same_host ? "a" : "b", std::move(theirs)), &address);
  return status.ok() ? address : "error: " + status.message();
}

TEST(Roster, NumbersRanksWithinAndAcrossHosts) {
  Roster roster;
  ASSERT_TRUE(MakeRoster({On(3, "b"), On(0, "a"), On(2, "b"), On(1, "a")}, &roster).ok());
  EXPECT_EQ(roster.size, 4);
  ASSERT_EQ(roster.hosts.size(), 2u);
  EXPECT_EQ(roster.hosts[0].id, "a");
  EXPECT_EQ(roster.hosts[1].ranks, (std::vector<int>{2, 3}));
  EXPECT_TRUE(roster.is_homogeneous);
  const Place& last = roster.places[3];
  EXPECT_EQ(last.host, 1);
  EXPECT_EQ(last.local_rank, 1);
  EXPECT_EQ(last.local_size, 2);
  EXPECT_EQ(last.cross_rank, 1);
  EXPECT_EQ(last.cross_size, 2);
  EXPECT_EQ(roster.members[2].host_id, "b");
}

TEST(Roster, CrossRanksCountOnlyHostsThatHaveTheLocalRank) {
  Roster roster;  // a: 0 1, b: 2, c: 3 4
  ASSERT_TRUE(
      MakeRoster({On(0, "a"), On(1, "a"), On(2, "b"), On(3, "c"), On(4, "c")}, &roster).ok());
  EXPECT_FALSE(roster.is_homogeneous);
  EXPECT_EQ(roster.places[2].cross_size, 3);
  EXPECT_EQ(roster.places[2].local_size, 1);
  EXPECT_EQ(roster.places[4].cross_rank, 1);  // b has no second rank
  EXPECT_EQ(roster.places[4].cross_size, 2);
}

TEST(Roster, CrossRanksFollowTheOrderOfHostsWhenRanksAreDealtOutInTurns) {
  Roster roster;  // a: 0 3, b: 1 2
  ASSERT_TRUE(MakeRoster({On(0, "a"), On(1, "b"), On(2, "b"), On(3, "a")}, &roster).ok());
  EXPECT_EQ(roster.places[3].local_rank, 1);
  EXPECT_EQ(roster.places[3].cross_rank, 0);
  EXPECT_EQ(roster.places[2].cross_rank, 1);
}

TEST(Roster, LocalRanksAreInTheOrderOfSlots) {
  // Rank 3 has come into slot 0 of host a, where the first rank has died.
  std::vector<Member> members = {On(0, "a"), On(1, "a"), On(2, "b"), On(3, "a"), On(4, "b")};
  const int slots[] = {1, 2, 5, 0, 3};
  for (size_t i = 0; i < members.size(); ++i) members[i].slot = slots[i];
  Roster roster;
  ASSERT_TRUE(MakeRoster(members, &roster).ok());
  EXPECT_EQ(roster.hosts[0].ranks, (std::vector<int>{3, 0, 1}));
  EXPECT_EQ(roster.hosts[1].ranks, (std::vector<int>{4, 2}));
  const int local_ranks[] = {1, 2, 1, 0, 0};
  const int cross_ranks[] = {0, 0, 1, 0, 1};
  const int cross_sizes[] = {2, 1, 2, 2, 2};
  for (size_t i = 0; i < members.size(); ++i) {
    EXPECT_EQ(roster.places[i].local_rank, local_ranks[i]) << i;
    EXPECT_EQ(roster.places[i].cross_rank, cross_ranks[i]) << i;
    EXPECT_EQ(roster.places[i].cross_size, cross_sizes[i]) << i;
  }
  EXPECT_EQ(roster.hosts[0].id, "a");  // rank 0's host stays the first
}

TEST(Roster, OneRankIsAJobAndNoneIsAnEmptyOne) {
  Roster roster;
  ASSERT_TRUE(MakeRoster({On(0, "a")}, &roster).ok());
  EXPECT_EQ(roster.places[0].cross_size, 1);
  ASSERT_TRUE(MakeRoster({}, &roster).ok());
  EXPECT_EQ(roster.size, 0);
}

TEST(Roster, RefusesMissingAndDoubleRanksByNumber) {
  Roster roster;
  Status status = MakeRoster({On(0, "a"), On(2, "a")}, &roster);
  EXPECT_TRUE(Says(status, "rank 1 is missing"));
  status = MakeRoster({On(0, "a"), On(1, "a"), On(1, "b")}, &roster);
  EXPECT_TRUE(Says(status, "rank 1 came twice"));
  EXPECT_FALSE(MakeRoster({On(-1, "a")}, &roster).ok());
}

TEST(Roster, SettingsThatDifferAreNamedWithTheirRanks) {
  std::vector<Member> members = {On(0, "a"), On(1, "a"), On(2, "b")};
  for (Member& member : members) member.settings = "CHUNK=4096;SMALL=1;KIND=auto";
  Roster roster;
  EXPECT_TRUE(MakeRoster(members, &roster).ok());
  members[2].settings = "CHUNK=4096;SMALL=10;KIND=net";
  const Status status = MakeRoster(members, &roster);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "some settings have to be equal on all ranks, but rank 0 has SMALL=1 KIND=auto and "
            "rank 2 has SMALL=10 KIND=net");
  members[2].settings = "CHUNK=4096;SMALL=1";
  EXPECT_TRUE(Says(MakeRoster(members, &roster), "rank 2 has nothing of the kind"));
}

TEST(Roster, ReleasesThatDifferAreNamedWithRanksAndHosts) {
  std::vector<Member> members = {On(0, "a#1"), On(1, "a#1"), On(2, "b#2"), On(3, "b#2")};
  for (Member& member : members) member.release = "1.0";
  Roster roster;
  EXPECT_TRUE(MakeRoster(members, &roster).ok());
  members[2].release = "1.1";
  members[2].settings = "what follows from that";
  const Status status = MakeRoster(members, &roster);
  EXPECT_EQ(status.code(), StatusCode::kInvalidArgument);
  EXPECT_EQ(status.message(),
            "the ranks run different releases of hvdlite: ranks 0, 1, 3 on a, b run 1.0; rank 2 on "
            "b runs 1.1. Install the "
            "same release on all hosts");
  std::vector<Member> many;
  for (int rank = 0; rank < 100; ++rank) {
    many.push_back(On(rank, "host" + std::to_string(rank)));
    many.back().release = rank == 0 ? "" : "2.0";
  }
  EXPECT_EQ(MakeRoster(many, &roster).message(),
            "the ranks run different releases of hvdlite: rank 0 on host0 runs an unknown release; "
            "ranks 1, 2, 3, 4 and 95 "
            "more on host1, host2 and 97 more run 2.0. Install the same release on all hosts");
}

TEST(Member, OfAnotherVersionIsNamed) {
  using namespace std::string_literals;
  Member back;
  const std::string head = "\2\0\0\0\3\0\0\0\0\0\0\0\x34\x12\4\0h#9b"s;
  // An older one, a later one, and one that is no use.
  for (const auto& [bytes, who] : std::vector<std::pair<std::string, std::string>>{
           {"\3"s + head + "whatever", "rank 2 on h runs hvdlite of an unknown release"},
           {"\4"s + head + "\0051.1.1whatever", "rank 2 on h runs hvdlite 1.1.1"},
           {"\x63"s + head + "\0059.9.9whatever", "rank 2 on h runs hvdlite 9.9.9"},
           {"\x63"s, "a rank"},
       }) {
    const Status status = DecodeMember(bytes, &back);
    EXPECT_TRUE(
        FailsWith(status, StatusCode::kInvalidArgument,
                  "different releases of hvdlite: " + who + ", whose description has version"));
  }
}

TEST(Member, ComesBackAsItWas) {
  Member member = At("node1#5f#40", {"10.0.0.5/24", "fe80::1%eth0/64"});
  member.rank = 70000;
  member.slot = 130000;
  member.port = 65535;
  member.pid = 4194304;
  member.release = "0.1.0.dev1";
  member.settings = "HVDLITE_X=1;HVDLITE_Y=2";
  member.mpi = "Open MPI v5.0.11";
  member.mpi_absent = "it is not";
  member.processors = "\xff\x03";
  std::string bytes;
  ASSERT_TRUE(EncodeMember(member, &bytes).ok());
  Member back;
  ASSERT_TRUE(DecodeMember(bytes, &back).ok());
  EXPECT_EQ(back, member);
}

TEST(Member, HasTheBytesOfTheWirePage) {
  Member member = At("h", {"::1"});
  member.rank = 2;
  member.slot = 7;
  member.port = 0x1234;
  member.pid = 3;
  member.release = "1.0";
  member.settings = "a=1";
  member.mpi = "M";
  member.processors = "\5";
  std::string bytes;
  ASSERT_TRUE(EncodeMember(member, &bytes).ok());
  using namespace std::string_literals;
  EXPECT_EQ(bytes,
            "\7\2\0\0\0\3\0\0\0\0\0\0\0\x34\x12\1\0h\0031.0\7\0\0\0\1\3::1\1\0M\0\0\3\0a=1\1\0\5"s);
}

TEST(Member, CutShortOrChangedNeverCrashesAndNeverPassesUnnoticed) {
  Member member = At("node1", {"10.0.0.5/24", "10.1.0.5/24"});
  member.rank = 1;
  std::string bytes;
  ASSERT_TRUE(EncodeMember(member, &bytes).ok());
  Member back;
  for (size_t length = 0; length < bytes.size(); ++length) {
    EXPECT_FALSE(DecodeMember(bytes.substr(0, length), &back).ok()) << length;
  }
  EXPECT_FALSE(DecodeMember(bytes + "x", &back).ok());
  std::mt19937 random(1);
  for (int i = 0; i < 20000; ++i) {
    std::string changed = bytes;
    for (int k = 0; k < 3; ++k) changed[random() % changed.size()] = static_cast<char>(random());
    std::string again;
    if (!DecodeMember(changed, &back).ok()) continue;
    ASSERT_TRUE(EncodeMember(back, &again).ok());
    EXPECT_EQ(again, changed);
  }
  EXPECT_EQ(DecodeMember("\2", &back).message().find("version 2") == std::string::npos, false);
}

TEST(Member, RefusesToEncodeWhatNobodyWouldDecode) {
  std::string bytes;
  EXPECT_FALSE(EncodeMember(On(-1, "h"), &bytes).ok());
  EXPECT_FALSE(EncodeMember(On(0, ""), &bytes).ok());
  EXPECT_FALSE(EncodeMember(On(0, std::string(1025, 'h')), &bytes).ok());
  EXPECT_FALSE(EncodeMember(At("h", std::vector<std::string>(65, "10.0.0.1")), &bytes).ok());
  EXPECT_FALSE(EncodeMember(At("h", {std::string(129, '1')}), &bytes).ok());
  EXPECT_FALSE(EncodeMember(At("h", {""}), &bytes).ok());
  Member long_release = On(0, "h");
  long_release.release = std::string(65, '1');
  EXPECT_FALSE(EncodeMember(long_release, &bytes).ok());
  Member talkative = On(0, "h");
  talkative.settings = std::string(1025, 's');
  EXPECT_FALSE(EncodeMember(talkative, &bytes).ok());
}

TEST(ChooseAddress, PrefersACommonSubnet) {
  EXPECT_EQ(Choose({"10.0.0.5/24", "192.168.7.5/24"}, {"10.0.1.6/24", "192.168.7.6/24"}),
            "192.168.7.6");
  EXPECT_EQ(Choose({"10.0.0.5/16"}, {"192.168.7.6/24", "10.0.1.6/16"}), "10.0.1.6");
  EXPECT_EQ(Choose({"fd00:1::5/64"}, {"fd00:2::6/64", "fd00:1::6/64"}), "fd00:1::6");
  EXPECT_EQ(Choose({"10.0.0.5/31"}, {"10.0.0.6/24", "10.0.0.4/31"}), "10.0.0.4");
}

TEST(ChooseAddress, TakesTheirOrderAmongEquals) {
  EXPECT_EQ(Choose({"10.0.0.5/24"}, {"172.30.0.6/24", "192.168.7.6/24"}), "172.30.0.6");
  EXPECT_EQ(Choose({"10.0.0.5/8"}, {"10.2.0.6/8", "10.1.0.6/8"}), "10.2.0.6");
}

TEST(ChooseAddress, NeverUsesLoopbackBetweenHostsUnlessItIsAllThereIs) {
  EXPECT_EQ(Choose({"127.0.1.1/8", "10.0.0.5/24"}, {"127.0.1.1/8", "10.0.1.6/24"}), "10.0.1.6");
  EXPECT_EQ(Choose({"::1/128", "10.0.0.5/24"}, {"::1/128", "127.0.0.1/8", "10.0.1.6/24"}),
            "10.0.1.6");
  EXPECT_EQ(Choose({"127.0.0.1/8"}, {"127.0.0.1/8"}), "127.0.0.1");
}

TEST(ChooseAddress, UsesLoopbackOnOneHost) {
  EXPECT_EQ(Choose({"10.0.0.5/24", "127.0.0.1/8"}, {"10.0.0.5/24", "127.0.0.1/8"}, true),
            "127.0.0.1");
  EXPECT_EQ(Choose({"10.0.0.5/24"}, {"10.0.0.5/24"}, true), "10.0.0.5");
}

TEST(ChooseAddress, AvoidsABridgeThatHasTheSameAddressOnEveryHost) {
  EXPECT_EQ(Choose({"172.17.0.1/16", "10.0.0.5/24"}, {"172.17.0.1/16", "10.9.0.6/24"}), "10.9.0.6");
  // Several "hosts" on one machine have nothing else, and it works there.
  EXPECT_EQ(Choose({"127.0.0.1/8", "10.0.0.5/24"}, {"127.0.0.1/8", "10.0.0.5/24"}), "10.0.0.5");
}

TEST(ChooseAddress, PrefersAFamilyThatThisMachineHas) {
  EXPECT_EQ(Choose({"fd00:1::5/64"}, {"10.0.0.6/24", "fd00:2::6/64"}), "fd00:2::6");
  EXPECT_EQ(Choose({"10.0.0.5/24"}, {"fd00:2::6/64", "10.1.0.6/24"}), "10.1.0.6");
  EXPECT_EQ(Choose({}, {"127.0.0.1/8", "10.1.0.6/24"}), "10.1.0.6");
}

TEST(ChooseAddress, GivesLinkLocalAddressesTheScopeOfThisMachine) {
  EXPECT_EQ(Choose({"fe80::1%eno1/64"}, {"fe80::2%eth0/64"}), "fe80::2%eno1");
  EXPECT_EQ(Choose({"fe80::1%ib0/64", "fe80::3%eth0/64"}, {"fe80::2%eth0/64"}), "fe80::2%eth0");
  EXPECT_EQ(Choose({"fe80::1%eth0/64", "fd00:1::5/64"}, {"fe80::2%eth0/64", "fd00:2::6/64"}),
            "fd00:2::6");
  EXPECT_TRUE(Says(Choose({"10.0.0.5/24"}, {"fe80::2%eth0/64"}), "has no usable address"));
}

TEST(ChooseAddress, IgnoresWhatIsNoAddressAndNamesWhatItGot) {
  EXPECT_EQ(Choose({"x", "10.0.0.5/24"}, {"10.0.0.6/99", "node1", "10.0.0.7/24"}), "10.0.0.7");
  const std::string error = Choose({"10.0.0.5/24"}, {"node1"});
  EXPECT_TRUE(Says(error, "node1"));
  EXPECT_TRUE(Says(Choose({"10.0.0.5/24"}, {}), "none"));
}

}  // namespace
}  // namespace hvdlite::rendezvous
