// The C functions of hvdlite.h. Each is one line of Runtime, and sets the calling thread's last
// error.
#include <algorithm>
#include <cstring>
#include <iterator>

#include "api/hvdlite.h"
#include "api/report.h"
#include "api/runtime.h"
#include "api/translate.h"
#include "comm/nccl/library.h"
#include "device/driver.h"
#include "kernels/cuda/image.h"
#include "kernels/reduce.h"

namespace {

using hvdlite::Cause;
using hvdlite::Status;
using hvdlite::api::LastError;
using hvdlite::api::Report;
using hvdlite::api::Runtime;

Status UnknownHandle(int64_t handle) {
  return Status::InvalidArgument("no operation has handle " + std::to_string(handle) +
                                 ": each handle can be synchronized once");
}

// `found` is what the table has for the handle.
hvdlite_code ResultOf(int64_t handle, const hvdlite::engine::Handle* found,
                      hvdlite_result* result) {
  memset(result, 0, sizeof(*result));
  result->number = -1;
  if (found == nullptr) return Report(UnknownHandle(handle));
  if (!found->done())
    return Report(Status::InvalidArgument("the operation is not done; wait for it first"));
  if (!found->status().ok()) return Report(found->status());
  *result = hvdlite::api::ToResult(*found);
  return HVDLITE_OK;
}

// Writes as much of the text as fits, with a final NUL. Returns the length of the whole text.
int64_t Give(const std::string& all, char* text, int64_t capacity) {
  const int64_t n = std::min<int64_t>(static_cast<int64_t>(all.size()), capacity - 1);
  if (n >= 0) {
    memcpy(text, all.data(), static_cast<size_t>(n));
    text[n] = '\0';
  }
  return static_cast<int64_t>(all.size());
}

// Writes as many of the numbers as fit. Returns how many there are.
int32_t GiveNumbers(const std::vector<int>& all, int32_t* numbers, int32_t capacity) {
  for (size_t i = 0; i < all.size() && i < static_cast<size_t>(capacity); ++i) numbers[i] = all[i];
  return static_cast<int32_t>(all.size());
}

hvdlite_code WaitFor(const hvdlite::engine::Handle& handle, double slice_seconds, int32_t* done) {
  *done = handle.done() ? 1 : 0;
  if (*done != 0 || slice_seconds <= 0) return HVDLITE_OK;
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  if (engine == nullptr) return Report(status);
  *done = engine->Wait(handle, static_cast<hvdlite::Nanos>(slice_seconds * 1e9)) ? 1 : 0;
  return HVDLITE_OK;
}

}  // namespace

const char* hvdlite_last_error(void) {
  return LastError().message().c_str();
}
int32_t hvdlite_last_error_peer(void) {
  return LastError().peer();
}
hvdlite_cause hvdlite_last_error_cause(void) {
  return static_cast<hvdlite_cause>(LastError().cause());
}
int32_t hvdlite_last_error_ranks(int32_t* ranks, int32_t capacity) {
  return GiveNumbers(LastError().ranks(), ranks, capacity);
}
const char* hvdlite_simd(void) {
  return hvdlite::kernels::SimdName();
}
const char* hvdlite_gpu_kernels(void) {
  return hvdlite::kernels::cuda::Compiler();
}

hvdlite_code hvdlite_find_cuda(const char* library, int32_t* version) {
  std::shared_ptr<const hvdlite::device::Driver> driver;
  const Status status = hvdlite::device::LoadDriver(library, &driver);
  if (status.ok()) *version = driver->version;
  return Report(status);
}

hvdlite_code hvdlite_find_nccl(const char* wanted, const char* wheel, int32_t* version) {
  std::shared_ptr<const hvdlite::comm::nccl::Library> library;
  const Status status = hvdlite::comm::nccl::Load({.wanted = wanted, .wheel = wheel}, &library);
  if (status.ok()) *version = library->version;
  return Report(status);
}

hvdlite_code hvdlite_init(const hvdlite_init_options* options) {
  return Report(Runtime::Get().Init(*options));
}
hvdlite_code hvdlite_shutdown(double timeout_seconds) {
  return Report(Runtime::Get().Shutdown(timeout_seconds));
}

hvdlite_code hvdlite_health(void) {
  return Report(Runtime::Get().Health());
}
hvdlite_code hvdlite_ended(void) {
  return Report(Runtime::Get().Ended());
}
int32_t hvdlite_is_initialized(void) {
  return Runtime::Get().initialized() ? 1 : 0;
}

void hvdlite_abort(const char* why) {
  const auto engine = Runtime::Get().engine();
  if (engine != nullptr) {
    engine->Abort(Status::PeerLost(Cause::kFailed, {engine->rank()},
                                   "rank " + std::to_string(engine->rank()) + " failed: " + why));
  }
}

void hvdlite_end_generation(int32_t number, const char* why) {
  const auto engine = Runtime::Get().engine();
  if (engine != nullptr && static_cast<int64_t>(engine->world().generation()) == number)
    engine->Abort(Status::PeerLost(Cause::kEnded, {engine->rank()}, why));
}

hvdlite_code hvdlite_where(hvdlite_place* place) {
  Status status;
  const auto own = Runtime::Get().engine(&status);
  hvdlite::engine::Engine* const engine = own ? own.get() : Runtime::Get().inherited();
  if (engine == nullptr) return Report(status);
  const hvdlite::rendezvous::Roster& roster = engine->world().roster();
  const hvdlite::rendezvous::Place& mine = roster.places[static_cast<size_t>(engine->rank())];
  *place = {engine->rank(),
            engine->size(),
            mine.local_rank,
            mine.local_size,
            mine.cross_rank,
            mine.cross_size,
            roster.is_homogeneous ? 1 : 0};
  return HVDLITE_OK;
}

hvdlite_code hvdlite_submit(const hvdlite_operation* operation, int64_t* handle) {
  return Report(Runtime::Get().Submit(*operation, handle));
}

hvdlite_code hvdlite_run(const hvdlite_operation* operation, double slice_seconds,
                         int64_t* handle) {
  return Report(
      Runtime::Get().Run(*operation, static_cast<hvdlite::Nanos>(slice_seconds * 1e9), handle));
}

hvdlite_code hvdlite_submit_group(const hvdlite_operation* operations, int32_t count,
                                  const char* group, int64_t* handles) {
  return Report(Runtime::Get().SubmitGroup(operations, count, group, handles));
}

hvdlite_code hvdlite_submit_list(const hvdlite_list* list, int64_t* handle) {
  return Report(Runtime::Get().SubmitList(*list, handle));
}

hvdlite_code hvdlite_run_list(const hvdlite_list* list, double slice_seconds, int64_t* handle) {
  return Report(
      Runtime::Get().RunList(*list, static_cast<hvdlite::Nanos>(slice_seconds * 1e9), handle));
}

int64_t hvdlite_lists_taken_apart(void) {
  const auto engine = Runtime::Get().engine();
  return engine == nullptr ? 0 : static_cast<int64_t>(engine->observer().lists_taken_apart());
}

hvdlite_code hvdlite_submit_then(const hvdlite_operation* operation,
                                 const hvdlite_completion* completion) {
  return Report(Runtime::Get().SubmitThen(*operation, *completion));
}

hvdlite_code hvdlite_submit_group_then(const hvdlite_operation* operations, int32_t count,
                                       const char* group, const hvdlite_completion* completions) {
  return Report(Runtime::Get().SubmitGroupThen(operations, count, group, completions));
}

hvdlite_code hvdlite_wait(int64_t handle, double slice_seconds, int32_t* done) {
  const auto found = Runtime::Get().Find(handle);
  return found == nullptr ? Report(UnknownHandle(handle)) : WaitFor(*found, slice_seconds, done);
}

hvdlite_code hvdlite_end(int64_t handle, double slice_seconds, int32_t* done) {
  const auto found = Runtime::Get().Find(handle);
  *done = found == nullptr ? -1 : 1;
  if (found == nullptr) return Report(UnknownHandle(handle));
  const hvdlite_code waited = WaitFor(*found, slice_seconds, done);
  if (*done == 0) return waited;
  if (found->pending != nullptr) {
    *done = 2;
    return HVDLITE_OK;
  }
  Runtime::Get().Release(handle);
  return found->status().ok() ? HVDLITE_OK : Report(found->status());
}

hvdlite_code hvdlite_poll(int64_t handle, int32_t* done) {
  const auto found = Runtime::Get().Find(handle);
  if (found == nullptr) return Report(UnknownHandle(handle));
  *done = found->done() ? 1 : 0;
  if (*done == 0 || found->pending == nullptr) return HVDLITE_OK;
  bool finished = false;
  const Status status = found->pending->Finished(&finished);
  *done = finished || !status.ok() ? 1 : 0;  // a later wait returns the error
  return HVDLITE_OK;
}

hvdlite_code hvdlite_follow(int64_t handle, void* stream) {
  const auto found = Runtime::Get().Find(handle);
  if (found == nullptr) return Report(UnknownHandle(handle));
  if (!found->done())
    return Report(Status::InvalidArgument("the operation is not done; wait for it first"));
  const Status followed =
      found->pending == nullptr ? Status::Ok() : found->pending->MakeWait(stream);
  return Report(found->status().ok() ? followed : found->status());
}

hvdlite_code hvdlite_copy_result(int64_t handle, void* to, void* stream) {
  const auto found = Runtime::Get().Find(handle);
  if (found == nullptr) return Report(UnknownHandle(handle));
  if (!found->done() || found->memory() == nullptr) {
    return Report(
        Status::InvalidArgument("there is no result on a GPU; wait for the operation first"));
  }
  return Report(found->memory()->CopyTo(to, found->output.bytes(), stream));
}

hvdlite_code hvdlite_wait_for_device(int64_t handle, double slice_seconds, int32_t* finished) {
  *finished = 0;
  const auto found = Runtime::Get().Find(handle);
  if (found == nullptr) return Report(UnknownHandle(handle));
  if (!found->done())
    return Report(Status::InvalidArgument("the operation is not done; wait for it first"));
  bool there = found->pending == nullptr;
  const Status status =
      there ? Status::Ok()
            : found->pending->Wait(hvdlite::Deadline::AfterSeconds(slice_seconds), &there);
  *finished = there ? 1 : 0;
  return Report(there && status.ok() ? found->status() : status);
}

hvdlite_code hvdlite_follow_memory(hvdlite_device_memory* memory, void* stream) {
  if (Runtime::Get().forked())
    return Report(Status::NotInitialized("a GPU cannot be used in a forked child"));
  return Report(reinterpret_cast<hvdlite::engine::DeviceMemory*>(memory)->Follow(stream));
}

void hvdlite_free_memory(hvdlite_device_memory* memory) {
  if (!Runtime::Get().forked()) delete reinterpret_cast<hvdlite::engine::DeviceMemory*>(memory);
}

hvdlite_code hvdlite_gpu_of(const void* memory, int32_t* index) {
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  return Report(engine == nullptr ? status : engine->world().card().Find(memory, index));
}

hvdlite_code hvdlite_can_use_gpus(void) {
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  return Report(engine == nullptr ? status : engine->world().card().Usable());
}

hvdlite_code hvdlite_get_result(int64_t handle, hvdlite_result* result) {
  return ResultOf(handle, Runtime::Get().Find(handle).get(), result);
}

void hvdlite_release(int64_t handle) {
  (void)Runtime::Get().Release(handle);
}

hvdlite_code hvdlite_take(int64_t handle, hvdlite_result* result, void** storage) {
  thread_local hvdlite::engine::HandlePtr taken;  // what *result points to
  taken = Runtime::Get().Release(handle);
  *storage = nullptr;
  const hvdlite_code code = ResultOf(handle, taken.get(), result);
  if (code != HVDLITE_OK) return code;
  *storage = taken->memory() != nullptr ? static_cast<void*>(taken->TakeMemory().release())
                                        : taken->TakeStorage().release();
  return HVDLITE_OK;
}

void hvdlite_release_all(void) {
  Runtime::Get().ReleaseAll();
}

hvdlite_code hvdlite_start_timeline(const char* path, int32_t mark_cycles) {
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  return Report(engine == nullptr ? status
                                  : engine->observer().StartTimeline(path, mark_cycles != 0));
}

hvdlite_code hvdlite_stop_timeline(void) {
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  if (engine == nullptr) return Report(status);
  engine->observer().StopTimeline();
  return HVDLITE_OK;
}

int64_t hvdlite_describe(const char* what, char* text, int64_t capacity) {
  const auto engine = Runtime::Get().engine();
  if (engine == nullptr) return 0;
  hvdlite::engine::Observer& observer = engine->observer();
  if (strcmp(what, "recent") == 0) return Give(observer.Recent(), text, capacity);
  if (strcmp(what, "verdict") == 0) return Give(observer.question().verdict(), text, capacity);
  return Give(engine->Metrics(), text, capacity);
}

const char* hvdlite_mpi_handle_name(int32_t i) {
  using hvdlite::comm::mpi::kHandleNames;
  return i >= 0 && static_cast<size_t>(i) < std::size(kHandleNames) ? kHandleNames[i].data()
                                                                    : nullptr;
}

int64_t hvdlite_explain(int32_t process_set, char* text, int64_t capacity) {
  const auto engine = Runtime::Get().engine();
  return engine == nullptr ? 0 : Give(engine->Explain(process_set), text, capacity);
}

int32_t hvdlite_uses_mpi(void) {
  const auto engine = Runtime::Get().engine();
  return engine != nullptr && engine->world().mpi().use ? 1 : 0;
}

int32_t hvdlite_wait_question(double timeout_seconds) {
  const auto engine = Runtime::Get().engine();
  if (engine == nullptr) return HVDLITE_JOB_ENDED;
  using Kind = hvdlite::engine::Question::Kind;
  const Kind asked =
      engine->observer().question().Wait(static_cast<hvdlite::Nanos>(timeout_seconds * 1e9));
  switch (asked) {
    case Kind::kNothing: return HVDLITE_ASKED_NOTHING;
    case Kind::kWhere: return HVDLITE_ASKED_WHERE;
    case Kind::kVerdict: return HVDLITE_TOLD_VERDICT;
    case Kind::kReport: return HVDLITE_ASKED_REPORT;
    case Kind::kClosed: break;
  }
  Report(engine->life().end());
  return engine->life().failure().ok() ? HVDLITE_JOB_ENDED : HVDLITE_JOB_FAILED;
}

void hvdlite_wish_report(void) {
  Runtime::Get().RequestReport();
}

void hvdlite_answer(const char* place, int32_t in_wait) {
  const auto engine = Runtime::Get().engine();
  if (engine != nullptr) engine->observer().question().Answer(place, in_wait != 0);
}

int32_t hvdlite_process_set_ranks(int32_t process_set, int32_t* ranks, int32_t capacity) {
  const auto engine = Runtime::Get().engine();
  const auto members = engine == nullptr ? nullptr : engine->sets().Members(process_set);
  return members == nullptr ? 0 : GiveNumbers(*members, ranks, capacity);
}

int32_t hvdlite_process_set_ids(int32_t* ids, int32_t capacity) {
  const auto engine = Runtime::Get().engine();
  return engine == nullptr ? 0 : GiveNumbers(engine->sets().Ids(), ids, capacity);
}
