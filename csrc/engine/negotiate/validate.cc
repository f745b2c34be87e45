#include "engine/negotiate/validate.h"

#include <algorithm>
#include <functional>
#include <map>

#include "engine/list.h"
#include "engine/shapes.h"

namespace hvdlite::engine {
namespace {

// One property that must agree: how to describe it, and what to advise if it does not.
struct Aspect {
  std::string (*said)(const Request&, const std::vector<int>& ranks);
  const char* advice;
};

std::string Number(double value) {
  char text[32];
  snprintf(text, sizeof(text), "%.17g", value);
  // The shortest form that reads back as the same number.
  for (int digits = 1; digits < 17; ++digits) {
    char shorter[32];
    snprintf(shorter, sizeof(shorter), "%.*g", digits, value);
    if (strtod(shorter, nullptr) == value) return shorter;
  }
  return text;
}

// Ordered by what a user should be told first.
const Aspect kAspects[] = {
    {[](const Request& r, const std::vector<int>&) {
       return "asked for " + std::string(Name(r.kind));
     },
     "The same name must mean the same operation on every rank; give different operations "
     "different names."},
    {[](const Request& r, const std::vector<int>&) {
       return "sent dtype " + std::string(Name(r.dtype));
     },
     "All ranks must pass the same dtype; cast before the call."},
    {[](const Request& r, const std::vector<int>&) {
       return std::string("sent a tensor on ") +
              (r.device == DeviceKind::kHost ? "the CPU" : "a GPU");
     },
     "All ranks must keep this tensor on the same kind of device."},
    {[](const Request& r, const std::vector<int>&) {
       return "asked for op " + std::string(Name(r.op));
     },
     "All ranks must pass the same reduction op."},
    {[](const Request& r, const std::vector<int>& ranks) {
       if (!Has(r.kind, kRooted)) return std::string();
       return "named root " + std::to_string(ranks[static_cast<size_t>(r.root)]);
     },
     "All ranks must name the same root_rank."},
    {[](const Request& r, const std::vector<int>&) {
       return "sent prescale_factor " + Number(r.prescale) + " and postscale_factor " +
              Number(r.postscale);
     },
     "All ranks must pass the same scale factors."},
    {[](const Request& r, const std::vector<int>&) {
       return r.codec.encodes() ? "asked for codec " + ToString(r.codec)
                                : std::string("asked for no codec");
     },
     "All ranks must encode the tensor by the same codec with the same parameter."},
    {[](const Request& r, const std::vector<int>&) {
       return r.taken == 0 ? std::string("sent all elements")
                           : "sent " + std::to_string(r.taken) + " elements of " +
                                 std::to_string(NumElements(r.shape));
     },
     "All ranks must compress the tensor alike."},
    {[](const Request& r, const std::vector<int>&) {
       return "put it into a group of " + std::to_string(r.group_size);
     },
     "All ranks must group the same tensors."},
    {[](const Request& r, const std::vector<int>&) {
       // In an alltoall only the parts are known, not the number of rows they were cut from.
       if (ResultOf(r.kind) == Result::kExchanged)
         return "sent rows of shape " + ToString(Shape(r.shape.begin() + 1, r.shape.end()));
       return "sent shape " + ToString(r.shape);
     },
     nullptr},
    {[](const Request& r, const std::vector<int>&) {
       if (r.kind == OpKind::kRemoveProcessSet)
         return "named process set " + std::to_string(r.root);
       return "named the ranks " + ToString(r.splits);
     },
     "All ranks must name the same process set, in the same order of calls."},
};

const char* ShapeAdvice(OpKind kind) {
  if (RowsDiffer(kind)) return "All dimensions but the first must be equal on all ranks.";
  if (kind == OpKind::kAllreduce) {
    return "All ranks must pass the same shape; use allgather for differing first dimensions.";
  }
  return "All ranks must pass the same shape.";
}

// Of lists that disagree: the first tensor of which the members say different things.
size_t FirstThatDiffers(const Tally& tally) {
  const Request& first = tally.agreed->request;
  size_t least = first.group_size;
  for (const auto& [member, other] : tally.dissent)
    least = std::min(least, FirstDifference(first, other));
  return least < first.group_size ? least : 0;
}

}  // namespace

bool Agrees(const Request& a, const Request& b) {
  if (a.kind != b.kind || a.dtype != b.dtype || a.op != b.op || a.device != b.device ||
      a.root != b.root || a.prescale != b.prescale || a.postscale != b.postscale ||
      a.codec != b.codec || a.taken != b.taken || a.group != b.group ||
      a.group_size != b.group_size) {
    return false;
  }
  if (a.kind == OpKind::kAddProcessSet) return a.splits == b.splits;
  if (!RowsDiffer(a.kind)) return a.shape == b.shape && a.shapes == b.shapes && SameNames(a, b);
  return a.shape.size() == b.shape.size() && !a.shape.empty() &&
         std::equal(a.shape.begin() + 1, a.shape.end(), b.shape.begin() + 1);
}

std::string RankList(std::vector<int> ranks) {
  std::sort(ranks.begin(), ranks.end());
  std::vector<std::string> runs;
  for (size_t i = 0; i < ranks.size();) {
    size_t j = i;
    while (j + 1 < ranks.size() && ranks[j + 1] == ranks[j] + 1) ++j;
    if (j >= i + 2) {
      runs.push_back(std::to_string(ranks[i]) + "-" + std::to_string(ranks[j]));
      i = j + 1;
    } else {
      runs.push_back(std::to_string(ranks[i++]));
    }
  }
  std::string text = ranks.size() == 1 ? "rank " : "ranks ";
  for (size_t i = 0; i < runs.size(); ++i) {
    if (i > 0) text += i + 1 == runs.size() ? " and " : ", ";
    text += runs[i];
  }
  return text;
}

Status Validate(const Tally& tally, const std::vector<int>& ranks) {
  const Request& first = tally.agreed->request;
  const size_t odd = first.is_list() && !tally.dissent.empty() ? FirstThatDiffers(tally) : 0;
  const auto one = [odd](const Request& r) { return r.is_list() ? InList(r, odd) : r; };
  const auto what = [&] { return Shown(one(first)) + ": "; };
  const int members = static_cast<int>(ranks.size());
  if (!tally.refusal.ok()) return tally.refusal;
  if (!tally.dissent.empty()) {
    for (const Aspect& aspect : kAspects) {
      // The requests and their ranks, in the order of the lowest rank.
      std::map<std::string, std::vector<int>> said;
      std::map<int, const Request*> others;
      for (const auto& [member, request] : tally.dissent) others[member] = &request;
      for (size_t m = 0; m < tally.presence.size(); ++m) {
        if (tally.presence[m] != Presence::kAsked) continue;
        const auto other = others.find(static_cast<int>(m));
        const Request request = other == others.end()
                                    ? RequestOf(*tally.agreed, static_cast<int>(m), members)
                                    : *other->second;
        said[aspect.said(one(request), ranks)].push_back(ranks[m]);
      }
      if (said.size() < 2) continue;
      std::vector<std::pair<std::vector<int>, std::string>> ordered;
      for (auto& [text, who] : said) ordered.emplace_back(who, text);
      std::sort(ordered.begin(), ordered.end());
      std::string sentence = what();
      for (size_t i = 0; i < ordered.size(); ++i) {
        if (i > 0) sentence += ", ";
        sentence += RankList(ordered[i].first) + " " + ordered[i].second;
      }
      return Status::Mismatch(sentence + ". " +
                              (aspect.advice ? aspect.advice : ShapeAdvice(first.kind)));
    }
    return Status::Mismatch(what() + "the ranks passed different arguments.");
  }

  std::vector<int> joined;
  for (size_t m = 0; m < tally.presence.size(); ++m) {
    if (tally.presence[m] == Presence::kJoined) joined.push_back(ranks[m]);
  }
  if (joined.empty()) return Status::Ok();
  const OpKind kind = first.kind;
  if (Has(kind, kRooted) && tally.presence[static_cast<size_t>(first.root)] == Presence::kJoined) {
    return Status::Mismatch(what() + RankList({ranks[static_cast<size_t>(first.root)]}) +
                            " is the root but has called join() and has nothing to send.");
  }
  if (Has(kind, kJoinable)) return Status::Ok();
  if (HasTensor(kind)) {
    return Status::Mismatch(
        what() + "not possible after " + RankList(joined) +
        " called join(): a joined rank takes no part of the result, so data would be lost. "
        "allreduce, allgather, broadcast and barrier work with joined ranks.");
  }
  return Status::Mismatch(what() + "not possible after " + RankList(joined) + " called join().");
}

}  // namespace hvdlite::engine
