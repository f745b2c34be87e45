#include "engine/observe/stall.h"

#include <algorithm>
#include <map>

namespace hvdlite::engine {
namespace {

constexpr size_t kNamesPerRank = 6;

std::string WholeSeconds(Nanos span) {
  return std::to_string(span / kSecond);
}

}  // namespace

StallReport InspectStalls(const std::vector<Tally*>& pending, const std::vector<int>& ranks, Nanos now,
                          const StallOptions& options) {
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

  for (size_t m = 0; m < ranks.size(); ++m) {
    if (oldest->presence[m] == Presence::kAsked) report.waiting.push_back(ranks[m]);
  }
  report.oldest = Shown(oldest->said());
  report.oldest_age = now - oldest->since;
  const bool limit_counts = options.shut_down_after > 0 && options.shut_down_after >= options.warn_after;
  report.shut_down = limit_counts && report.oldest_age >= options.shut_down_after;

  std::string text =
      "One or more tensors were submitted to be reduced, gathered or broadcasted by subset of ranks and are waiting "
      "for "
      "remainder of ranks for more than " +
      WholeSeconds(options.warn_after) +
      " seconds. Either the ranks submit different tensors, or some are busy elsewhere or have stopped early.\nMissing "
      "ranks:";
  for (auto& [rank, tallies] : missing_by_rank) {
    report.missing.push_back(rank);
    std::sort(tallies.begin(), tallies.end(), [](const Tally* a, const Tally* b) { return a->since < b->since; });
    text += "\n" + std::to_string(rank) + (report.shut_down ? "!" : "") + ": [";
    for (size_t i = 0; i < tallies.size() && i < kNamesPerRank; ++i)
      text += (i > 0 ? ", " : "") + tallies[i]->said().name;
    text += tallies.size() > kNamesPerRank ? ", ...]" : "]";
  }
  if (report.shut_down) {
    text += "\nOne or more rank (marked by \"!\") is stalled for longer than " + WholeSeconds(options.shut_down_after) +
            " seconds. Will shutdown.";
  }
  report.warning = std::move(text);
  return report;
}

}  // namespace hvdlite::engine
