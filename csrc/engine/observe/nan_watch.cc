#include "engine/observe/nan_watch.h"

#include <algorithm>
#include <cstring>

#include "engine/message.h"

namespace hvdlite::engine {
namespace {

// As many elements as are looked at before the loop may end, so that it is a loop of vectors.
constexpr int64_t kBlock = 1024;

// `infinity`: the bits of infinity. What is no finite number has all of them.
template <class Bits>
int64_t First(const void* data, int64_t count, Bits infinity) {
  const char* const bytes = static_cast<const char*>(data);
  const auto at = [&](int64_t i) {
    Bits element;
    std::memcpy(&element, bytes + static_cast<size_t>(i) * sizeof(Bits), sizeof(Bits));
    return (element & infinity) == infinity;
  };
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    const int64_t end = std::min(count, begin + kBlock);
    unsigned found = 0;
    for (int64_t i = begin; i < end; ++i) found |= at(i) ? 1U : 0U;
    if (found == 0) continue;
    for (int64_t i = begin; i < end; ++i) {
      if (at(i)) return i;
    }
  }
  return count;
}

bool IsReduction(const comm::Batch& batch) {
  return batch.device.kind == DeviceKind::kHost &&
         (batch.kind == OpKind::kAllreduce || batch.kind == OpKind::kReducescatter);
}

}  // namespace

int64_t FirstNotFinite(DType dtype, const void* data, int64_t count) {
  switch (dtype) {
    case DType::kFloat16: return First<uint16_t>(data, count, 0x7C00);
    case DType::kBFloat16: return First<uint16_t>(data, count, 0x7F80);
    case DType::kFloat32: return First<uint32_t>(data, count, 0x7F800000);
    case DType::kFloat64: return First<uint64_t>(data, count, 0x7FF0000000000000);
    default: return count;
  }
}

std::string NanWatch::Began(const Running& running) {
  if (!on_ || !IsReduction(running.batch)) return "";
  for (size_t i = 0; i < running.entries.size(); ++i) {
    const Entry* const entry = running.entries[i];
    if (entry == nullptr) continue;  // this rank has joined
    const TensorView& input = entry->input;
    const int64_t count = input.elements();
    const int64_t first = FirstNotFinite(input.dtype, input.data, count);
    if (first == count) continue;
    on_ = false;
    return "rank " + std::to_string(rank_) +
           " is the first to submit a NaN or an infinity: element " + std::to_string(first) +
           " of " + std::to_string(count) + " of " + Shown(entry->request) +
           ". All results before were finite, so the number comes from this rank's own data or "
           "model. (If other ranks say so at the same time, look at them as well.)";
  }
  return "";
}

void NanWatch::Ended(const Running& running) {
  if (!on_ || !IsReduction(running.batch)) return;
  for (const Entry* const entry : running.entries) {
    if (entry == nullptr) continue;
    const int64_t count = entry->output.elements();
    on_ &= FirstNotFinite(entry->output.dtype, entry->output.data, count) == count;
  }
}

}  // namespace hvdlite::engine
