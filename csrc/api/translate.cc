#include "api/translate.h"

#include <algorithm>

#include "api/arguments.h"
#include "api/report.h"
#include "engine/negotiate/validate.h"

namespace hvdlite::api {
namespace {

using engine::Engine;
using engine::EngineOptions;
using engine::Request;
using engine::Submission;

TensorView View(const hvdlite_tensor& tensor) {
  TensorView view;
  view.data = tensor.data;
  view.dtype = static_cast<DType>(tensor.dtype);
  view.shape.assign(tensor.shape, tensor.shape + tensor.ndim);
  view.device = {static_cast<DeviceKind>(tensor.device_kind), tensor.device_index};
  return view;
}

Status NoSuchSet(int64_t id) {
  return Status::InvalidArgument("Process set " + std::to_string(id) +
                                 " does not exist: hvd.init(process_sets=...) and "
                                 "hvd.add_process_set() make one");
}

hvdlite_tensor View(const TensorView& view) {
  hvdlite_tensor tensor{};
  tensor.data = view.data;
  tensor.dtype = static_cast<int32_t>(view.dtype);
  tensor.ndim = static_cast<int32_t>(view.shape.size());
  tensor.shape = view.shape.data();
  tensor.device_kind = static_cast<int32_t>(view.device.kind);
  tensor.device_index = view.device.index;
  return tensor;
}

// An operation that adds or removes a process set.
Status DescribeChange(Engine* engine, const hvdlite_operation& operation, Request* request) {
  const bool among_named = Has(request->kind, kAmongNamed);
  const std::string name = operation.name == nullptr ? "" : operation.name;
  if (among_named && name.empty())
    return Status::InvalidArgument("a process set that its members alone add needs a name");
  if (request->kind == OpKind::kRemoveProcessSet ||
      request->kind == OpKind::kRemoveNamedProcessSet) {
    request->root = operation.root;
    const engine::ProcessSetPtr set = engine->sets().Find(static_cast<int>(operation.root));
    if (set != nullptr && set->given_name != (among_named ? name : "")) {
      return Status::InvalidArgument(
          "process set " + std::to_string(operation.root) +
          (set->given_name.empty()
               ? " has no name: all ranks remove it"
               : " is named '" + set->given_name + "': its members remove it by that name"));
    }
    if (!among_named) return Status::Ok();
    if (set == nullptr) return NoSuchSet(operation.root);
    request->splits.assign(set->ranks.begin(), set->ranks.end());
  }
  if (among_named) std::sort(request->splits.begin(), request->splits.end());
  return Status::Ok();
}

// If this rank cannot use MPI, all ranks must learn the reason.
void ReadMpi(const hvdlite_mpi& in, comm::mpi::Access* out) {
  if (in.absent != nullptr) {
    out->absent = in.absent;
    return;
  }
  comm::mpi::NamedHandles handles;
  for (int i = 0; i < in.handle_count; ++i)
    handles.emplace_back(in.names[i], static_cast<intptr_t>(in.handles[i]));
  // NOLINTNEXTLINE(performance-no-int-to-ptr): Python passes pointers as numbers
  void* const in_place = reinterpret_cast<void*>(static_cast<intptr_t>(in.in_place));
  const Status loaded = comm::mpi::Load(in.module, handles, in_place, &out->library);
  out->absent = loaded.message();
  out->communicator = static_cast<intptr_t>(in.communicator);
  out->name = in.library;
}

}  // namespace

Status ReadOptions(const hvdlite_init_options& in, EngineOptions* out) {
  if (in.size < 1 || in.rank < 0 || in.rank >= in.size) {
    return Status::InvalidArgument("rank " + std::to_string(in.rank) + " of " +
                                   std::to_string(in.size) + " is not possible");
  }
  const hvdlite_generation* const generation = in.generation;
  if (generation != nullptr && (generation->number < 1 || generation->slot < 0 ||
                                generation->nonce == nullptr || generation->seconds < 0)) {
    return Status::InvalidArgument("a generation has a number, a nonce, a slot and seconds");
  }
  out->rank = in.rank;
  out->size = in.size;
  out->seconds_to_meet = generation == nullptr ? 0 : generation->seconds;
  out->store_prefix = in.store_prefix ? in.store_prefix : "";
  out->release = in.release ? in.release : "";
  for (size_t i = 0; i < static_cast<size_t>(in.knob_count); ++i)
    HVDLITE_RETURN_IF_ERROR(out->config.Set(in.knobs[2 * i], in.knobs[2 * i + 1]));
  const int32_t* next = in.set_ranks;
  for (int i = 0; i < in.set_count; ++i) {
    out->process_sets.emplace_back(next, next + in.set_sizes[i]);
    next += in.set_sizes[i];
  }
  if (in.mpi != nullptr) ReadMpi(*in.mpi, &out->mpi);
  if (in.size > 1) {
    if (in.secret == nullptr || in.store == nullptr) {
      return Status::InvalidArgument(
          "a job of several ranks needs the address of its store and its secret");
    }
    HVDLITE_RETURN_IF_ERROR(transport::tcp::ParseSecret(in.secret, &out->secret));
  }
  return Status::Ok();
}

void EnterGeneration(const hvdlite_generation* in, EngineOptions* out) {
  if (in == nullptr) return;
  out->generation = static_cast<uint32_t>(in->number);
  out->slot = in->slot;
  out->secret = transport::tcp::SecretOfGeneration(out->secret, out->generation, in->nonce);
}

engine::Completion ToCompletion(const hvdlite_completion& asked) {
  engine::Completion completion;
  completion.done = [done = asked.done, context = asked.context](const engine::Handle& handle) {
    const Status& status = handle.status();
    const hvdlite_result result = ToResult(handle);
    done(context, Report(status), status.message().c_str(), status.ok() ? &result : nullptr);
  };
  if (asked.allocate != nullptr) {
    completion.allocate = [allocate = asked.allocate,
                           context = asked.context](const TensorView& result) {
      const hvdlite_tensor tensor = View(result);
      return allocate(context, &tensor);
    };
  }
  return completion;
}

Status CheckTold(const Submission& submission) {
  if (submission.request.device == DeviceKind::kHost) return Status::Ok();
  return Status::Unsupported(
      std::string(Name(submission.request.kind)) +
      ": inside a graph or a compiled program hvdlite takes tensors in host memory only");
}

hvdlite_result ToResult(const engine::Handle& handle) {
  hvdlite_result result{};
  result.output = View(handle.output);
  result.received_splits = handle.received_splits.data();
  result.split_count = static_cast<int32_t>(handle.received_splits.size());
  result.on_gpu = handle.pending != nullptr ? 1 : 0;
  result.number = handle.number;
  return result;
}

kernels::Selection ToSelection(const hvdlite_sparse& given) {
  kernels::Selection selection;
  selection.count = given.count;
  selection.taken = given.taken;
  selection.residual = given.residual;
  selection.new_residual = given.new_residual;
  selection.velocity = given.velocity;
  selection.new_velocity = given.new_velocity;
  selection.momentum = given.momentum;
  selection.nesterov = given.nesterov != 0;
  selection.masking = given.masking != 0;
  return selection;
}

Status Describe(Engine* engine, const hvdlite_operation& operation, Submission* submission) {
  if (operation.kind < 0 || operation.kind >= kOpKindCount || operation.op < 0 ||
      operation.op >= kReduceOpCount ||
      !IsValidDType(static_cast<uint8_t>(operation.input.dtype)) || operation.codec < 0 ||
      operation.codec >= kCodecCount) {
    return Status::InvalidArgument("unknown operation, reduction, dtype or codec");
  }
  Request& request = submission->request;
  request.kind = static_cast<OpKind>(operation.kind);
  request.cacheable = operation.name != nullptr && HasTensor(request.kind);
  request.prescale = operation.prescale;
  request.postscale = operation.postscale;
  request.splits.assign(operation.splits, operation.splits + operation.split_count);
  submission->input = View(operation.input);
  submission->output = View(operation.output);
  submission->producer = operation.stream;
  submission->patient = operation.patient != 0;
  request.codec = {static_cast<Codec>(operation.codec), operation.codec_parameter};
  submission->feedback = {static_cast<float*>(operation.residual.data), operation.codec_seed,
                          operation.codec_step};
  request.dtype = submission->input.dtype;
  request.device = submission->input.device.kind;
  request.shape = submission->input.shape;
  if (Has(request.kind, kReduces)) request.op = static_cast<ReduceOp>(operation.op);
  const std::shared_ptr<const std::vector<int>> found =
      engine->sets().Members(operation.process_set);
  if (found == nullptr) return NoSuchSet(operation.process_set);
  const std::vector<int>& members = *found;
  if (Has(request.kind, kRooted)) {
    const auto root = std::find(members.begin(), members.end(), operation.root);
    if (root == members.end()) {
      return Status::InvalidArgument(
          std::string(Name(request.kind)) + ": root_rank " + std::to_string(operation.root) +
          " is not a member of the process set, which has " + engine::RankList(members));
    }
    request.root = root - members.begin();
  } else if (Has(request.kind, kChangesSets)) {
    HVDLITE_RETURN_IF_ERROR(DescribeChange(engine, operation, &request));
  }
  const int count = static_cast<int>(members.size());
  HVDLITE_RETURN_IF_ERROR(CheckArguments(&request, count));
  if (request.codec.encodes() || operation.residual.data != nullptr)
    HVDLITE_RETURN_IF_ERROR(
        CheckCodec(request, submission->input.device, View(operation.residual)));
  if (operation.sparse != nullptr) {
    submission->memory = ToSelection(*operation.sparse);
    request.taken = submission->memory.taken;
    HVDLITE_RETURN_IF_ERROR(CheckSelection(request, submission->memory));
  }
  const auto me = std::find(members.begin(), members.end(), engine->rank());
  return CheckOutput(request, submission->output, count, static_cast<int>(me - members.begin()));
}

}  // namespace hvdlite::api
