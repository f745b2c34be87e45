// The C functions of hvdlite.h about gradients and tensors in shared memory.
#include "pool/pool.h"

#include "api/hvdlite.h"
#include "api/report.h"
#include "pool/slots.h"

using hvdlite::Status;
using hvdlite::pool::Pool;

hvdlite_code hvdlite_pool_patch(const hvdlite_pool_allocator* allocator) {
  const Status opened = Pool::Process().opened();
  if (!opened.ok()) return hvdlite::api::Report(Status::Unsupported(opened.message()));
  return hvdlite::api::Report(hvdlite::pool::Patch(
      {allocator->module, allocator->function, allocator->gate, allocator->outside}));
}

void hvdlite_pool_expect(int64_t bytes, int64_t gradients) {
  if (bytes > 0) Pool::Process().Expect(static_cast<size_t>(bytes), gradients);
}

void hvdlite_pool_arm(int32_t on) {
  Pool& pool = Pool::Process();
  if (!pool.disowned()) pool.Arm(on != 0);
}

void hvdlite_pool_take_all(int32_t on) {
  Pool::TakeAll(on != 0);
}

void* hvdlite_pool_allocate(int64_t bytes) {
  hvdlite_place place;
  const bool has_neighbours = hvdlite_where(&place) == HVDLITE_OK && place.local_size > 1;
  if (!has_neighbours || bytes <= 0) return nullptr;
  return Pool::Process().Allocate(static_cast<size_t>(bytes));
}

void hvdlite_pool_free(void* memory) {
  Pool::Process().Give(memory);
}

int64_t hvdlite_pool_offset(const void* memory) {
  return Pool::Process().OffsetOf(memory);
}

void hvdlite_pool_stats(hvdlite_pool_counters* counters) {
  const hvdlite::pool::Stats stats = Pool::Process().stats();
  *counters = {stats.hits, stats.misses, stats.live, stats.bytes};
}
