#include "comm/nccl/channel.h"

#include <chrono>
#include <utility>

#include "base/mutex.h"
#include "base/thread.h"

namespace hvdlite::comm::nccl {

namespace {

// Freeing usually takes milliseconds. If it waits for another rank, that rank may be waiting for
// this one.
constexpr Nanos kFreePatience = kSecond;

}  // namespace

// Whether a thread has ended.
class Channel::Done {
 public:
  void Set() EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    done_ = true;
    changed_.NotifyAll();
  }
  bool WaitUntil(const Deadline& deadline) EXCLUDES(mutex_) {
    const MutexLock lock(mutex_);
    while (!done_ && !deadline.Passed()) changed_.WaitFor(mutex_, deadline.Left(kSecond));
    return done_;
  }

 private:
  Mutex mutex_;
  CondVar changed_;
  bool done_ GUARDED_BY(mutex_) = false;
};

Status NewUniqueId(const Library& library, UniqueId* id) {
  return library.Check(library.GetUniqueId(id), "making an id for a communicator", nullptr);
}

Status Channel::Begin(std::shared_ptr<const Library> library, std::shared_ptr<device::Gpu> gpu,
                      const UniqueId& id, int me, int size, std::unique_ptr<Channel>* out) {
  std::unique_ptr<Channel> channel(new Channel(std::move(library), std::move(gpu)));
  const Library& nccl = *channel->library_;
  HVDLITE_RETURN_IF_ERROR(channel->Do([&] {
    Config config;
    const Result result = nccl.CommInitRankConfig(&channel->comm_, size, id, me, &config);
    return channel->Keep(nccl.Check(result, "making a communicator", channel->comm_));
  }));
  *out = std::move(channel);
  return Status::Ok();
}

Channel::~Channel() {
  BeginAbort();
  EndAbort(Deadline::After(kAbortPatience));
}

Status Channel::Keep(Status status) {
  if (!status.ok() && failure_.ok()) failure_ = status;
  return status;
}

Status Channel::Do(const std::function<Status()>& call) {
  return caller_->Do([&]() -> Status {
    const device::Gpu::Current current(*gpu_);
    HVDLITE_RETURN_IF_ERROR(current.status());
    return call();
  });
}

Status Channel::Poll(bool* ready) {
  *ready = false;
  if (!failure_.ok()) return failure_;
  Result state = kSuccess;
  const Result asked = library_->CommGetAsyncError(comm_, &state);
  HVDLITE_RETURN_IF_ERROR(
      Keep(library_->Check(asked, "asking a communicator for its state", comm_)));
  HVDLITE_RETURN_IF_ERROR(Keep(library_->Check(state, "a communicator", comm_)));
  *ready = state == kSuccess;
  return Status::Ok();
}

Result Channel::Make(const Call& call) const {
  const Library& nccl = *library_;
  const device::Stream stream = gpu_->stream();
  switch (call.what) {
    case Call::What::kAllReduce:
      return nccl.AllReduce(call.from, call.to, call.count, call.type, call.op, comm_, stream);
    case Call::What::kReduce:
      return nccl.Reduce(call.from, call.to, call.count, call.type, call.op, call.peer, comm_,
                         stream);
    case Call::What::kBroadcast:
      return nccl.Broadcast(call.from, call.to, call.count, call.type, call.peer, comm_, stream);
    case Call::What::kAllGather:
      return nccl.AllGather(call.from, call.to, call.count, call.type, comm_, stream);
    case Call::What::kReduceScatter:
      return nccl.ReduceScatter(call.from, call.to, call.count, call.type, call.op, comm_, stream);
    case Call::What::kSend:
      return nccl.Send(call.from, call.count, call.type, call.peer, comm_, stream);
    case Call::What::kReceive:
      return nccl.Recv(call.to, call.count, call.type, call.peer, comm_, stream);
  }
  return kInvalidArgument;
}

Status Channel::Run(const std::vector<Call>& calls) {
  if (!failure_.ok()) return failure_;
  return Do([&] { return MakeAll(calls); });
}

Status Channel::MakeAll(const std::vector<Call>& calls) {
  if (calls.size() == 1) return Keep(library_->Check(Make(calls[0]), "a collective", comm_));
  HVDLITE_RETURN_IF_ERROR(
      Keep(library_->Check(library_->GroupStart(), "beginning a group", comm_)));
  Status made;
  for (const Call& call : calls) {
    made = library_->Check(Make(call), "a collective of a group", comm_);
    if (!made.ok()) break;
  }
  // The group is ended after a failure, too. It belongs to this thread, which would otherwise add
  // the next group to it.
  const Status ended = library_->Check(library_->GroupEnd(), "a group of collectives", comm_);
  return Keep(made.ok() ? ended : made);
}

bool Channel::BeginLeave() {
  bool ready = false;
  if (comm_ == nullptr || !Poll(&ready).ok() || !ready) return false;
  const auto finalize = [&] {
    return library_->Check(library_->CommFinalize(comm_), "finalizing a communicator", comm_);
  };
  return Do(finalize).ok();
}

bool Channel::EndLeave(const Until& until) {
  bool ready = false;
  while (Poll(&ready).ok() && !ready && !until.deadline.Passed() && until.Look().ok()) {
    std::this_thread::sleep_for(kBetweenLooks);
  }
  if (!ready) return false;
  GiveBack(library_->CommDestroy);
  AwaitGivenBack(Deadline::After(kFreePatience));
  return true;
}

void Channel::BeginAbort() {
  if (comm_ == nullptr) return;
  if (failure_.ok()) failure_ = Status::Io("the NCCL communicator was aborted");
  GiveBack(library_->CommAbort);
}

void Channel::EndAbort(const Deadline& deadline) {
  AwaitGivenBack(deadline);
}

void Channel::GiveBack(Result (*how)(Comm)) {
  given_back_ = std::make_shared<Done>();
  giving_back_ = std::thread([how, library = library_, gpu = gpu_, caller = caller_,
                              comm = std::exchange(comm_, nullptr), done = given_back_] {
    NameThisThread("hvdlite-nccl");
    const device::Gpu::Current current(*gpu);
    (void)how(comm);
    done->Set();
  });
}

void Channel::AwaitGivenBack(const Deadline& deadline) {
  if (!giving_back_.joinable()) return;
  if (given_back_->WaitUntil(deadline)) {
    giving_back_.join();
  } else {
    giving_back_.detach();
  }
}

}  // namespace hvdlite::comm::nccl
