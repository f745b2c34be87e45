#include "engine/fuse/gather.h"

namespace hvdlite::engine {

bool MayWaitForMore(const std::vector<const Request*>& ready, Nanos waited,
                    const GatherOptions& options) {
  if (waited >= options.longest) return false;
  int64_t bytes = 0;
  for (const Request* request : ready) {
    // A group is complete, and its caller usually waits for it.
    const bool is_gradient = request->kind == OpKind::kAllreduce &&
                             request->device != DeviceKind::kHost && request->group == 0;
    if (!is_gradient) return false;
    bytes += NumElements(request->shape) * static_cast<int64_t>(SizeOf(request->dtype));
  }
  return bytes < options.enough;
}

}  // namespace hvdlite::engine
