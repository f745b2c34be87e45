// The C functions of hvdlite.h: each one line of Runtime, plus the calling thread's last error.
#include <algorithm>
#include <cstring>

#include "api/hvdlite.h"
#include "api/runtime.h"
#include "kernels/reduce.h"

namespace {

using hvdlite::Status;
using hvdlite::api::Runtime;

Status& LastError() {
  thread_local Status status;
  return status;
}

hvdlite_code Report(Status status) {
  const hvdlite_code code = static_cast<hvdlite_code>(status.code());
  if (code != HVDLITE_OK) LastError() = std::move(status);
  return code;
}

Status UnknownHandle(int64_t handle) {
  return Status::InvalidArgument("Handle " + std::to_string(handle) + " was not created or has been cleared.");
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
const char* hvdlite_simd(void) {
  return hvdlite::kernels::SimdName();
}

hvdlite_code hvdlite_init(const hvdlite_init_options* options) {
  return Report(Runtime::Get().Init(*options));
}
hvdlite_code hvdlite_shutdown(double timeout_seconds) {
  return Report(Runtime::Get().Shutdown(timeout_seconds));
}
int32_t hvdlite_is_initialized(void) {
  return Runtime::Get().initialized() ? 1 : 0;
}

void hvdlite_abort(const char* why) {
  Status ignored;
  const auto engine = Runtime::Get().engine(&ignored);
  if (engine != nullptr) {
    engine->Abort(Status::PeerLost(engine->rank(), "rank " + std::to_string(engine->rank()) + " failed: " + why));
  }
}

hvdlite_code hvdlite_where(hvdlite_place* place) {
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  if (engine == nullptr) return Report(status);
  const hvdlite::rendezvous::Roster& roster = engine->roster();
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

hvdlite_code hvdlite_run(const hvdlite_operation* operation, double slice_seconds, int64_t* handle) {
  return Report(Runtime::Get().Run(*operation, static_cast<hvdlite::Nanos>(slice_seconds * 1e9), handle));
}

hvdlite_code hvdlite_submit_group(const hvdlite_operation* operations, int32_t count, const char* group,
                                  int64_t* handles) {
  return Report(Runtime::Get().SubmitGroup(operations, count, group, handles));
}

hvdlite_code hvdlite_submit_then(const hvdlite_operation* operation, const hvdlite_completion* completion) {
  return Report(Runtime::Get().SubmitThen(*operation, *completion));
}

hvdlite_code hvdlite_submit_group_then(const hvdlite_operation* operations, int32_t count, const char* group,
                                       const hvdlite_completion* completions) {
  return Report(Runtime::Get().SubmitGroupThen(operations, count, group, completions));
}

hvdlite_code hvdlite_wait(int64_t handle, double slice_seconds, int32_t* done) {
  const auto found = Runtime::Get().Find(handle);
  return found == nullptr ? Report(UnknownHandle(handle)) : WaitFor(*found, slice_seconds, done);
}

hvdlite_code hvdlite_end(int64_t handle, double slice_seconds, int32_t* done) {
  const auto found = Runtime::Get().Find(handle);
  *done = 1;
  if (found == nullptr) return Report(UnknownHandle(handle));
  const hvdlite_code waited = WaitFor(*found, slice_seconds, done);
  if (*done == 0) return waited;
  Runtime::Get().Release(handle);
  return found->status().ok() ? HVDLITE_OK : Report(found->status());
}

hvdlite_code hvdlite_poll(int64_t handle, int32_t* done) {
  const auto found = Runtime::Get().Find(handle);
  if (found == nullptr) return Report(UnknownHandle(handle));
  *done = found->done() ? 1 : 0;
  return HVDLITE_OK;
}

hvdlite_code hvdlite_get_result(int64_t handle, hvdlite_result* result) {
  memset(result, 0, sizeof(*result));
  result->number = -1;
  const auto found = Runtime::Get().Find(handle);
  if (found == nullptr) return Report(UnknownHandle(handle));
  if (!found->done()) return Report(Status::InvalidArgument("the operation is not done; wait for it first"));
  if (!found->status().ok()) return Report(found->status());
  *result = Runtime::ResultOf(*found);
  return HVDLITE_OK;
}

void hvdlite_release(int64_t handle, void** storage) {
  const auto released = Runtime::Get().Release(handle);
  if (storage != nullptr) *storage = released == nullptr ? nullptr : released->TakeStorage().release();
}

void hvdlite_release_all(void) {
  Runtime::Get().ReleaseAll();
}

hvdlite_code hvdlite_start_timeline(const char* path, int32_t mark_cycles) {
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  return Report(engine == nullptr ? status : engine->StartTimeline(path, mark_cycles != 0));
}

hvdlite_code hvdlite_stop_timeline(void) {
  Status status;
  const auto engine = Runtime::Get().engine(&status);
  if (engine == nullptr) return Report(status);
  engine->StopTimeline();
  return HVDLITE_OK;
}

int64_t hvdlite_describe(const char* what, char* text, int64_t capacity) {
  Status ignored;
  const auto engine = Runtime::Get().engine(&ignored);
  if (engine == nullptr) return 0;
  const std::string all = strcmp(what, "recent") == 0 ? engine->Recent() : engine->Metrics();
  const int64_t n = std::min<int64_t>(static_cast<int64_t>(all.size()), capacity - 1);
  if (n >= 0) {
    memcpy(text, all.data(), static_cast<size_t>(n));
    text[n] = '\0';
  }
  return static_cast<int64_t>(all.size());
}

int32_t hvdlite_wait_question(double timeout_seconds) {
  Status ignored;
  const auto engine = Runtime::Get().engine(&ignored);
  if (engine == nullptr) return -1;
  using Asked = hvdlite::engine::Question::Asked;
  const Asked asked = engine->question().Wait(static_cast<hvdlite::Nanos>(timeout_seconds * 1e9));
  return asked == Asked::kClosed ? -1 : asked == Asked::kYes ? 1 : 0;
}

void hvdlite_answer(const char* place) {
  Status ignored;
  const auto engine = Runtime::Get().engine(&ignored);
  if (engine != nullptr) engine->question().Answer(place);
}

int32_t hvdlite_process_set_ranks(int32_t process_set, int32_t* ranks, int32_t capacity) {
  Status ignored;
  const auto engine = Runtime::Get().engine(&ignored);
  if (engine == nullptr) return 0;
  const std::vector<int> members = engine->SetRanks(process_set);
  for (size_t i = 0; i < members.size() && i < static_cast<size_t>(capacity); ++i) ranks[i] = members[i];
  return static_cast<int32_t>(members.size());
}

int32_t hvdlite_process_set_ids(int32_t* ids, int32_t capacity) {
  Status ignored;
  const auto engine = Runtime::Get().engine(&ignored);
  if (engine == nullptr) return 0;
  const std::vector<int> all = engine->SetIds();
  for (size_t i = 0; i < all.size() && i < static_cast<size_t>(capacity); ++i) ids[i] = all[i];
  return static_cast<int32_t>(all.size());
}
