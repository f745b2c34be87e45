#include "engine/fuse/gather.h"

namespace hvdlite::engine {

bool MayWaitForMore(const Readiness& now, Nanos waited, const GatherOptions& options) {
  if (now.some_leave || waited >= options.longest) return false;
  int64_t bytes = 0;
  for (const Request* request : now.ready) {
    // A group is complete, and its caller usually waits for it.
    const bool is_gradient = request->kind == OpKind::kAllreduce &&
                             request->device != DeviceKind::kHost && request->group == 0;
    if (!is_gradient) return false;
    bytes += NumElements(request->shape) * static_cast<int64_t>(SizeOf(request->dtype));
  }
  return bytes < options.enough;
}

bool Gathering::Keeps(const Readiness& readiness, Nanos now,
                      const std::function<bool()>& device_is_behind) {
  const Nanos since = since_ == 0 ? now : since_;
  const bool keeps = MayWaitForMore(readiness, now - since, options_) && device_is_behind();
  since_ = keeps ? since : 0;
  return keeps;
}

}  // namespace hvdlite::engine
