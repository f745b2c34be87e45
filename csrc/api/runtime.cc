#include "api/runtime.h"

#include <pthread.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <thread>

#include "api/lists.h"
#include "api/translate.h"
#include "engine/list.h"
#include "engine/negotiate/named.h"
#include "pool/fork.h"
#include "pool/pool.h"

namespace hvdlite::api {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::HandlePtr;
using engine::Request;
using engine::Submission;

// The name of a group of operations of that kind.
std::string GroupName(Engine* engine, int process_set, OpKind kind, const char* given) {
  const std::string grouped = "grouped_" + std::string(Name(kind));
  return grouped + "." + (given ? given : engine->sets().DefaultName(process_set, grouped));
}

// The completion of a list: those of its operations, which have no result to allocate.
engine::Completion CompletionOfAll(const hvdlite_completion* asked, int count) {
  std::vector<engine::Completion> all;
  for (int i = 0; i < count; ++i) all.push_back(ToCompletion(asked[i]));
  engine::Completion completion;
  completion.done = [all = std::move(all)](const engine::Handle& handle) {
    for (const engine::Completion& each : all) each.done(handle);
  };
  return completion;
}

// An operation is submitted as offered, or else its offer is abandoned.
class Offered {
 public:
  Offered(Engine* engine, int process_set) : engine_(*engine), process_set_(process_set) {}
  ~Offered() {
    if (offered) engine_.fast_path().Abandon(process_set_);
  }
  Offered(const Offered&) = delete;
  Offered& operator=(const Offered&) = delete;

  bool offered = false;

 private:
  Engine& engine_;
  const int process_set_;
};

// Performs an operation at once if all ranks know it from before. It then needs no check: the same
// was checked when they performed it first.
bool TakesFastPath(Engine* engine, const hvdlite_operation& operation, bool* offered) {
  constexpr size_t kLongestName = 200;
  if (operation.kind != HVDLITE_ALLREDUCE || operation.output.data == nullptr ||
      operation.input.device_kind != 0 || operation.output.device_kind != 0 ||
      operation.output.dtype != operation.input.dtype ||
      operation.output.ndim != operation.input.ndim || operation.op < 0 ||
      operation.op >= kReduceOpCount || operation.split_count != 0 || operation.codec != 0 ||
      !IsValidDType(static_cast<uint8_t>(operation.input.dtype)) ||
      !std::equal(operation.input.shape, operation.input.shape + operation.input.ndim,
                  operation.output.shape))
    return false;
  engine::KnownOperation asked;
  char name[kLongestName + 32];
  if (operation.name != nullptr) {
    const std::string_view kind = Name(OpKind::kAllreduce);
    const std::string_view own = operation.name;
    if (own.size() > kLongestName) return false;
    char* end = std::copy(kind.begin(), kind.end(), name);
    *end++ = '.';
    end = std::copy(own.begin(), own.end(), end);
    asked.name = std::string_view(name, static_cast<size_t>(end - name));
  }
  asked.op = static_cast<ReduceOp>(operation.op);
  asked.dtype = static_cast<DType>(operation.input.dtype);
  asked.prescale = operation.prescale;
  asked.postscale = operation.postscale;
  asked.shape = operation.input.shape;
  asked.dimensions = operation.input.ndim;
  asked.bytes = SizeOf(asked.dtype);
  for (int i = 0; i < asked.dimensions; ++i) asked.bytes *= static_cast<size_t>(asked.shape[i]);
  asked.input = operation.input.data;
  asked.output = operation.output.data;
  return engine->fast_path().Perform(operation.process_set, asked, offered);
}

}  // namespace

Runtime::Runtime() {
  pthread_atfork(&Runtime::BeforeFork, &Runtime::AfterForkInParent, &Runtime::AfterForkInChild);
}

Runtime& Runtime::Get() {
  static Runtime* const runtime = new Runtime;
  return *runtime;
}

void Runtime::BeforeFork() {
  Get().forks_begun_.fetch_add(1);
  pool::BeforeFork();
}

void Runtime::AfterForkInParent() {
  pool::AfterForkInParent();
  Get().forks_ended_.fetch_add(1);
}

// The child inherits the sockets whose end tells the other ranks that this one has died. Close
// them. Otherwise a data loader that outlives its trainer would hide the trainer's death.
// Everything else is left as it is, on purpose.
void Runtime::AfterForkInChild() {
  Runtime& self = Get();
  self.forked_ = true;
  if (self.joining_ >= 0) close(self.joining_);
  self.AbandonLocked();
  pool::AfterForkInChild();
}

void Runtime::AbandonLocked() {
  // Takes no lock: a thread of the parent may have held it, and this child has one thread only.
  if (engine_ != nullptr) engine_->AbandonInChild();
}

Status Runtime::Init(const hvdlite_init_options& options) {
  if (forked_)
    return Status::NotInitialized(
        "this is a forked child of a process that uses hvdlite; it cannot start a job. Use spawn "
        "instead of fork");
  MutexLock life(life_mutex_);
  if (initialized()) return Status::Ok();
  EngineOptions engine_options;
  HVDLITE_RETURN_IF_ERROR(ReadOptions(options, &engine_options));
  report_requests_ = 0;  // those of a job before
  engine_options.report_requests = &report_requests_;
  if (engine_options.config.gradient_pool && options.size > 1) {
    // A rank without a segment takes part in the job all the same: hvdlite_pool_patch says why.
    (void)pool::Pool::Process().Open(static_cast<size_t>(engine_options.config.gradient_pool_bytes),
                                     &engine_options.gradients);
  }
  const Deadline deadline = Deadline::AfterSeconds(engine::SecondsToMeet(engine_options));
  std::unique_ptr<rendezvous::TcpStore> store;
  if (options.size > 1) {
    HVDLITE_RETURN_IF_ERROR(ConnectStore(options.store, engine_options.secret, deadline, &store));
  }
  EnterGeneration(options.generation, &engine_options);
  std::unique_ptr<Engine> engine;
  Status started;
  if (store != nullptr) {
    started = store->Join(engine_options.store_prefix + "init", options.rank, options.size,
                          &engine_options.store_prefix);
  }
  if (started.ok()) started = Engine::Start(engine_options, store.get(), &engine);
  joining_ = -1;  // before the descriptor's number may belong to another file
  HVDLITE_RETURN_IF_ERROR(started);
  MutexLock lock(mutex_);
  engine_ = std::move(engine);
  return Status::Ok();
}

Status Runtime::ConnectStore(const char* address, const transport::tcp::Secret& secret,
                             Deadline deadline, std::unique_ptr<rendezvous::TcpStore>* store) {
  transport::tcp::Endpoint endpoint;
  HVDLITE_RETURN_IF_ERROR(transport::tcp::ParseEndpoint(address, &endpoint));
  while (true) {
    const uint32_t ended = forks_ended_;  // read first: if equal, no fork is in progress
    const uint32_t begun = forks_begun_;
    HVDLITE_RETURN_IF_ERROR(rendezvous::TcpStore::Connect(endpoint, secret, deadline, store));
    joining_ = (*store)->fd();
    if ((begun == ended && begun == forks_begun_) || deadline.Passed()) return Status::Ok();
    // A child that was forked before joining_ was set keeps the socket, so another one is needed.
    joining_ = -1;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
}

Status Runtime::Shutdown(double timeout_seconds) {
  if (forked_) return Status::Ok();
  MutexLock life(life_mutex_);
  const std::shared_ptr<Engine> ending = engine();
  if (ending == nullptr) return Status::Ok();
  const Status ended = ending->Shutdown(Deadline::AfterSeconds(timeout_seconds));
  // Handles stay until they are released; threads still inside a call keep the engine alive until
  // they leave.
  MutexLock lock(mutex_);
  engine_ = nullptr;
  return ended;
}

Status Runtime::Health() {
  const std::shared_ptr<Engine> mine = engine();
  return mine == nullptr ? Status::Ok() : mine->life().failure();
}

Status Runtime::Ended() {
  const std::shared_ptr<Engine> mine = engine();
  return mine == nullptr ? Status::Ok() : mine->life().end();
}

std::shared_ptr<Engine> Runtime::engine(Status* why) {
  if (forked_) {
    if (why != nullptr)
      *why = Status::NotInitialized(
          "this is a forked child of a process that uses hvdlite (a data loader worker?); "
          "collectives work in the parent only");
    return nullptr;
  }
  MutexLock lock(mutex_);
  if (engine_ == nullptr && why != nullptr)
    *why = Status::NotInitialized("hvdlite (Horovod) has not been initialized; use hvd.init().");
  return engine_;
}

bool Runtime::initialized() {
  return engine() != nullptr;
}

int64_t Runtime::Add(HandlePtr handle) {
  MutexLock lock(mutex_);
  handles_[next_handle_] = std::move(handle);
  return next_handle_++;
}

HandlePtr Runtime::Find(int64_t handle) {
  if (forked_) return nullptr;
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  return found == handles_.end() ? nullptr : found->second;
}

HandlePtr Runtime::Release(int64_t handle) {
  if (forked_) return nullptr;
  MutexLock lock(mutex_);
  const auto found = handles_.find(handle);
  if (found == handles_.end()) return nullptr;
  HandlePtr released = std::move(found->second);
  handles_.erase(found);
  return released;
}

void Runtime::ReleaseAll() {
  if (forked_) return;
  std::unordered_map<int64_t, HandlePtr> released;
  MutexLock lock(mutex_);
  released.swap(handles_);
}

Status Runtime::Start(Engine* engine, const hvdlite_operation& operation,
                      const hvdlite_completion* completion, bool will_wait, bool offered,
                      HandlePtr* handle) {
  Submission submission;
  HVDLITE_RETURN_IF_ERROR(Describe(engine, operation, &submission));
  submission.offered = offered;
  if (completion != nullptr) {
    HVDLITE_RETURN_IF_ERROR(CheckTold(submission));
    submission.completion = ToCompletion(*completion);
  }
  // Only a valid operation takes a number. So an error on one rank does not shift its numbers
  // against those of the others.
  const std::string_view kind = Name(submission.request.kind);
  std::string& name = submission.request.name;
  if (submission.request.kind == OpKind::kJoin) {
    name = kind;  // one at a time; the root's answer has no name
  } else {
    const std::string given =
        operation.name ? std::string()
        : offered      ? engine::kOfferedWithoutName
                       : engine->sets().DefaultName(operation.process_set, std::string(kind));
    const std::string_view own =
        operation.name ? std::string_view(operation.name) : std::string_view(given);
    name.reserve(kind.size() + 1 + own.size());
    name.append(kind).append(".").append(own);
    if (Has(submission.request.kind, kAmongNamed))
      name = engine::NameAmong(name, submission.request.splits);
  }
  return engine->Submit(operation.process_set, std::move(submission), will_wait, handle);
}

Status Runtime::Submit(const hvdlite_operation& operation, int64_t* handle) {
  Status status;
  const std::shared_ptr<Engine> engine = this->engine(&status);
  if (engine == nullptr) return status;
  HandlePtr made;
  HVDLITE_RETURN_IF_ERROR(
      Start(engine.get(), operation, nullptr, /*will_wait=*/false, /*offered=*/false, &made));
  *handle = Add(std::move(made));
  return Status::Ok();
}

Status Runtime::SubmitThen(const hvdlite_operation& operation,
                           const hvdlite_completion& completion) {
  Status status;
  const std::shared_ptr<Engine> engine = this->engine(&status);
  if (engine == nullptr) return status;
  HandlePtr unneeded;
  return Start(engine.get(), operation, &completion, /*will_wait=*/false, /*offered=*/false,
               &unneeded);
}

Status Runtime::Run(const hvdlite_operation& operation, Nanos slice, int64_t* handle) {
  *handle = -1;
  Status status;
  const std::shared_ptr<Engine> engine = this->engine(&status);
  if (engine == nullptr) return status;
  HandlePtr made;
  {
    Offered offer(engine.get(), operation.process_set);
    if (TakesFastPath(engine.get(), operation, &offer.offered)) return Status::Ok();
    HVDLITE_RETURN_IF_ERROR(
        Start(engine.get(), operation, nullptr, /*will_wait=*/true, offer.offered, &made));
    offer.offered = false;
  }
  if (engine->Wait(*made, slice)) {
    const bool nothing_to_fetch = made->output.data == nullptr && made->received_splits.empty() &&
                                  made->number < 0 && made->pending == nullptr &&
                                  made->memory() == nullptr;
    // The device may still use the tensors of an operation that has failed on this rank only.
    const bool failed = !made->status().ok() && made->pending == nullptr;
    if (failed || nothing_to_fetch) return made->status();
  }
  *handle = Add(std::move(made));
  return Status::Ok();
}

Status Runtime::SubmitGroup(const hvdlite_operation* operations, int count, const char* group,
                            int64_t* handles) {
  std::vector<HandlePtr> made;
  HVDLITE_RETURN_IF_ERROR(StartGroup(operations, count, group, nullptr, &made));
  for (HandlePtr& handle : made) *handles++ = Add(std::move(handle));
  return Status::Ok();
}

Status Runtime::StartList(const hvdlite_list& list, Nanos slice, HandlePtr* handle, bool* done) {
  Status status;
  const std::shared_ptr<Engine> engine = this->engine(&status);
  if (engine == nullptr) return status;
  if (!IsList(list) || !engine->world().fuses()) return Status::Ok();
  Submission submission;
  HVDLITE_RETURN_IF_ERROR(DescribeList(engine.get(), list, &submission));
  if (list.names != nullptr) {
    if (list.names->tensors->size() != static_cast<size_t>(list.count))
      return Status::InvalidArgument("a list has as many names as tensors");
    NameEach(*list.names, &submission.request);
  } else {
    NameGroup(GroupName(engine.get(), list.process_set, OpKind::kAllreduce, list.name),
              &submission.request);
  }
  HVDLITE_RETURN_IF_ERROR(engine->Submit(list.process_set, std::move(submission),
                                         /*will_wait=*/slice > 0, handle));
  *done = slice > 0 && engine->Wait(**handle, slice);
  return Status::Ok();
}

Status Runtime::SubmitList(const hvdlite_list& list, int64_t* handle) {
  HandlePtr made;
  bool done = false;
  HVDLITE_RETURN_IF_ERROR(StartList(list, /*slice=*/0, &made, &done));
  *handle = made == nullptr ? int64_t{HVDLITE_NO_LIST} : Add(std::move(made));
  return Status::Ok();
}

Status Runtime::RunList(const hvdlite_list& list, Nanos slice, int64_t* handle) {
  HandlePtr made;
  bool done = false;
  HVDLITE_RETURN_IF_ERROR(StartList(list, slice, &made, &done));
  *handle = -1;
  // The device may still use the tensors.
  if (done && made->pending == nullptr) return made->status();
  *handle = made == nullptr ? int64_t{HVDLITE_NO_LIST} : Add(std::move(made));
  return Status::Ok();
}

Status Runtime::SubmitGroupThen(const hvdlite_operation* operations, int count, const char* group,
                                const hvdlite_completion* completions) {
  std::vector<HandlePtr> unneeded;
  return StartGroup(operations, count, group, completions, &unneeded);
}

Status Runtime::StartGroup(const hvdlite_operation* operations, int count, const char* group,
                           const hvdlite_completion* completions, std::vector<HandlePtr>* handles) {
  if (count == 0) return Status::Ok();
  Status status;
  const std::shared_ptr<Engine> engine = this->engine(&status);
  if (engine == nullptr) return status;
  GroupAsList as_list(operations, count);
  if (as_list.possible && engine->world().fuses()) {
    Submission submission;
    as_list.list.name = group;
    HVDLITE_RETURN_IF_ERROR(DescribeList(engine.get(), as_list.list, &submission));
    submission.other_producers = std::move(as_list.other_streams);
    if (completions != nullptr) {
      HVDLITE_RETURN_IF_ERROR(CheckTold(submission));
      submission.completion = CompletionOfAll(completions, count);
    }
    NameGroup(GroupName(engine.get(), operations[0].process_set, OpKind::kAllreduce, group),
              &submission.request);
    HandlePtr handle;
    HVDLITE_RETURN_IF_ERROR(engine->Submit(operations[0].process_set, std::move(submission),
                                           /*will_wait=*/false, &handle));
    handles->assign(static_cast<size_t>(count), handle);
    return Status::Ok();
  }
  std::vector<Submission> submissions(static_cast<size_t>(count));
  for (int i = 0; i < count; ++i) {
    HVDLITE_RETURN_IF_ERROR(
        Describe(engine.get(), operations[i], &submissions[static_cast<size_t>(i)]));
  }
  const std::string base =
      GroupName(engine.get(), operations[0].process_set, submissions[0].request.kind, group);
  for (int i = 0; i < count; ++i) {
    Request& request = submissions[static_cast<size_t>(i)].request;
    request.cacheable = group != nullptr;
    NameGroup(base, &request);
    request.name = engine::NameInGroup(base, static_cast<size_t>(i), static_cast<size_t>(count));
    request.group_size = static_cast<uint32_t>(count);
    if (completions != nullptr) {
      HVDLITE_RETURN_IF_ERROR(CheckTold(submissions[static_cast<size_t>(i)]));
      submissions[static_cast<size_t>(i)].completion = ToCompletion(completions[i]);
    }
  }
  return engine->SubmitGroup(operations[0].process_set, std::move(submissions), handles);
}

}  // namespace hvdlite::api
