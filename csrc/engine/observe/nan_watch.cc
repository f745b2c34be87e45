#include "engine/observe/nan_watch.h"

#include <algorithm>
#include <cstring>

#include "engine/list.h"

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

struct Tensor {
  const void* input;
  int64_t input_count;
  const void* output;
  int64_t output_count;
};

std::vector<Tensor> TensorsOf(const Entry& entry) {
  if (!entry.request.is_list()) {
    return {{entry.input.data, entry.input.elements(), entry.output.data, entry.output.elements()}};
  }
  std::vector<Tensor> tensors;
  ForEachInList(entry.request, [&](const int64_t* shape, size_t dimensions) {
    const Addresses& addresses = entry.list[tensors.size()];
    const int64_t count = NumElements(Shape(shape, shape + dimensions));
    tensors.push_back({addresses.input, count, addresses.output, count});
  });
  return tensors;
}

// Whether the entry is a list of which this batch has another tensor only.
bool IsElsewhere(const Running& running, size_t entry, size_t tensor) {
  const int only = running.TensorOf(entry);
  return only >= 0 && static_cast<size_t>(only) != tensor;
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
  for (size_t e = 0; e < running.entries.size(); ++e) {
    const Entry* const entry = running.entries[e];
    if (entry == nullptr) continue;  // this rank has joined
    const std::vector<Tensor> tensors = TensorsOf(*entry);
    for (size_t i = 0; i < tensors.size(); ++i) {
      if (IsElsewhere(running, e, i)) continue;
      const int64_t count = tensors[i].input_count;
      const int64_t first = FirstNotFinite(entry->input.dtype, tensors[i].input, count);
      if (first == count) continue;
      on_ = false;
      const Request& request = entry->request;
      return "rank " + std::to_string(rank_) +
             " is the first to submit a NaN or an infinity: element " + std::to_string(first) +
             " of " + std::to_string(count) + " of " +
             Shown(request.is_list() ? InList(request, i) : request) +
             ". All results before were finite, so the number comes from this rank's own data or "
             "model. (If other ranks say so at the same time, look at them as well.)";
    }
  }
  return "";
}

void NanWatch::Ended(const Running& running) {
  if (!on_ || !IsReduction(running.batch)) return;
  for (size_t e = 0; e < running.entries.size(); ++e) {
    const Entry* const entry = running.entries[e];
    if (entry == nullptr) continue;
    const std::vector<Tensor> tensors = TensorsOf(*entry);
    for (size_t i = 0; i < tensors.size(); ++i) {
      const int64_t count = tensors[i].output_count;
      on_ &= IsElsewhere(running, e, i) ||
             FirstNotFinite(entry->output.dtype, tensors[i].output, count) == count;
    }
  }
}

}  // namespace hvdlite::engine
