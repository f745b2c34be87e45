// The root of the negotiation tree: turns ready operations into decisions.
#include <algorithm>
#include <memory>
#include <utility>

#include "engine/negotiate/agree.h"
#include "engine/negotiate/validate.h"
#include "engine/observe/stall.h"
#include "engine/shapes.h"

namespace hvdlite::engine {
namespace {

// How long announced operations wait for a member that leaves, if other members have not announced
// them.
constexpr Nanos kAnnouncedGrace = 2 * kSecond;

// How often the root searches for groups that can never become ready.
constexpr Nanos kLookEvery = kSecond / 4;

// The same agreement, without rows of joined members.
AgreedPtr WithoutRowsOfJoined(const Tally& tally) {
  Agreed agreed = *tally.agreed;
  for (size_t m = 0; m < tally.presence.size(); ++m) {
    if (tally.presence[m] == Presence::kJoined) agreed.rows[m] = 0;
  }
  return std::make_shared<const Agreed>(std::move(agreed));
}

// A group fails as a whole if the ranks disagree about one of its members.
void FailWholeGroups(const std::vector<Tally*>& ready, std::vector<Status>* verdicts) {
  std::unordered_map<uint64_t, Status> failed;
  for (size_t i = 0; i < ready.size(); ++i) {
    const uint64_t group = ready[i]->agreed->request.group;
    if (group != 0 && !(*verdicts)[i].ok()) failed[group] = (*verdicts)[i];
  }
  for (size_t i = 0; i < ready.size(); ++i) {
    const auto group = failed.find(ready[i]->agreed->request.group);
    if ((*verdicts)[i].ok() && group != failed.end()) (*verdicts)[i] = group->second;
  }
}

}  // namespace

Response Agreement::Settle(Tally* tally) {
  const bool anybody_joined = std::find(tally->presence.begin(), tally->presence.end(),
                                        Presence::kJoined) != tally->presence.end();
  const Request& request = tally->agreed->request;
  if (Has(request.kind, kAmongNamed)) ledger_.Perform(request);
  // The slot must not remember the zero rows of a joined member.
  const bool remember = request.cacheable && !(anybody_joined && RowsDiffer(request.kind));
  Response response;
  response.cached = remember && tally->agreed == tally->remembered;
  response.slot = remember ? ledger_.SlotFor(tally) : kNoSlot;
  response.agreed =
      anybody_joined && RowsDiffer(request.kind) ? WithoutRowsOfJoined(*tally) : tally->agreed;
  ledger_.Settle(tally, remember);
  return response;
}

// Operations on which the ranks agree go into batches; the others become errors.
void Agreement::DecideReady(const std::vector<Tally*>& ready, Writer* out) {
  std::vector<Status> verdicts;
  verdicts.reserve(ready.size());
  bool all_agree = true;
  for (Tally* tally : ready) {
    verdicts.push_back(Validate(*tally, ranks_));
    all_agree &= verdicts.back().ok();
  }
  if (!all_agree) FailWholeGroups(ready, &verdicts);
  std::vector<Response> responses;
  std::vector<AgreedPtr> candidates;
  responses.reserve(ready.size());
  candidates.reserve(ready.size());
  for (size_t i = 0; i < ready.size(); ++i) {
    if (verdicts[i].ok()) {
      responses.push_back(Settle(ready[i]));
      candidates.push_back(responses.back().agreed);
      continue;
    }
    out->U8(static_cast<uint8_t>(Down::kError));
    out->Varint(1);
    out->Text(ready[i]->agreed->request.name);
    Encode(verdicts[i], out);
    ledger_.Settle(ready[i], /*remember=*/false);
  }
  for (const std::vector<size_t>& batch : Plan(candidates, options_.fuse)) {
    out->U8(static_cast<uint8_t>(Down::kExecute));
    out->Varint(batch.size());
    for (size_t i : batch) Encode(responses[i], out);
  }
}

// Turns ready operations into decisions and sends them to all members. The root decodes its own
// copy as the others do.
void Agreement::Decide(Nanos now, std::vector<Decision>* decisions) {
  Writer out;
  if (now >= next_look_) {
    ledger_.FindTornGroups();
    next_look_ = now + kLookEvery;
  }
  // What it keeps comes first, and is never in host memory.
  const auto& waiting = ledger_.ready();
  if (options_.keeps && !waiting.empty() && waiting[0]->said().device != DeviceKind::kHost) {
    Readiness readiness{
        {}, !ledger_.pending().empty(), !leaving_.empty() || ledger_.anyone_joined()};
    for (const Tally* tally : waiting) readiness.ready.push_back(&tally->said());
    if (options_.keeps(readiness, now)) return;
  }
  const std::vector<Tally*> ready = ledger_.TakeReady();
  if (!ready.empty()) DecideReady(ready, &out);
  const int last_joined = ledger_.TakeLastJoined();
  if (last_joined >= 0) {
    Agreed all;
    all.request.kind = OpKind::kJoin;
    all.request.name = "join";
    all.request.root = ranks_[last_joined];
    Response response;
    response.agreed = std::make_shared<const Agreed>(std::move(all));
    out.U8(static_cast<uint8_t>(Down::kExecute));
    out.Varint(1);
    Encode(response, &out);
  }
  for (uint64_t slot : ledger_.TakeEvictions()) {
    out.U8(static_cast<uint8_t>(Down::kEvict));
    out.Varint(slot);
  }
  if (!leaving_.empty() && !shutdown_decided_) {
    const bool promised =
        std::any_of(ledger_.pending().begin(), ledger_.pending().end(), [&](const Tally* tally) {
          return std::any_of(leaving_.begin(), leaving_.end(),
                             [&](int m) { return tally->presence[m] == Presence::kAsked; });
        });
    if (!promised || leaving_.size() == ranks_.size() || now - leaving_since_ > kAnnouncedGrace) {
      shutdown_decided_ = true;
      out.U8(static_cast<uint8_t>(Down::kShutdown));
      const uint64_t steps = options_.steps ? options_.steps() : 0;
      Encode(Status::ShutDown(WhyItEnds(leaving_, ledger_.pending(), ranks_, steps)), &out);
    }
  }
  if (out.empty()) return;
  Broadcast(out.bytes());
  // The root's own message is always valid.
  const Status decoded = HandleDown(out.bytes(), now, decisions);
  if (!decoded.ok()) {
    Decision abort;
    abort.kind = Down::kAbort;
    abort.status = decoded;
    decisions->push_back(std::move(abort));
  }
}

}  // namespace hvdlite::engine
