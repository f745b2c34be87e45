// The root of the negotiation tree: from what is ready to decisions.
#include <algorithm>

#include "engine/negotiate/agree.h"
#include "engine/negotiate/validate.h"

namespace hvdlite::engine {
namespace {

// How long a member that leaves is waited for by operations it has announced and others have not.
constexpr Nanos kLeaveGrace = 2 * kSecond;

}  // namespace

// The root turns what is ready into decisions, tells everybody, and takes its own copy the way all others get theirs.
void Agreement::Decide(Nanos now, std::vector<Decision>* decisions) {
  Writer out;
  const std::vector<Tally*> ready = ledger_.TakeReady();
  if (!ready.empty()) {
    // A group with one member that the ranks disagree about fails as a whole.
    std::unordered_map<uint64_t, Status> failed_groups;
    std::vector<Status> verdicts;
    for (Tally* tally : ready) {
      verdicts.push_back(Validate(*tally, ranks_));
      if (!verdicts.back().ok() && tally->first.group != 0) failed_groups[tally->first.group] = verdicts.back();
    }
    std::vector<Response> responses;
    responses.reserve(ready.size());
    for (size_t i = 0; i < ready.size(); ++i) {
      Tally* const tally = ready[i];
      Status verdict = verdicts[i];
      const auto group = failed_groups.find(tally->first.group);
      if (verdict.ok() && group != failed_groups.end()) verdict = group->second;
      if (!verdict.ok()) {
        out.U8(static_cast<uint8_t>(Down::kError));
        out.Varint(1);
        out.Text(tally->first.name);
        Encode(verdict, &out);
        ledger_.Settle(tally, /*remember=*/false);
        continue;
      }
      const bool anybody_joined =
          std::find(tally->presence.begin(), tally->presence.end(), Presence::kJoined) != tally->presence.end();
      // The zero rows of a joined member must not be what the slot remembers of it.
      const bool remember = tally->first.cacheable && !(anybody_joined && HasRows(tally->first.kind));
      Response response;
      response.cached = remember && !tally->described;
      response.slot = remember ? ledger_.SlotFor(tally) : kNoSlot;
      response.request = tally->first;
      response.rows = HasRows(tally->first.kind) ? tally->rows : std::vector<int64_t>();
      if (anybody_joined && tally->first.kind == OpKind::kAllgather) {
        for (size_t m = 0; m < tally->presence.size(); ++m) {
          if (tally->presence[m] == Presence::kJoined) response.rows[m] = 0;
        }
      }
      responses.push_back(std::move(response));
      ledger_.Settle(tally, remember);
    }
    std::vector<const Response*> candidates;
    for (const Response& response : responses) candidates.push_back(&response);
    for (const std::vector<size_t>& batch : Plan(candidates, static_cast<int>(ranks_.size()), options_.fuse)) {
      out.U8(static_cast<uint8_t>(Down::kExecute));
      out.Varint(batch.size());
      for (size_t i : batch) Encode(responses[i], &out);
    }
  }
  const int last_joined = ledger_.TakeLastJoined();
  if (last_joined >= 0) {
    Response response;
    response.request.kind = OpKind::kJoin;
    response.request.name = "join";
    response.request.root = ranks_[last_joined];
    out.U8(static_cast<uint8_t>(Down::kExecute));
    out.Varint(1);
    Encode(response, &out);
  }
  for (uint64_t slot : ledger_.TakeEvictions()) {
    out.U8(static_cast<uint8_t>(Down::kEvict));
    out.Varint(slot);
  }
  if (!leaving_.empty() && !shutdown_decided_) {
    const bool promised = std::any_of(ledger_.pending().begin(), ledger_.pending().end(), [&](const Tally* tally) {
      return std::any_of(leaving_.begin(), leaving_.end(),
                         [&](int m) { return tally->presence[m] == Presence::kAsked; });
    });
    if (!promised || leaving_.size() == ranks_.size() || now - leaving_since_ > kLeaveGrace) {
      shutdown_decided_ = true;
      std::vector<int> who;
      for (int m : leaving_) who.push_back(ranks_[m]);
      out.U8(static_cast<uint8_t>(Down::kShutdown));
      Encode(Status::ShutDown("Horovod has been shut down (hvdlite): " + RankList(who) +
                              " called hvd.shutdown() or reached the end of its program. If this rank still had work "
                              "to do, the ranks did not run the same number of steps: see hvd.join()."),
             &out);
    }
  }
  if (out.empty()) return;
  Broadcast(out.bytes());
  // Our own words always make sense.
  const Status decoded = HandleDown(out.bytes(), decisions);
  if (!decoded.ok()) {
    Decision abort;
    abort.kind = Down::kAbort;
    abort.status = decoded;
    decisions->push_back(std::move(abort));
  }
}

}  // namespace hvdlite::engine
