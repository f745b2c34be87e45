#include "engine/negotiate/results.h"

#include <algorithm>

#include "engine/negotiate/validate.h"

namespace hvdlite::engine {
namespace {

// How many decisions the root keeps of which some members have not spoken. A member that is so far
// behind has other worries.
constexpr size_t kKept = 64;

}  // namespace

void Results::Say(Digest digest, const std::string& name) {
  if (is_root_) {
    Compare(me_, digest, name);
  } else {
    unsaid_.push_back(digest);
  }
}

void Results::Compare(int member, Digest digest, const std::string& name) {
  Said& said = said_[digest.decision];
  said.by_member[member] = digest.value;
  if (!name.empty()) said.name = name;
  if (said.by_member.size() == ranks_.size()) {
    CompareAll(said);
    said_.erase(digest.decision);
  } else if (said_.size() > kKept) {
    said_.erase(said_.begin());
  }
}

void Results::CompareAll(const Said& said) {
  ++compared_;
  std::map<uint64_t, std::vector<int>> groups;
  for (const auto& [member, value] : said.by_member)
    groups[value].push_back(ranks_[static_cast<size_t>(member)]);
  if (groups.size() == 1 || differed_) return;
  differed_ = true;
  const auto largest = std::max_element(
      groups.begin(), groups.end(),
      [](const auto& a, const auto& b) { return a.second.size() < b.second.size(); });
  std::string who;
  if (2 * largest->second.size() > ranks_.size()) {
    std::vector<int> odd;
    for (const auto& [value, ranks] : groups) {
      if (value != largest->first) odd.insert(odd.end(), ranks.begin(), ranks.end());
    }
    std::sort(odd.begin(), odd.end());
    who = RankList(odd) + (odd.size() == 1 ? " has" : " have") + " another result than the other " +
          std::to_string(largest->second.size()) + " ranks";
  } else {
    who = RankList(ranks_) + " have different results, and no majority has the same";
  }
  difference_ = who + " of " + said.name +
                ". All should have the same bits: memory is damaged on a rank's host, or on the "
                "way, or processors round in different ways. HVDLITE_DRIFT=error ends the job "
                "when this happens; =off does not look.";
}

}  // namespace hvdlite::engine
