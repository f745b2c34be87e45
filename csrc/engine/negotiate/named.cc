#include "engine/negotiate/named.h"

#include <algorithm>
#include <functional>
#include <utility>

#include "engine/negotiate/validate.h"

namespace hvdlite::engine {
namespace {

std::string Suffix(const std::vector<int64_t>& ranks) {
  return " " + ToString(ranks);
}

std::vector<int> MembersThatAsked(const Tally& tally) {
  std::vector<int> asked;
  for (size_t m = 0; m < tally.presence.size(); ++m) {
    if (tally.presence[m] == Presence::kAsked) asked.push_back(static_cast<int>(m));
  }
  return asked;
}

bool SharesRank(const std::vector<int64_t>& ranks, const Request& request) {
  return std::any_of(ranks.begin(), ranks.end(),
                     [&](int64_t rank) { return IsNamed(request, static_cast<int>(rank)); });
}

}  // namespace

std::string NameAmong(const std::string& given, const std::vector<int64_t>& ranks) {
  return given + Suffix(ranks);
}

std::string GivenName(const Request& request) {
  const size_t kind = Name(request.kind).size() + 1;
  return request.name.substr(kind, request.name.size() - Suffix(request.splits).size() - kind);
}

bool NamesRanks(const Request& request, int size) {
  const std::vector<int64_t>& ranks = request.splits;
  const std::string begin = std::string(Name(request.kind)) + ".";
  return !ranks.empty() && ranks.front() >= 0 && ranks.back() < size &&
         std::adjacent_find(ranks.begin(), ranks.end(), std::greater_equal<>()) == ranks.end() &&
         request.name.size() > begin.size() + Suffix(ranks).size() &&
         request.name.starts_with(begin) && request.name.ends_with(Suffix(ranks));
}

bool IsNamed(const Request& request, int rank) {
  return std::binary_search(request.splits.begin(), request.splits.end(), rank);
}

bool Contradict(const Request& one, const Request& other) {
  if (one.kind != other.kind || !Has(one.kind, kAmongNamed) || one.splits == other.splits ||
      GivenName(one) != GivenName(other))
    return false;
  return SharesRank(one.splits, other);
}

Status Contradiction(const Tally& one, const Tally& other) {
  const bool in_order = MembersThatAsked(one) < MembersThatAsked(other);
  const Tally& first = in_order ? one : other;
  const Tally& second = in_order ? other : one;
  const auto said = [](const Tally& tally) {
    return RankList(MembersThatAsked(tally)) + " named the ranks " + ToString(tally.said().splits);
  };
  return Status::Mismatch(std::string(Name(one.said().kind)) + " '" + GivenName(one.said()) +
                          "': " + said(first) + ", " + said(second) +
                          ". All members must name the same ranks; sets of different ranks that "
                          "share a rank need different names.");
}

void NamedSets::HaveFailed(const Tally& one, const Tally& other, const Status& why) {
  Failed failed{one.said().kind, GivenName(one.said()), why, {}};
  for (size_t m = 0; m < one.presence.size(); ++m) {
    const Presence here = one.presence[m], there = other.presence[m];
    if (here == Presence::kAsked || there == Presence::kAsked) continue;
    if (here == Presence::kMissing || there == Presence::kMissing)
      failed.late.push_back(static_cast<int>(m));
  }
  if (!failed.late.empty()) failed_.push_back(std::move(failed));
}

void NamedSets::Perform(const Request& request) {
  Set set{GivenName(request), request.splits};
  if (request.kind == OpKind::kAddNamedProcessSet) {
    sets_.push_back(std::move(set));
    return;
  }
  std::erase_if(sets_, [&](const Set& other) {
    return other.given == set.given && other.ranks == set.ranks;
  });
}

Status NamedSets::Judge(int member, const Request& request) {
  HVDLITE_RETURN_IF_ERROR(Late(member, request));
  return request.kind == OpKind::kAddNamedProcessSet ? Exists(request) : Status::Ok();
}

Status NamedSets::Late(int member, const Request& request) {
  for (auto failed = failed_.begin(); failed != failed_.end(); ++failed) {
    if (failed->kind != request.kind || failed->given != GivenName(request) ||
        std::erase(failed->late, member) == 0)
      continue;
    Status why = failed->why;
    if (failed->late.empty()) failed_.erase(failed);
    return why;
  }
  return Status::Ok();
}

Status NamedSets::Exists(const Request& request) const {
  for (const Set& set : sets_) {
    if (set.given != GivenName(request) || !SharesRank(set.ranks, request)) continue;
    return Status::InvalidArgument("process set '" + set.given + "' of the ranks " +
                                   ToString(set.ranks) + " exists already, so that there can be " +
                                   "none of this name with the ranks " + ToString(request.splits) +
                                   ". Use it, remove it, or choose another name");
  }
  return Status::Ok();
}

}  // namespace hvdlite::engine
