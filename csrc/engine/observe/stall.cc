#include "engine/observe/stall.h"

#include <algorithm>
#include <map>

#include "engine/negotiate/validate.h"

namespace hvdlite::engine {
namespace {

constexpr size_t kNamesPerRank = 6;

std::string WholeSeconds(Nanos span) {
  return std::to_string(span / kSecond);
}

std::vector<int> RanksThatAsked(const Tally& tally, const std::vector<int>& ranks) {
  std::vector<int> asked;
  for (size_t m = 0; m < ranks.size(); ++m) {
    if (tally.presence[m] == Presence::kAsked) asked.push_back(ranks[m]);
  }
  return asked;
}

// The program's name for it, without the kind of operation.
std::string PlainName(const Request& request) {
  return Shown(request).substr(Name(request.kind).size());
}

// A sentence if ranks have submitted different operations under one name, at most one of each: they
// have probably meant one. Otherwise empty.
std::string DifferentKinds(const std::vector<Tally*>& pending, const std::vector<int>& ranks) {
  std::map<std::string, std::vector<const Tally*>> by_name;
  for (const Tally* tally : pending) by_name[PlainName(tally->said())].push_back(tally);
  for (auto& [name, tallies] : by_name) {
    if (tallies.size() < 2) continue;
    std::sort(tallies.begin(), tallies.end(),
              [](const Tally* a, const Tally* b) { return a->since < b->since; });
    std::string list;
    std::vector<int> seen;
    for (const Tally* tally : tallies) {
      const std::vector<int> asked = RanksThatAsked(*tally, ranks);
      seen.insert(seen.end(), asked.begin(), asked.end());
      list += (list.empty() ? "" : ", ") + Shown(tally->said()) + " on " + RankList(asked);
    }
    std::sort(seen.begin(), seen.end());
    if (std::adjacent_find(seen.begin(), seen.end()) != seen.end()) continue;
    return "\nDifferent operations are never matched with each other, even under one name: " +
           list + ". If one operation is meant, call the same one on all ranks.";
  }
  return "";
}

}  // namespace

StallReport InspectStalls(const std::vector<Tally*>& pending, const std::vector<int>& ranks,
                          Nanos now, const StallOptions& options) {
  StallReport report;
  std::map<int, std::vector<const Tally*>> missing_by_rank;
  const Tally* oldest = nullptr;
  for (const Tally* tally : pending) {
    const Nanos age = now - tally->since;
    if (age < options.warn_after) continue;
    if (oldest == nullptr || tally->since < oldest->since) oldest = tally;
    for (size_t m = 0; m < ranks.size(); ++m) {
      if (tally->presence[m] == Presence::kMissing) missing_by_rank[ranks[m]].push_back(tally);
    }
  }
  if (oldest == nullptr) return report;

  report.waiting = RanksThatAsked(*oldest, ranks);
  report.oldest = Shown(oldest->said());
  report.oldest_age = now - oldest->since;
  const bool limit_counts =
      options.shut_down_after > 0 && options.shut_down_after >= options.warn_after;
  report.shut_down = limit_counts && report.oldest_age >= options.shut_down_after;

  std::string text =
      "Operations have waited for more than " + WholeSeconds(options.warn_after) +
      " s for ranks that have not submitted them. Either the ranks submit different operations, or "
      "some are busy elsewhere or have stopped early.\nMissing ranks:";
  for (auto& [rank, tallies] : missing_by_rank) {
    report.missing.push_back(rank);
    std::sort(tallies.begin(), tallies.end(),
              [](const Tally* a, const Tally* b) { return a->since < b->since; });
    text += "\n" + std::to_string(rank) + (report.shut_down ? "!" : "") + ": [";
    for (size_t i = 0; i < tallies.size() && i < kNamesPerRank; ++i)
      text += (i > 0 ? ", " : "") + tallies[i]->said().name;
    text += tallies.size() > kNamesPerRank ? ", ...]" : "]";
  }
  text += DifferentKinds(pending, ranks);
  if (report.shut_down) {
    text += "\nThe ranks marked by \"!\" have been missing for more than " +
            WholeSeconds(options.shut_down_after) + " s: the job ends.";
  }
  report.warning = std::move(text);
  return report;
}

}  // namespace hvdlite::engine
