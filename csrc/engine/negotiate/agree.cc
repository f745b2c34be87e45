#include "engine/negotiate/agree.h"

#include <poll.h>

#include <algorithm>

#include "engine/negotiate/validate.h"

namespace hvdlite::engine {
namespace {

// How long a member that leaves is waited for by operations it has announced and others have not.
constexpr Nanos kLeaveGrace = 2 * kSecond;
// How long a relay keeps an incomplete slot to itself before the root has to know who is missing.
constexpr Nanos kSpellOutAfter = kSecond;

Status Nonsense(int rank) {
  return Status::Internal("rank " + std::to_string(rank) +
                          " sent a negotiation message that makes no sense; do all ranks run the same version of hvdlite?");
}

}  // namespace

Agreement::Agreement(TreePlace place, std::vector<int> ranks, const AgreementOptions& options)
    : me_(place.me), ranks_(std::move(ranks)), options_(options),
      ledger_(static_cast<int>(ranks_.size()), options.cache_capacity) {
  if (place.parent != nullptr) {
    parent_ = std::make_unique<Edge>();
    parent_->channel = std::make_unique<transport::FrameChannel>(place.parent);
  }
  for (const TreePlace::Child& child : place.children) {
    children_.push_back({std::make_unique<transport::FrameChannel>(child.transport), child.members, 0});
    below_ += child.members.size();
  }
}

// One frame speaks for one member; a relay that passes on several members' words sends several frames.
Writer& Agreement::UpFor(int member) {
  if (up_member_ != member) SendUp();
  if (up_.empty()) {
    up_member_ = member;
    up_.Varint(static_cast<uint64_t>(member));
  }
  return up_;
}

void Agreement::SendUp() {
  if (!up_.empty() && parent_ != nullptr) parent_->channel->Send(up_.bytes());
  up_.Take();
  up_member_ = -1;
}

Status Agreement::Announce(const Request& request, Nanos now) {
  if (is_root()) return ledger_.Add(me_, request, now) ? Status::Ok() : Nonsense(ranks_[me_]);
  Writer& out = UpFor(me_);
  out.U8(static_cast<uint8_t>(Up::kRequest));
  request.Encode(&out);
  return Status::Ok();
}

Status Agreement::AnnounceSlot(uint64_t slot, Nanos now) { return CountSlot(me_, slot, now); }

void Agreement::AnnounceEvicted(uint64_t slot) {
  if (is_root()) return ledger_.Forgotten(me_, slot);
  Writer& out = UpFor(me_);
  out.U8(static_cast<uint8_t>(Up::kEvicted));
  out.Varint(slot);
}

void Agreement::AnnounceShutdown(Nanos now) {
  if (is_root()) {
    if (leaving_.empty()) leaving_since_ = now;
    leaving_.push_back(me_);
    return;
  }
  UpFor(me_).U8(static_cast<uint8_t>(Up::kShutdown));
}

void Agreement::SpreadAbort(const Status& status) {
  if (parent_ != nullptr) {
    Writer& out = UpFor(me_);
    out.U8(static_cast<uint8_t>(Up::kAbort));
    Encode(status, &out);
    SendUp();
  }
  Writer down;
  down.U8(static_cast<uint8_t>(Down::kAbort));
  Encode(status, &down);
  Broadcast(down.bytes());
  Flush();
}

void Agreement::AskWhere(std::vector<Decision>* decisions) {
  answers_.clear();
  Writer out;
  out.U8(static_cast<uint8_t>(Down::kWhere));
  Broadcast(out.bytes());
  Decision mine;
  mine.kind = Down::kWhere;
  decisions->push_back(std::move(mine));
}

void Agreement::AnswerWhere(const std::string& place, Nanos idle) {
  if (is_root()) {
    answers_[ranks_[me_]] = {place, idle};
    return;
  }
  Writer& out = UpFor(me_);
  out.U8(static_cast<uint8_t>(Up::kHere));
  out.Text(place);
  out.Signed(idle);
}

void Agreement::SendAlive() {
  if (parent_ != nullptr && parent_->channel->transport().fd() >= 0) {
    UpFor(me_).U8(static_cast<uint8_t>(Up::kAlive));
  }
  Writer down;
  down.U8(static_cast<uint8_t>(Down::kAlive));
  for (Edge& child : children_) {
    if (child.channel->transport().fd() >= 0) child.channel->Send(down.bytes());
  }
}

Status Agreement::CountSlot(int member, uint64_t slot, Nanos now) {
  if (is_root()) return ledger_.AddCached(member, slot, now) ? Status::Ok() : Nonsense(ranks_[member]);
  const auto pass_on = [&](int who) {
    Writer& out = UpFor(who);
    out.U8(static_cast<uint8_t>(Up::kCached));
    out.Varint(slot);
  };
  if (below_ == 1) {
    pass_on(member);
    return Status::Ok();
  }
  Partial& partial = partials_[slot];
  if (partial.members.empty()) partial.since = now;
  partial.members.push_back(member);
  if (partial.spelled_out) pass_on(member);
  if (partial.members.size() == below_) {
    if (!partial.spelled_out) {
      Writer& out = UpFor(me_);
      out.U8(static_cast<uint8_t>(Up::kCachedBySubtree));
      out.Varint(slot);
    }
    partials_.erase(slot);
  }
  return Status::Ok();
}

void Agreement::SpellOutOldPartials(Nanos now) {
  for (auto& [slot, partial] : partials_) {
    if (partial.spelled_out || now - partial.since < kSpellOutAfter) continue;
    partial.spelled_out = true;
    for (int member : partial.members) {
      Writer& out = UpFor(member);
      out.U8(static_cast<uint8_t>(Up::kCached));
      out.Varint(slot);
    }
  }
}

Status Agreement::HandleUp(const Edge& edge, std::string_view frame, Nanos now, std::vector<Decision>* decisions) {
  const int sender = edge.channel->transport().peer();
  Reader in(frame);
  const int member = static_cast<int>(in.Below(ranks_.size()));
  if (!in.ok() || std::find(edge.members.begin(), edge.members.end(), member) == edge.members.end()) return Nonsense(sender);
  while (!in.done()) {
    switch (static_cast<Up>(in.U8())) {
      case Up::kRequest: {
        Request request;
        if (!Request::Decode(&in, &request)) return Nonsense(sender);
        if (is_root()) {
          if (!ledger_.Add(member, std::move(request), now)) return Nonsense(sender);
        } else {
          Writer& out = UpFor(member);
          out.U8(static_cast<uint8_t>(Up::kRequest));
          request.Encode(&out);
        }
        break;
      }
      case Up::kCached: {
        const uint64_t slot = in.Varint();
        if (!in.ok()) return Nonsense(sender);
        HVDLITE_RETURN_IF_ERROR(CountSlot(member, slot, now));
        break;
      }
      case Up::kCachedBySubtree: {
        const uint64_t slot = in.Varint();
        if (!in.ok()) return Nonsense(sender);
        for (int each : edge.members) HVDLITE_RETURN_IF_ERROR(CountSlot(each, slot, now));
        break;
      }
      case Up::kEvicted: {
        const uint64_t slot = in.Varint();
        if (!in.ok()) return Nonsense(sender);
        if (is_root()) {
          ledger_.Forgotten(member, slot);
        } else {
          Writer& out = UpFor(member);
          out.U8(static_cast<uint8_t>(Up::kEvicted));
          out.Varint(slot);
        }
        break;
      }
      case Up::kShutdown:
        if (is_root()) {
          if (leaving_.empty()) leaving_since_ = now;
          leaving_.push_back(member);
        } else {
          UpFor(member).U8(static_cast<uint8_t>(Up::kShutdown));
        }
        break;
      case Up::kAbort: {
        Decision decision;
        decision.kind = Down::kAbort;
        if (!Decode(&in, &decision.status)) return Nonsense(sender);
        decisions->push_back(std::move(decision));
        break;
      }
      case Up::kHere: {
        Answer answer;
        answer.place = in.Text();
        answer.idle = in.Signed();
        if (!in.ok()) return Nonsense(sender);
        if (is_root()) {
          answers_[ranks_[member]] = std::move(answer);
        } else {
          Writer& out = UpFor(member);
          out.U8(static_cast<uint8_t>(Up::kHere));
          out.Text(answer.place);
          out.Signed(answer.idle);
        }
        break;
      }
      case Up::kAlive: break;
      default: return Nonsense(sender);
    }
  }
  return in.ok() ? Status::Ok() : Nonsense(sender);
}

Status Agreement::HandleDown(std::string_view frame, std::vector<Decision>* decisions) {
  const int sender = parent_ ? parent_->channel->transport().peer() : ranks_[me_];
  Reader in(frame);
  while (!in.done()) {
    Decision decision;
    decision.kind = static_cast<Down>(in.U8());
    switch (decision.kind) {
      case Down::kExecute: {
        const uint64_t count = in.Below(frame.size() + 1);
        for (uint64_t i = 0; i < count; ++i) {
          Response response;
          if (!Decode(&in, &response)) return Nonsense(sender);
          decision.batch.push_back(std::move(response));
        }
        break;
      }
      case Down::kError: {
        const uint64_t count = in.Below(frame.size() + 1);
        for (uint64_t i = 0; i < count; ++i) decision.names.push_back(in.Text());
        if (!Decode(&in, &decision.status)) return Nonsense(sender);
        break;
      }
      case Down::kEvict: decision.slot = in.Varint(); break;
      case Down::kShutdown:
      case Down::kAbort:
        if (!Decode(&in, &decision.status)) return Nonsense(sender);
        break;
      case Down::kAlive: continue;
      case Down::kWhere: break;
      default: return Nonsense(sender);
    }
    if (!in.ok()) return Nonsense(sender);
    decisions->push_back(std::move(decision));
  }
  return in.ok() ? Status::Ok() : Nonsense(sender);
}

void Agreement::Broadcast(std::string_view frame) {
  for (Edge& child : children_) child.channel->Send(frame);
}

Status Agreement::Receive(Edge* edge, Nanos now, std::vector<Decision>* decisions, bool* moved) {
  bool heard = false;
  std::string_view frame;
  Status status;
  while (status.ok()) {
    status = edge->channel->Next(&frame, &heard);
    if (!status.ok() || frame.data() == nullptr) break;
    if (edge == parent_.get()) {
      Broadcast(frame);
      status = HandleDown(frame, decisions);
    } else {
      status = HandleUp(*edge, frame, now, decisions);
    }
  }
  if (heard) edge->heard = now;
  *moved |= heard;
  return status;
}

Status Agreement::Exchange(Nanos now, std::vector<Decision>* decisions, bool* moved) {
  // One broken edge does not keep us from hearing, over another, who broke it.
  Status first_error;
  const auto note = [&](Status status) {
    if (first_error.ok() && !status.ok()) first_error = std::move(status);
  };
  for (Edge& child : children_) note(Receive(&child, now, decisions, moved));
  if (is_root()) {
    Decide(now, decisions);
  } else {
    if (!partials_.empty()) SpellOutOldPartials(now);
    SendUp();
    note(parent_->channel->PumpOut(moved));
    note(Receive(parent_.get(), now, decisions, moved));
  }
  for (Edge& child : children_) note(child.channel->PumpOut(moved));
  return first_error;
}

bool Agreement::Flush() {
  bool moved = false;
  SendUp();
  // An edge that fails now has nobody at its other end to tell.
  const auto drained = [&](Edge& edge) { return !edge.channel->PumpOut(&moved).ok() || !edge.channel->wants_to_send(); };
  bool done = parent_ == nullptr || drained(*parent_);
  for (Edge& child : children_) done &= drained(child);
  return done;
}

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

std::vector<std::pair<int, Nanos>> Agreement::LastHeard() const {
  std::vector<std::pair<int, Nanos>> out;
  const auto add = [&](const Edge& edge) {
    if (edge.channel->transport().fd() >= 0) out.emplace_back(edge.channel->transport().peer(), edge.heard);
  };
  if (parent_ != nullptr) add(*parent_);
  for (const Edge& child : children_) add(child);
  return out;
}

void Agreement::AddPollFds(std::vector<pollfd>* fds) const {
  const auto add = [&](const Edge& edge) {
    const int fd = edge.channel->transport().fd();
    if (fd >= 0) fds->push_back({fd, static_cast<short>(POLLIN | (edge.channel->wants_to_send() ? POLLOUT : 0)), 0});
  };
  if (parent_ != nullptr) add(*parent_);
  for (const Edge& child : children_) add(child);
}

}  // namespace hvdlite::engine
