#include "engine/negotiate/agree.h"

#include <algorithm>

#include "engine/shapes.h"
#include "engine/tune/setting.h"

namespace hvdlite::engine {
namespace {

// How long a relay keeps an incomplete slot before the root must know which members are missing.
constexpr Nanos kSpellOutAfter = kSecond;

void PutResult(const Results::Digest& digest, Writer* out) {
  out->U8(static_cast<uint8_t>(Up::kResult));
  out->Varint(digest.decision);
  out->Varint(digest.value);
}

}  // namespace

Agreement::Agreement(const TreePlace& place, std::vector<int> ranks,
                     const AgreementOptions& options)
    : me_(place.me),
      ranks_(std::move(ranks)),
      options_(options),
      ledger_(static_cast<int>(ranks_.size()), options.cache_capacity),
      results_(ranks_, me_, place.parent == nullptr) {
  if (place.parent != nullptr) {
    parent_ = std::make_unique<Edge>();
    parent_->channel = std::make_unique<transport::FrameChannel>(place.parent);
  }
  for (const TreePlace::Child& child : place.children) {
    children_.push_back(
        {std::make_unique<transport::FrameChannel>(child.transport), child.members, 0});
    below_ += child.members.size();
  }
  if (options_.meeting == nullptr) return;
  offers_ = std::make_unique<Offers>(me_, (is_root() ? children_[0] : *parent_).channel.get(),
                                     options_.meeting);
}

// One frame speaks for one member. A relay that passes on the records of several members sends
// several frames.
Writer& Agreement::UpFor(int member) {
  if (up_member_ != member) SendUp();
  if (up_.empty()) {
    up_member_ = member;
    up_.Varint(static_cast<uint64_t>(member));
  }
  return up_;
}

void Agreement::SendUp() {
  if (!up_.empty() && up_member_ == me_) {
    for (const Results::Digest& digest : results_.TakeUnsaid()) PutResult(digest, &up_);
  }
  if (!up_.empty() && parent_ != nullptr) parent_->channel->Send(up_.bytes());
  up_.Take();
  up_member_ = -1;
}

Status Agreement::Announce(const Request& request, uint64_t slot, Nanos now) {
  if (request.kind == OpKind::kJoin && !joining_) {
    joining_ = request;
    return Status::Ok();
  }
  if (is_root()) return ledger_.Add(me_, request, now) ? Status::Ok() : Nonsense(ranks_[me_]);
  NoteJoin(request);
  if (slot != kNoSlot) PassOnUncached(me_, slot, now);
  Writer& out = UpFor(me_);
  out.U8(static_cast<uint8_t>(Up::kRequest));
  request.Encode(&out);
  return Status::Ok();
}

Status Agreement::AnnounceSlot(uint64_t slot, Nanos now) {
  return CountSlot(me_, slot, now);
}

void Agreement::AnnounceEvicted(uint64_t slot) {
  if (is_root()) return ledger_.Forgotten(slot);
  PassOnEvicted(me_, slot);
}

void Agreement::AnnounceShutdown(Nanos now) {
  if (is_root()) {
    if (leaving_.empty()) leaving_since_ = now;
    leaving_.push_back(me_);
    return;
  }
  PassOnShutdown(me_);
}

void Agreement::SpreadAbort(const Status& status, Nanos now, std::vector<Decision>* decisions) {
  if (parent_ != nullptr) {
    bool moved = false;
    (void)Receive(parent_.get(), now, decisions, &moved);
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

void Agreement::Tell(Down kind, uint64_t number, std::vector<Decision>* decisions,
                     const std::string& text) {
  if (kind == Down::kWhere) answers_.clear();
  Writer out;
  out.U8(static_cast<uint8_t>(kind));
  if (kind == Down::kTune) out.Varint(number);
  if (kind == Down::kVerdict) out.Text(text);
  Broadcast(out.bytes());
  Decision mine;
  mine.kind = kind;
  mine.slot = number;
  if (!text.empty()) mine.names.push_back(text);
  decisions->push_back(std::move(mine));
}

void Agreement::AnswerWhere(int member, const Whereabouts& here) {
  if (is_root()) {
    answers_[ranks_[static_cast<size_t>(member)]] = here;
    return;
  }
  Writer& out = UpFor(member);
  out.U8(static_cast<uint8_t>(Up::kHere));
  Encode(here, &out);
}

void Agreement::WatchArrivals(bool on) {
  watching_ = on;
  ledger_.WatchArrivals(on && is_root());
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

Status Agreement::HandleUp(const Edge& edge, std::string_view frame, Nanos now,
                           std::vector<Decision>* decisions) {
  const int sender = edge.channel->transport().peer();
  Reader in(frame);
  const int member = static_cast<int>(in.Below(ranks_.size()));
  if (!in.ok() || std::find(edge.members.begin(), edge.members.end(), member) == edge.members.end())
    return Nonsense(sender);
  while (!in.done()) {
    switch (static_cast<Up>(in.U8())) {
      case Up::kRequest: {
        Request request;
        if (!Request::Decode(&in, &request)) return Nonsense(sender);
        if (is_root()) {
          if (!ledger_.Add(member, std::move(request), now)) return Nonsense(sender);
        } else {
          NoteJoin(request);
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
          ledger_.Forgotten(slot);
        } else {
          PassOnEvicted(member, slot);
        }
        break;
      }
      case Up::kUncached: {
        const uint64_t slot = in.Varint();
        if (!in.ok()) return Nonsense(sender);
        if (!is_root()) PassOnUncached(member, slot, now);
        break;
      }
      case Up::kShutdown:
        if (is_root()) {
          if (leaving_.empty()) leaving_since_ = now;
          leaving_.push_back(member);
        } else {
          PassOnShutdown(member);
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
        Whereabouts here;
        if (!Decode(&in, &here)) return Nonsense(sender);
        AnswerWhere(member, here);
        break;
      }
      case Up::kResult: {
        Results::Digest digest{};
        digest.decision = in.Varint();
        digest.value = in.Varint();
        if (!in.ok()) return Nonsense(sender);
        if (is_root()) {
          results_.Heard(member, digest);
        } else {
          PutResult(digest, &UpFor(member));
        }
        break;
      }
      case Up::kOffer:
        if (offers_ == nullptr || !offers_->HeardOffer(&in, now)) return Nonsense(sender);
        break;
      case Up::kDecline:
        if (offers_ == nullptr || !offers_->HeardDecline()) return Nonsense(sender);
        break;
      case Up::kAlive: break;
      default: return Nonsense(sender);
    }
  }
  return in.ok() ? Status::Ok() : Nonsense(sender);
}

// Checks what the rest of the engine relies on when it looks up members in a response.
bool Agreement::MakesSense(const Response& response) const {
  if (response.cached) return true;
  return IsPossible(*response.agreed, static_cast<int>(ranks_.size()));
}

Status Agreement::HandleDown(std::string_view frame, Nanos now, std::vector<Decision>* decisions) {
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
          if (!Decode(&in, &response) || !MakesSense(response)) return Nonsense(sender);
          if (!response.cached && response.agreed->request.kind == OpKind::kJoin)
            joined_below_ = false;
          decision.batch.push_back(std::move(response));
        }
        if (decision.batch.empty()) return Nonsense(sender);
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
      case Down::kOffer:
        if (offers_ == nullptr || !offers_->HeardOffer(&in, now)) return Nonsense(sender);
        continue;
      case Down::kDecline:
        if (offers_ == nullptr || !offers_->HeardDecline()) return Nonsense(sender);
        continue;
      case Down::kWhere: break;
      case Down::kVerdict: decision.names.push_back(in.Text()); break;
      case Down::kTune: {
        Setting setting;
        decision.slot = in.Varint();
        if (!Setting::Unpack(decision.slot, &setting)) return Nonsense(sender);
        break;
      }
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
  std::string_view frame;
  Status status;
  while (status.ok()) {
    status = edge->channel->Next(&frame, moved);
    if (!status.ok() || frame.data() == nullptr) break;
    edge->heard = now;  // only whole frames count: a partial frame may never be completed
    if (edge == parent_.get()) {
      Broadcast(frame);
      status = HandleDown(frame, now, decisions);
    } else {
      status = HandleUp(*edge, frame, now, decisions);
    }
  }
  return status;
}

Status Agreement::Exchange(Nanos now, std::vector<Decision>* decisions, bool* moved) {
  // If one edge is broken, another may still report which rank broke it.
  Status first_error;
  const auto note = [&](Status status) {
    if (first_error.ok() && !status.ok()) first_error = std::move(status);
  };
  for (Edge& child : children_) note(Receive(&child, now, decisions, moved));
  if (joining_) {
    note(Announce(*joining_, kNoSlot, now));
    joining_.reset();
  }
  if (is_root()) {
    Decide(now, decisions);
  } else {
    for (auto& [slot, partial] : partials_) {
      if (now - partial.since >= kSpellOutAfter) SpellOut(slot, &partial);
    }
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
  // An edge that fails now has no rank at its other end that needs the message.
  const auto drained = [&](Edge& edge) {
    return !edge.channel->PumpOut(&moved).ok() || !edge.channel->wants_to_send();
  };
  bool done = parent_ == nullptr || drained(*parent_);
  for (Edge& child : children_) done &= drained(child);
  return done;
}

bool Agreement::TakeLeave() {
  const auto over = [](Edge& edge) {
    if (edge.channel->transport().fd() < 0) return true;
    edge.channel->transport().EndSending();
    bool moved = false;
    std::string_view frame;
    Status status;
    do {
      status = edge.channel->Next(&frame, &moved);
    } while (status.ok() && frame.data() != nullptr);
    return !status.ok();
  };
  bool done = parent_ == nullptr || over(*parent_);
  for (Edge& child : children_) done &= over(child);
  return done;
}

std::vector<Agreement::Heard> Agreement::LastHeard() const {
  std::vector<Heard> out;
  const auto add = [&](const Edge& edge) {
    if (edge.channel->transport().fd() >= 0)
      out.push_back({&edge.channel->transport(), edge.heard});
  };
  if (parent_ != nullptr) add(*parent_);
  for (const Edge& child : children_) add(child);
  return out;
}

void Agreement::AddPollFds(std::vector<pollfd>* fds) const {
  const auto add = [&](const Edge& edge) {
    const int fd = edge.channel->transport().fd();
    if (fd >= 0)
      fds->push_back(
          {fd, static_cast<short>(POLLIN | (edge.channel->wants_to_send() ? POLLOUT : 0)), 0});
  };
  if (parent_ != nullptr) add(*parent_);
  for (const Edge& child : children_) add(child);
}

}  // namespace hvdlite::engine
