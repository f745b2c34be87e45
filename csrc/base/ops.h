// The collectives and the reductions. Numbers travel on the wire and through the C ABI.
#pragma once

#include <cstdint>
#include <string_view>

namespace hvdlite {

enum class OpKind : uint8_t {
#define HVDLITE_OP(enumerator, number, name, timeline) k##enumerator = number,
#include "base/ops.def"
#undef HVDLITE_OP
};
constexpr int kOpKindCount = 9;

constexpr std::string_view Name(OpKind kind) {
  switch (kind) {
#define HVDLITE_OP(enumerator, number, name, timeline) \
  case OpKind::k##enumerator: return name;
#include "base/ops.def"
#undef HVDLITE_OP
  }
  return "?";
}

constexpr std::string_view TimelineName(OpKind kind) {
  switch (kind) {
#define HVDLITE_OP(enumerator, number, name, timeline) \
  case OpKind::k##enumerator: return timeline;
#include "base/ops.def"
#undef HVDLITE_OP
  }
  return "?";
}

// The values are those of Horovod's Python constants.
enum class ReduceOp : uint8_t { kAverage = 0, kSum = 1, kAdasum = 2, kMin = 3, kMax = 4, kProduct = 5 };
constexpr int kReduceOpCount = 6;

constexpr std::string_view Name(ReduceOp op) {
  constexpr std::string_view names[kReduceOpCount] = {"Average", "Sum", "Adasum", "Min", "Max", "Product"};
  return names[static_cast<int>(op)];
}

}  // namespace hvdlite
