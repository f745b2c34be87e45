#include "rendezvous/roster.h"

#include <algorithm>
#include <map>

namespace hvdlite::rendezvous {
namespace {

// The settings of one rank that differ on the other: "HVDLITE_SHM_CHUNK_BYTES=4096".
std::string Differing(const std::string& mine, const std::string& others) {
  std::string text;
  for (size_t at = 0; at < mine.size();) {
    const size_t end = std::min(mine.find(';', at), mine.size());
    const std::string setting = mine.substr(at, end - at);
    if ((";" + others + ";").find(";" + setting + ";") == std::string::npos)
      text += (text.empty() ? "" : " ") + setting;
    at = end + 1;
  }
  return text.empty() ? "nothing of the kind" : text;
}

}  // namespace

Status MakeRoster(std::vector<Member> members, Roster* roster) {
  std::sort(members.begin(), members.end(),
            [](const Member& a, const Member& b) { return a.rank < b.rank; });
  for (size_t i = 0; i < members.size(); ++i) {
    if (members[i].rank == static_cast<int>(i)) continue;
    return Status::InvalidArgument(
        "the " + std::to_string(members.size()) + " members of a job have to be the ranks 0 to " +
        std::to_string(members.size() - 1) + ", each once, but rank " +
        (members[i].rank < static_cast<int>(i) ? std::to_string(members[i].rank) + " came twice"
                                               : std::to_string(i) + " is missing"));
  }
  HVDLITE_RETURN_IF_ERROR(CompareReleases(members));
  for (const Member& member : members) {
    if (member.settings == members[0].settings) continue;
    return Status::InvalidArgument("some settings have to be equal on all ranks, but rank 0 has " +
                                   Differing(members[0].settings, member.settings) + " and rank " +
                                   std::to_string(member.rank) + " has " +
                                   Differing(member.settings, members[0].settings));
  }
  Roster made;
  made.size = static_cast<int>(members.size());
  made.places.resize(members.size());
  std::map<std::string, int> index;  // host id -> position in made.hosts
  for (const Member& member : members) {
    const auto [entry, is_new] = index.emplace(member.host_id, static_cast<int>(made.hosts.size()));
    if (is_new) made.hosts.push_back(Host{member.host_id, {}});
    made.places[static_cast<size_t>(member.rank)].host = entry->second;
    made.hosts[static_cast<size_t>(entry->second)].ranks.push_back(member.rank);
  }
  const auto slot = [&](int rank) { return members[static_cast<size_t>(rank)].slot; };
  for (Host& host : made.hosts) {
    std::stable_sort(host.ranks.begin(), host.ranks.end(),
                     [&](int a, int b) { return slot(a) < slot(b); });
  }
  // Hosts are the outer loop, so that cross ranks follow the order of hosts even if ranks are
  // distributed round-robin.
  std::vector<int> cross_size;  // by local rank: the number of hosts that have it
  for (const Host& host : made.hosts) {
    cross_size.resize(std::max(cross_size.size(), host.ranks.size()), 0);
    for (size_t local = 0; local < host.ranks.size(); ++local) {
      Place& place = made.places[static_cast<size_t>(host.ranks[local])];
      place.local_rank = static_cast<int>(local);
      place.local_size = static_cast<int>(host.ranks.size());
      place.cross_rank = cross_size[local]++;
    }
    made.is_homogeneous =
        made.is_homogeneous && host.ranks.size() == made.hosts.front().ranks.size();
  }
  for (Place& place : made.places)
    place.cross_size = cross_size[static_cast<size_t>(place.local_rank)];
  made.members = std::move(members);
  *roster = std::move(made);
  return Status::Ok();
}

}  // namespace hvdlite::rendezvous
