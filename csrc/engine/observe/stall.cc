#include "engine/observe/stall.h"

#include <algorithm>
#include <map>
#include <tuple>

#include "engine/list.h"
#include "engine/negotiate/validate.h"
#include "engine/observe/verdict.h"

namespace hvdlite::engine {
namespace {

constexpr size_t kNamesPerRank = 6;
constexpr size_t kOperations = 1000;

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
  for (const Tally* tally : pending) {
    if (!tally->said().is_list()) by_name[PlainName(tally->said())].push_back(tally);
  }
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

// `said`: the request for one of its tensors.
StalledOperation Describe(const Tally& tally, const Request& said, const std::vector<int>& ranks,
                          Nanos now) {
  StalledOperation operation;
  operation.shown = Shown(said);
  operation.name = tally.said().name;
  operation.plain = PlainName(said);
  operation.age = now - tally.since;
  operation.asked = RanksThatAsked(tally, ranks);
  for (size_t m = 0; m < ranks.size(); ++m) {
    if (tally.presence[m] == Presence::kMissing) operation.missing.push_back(ranks[m]);
  }
  return operation;
}

// Those that have waited too long come first, and of these the one that most ranks have asked for:
// the odd ranks are the cause. Among equals the oldest comes first.
std::vector<StalledOperation> Ordered(std::vector<Tally*> pending, const std::vector<int>& ranks,
                                      Nanos now, Nanos warn_after) {
  const auto key = [&](const Tally* tally) {
    const bool stalled = now - tally->since >= warn_after;
    return std::make_tuple(!stalled, stalled ? -tally->present : 0, tally->since);
  };
  std::sort(pending.begin(), pending.end(),
            [&](const Tally* a, const Tally* b) { return key(a) < key(b); });
  if (pending.size() > kOperations) pending.resize(kOperations);
  std::vector<StalledOperation> operations;
  for (const Tally* tally : pending) {
    const Request& said = tally->said();
    for (size_t i = 0; i < TensorsOf(said) && operations.size() < kOperations; ++i) {
      const Request one = said.is_list() ? InList(said, i) : said;
      operations.push_back(Describe(*tally, one, ranks, now));
    }
  }
  return operations;
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

  report.operations = Ordered(pending, ranks, now, options.warn_after);
  const bool limit_counts =
      options.shut_down_after > 0 && options.shut_down_after >= options.warn_after;
  report.shut_down = limit_counts && now - oldest->since >= options.shut_down_after;

  std::string text =
      "Operations have waited for more than " + WholeSeconds(options.warn_after) +
      " s for ranks that have not submitted them. Either the ranks submit different operations, or "
      "some are busy elsewhere or have stopped early.\nMissing ranks:";
  for (auto& [rank, tallies] : missing_by_rank) {
    std::sort(tallies.begin(), tallies.end(),
              [](const Tally* a, const Tally* b) { return a->since < b->since; });
    text += "\n" + std::to_string(rank) + (report.shut_down ? "!" : "") + ": [";
    size_t names = 0;
    for (const Tally* tally : tallies) {
      for (size_t i = 0; i < TensorsOf(tally->said()) && names <= kNamesPerRank; ++i, ++names) {
        text += names > 0 ? ", " : "";
        text += names < kNamesPerRank ? TensorName(tally->said(), i) : "...";
      }
    }
    text += ']';
  }
  text += DifferentKinds(pending, ranks);
  if (report.shut_down) {
    text += "\nThe ranks marked by \"!\" have been missing for more than " +
            WholeSeconds(options.shut_down_after) + " s: the job ends.";
  }
  report.warning = std::move(text);
  return report;
}

std::string WhyItEnds(const std::vector<int>& leaving, const std::vector<Tally*>& pending,
                      const std::vector<int>& ranks, uint64_t steps) {
  std::vector<int> leaving_ranks;
  for (const int m : leaving) leaving_ranks.push_back(ranks[static_cast<size_t>(m)]);
  const auto oldest =
      std::min_element(pending.begin(), pending.end(),
                       [](const Tally* a, const Tally* b) { return a->since < b->since; });
  const bool some_wait = oldest != pending.end();
  const auto first_of = [](const Request& said) {
    return Shown(said.is_list() ? InList(said, 0) : said);
  };
  return "Horovod has been shut down (hvdlite): " +
         DecideEnd(leaving_ranks, steps,
                   some_wait ? RanksThatAsked(**oldest, ranks) : std::vector<int>(),
                   some_wait ? first_of((*oldest)->said()) : "");
}

}  // namespace hvdlite::engine
