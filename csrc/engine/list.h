// Lists: allreduces that travel as one operation, with one request, slot, entry and handle. A
// list's tensors have one dtype and one place (on the host, on a GPU). Pure.
//
// A list is a group that the program has made, or consists of independent operations with names of
// their own. Nothing depends on it: where another member asks for one of its tensors in another
// way, the root counts the list's tensors one by one, and the entry is carried out so, too.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/message.h"

namespace hvdlite::engine {

// Adds one tensor to a request. Tensors come in the order of the list.
inline void AddToList(const int64_t* shape, size_t dimensions, Request* list) {
  list->shapes.push_back(static_cast<int64_t>(dimensions));
  list->shapes.insert(list->shapes.end(), shape, shape + dimensions);
  ++list->group_size;
}

// How many tensors a request is about, as a batch counts them: one unless it is a list.
inline size_t TensorsOf(const Request& request) {
  return request.is_list() ? request.group_size : 1;
}

// Calls visit(dimensions, number of dimensions) for each tensor of a sound list, in order.
template <typename Visit>
void ForEachInList(const Request& list, const Visit& visit) {
  for (size_t i = 0; i < list.shapes.size();) {
    const auto count = static_cast<size_t>(list.shapes[i]);
    visit(list.shapes.data() + i + 1, count);
    i += count + 1;
  }
}

// The elements of all tensors of a sound list.
int64_t ElementsOf(const Request& list);
// Whether the request is a possible list, apart from its `shape`. The wire may bring anything.
bool IsSoundList(const Request& list);
// The name of one of its tensors.
std::string NameInList(const Request& list, size_t i);
// The name of one of a request's tensors, whether it is a list or not.
inline std::string TensorName(const Request& request, size_t i) {
  return request.is_list() ? NameInList(request, i) : request.name;
}
// The name of a group's tensor: "<group>_<i + 1>of<size>".
std::string NameInGroup(const std::string& group, size_t i, size_t size);
// The group of such a name, and the number of the tensor. Empty for another name.
std::string GroupOf(const std::string& name, size_t* i);
// The number of the first tensor whose shape differs; the size of `a` if there is none.
size_t FirstDifference(const Request& a, const Request& b);
// The request for one tensor of a list, as if it travelled alone.
Request InList(const Request& list, size_t i);

}  // namespace hvdlite::engine
