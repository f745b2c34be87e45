// Which releases of hvdlite the ranks run (declared in roster.h).
#include <algorithm>
#include <map>

#include "rendezvous/host_id.h"
#include "rendezvous/roster.h"

namespace hvdlite::rendezvous {
namespace {

constexpr size_t kRanksNamed = 4;
constexpr size_t kHostsNamed = 2;

// "a, b and 3 more".
std::string Listed(const std::vector<std::string>& words, size_t named) {
  std::string text;
  for (size_t i = 0; i < std::min(words.size(), named); ++i) text += (i > 0 ? ", " : "") + words[i];
  return words.size() > named ? text + " and " + std::to_string(words.size() - named) + " more"
                              : text;
}

}  // namespace

std::string WhoRuns(const Member& member) {
  return "rank " + std::to_string(member.rank) + " on " + HostName(member.host_id) +
         " runs hvdlite " + (member.release.empty() ? "of an unknown release" : member.release);
}

Status CompareReleases(const std::vector<Member>& members) {
  struct Users {
    std::vector<std::string> ranks, hosts;
  };
  std::map<std::string, Users> by_release;
  for (const Member& member : members) {
    Users& users = by_release[member.release];
    users.ranks.push_back(std::to_string(member.rank));
    const std::string host = HostName(member.host_id);
    if (std::find(users.hosts.begin(), users.hosts.end(), host) == users.hosts.end())
      users.hosts.push_back(host);
  }
  if (by_release.size() < 2) return Status::Ok();
  std::string text;
  for (const auto& [release, users] : by_release) {
    text += text.empty() ? "" : "; ";
    text += users.ranks.size() == 1 ? "rank " : "ranks ";
    text += Listed(users.ranks, kRanksNamed) + " on " + Listed(users.hosts, kHostsNamed);
    text += users.ranks.size() == 1 ? " runs " : " run ";
    text += release.empty() ? "an unknown release" : release;
  }
  return Status::InvalidArgument("the ranks run different releases of hvdlite: " + text +
                                 ". Install the same release on all hosts");
}

}  // namespace hvdlite::rendezvous
