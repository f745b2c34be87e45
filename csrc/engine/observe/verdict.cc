#include "engine/observe/verdict.h"

#include <algorithm>
#include <utility>

#include "engine/negotiate/validate.h"

namespace hvdlite::engine {
namespace {

constexpr size_t kMostNames = 3;
constexpr size_t kMostPlaces = 3;

std::string InSeconds(Nanos span) {
  return std::to_string(span / kSecond) + " s";
}

// The form of a verb for so many ranks.
std::string Verb(size_t ranks, const char* one, const char* several) {
  return ranks == 1 ? one : several;
}

bool Contains(const std::vector<int>& ranks, int rank) {
  return std::find(ranks.begin(), ranks.end(), rank) != ranks.end();
}

// What a rank has asked for that the ranks which wait for it have not.
std::vector<const StalledOperation*> Instead(const StallFacts& facts, int rank) {
  const std::vector<int>& waiting = facts.operations[0].asked;
  std::vector<const StalledOperation*> found;
  for (const StalledOperation& other : facts.operations) {
    const bool lacks = std::any_of(waiting.begin(), waiting.end(),
                                   [&](int each) { return Contains(other.missing, each); });
    if (lacks && Contains(other.asked, rank)) found.push_back(&other);
  }
  return found;
}

// What a missing rank does, as a predicate in the singular and in the plural, for example "is in
// train.py:88" and "are in train.py:88".
struct Doing {
  std::string one;
  std::string several;
  std::vector<int> ranks;
  Nanos idle = -1;  // the shortest of the ranks; -1: not to be told
};

Doing Describe(const StallFacts& facts, int rank) {
  const auto said = facts.said.find(rank);
  if (said == facts.said.end()) {
    const auto why = facts.why_silent.find(rank);
    const std::string reason = why == facts.why_silent.end() || why->second.empty()
                                   ? "the process, its host or the network is held up"
                                   : why->second;
    return {"does not answer: " + reason, "do not answer: " + reason, {rank}};
  }
  const Whereabouts& here = said->second;
  if (here.place.empty()) {
    const std::string held =
        " held the interpreter lock (GIL) in C code for at least " + InSeconds(here.unanswered);
    return {"has" + held, "have" + held, {rank}, here.idle};
  }
  const std::vector<const StalledOperation*> instead = Instead(facts, rank);
  if (instead.empty()) return {"is in " + here.place, "are in " + here.place, {rank}, here.idle};
  std::string names;
  for (size_t i = 0; i < instead.size() && i < kMostNames; ++i)
    names += (i > 0 ? ", " : "") + instead[i]->shown;
  if (instead.size() > kMostNames) names += ", ...";
  if (!here.in_wait) {
    return {"has asked for " + names + ", is in " + here.place,
            "have asked for " + names + ", are in " + here.place,
            {rank},
            here.idle};
  }
  const std::string what = names + " instead, in " + here.place;
  return {"asks for " + what, "ask for " + what, {rank}};
}

std::vector<Doing> Group(const StallFacts& facts, const std::vector<int>& ranks) {
  std::vector<Doing> groups;
  for (const int rank : ranks) {
    Doing doing = Describe(facts, rank);
    const auto same = std::find_if(groups.begin(), groups.end(),
                                   [&](const Doing& other) { return other.one == doing.one; });
    if (same == groups.end()) {
      groups.push_back(std::move(doing));
    } else {
      same->ranks.push_back(rank);
      same->idle = std::min(same->idle, doing.idle);
    }
  }
  return groups;
}

std::string Missing(const StallFacts& facts) {
  const std::vector<int>& missing = facts.operations[0].missing;
  const std::vector<Doing> groups = Group(facts, missing);
  std::string text;
  for (size_t i = 0; i < groups.size() && i < kMostPlaces; ++i) {
    const Doing& group = groups[i];
    const size_t count = group.ranks.size();
    const std::string subject =
        groups.size() > 1 ? RankList(group.ranks) : Verb(missing.size(), "it", "they");
    text += (i > 0 ? "; " : "") + subject + " " + (count == 1 ? group.one : group.several);
    if (group.idle >= 0)
      text +=
          Verb(count, " and has", " and have") + " submitted nothing for " + InSeconds(group.idle);
  }
  return text + (groups.size() > kMostPlaces ? "; ..." : "");
}

std::string TheWaiting(const StallFacts& facts) {
  std::vector<std::pair<std::string, std::vector<int>>> places;
  for (const int rank : facts.operations[0].asked) {
    const auto said = facts.said.find(rank);
    const std::string place = said == facts.said.end() ? "" : said->second.place;
    const auto same = std::find_if(places.begin(), places.end(),
                                   [&](const auto& other) { return other.first == place; });
    if (same == places.end()) {
      places.push_back({place, {rank}});
    } else {
      same->second.push_back(rank);
    }
  }
  std::string text;
  for (size_t i = 0; i < places.size() && i < kMostPlaces; ++i) {
    const auto& [place, ranks] = places[i];
    text += "; " + RankList(ranks) + Verb(ranks.size(), " waits", " wait") +
            (place.empty() ? "" : " in " + place);
  }
  return text + (places.size() > kMostPlaces ? "; ..." : "");
}

// A sentence about ranks that have left a loop.
std::string UnevenSteps(const StalledOperation& left, const std::vector<int>& others) {
  std::string who = RankList(others);
  who[0] = 'R';
  return ". " + who + Verb(others.size(), " has", " have") + " left the loop after " +
         std::to_string(left.rounds) + Verb(left.rounds, " step", " steps") + ", and " +
         RankList(left.asked) + Verb(left.asked.size(), " goes", " go") +
         " on: uneven data (use hvd.join(), or a sampler that pads), or a branch that depends on "
         "the "
         "rank";
}

// A sentence about the cause, if missing ranks wait for something else.
std::string Cause(const StallFacts& facts) {
  const StalledOperation& oldest = facts.operations[0];
  const StalledOperation* other = nullptr;
  for (const int rank : oldest.missing) {
    const std::vector<const StalledOperation*> instead = Instead(facts, rank);
    if (!instead.empty()) other = instead[0];
    if (other != nullptr) break;
  }
  if (other == nullptr) return "";
  if (other->plain == oldest.plain) return ". One name stands for different operations";
  if (other->rounds > 0 && oldest.rounds > 0)
    return ". The ranks ask for the same operations in another order";
  if (oldest.rounds > 0) return UnevenSteps(oldest, oldest.missing);
  if (other->rounds > 0) return UnevenSteps(*other, oldest.asked);
  return ". The ranks ask in another order, or one of them takes another branch";
}

}  // namespace

std::string DecideStall(const StallFacts& facts) {
  const StalledOperation& oldest = facts.operations[0];
  return RankList(oldest.missing) + Verb(oldest.missing.size(), " has", " have") +
         " not asked for " + oldest.shown + " for " + InSeconds(oldest.age) + ": " +
         Missing(facts) + TheWaiting(facts) + Cause(facts);
}

std::string DecideEnd(const std::vector<int>& leaving, uint64_t steps,
                      const std::vector<int>& waiting, const std::string& operation) {
  std::string text =
      RankList(leaving) + " called hvd.shutdown() or reached the end of its program.";
  const std::string after = steps > 1 ? "after " + std::to_string(steps) + " steps" : "";
  if (!waiting.empty()) {
    text += " That was " + (after.empty() ? "" : after + ", ") + "while " + RankList(waiting) +
            Verb(waiting.size(), " waits", " wait") + " in " + operation + ".";
  } else if (!after.empty()) {
    text += " That was " + after + ".";
  }
  return text +
         " If this rank still had work to do, the ranks did not run the same number of steps: use "
         "hvd.join(), or a sampler that pads.";
}

}  // namespace hvdlite::engine
