// Makes an engine's list of a group, where the group is one (engine/list.h). Stateless.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "api/hvdlite.h"
#include "engine/engine.h"

namespace hvdlite::api {

// Whether the group can be a list. The same on all members, unless their tensors differ.
bool IsList(const hvdlite_list& list);
// Converts a list that IsList, but for its name, and checks what this rank alone can check.
Status DescribeList(engine::Engine* engine, const hvdlite_list& list,
                    engine::Submission* submission);
// The request's name and its hash, from the group's.
void NameGroup(const std::string& name, engine::Request* request);
// The names of a list of independent tensors.
void NameEach(const hvdlite_names& names, engine::Request* request);

// A group of single operations as a list; owns the arrays.
struct GroupAsList {
  // `count` > 0.
  GroupAsList(const hvdlite_operation* operations, int count);
  bool possible = false;
  hvdlite_list list{};
  std::vector<hvdlite_tensor> inputs, outputs;
  std::vector<device::Stream> other_streams;  // beside list.stream
};

}  // namespace hvdlite::api

struct hvdlite_names {
  std::string list;
  std::shared_ptr<const std::vector<std::string>> tensors;
};
