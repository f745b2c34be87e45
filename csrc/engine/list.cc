#include "engine/list.h"

#include <algorithm>
#include <cctype>
#include <cstdlib>

namespace hvdlite::engine {
namespace {

constexpr int64_t kMostDimensions = 64;

}  // namespace

int64_t ElementsOf(const Request& list) {
  int64_t all = 0;
  ForEachInList(list, [&](const int64_t* shape, size_t dimensions) {
    int64_t elements = 1;
    for (size_t d = 0; d < dimensions; ++d) elements *= shape[d];
    all += elements;
  });
  return all;
}

bool IsSoundList(const Request& list) {
  if (list.kind != OpKind::kAllreduce || list.op == ReduceOp::kAdasum || list.codec.encodes())
    return false;
  int64_t all = 0;
  uint32_t tensors = 0;
  for (size_t i = 0; i < list.shapes.size(); ++tensors) {
    const int64_t dimensions = list.shapes[i];
    const auto left = static_cast<int64_t>(list.shapes.size() - i - 1);
    if (dimensions < 0 || dimensions > std::min(left, kMostDimensions)) return false;
    const auto begin = list.shapes.begin() + static_cast<long>(i) + 1;
    const Shape shape(begin, begin + dimensions);
    if (!FitsElements(shape)) return false;
    all += NumElements(shape);
    if (all > kMaxElements) return false;
    i += static_cast<size_t>(dimensions) + 1;
  }
  return tensors > 0 && tensors == list.group_size;
}

std::string NameInGroup(const std::string& group, size_t i, size_t size) {
  return group + "_" + std::to_string(i + 1) + "of" + std::to_string(size);
}

std::string NameInList(const Request& list, size_t i) {
  return list.names != nullptr ? (*list.names)[i] : NameInGroup(list.name, i, list.group_size);
}

std::string GroupOf(const std::string& name, size_t* i) {
  const auto digits_before = [&](size_t end) {
    size_t begin = end;
    while (begin > 0 && isdigit(static_cast<unsigned char>(name[begin - 1])) != 0) --begin;
    return begin;
  };
  const size_t size = digits_before(name.size());
  if (size == name.size() || size < 2 || name.compare(size - 2, 2, "of") != 0) return "";
  const size_t number = digits_before(size - 2);
  if (number == size - 2 || number == 0 || name[number - 1] != '_') return "";
  const unsigned long counted = std::strtoul(name.c_str() + number, nullptr, 10);
  if (counted == 0) return "";
  *i = counted - 1;
  return name.substr(0, number - 1);
}

size_t FirstDifference(const Request& a, const Request& b) {
  const auto differs =
      std::mismatch(a.shapes.begin(), a.shapes.end(), b.shapes.begin(), b.shapes.end()).first;
  if (differs == a.shapes.end()) return a.group_size;
  const int64_t* const where = a.shapes.data() + (differs - a.shapes.begin());
  size_t number = 0;
  ForEachInList(a, [&](const int64_t* shape, size_t dimensions) {
    if (shape + dimensions <= where) ++number;
  });
  return number;
}

Request InList(const Request& list, size_t i) {
  Request one = list;
  one.shapes.clear();
  one.names = nullptr;
  one.name = NameInList(list, i);
  if (one.group == 0) one.group_size = 0;
  size_t number = 0;
  ForEachInList(list, [&](const int64_t* shape, size_t dimensions) {
    if (number++ == i) one.shape.assign(shape, shape + dimensions);
  });
  return one;
}

}  // namespace hvdlite::engine
