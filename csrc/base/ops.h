// The operations with their properties, and the reductions. The numbers travel on the wire and
// through the C ABI.
#pragma once

#include <cstdint>
#include <string_view>

namespace hvdlite {

// What each member of the process set gets from an operation.
enum class Result : uint8_t {
#define HVDLITE_RESULT(enumerator, upper, number) k##enumerator = number,
#include "base/ops.def"
};

enum Trait : uint32_t {
  kReduces = 1 << 0,      // has a reduction, a prescale and a postscale factor
  kAdasum = 1 << 1,       // the reduction may be Adasum
  kRooted = 1 << 2,       // Request::root is the member that has, or gets, the tensor
  kFuses = 1 << 3,        // several may be carried out as one batch
  kGroups = 1 << 4,       // may be part of a group
  kJoinable = 1 << 5,     // possible while some members have called join()
  kAboutJob = 1 << 6,     // concerns the job, not data: the timeline leaves it out
  kChangesSets = 1 << 7,  // adds or removes a process set: all ranks carry it out
  kAmongNamed = 1 << 8,   // only the ranks in Request::splits ask for it; others call nothing
};

enum class OpKind : uint8_t {
#define HVDLITE_OP(enumerator, upper, number, ...) k##enumerator = number,
#include "base/ops.def"
};

// A row of ops.def.
struct Operation {
  std::string_view name;
  std::string_view timeline_name;
  Result result;
  uint32_t traits;
};

namespace internal {
constexpr Operation kOperations[] = {
#define HVDLITE_OP(enumerator, upper, number, name, result, traits) \
  {name, #upper, Result::result, traits},
#include "base/ops.def"
};
}  // namespace internal

constexpr int kOpKindCount = static_cast<int>(sizeof(internal::kOperations) / sizeof(Operation));

#define HVDLITE_OP(enumerator, upper, number, its_name, ...)    \
  static_assert(internal::kOperations[number].name == its_name, \
                "the rows of ops.def stand in the order of their numbers");
#include "base/ops.def"

constexpr const Operation& Of(OpKind kind) {
  return internal::kOperations[static_cast<int>(kind)];
}
constexpr std::string_view Name(OpKind kind) {
  return Of(kind).name;
}
constexpr std::string_view TimelineName(OpKind kind) {
  return Of(kind).timeline_name;
}
constexpr bool Has(OpKind kind, Trait trait) {
  return (Of(kind).traits & trait) != 0;
}
constexpr Result ResultOf(OpKind kind) {
  return Of(kind).result;
}
constexpr bool HasTensor(OpKind kind) {
  return ResultOf(kind) != Result::kNone;
}

// The values are those of Horovod's Python constants.
enum class ReduceOp : uint8_t {
  kAverage = 0,
  kSum = 1,
  kAdasum = 2,
  kMin = 3,
  kMax = 4,
  kProduct = 5
};
constexpr int kReduceOpCount = 6;

constexpr std::string_view Name(ReduceOp op) {
  constexpr std::string_view names[kReduceOpCount] = {"Average", "Sum", "Adasum",
                                                      "Min",     "Max", "Product"};
  return names[static_cast<int>(op)];
}

}  // namespace hvdlite
