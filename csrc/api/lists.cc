#include "api/lists.h"

#include <algorithm>
#include <cstdio>

#include "api/translate.h"
#include "engine/list.h"

namespace hvdlite::api {
namespace {

using engine::Request;
using engine::Submission;

bool SameKind(const hvdlite_tensor& a, const hvdlite_tensor& b) {
  return a.dtype == b.dtype && a.device_kind == b.device_kind;
}

bool SameShape(const hvdlite_tensor& a, const hvdlite_tensor& b) {
  return a.ndim == b.ndim && std::equal(a.shape, a.shape + a.ndim, b.shape);
}

hvdlite_operation OperationOf(const hvdlite_list& list, int i) {
  hvdlite_operation operation{};
  operation.kind = HVDLITE_ALLREDUCE;
  operation.op = list.op;
  operation.process_set = list.process_set;
  operation.input = list.inputs[i];
  operation.output = list.outputs[i];
  operation.prescale = list.prescale;
  operation.postscale = list.postscale;
  operation.stream = list.stream;
  operation.patient = list.patient;
  return operation;
}

// FNV-1a gives the same hash on all ranks, which std::hash does not promise. Never 0.
uint64_t HashName(const std::string& name) {
  uint64_t hash = 1469598103934665603ull;
  for (unsigned char c : name) hash = (hash ^ c) * 1099511628211ull;
  return hash | 1;
}

}  // namespace

bool IsList(const hvdlite_list& list) {
  return list.count > 0 && list.op != HVDLITE_ADASUM &&
         std::all_of(list.inputs, list.inputs + list.count,
                     [&](const auto& input) { return SameKind(input, list.inputs[0]); });
}

Status DescribeList(engine::Engine* engine, const hvdlite_list& list, Submission* submission) {
  // The first tensor stands for what all have in common.
  HVDLITE_RETURN_IF_ERROR(Describe(engine, OperationOf(list, 0), submission));
  Request& request = submission->request;
  submission->list.reserve(static_cast<size_t>(list.count));
  request.shapes.reserve(static_cast<size_t>(list.count) * 4);
  for (int i = 0; i < list.count; ++i) {
    const hvdlite_tensor& input = list.inputs[i];
    const hvdlite_tensor& output = list.outputs[i];
    if (i > 0 && (!SameKind(input, output) || !SameShape(input, output) ||
                  input.device_index != list.inputs[0].device_index)) {
      Submission alone;  // an output of another shape is possible; the rest is an error
      HVDLITE_RETURN_IF_ERROR(Describe(engine, OperationOf(list, i), &alone));
    }
    engine::AddToList(input.shape, static_cast<size_t>(input.ndim), &request);
    submission->list.push_back({input.data, output.data});
  }
  if (!engine::IsSoundList(request)) {
    return Status::InvalidArgument(std::string(Name(request.kind)) +
                                   ": the group's tensors are larger than any machine's memory");
  }
  request.cacheable = list.name != nullptr;
  request.shape = {engine::ElementsOf(request)};
  submission->input.shape = submission->output.shape = request.shape;
  return Status::Ok();
}

void NameGroup(const std::string& name, Request* request) {
  request->name = name;
  request->group = HashName(name);
}

void NameEach(const hvdlite_names& names, Request* request) {
  request->name = names.list;
  request->names = names.tensors;
  request->cacheable = true;
}

GroupAsList::GroupAsList(const hvdlite_operation* operations, int count) {
  const hvdlite_operation& first = operations[0];
  for (int i = 0; i < count; ++i) {
    const hvdlite_operation& each = operations[i];
    if (each.kind != HVDLITE_ALLREDUCE || each.codec != 0 || each.sparse != nullptr ||
        each.output.data == nullptr)
      return;
    inputs.push_back(each.input);
    outputs.push_back(each.output);
    if (each.stream != first.stream &&
        std::find(other_streams.begin(), other_streams.end(), each.stream) == other_streams.end())
      other_streams.push_back(each.stream);
  }
  list = {first.op, first.process_set, nullptr,         nullptr,      inputs.data(), outputs.data(),
          count,    first.prescale,    first.postscale, first.stream, first.patient};
  possible = IsList(list);
}

}  // namespace hvdlite::api

hvdlite_names* hvdlite_make_names(const char* const* names, int32_t count) {
  const std::string prefix = std::string(hvdlite::Name(hvdlite::OpKind::kAllreduce)) + ".";
  std::vector<std::string> tensors;
  std::string all;
  for (int32_t i = 0; i < count; ++i) {
    tensors.push_back(prefix + names[i]);
    all += tensors.back() + '\0';
  }
  char hash[17];
  snprintf(hash, sizeof(hash), "%016llx",
           static_cast<unsigned long long>(hvdlite::api::HashName(all)));
  std::string list = (count > 0 ? tensors[0] : prefix) + " and " + std::to_string(count - 1) +
                     " more, list " + hash;
  return new hvdlite_names{std::move(list),
                           std::make_shared<const std::vector<std::string>>(std::move(tensors))};
}

void hvdlite_free_names(hvdlite_names* names) {
  delete names;
}
