#include "engine/known_operation.h"

#include <algorithm>

#include "base/shape.h"

namespace hvdlite::engine {
namespace {

// Whether an operation like this one may happen without negotiation, if it is small.
bool IsPlain(const Request& request) {
  return request.kind == OpKind::kAllreduce && request.op != ReduceOp::kAdasum &&
         request.device == DeviceKind::kHost && request.group == 0 && !request.codec.encodes() &&
         request.taken == 0;
}

}  // namespace

bool IsSame(const Request& before, const KnownOperation& asked) {
  return IsPlain(before) && before.op == asked.op && before.dtype == asked.dtype &&
         before.prescale == asked.prescale && before.postscale == asked.postscale &&
         before.shape.size() == static_cast<size_t>(asked.dimensions) &&
         std::equal(before.shape.begin(), before.shape.end(), asked.shape);
}

void Unnamed::Performed(const Request& request) {
  const auto is_same = [&](const Numbered& each) { return each.request.SameExceptName(request); };
  const size_t bytes = static_cast<size_t>(NumElements(request.shape)) * SizeOf(request.dtype);
  if (!IsPlain(request) || bytes > most_bytes_ ||
      std::any_of(latest_.begin(), latest_.end(), is_same))
    return;
  if (latest_.size() == kMost) latest_.pop_front();
  latest_.push_back({next_++, request});
  latest_.back().request.name = "allreduce.noname";
}

const Request* Unnamed::Find(const KnownOperation& asked, uint64_t* number) const {
  const auto found = std::find_if(latest_.begin(), latest_.end(), [&](const Numbered& each) {
    return IsSame(each.request, asked);
  });
  if (found == latest_.end()) return nullptr;
  *number = found->number;
  return &found->request;
}

}  // namespace hvdlite::engine
