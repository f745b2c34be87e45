#include "comm/nccl/channels.h"

#include <utility>

namespace hvdlite::comm::nccl {

namespace {

// The time for the others to finalize, too.
constexpr Nanos kLeavePatience = 5 * kSecond;

}  // namespace

Status Channels::Begin(std::shared_ptr<const Library> library, std::shared_ptr<device::Gpu> gpu,
                       std::vector<CommSpec> specs, std::unique_ptr<Channels>* out) {
  std::unique_ptr<Channels> channels(
      new Channels(std::move(library), std::move(gpu), std::move(specs)));
  HVDLITE_RETURN_IF_ERROR(channels->BeginNext());
  *out = std::move(channels);
  return Status::Ok();
}

Channels::~Channels() {
  if (ShutDown(Deadline::After(kLeavePatience))) return;
  BeginAbort();
  EndAbort(Deadline::After(kAbortPatience));
}

Status Channels::BeginNext() {
  const CommSpec& spec = specs_[begun_.size()];
  std::unique_ptr<Channel> channel;
  HVDLITE_RETURN_IF_ERROR(Channel::Begin(library_, gpu_, spec.id, spec.me, spec.size, &channel));
  begun_.push_back(std::move(channel));
  return Status::Ok();
}

Status Channels::Poll(bool* ready) {
  *ready = true;
  for (const auto& channel : begun_) {
    bool one = false;
    const Status status = channel->Poll(&one);
    if (!status.ok() || !one) *ready = false;
    HVDLITE_RETURN_IF_ERROR(status);
  }
  if (!*ready || begun_.size() == specs_.size()) return Status::Ok();
  *ready = false;
  return BeginNext();
}

Status Channels::Run(Among among, const std::vector<Call>& calls) {
  return begun_[static_cast<size_t>(among)]->Run(calls);
}

// Begins all aborts at once, because one channel's work may be behind another's on the stream.
void Channels::BeginAbort() {
  for (const auto& channel : begun_) channel->BeginAbort();
}

void Channels::EndAbort(const Deadline& deadline) {
  for (const auto& channel : begun_) channel->EndAbort(deadline);
}

bool Channels::ShutDown(const Until& until) {
  if (begun_.size() < specs_.size()) return false;
  for (const auto& channel : begun_) {
    if (!channel->BeginLeave()) return false;
  }
  for (const auto& channel : begun_) {
    if (!channel->EndLeave(until)) return false;
  }
  return true;
}

}  // namespace hvdlite::comm::nccl
