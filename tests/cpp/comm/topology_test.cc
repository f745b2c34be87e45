#include "comm/topology.h"

#include <gtest/gtest.h>

#include <set>

namespace hvdlite::comm {
namespace {

rendezvous::Roster RosterOf(const std::string& hosts) {  // "aabb": ranks 0 and 1 on a, 2 and 3 on b
  std::vector<rendezvous::Member> members;
  for (size_t r = 0; r < hosts.size(); ++r) {
    rendezvous::Member m;
    m.rank = static_cast<int>(r);
    m.host_id = hosts.substr(r, 1);
    members.push_back(m);
  }
  rendezvous::Roster roster;
  EXPECT_TRUE(MakeRoster(members, &roster).ok());
  return roster;
}

using Hosts = std::vector<std::vector<int>>;

TEST(Topology, members_by_host) {
  const struct {
    const char* roster;
    std::vector<int> ranks;
    Hosts hosts;
    bool homogeneous;
  } cases[] = {
      {"a", {0}, {{0}}, true},
      {"aaaa", {3, 1}, {{0, 1}}, true},
      {"aabb", {0, 1, 2, 3}, {{0, 1}, {2, 3}}, true},
      {"abab", {0, 1, 2, 3}, {{0, 2}, {1, 3}}, true},
      {"aabb", {1, 2, 3}, {{0}, {1, 2}}, false},
      {"aabbcc", {5, 2, 0}, {{0}, {1}, {2}}, true},
      {"abcabc", {2, 5}, {{0, 1}}, true},  // one host, although not the first
  };
  for (const auto& c : cases) {
    const Topology t = MakeTopology(RosterOf(c.roster), c.ranks);
    std::vector<int> sorted = c.ranks;
    std::sort(sorted.begin(), sorted.end());
    EXPECT_EQ(t.ranks, sorted) << c.roster;
    EXPECT_EQ(t.hosts, c.hosts) << c.roster;
    EXPECT_EQ(t.homogeneous(), c.homogeneous) << c.roster;
    EXPECT_EQ(t.single_host(), c.hosts.size() == 1);
    for (size_t m = 0; m < sorted.size(); ++m) {
      EXPECT_EQ(t.hosts[static_cast<size_t>(t.host_of[m])][static_cast<size_t>(t.local_of[m])],
                static_cast<int>(m));
    }
  }
}

TEST(Tree, every_member_is_reached_once_and_depth_grows_with_the_logarithm) {
  for (int hosts = 1; hosts <= 26; ++hosts) {
    for (const size_t per_host : {size_t{1}, size_t{3}, size_t{9}, size_t{11}, size_t{80}}) {
      std::string roster;
      for (int h = 0; h < hosts; ++h) roster += std::string(per_host, static_cast<char>('a' + h));
      std::vector<int> ranks;
      for (int r = 0; r < static_cast<int>(roster.size()); ++r) ranks.push_back(r);
      const Topology t = MakeTopology(RosterOf(roster), ranks);
      std::vector<TreeLinks> trees;
      for (int m : ranks) trees.push_back(MakeTree(t, m));
      EXPECT_EQ(trees[0].parent, -1);
      std::multiset<int> below;
      for (int m : ranks) {
        std::set<int> speaks{m};
        for (const auto& child : trees[static_cast<size_t>(m)].children) {
          EXPECT_EQ(trees[static_cast<size_t>(child.member)].parent, m)
              << "both ends know the edge";
          EXPECT_EQ(std::count(child.speaks_for.begin(), child.speaks_for.end(), child.member), 1);
          below.insert(child.member);
          for (int s : child.speaks_for)
            EXPECT_TRUE(speaks.insert(s).second) << "nobody is spoken for twice";
        }
        if (m == 0) {
          EXPECT_EQ(speaks.size(), ranks.size());
        }
        int depth = 0;
        for (int up = m; up != 0; up = trees[static_cast<size_t>(up)].parent) ASSERT_LE(++depth, 6);
      }
      EXPECT_EQ(below.size(), ranks.size() - 1);
    }
  }
}

}  // namespace
}  // namespace hvdlite::comm
