#include "engine/execute/prepare.h"

#include <numeric>

#include "engine/list.h"
#include "engine/shapes.h"
#include "kernels/codec.h"
#include "kernels/digest.h"

namespace hvdlite::engine {
namespace {

using comm::Batch;
using comm::Piece;

// Sets the caller's output aside if it has not the result's size, which only the agreement
// determines for these kinds. For the others api/arguments.cc has checked it.
void CheckOutput(Entry* entry, const Shape& shape) {
  const TensorView& output = entry->output;
  if (output.data == nullptr || !RowsDiffer(entry->request.kind) ||
      NumElements(output.shape) == NumElements(shape))
    return;
  entry->misfit = Status::InvalidArgument(
      Shown(entry->request) + ": the result has shape " + ToString(shape) +
      " on this rank, but the output has shape " + ToString(output.shape) +
      ". The operation has failed on this rank only; the others have their results");
  entry->output = {};
}

Status AllocateOutput(Entry* entry, Shape shape, int rank) {
  if (entry->output.data != nullptr || !HasTensor(entry->request.kind)) return Status::Ok();
  Handle& handle = *entry->handle;
  handle.output.dtype = entry->request.dtype;
  handle.output.shape = std::move(shape);
  handle.output.data = handle.Allocate();
  if (handle.output.data == nullptr) {
    return Status::Io("no memory on rank " + std::to_string(rank) + " for the result of " +
                      std::string(Name(entry->request.kind)) + " '" + entry->request.name + "' (" +
                      std::to_string(handle.output.bytes()) + " bytes)");
  }
  entry->output = handle.output;
  return Status::Ok();
}

// Allocates the result of an allgather or an alltoall, whose shape was not known before. An empty
// result has memory without an address.
Status AllocateOnGpu(Entry* entry, Shape shape, comm::gpu::Card* card, Batch* batch) {
  if (entry->output.data != nullptr || entry->handle->memory() != nullptr) return Status::Ok();
  std::shared_ptr<device::Gpu> gpu;
  HVDLITE_RETURN_IF_ERROR(card->Open(entry->input.device.index, &gpu));
  TensorView& output = entry->handle->output;
  output.dtype = entry->request.dtype;
  output.device = entry->input.device;
  output.shape = std::move(shape);
  const Status allocated = entry->handle->AllocateOn(std::move(gpu));
  if (!allocated.ok()) {
    batch->obstacle = allocated;
    return Status::Ok();
  }
  batch->ready.push_back(entry->handle->memory()->there());
  entry->output = output;
  return Status::Ok();
}

// The bytes that a joined member needs for this piece, as input and as output.
size_t StandInBytes(const Piece& piece, DType dtype) {
  const int64_t elements =
      piece.counts.empty() ? piece.count
                           : std::accumulate(piece.counts.begin(), piece.counts.end(), int64_t{0});
  return static_cast<size_t>(elements) * SizeOf(dtype);
}

// Gives the pieces of a joined member their memory. All inputs may be the same zeros. Each output
// needs a place of its own, because many algorithms work in outputs, and pass them on.
Status LendStandIns(Running* running, DType dtype, size_t zeros, size_t ignored, device::Gpu* gpu) {
  const void* nothing = nullptr;
  char* place = nullptr;
  if (gpu == nullptr) {
    running->zeros.assign(zeros, 0);
    running->ignored.resize(ignored);
    nothing = running->zeros.data();
    place = running->ignored.data();
  } else {
    HVDLITE_RETURN_IF_ERROR(gpu->OnDevice(zeros, &running->zeros_on_gpu));
    HVDLITE_RETURN_IF_ERROR(gpu->OnDevice(ignored, &running->ignored_on_gpu));
    HVDLITE_RETURN_IF_ERROR(gpu->Zero(running->zeros_on_gpu->data(), zeros));
    nothing = running->zeros_on_gpu->data();
    place = static_cast<char*>(running->ignored_on_gpu->data());
  }
  Piece* piece = running->batch.pieces.data();
  for (size_t i = 0; i < running->entries.size(); ++i) {
    for (size_t n = TensorsOf(running->responses[i].agreed->request); n > 0; --n, ++piece) {
      if (running->entries[i] != nullptr) continue;
      piece->input = nothing;
      piece->output = place;
      place += StandInBytes(*piece, dtype);
    }
  }
  return Status::Ok();
}

// The pieces of a list. `entry` is null on a joined rank.
void AddPieces(const Request& list, const Entry* entry, std::vector<Piece>* pieces) {
  const Addresses* next = entry == nullptr ? nullptr : entry->list.data();
  ForEachInList(list, [&](const int64_t* shape, size_t dimensions) {
    Piece& piece = pieces->emplace_back();
    piece.count = 1;
    for (size_t d = 0; d < dimensions; ++d) piece.count *= shape[d];
    piece.whole = true;
    if (next == nullptr) return;
    piece.input = next->input;
    piece.output = next->output;
    ++next;
  });
}

// Adds to `ready` the events that the operation waits for.
Status PrepareOnGpu(const ProcessSet& set, comm::gpu::Card* card, Submission* submission,
                    Handle* handle, ProducerEvents* produced_by,
                    std::vector<device::EventPtr>* ready) {
  const Request& request = submission->request;
  std::shared_ptr<device::Gpu> gpu;
  HVDLITE_RETURN_IF_ERROR(card->Open(submission->input.device.index, &gpu));
  const auto wait_for = [&](device::Stream producer) {
    device::EventPtr& produced = (*produced_by)[producer];
    if (produced == nullptr) HVDLITE_RETURN_IF_ERROR(gpu->Record(producer, &produced));
    ready->push_back(produced);
    return Status::Ok();
  };
  HVDLITE_RETURN_IF_ERROR(wait_for(submission->producer));
  for (const device::Stream other : submission->other_producers)
    HVDLITE_RETURN_IF_ERROR(wait_for(other));
  std::optional<Shape> known =
      KnownResult(request, set.group->me, static_cast<int>(set.ranks.size()));
  if (!known || submission->output.data != nullptr) return Status::Ok();
  TensorView& output = handle->output;
  output.dtype = request.dtype;
  output.device = submission->input.device;
  output.shape = *std::move(known);
  HVDLITE_RETURN_IF_ERROR(handle->AllocateOn(std::move(gpu)));
  submission->output = output;
  ready->push_back(handle->memory()->there());
  return Status::Ok();
}

// Every rank draws random numbers of its own, from its seed, the tensor's name and the step.
comm::Coding CodingOf(const std::string& name, const Entry* entry, int rank) {
  comm::Coding coding;
  coding.tensor = kernels::Digest(name.data(), name.size());
  const Feedback feedback = entry == nullptr ? Feedback() : entry->feedback;
  coding.residual = feedback.residual;
  coding.draw = feedback.seed;
  for (const uint64_t part : {coding.tensor, feedback.step, static_cast<uint64_t>(rank)})
    coding.draw = kernels::MixKey(coding.draw, part);
  return coding;
}

}  // namespace

Status MakeEntry(const ProcessSet& set, comm::gpu::Card* card, Submission submission, bool patient,
                 ProducerEvents* produced_by, std::unique_ptr<Entry>* entry) {
  auto made = std::make_unique<Entry>();
  made->handle = std::make_shared<Handle>(std::move(submission.completion), patient);
  if (submission.request.device != DeviceKind::kHost) {
    HVDLITE_RETURN_IF_ERROR(
        PrepareOnGpu(set, card, &submission, made->handle.get(), produced_by, &made->ready));
  }
  made->request = std::move(submission.request);
  made->input = std::move(submission.input);
  made->output = std::move(submission.output);
  made->list = std::move(submission.list);
  made->feedback = submission.feedback;
  made->memory = submission.memory;
  made->offered = submission.offered;
  made->submitted = MonotonicNow();
  *entry = std::move(made);
  return Status::Ok();
}

kernels::ReduceSpec ReductionOf(const Request& request, int members) {
  const bool summed = request.op == ReduceOp::kAverage || request.op == ReduceOp::kAdasum;
  kernels::ReduceSpec spec;
  spec.dtype = request.dtype;
  spec.op = summed ? ReduceOp::kSum : request.op;
  spec.prescale = request.prescale;
  spec.postscale = request.postscale;
  spec.divisor = request.op == ReduceOp::kAverage ? members : 1.0;
  return spec;
}

Status Prepare(ProcessSet* set, Running* running, comm::gpu::Card* card) {
  const int members = static_cast<int>(set->ranks.size());
  const int me = set->group->me;
  const int rank = set->ranks[static_cast<size_t>(me)];
  const Request& like = running->responses[0].agreed->request;
  Batch& batch = running->batch;
  batch.kind = PerformedAs(like.kind);
  batch.dtype = like.dtype;
  batch.root = static_cast<int>(like.root);
  batch.adasum = Has(like.kind, kAdasum) && like.op == ReduceOp::kAdasum;
  batch.reduce = ReductionOf(like, members);

  device::Gpu* const gpu =
      like.device == DeviceKind::kHost ? nullptr : set->in_flight.communicator()->gpu().get();
  if (gpu != nullptr) batch.device = {like.device, gpu->ordinal()};

  size_t tensors = 0;
  for (const Response& response : running->responses)
    tensors += TensorsOf(response.agreed->request);
  batch.pieces.reserve(tensors);
  running->entries.reserve(running->responses.size());
  size_t zeros = 0;
  size_t ignored = 0;
  const auto will_stand_in = [&](const Piece& piece) {
    const size_t bytes = StandInBytes(piece, like.dtype);
    zeros = std::max(zeros, bytes);
    ignored += bytes;
  };
  for (const Response& response : running->responses) {
    batch.identity = kernels::MixKey(batch.identity, response.slot);
    const Request& request = response.agreed->request;
    const auto [entry, tensor] = set->inbox.FindTensor(request.name);
    running->entries.push_back(entry);
    if (tensor >= 0 && running->tensors.empty())
      running->tensors.assign(running->responses.size(), -1);
    if (tensor >= 0) running->tensors[running->entries.size() - 1] = tensor;
    if (request.is_list()) {
      const size_t before = batch.pieces.size();
      AddPieces(request, entry, &batch.pieces);
      if (entry == nullptr) {
        std::for_each(batch.pieces.begin() + static_cast<long>(before), batch.pieces.end(),
                      will_stand_in);
      } else {
        batch.ready.insert(batch.ready.end(), entry->ready.begin(), entry->ready.end());
      }
      continue;
    }
    Piece piece;
    piece.counts = Counts(*response.agreed, members);
    if (piece.counts.empty()) piece.count = NumElements(request.shape);
    if (request.codec.encodes()) {
      batch.codec = request.codec;
      piece.coding = CodingOf(request.name, entry, rank);
    }
    piece.taken = request.taken;
    piece.whole = !request.codec.encodes() && request.taken == 0;
    batch.sparse |= piece.taken > 0;
    if (tensor >= 0) {
      const Addresses& addresses = entry->list[static_cast<size_t>(tensor)];
      piece.input = addresses.input;
      piece.output = addresses.output;
      batch.ready.insert(batch.ready.end(), entry->ready.begin(), entry->ready.end());
    } else if (entry != nullptr) {
      if (piece.taken > 0) piece.memory = &entry->memory;
      Shape mine = ResultShape(*response.agreed, me, members);
      CheckOutput(entry, mine);
      if (gpu != nullptr) {
        HVDLITE_RETURN_IF_ERROR(AllocateOnGpu(entry, std::move(mine), card, &batch));
        batch.ready.insert(batch.ready.end(), entry->ready.begin(), entry->ready.end());
      } else {
        HVDLITE_RETURN_IF_ERROR(AllocateOutput(entry, std::move(mine), rank));
      }
      entry->handle->received_splits = RowsReceived(*response.agreed, me, members);
      piece.input = entry->input.data;
      piece.output = entry->output.data;
    } else {
      will_stand_in(piece);
    }
    batch.pieces.push_back(std::move(piece));
  }
  device::KeepLatest(&batch.ready);
  return ignored > 0 ? LendStandIns(running, like.dtype, zeros, ignored, gpu) : Status::Ok();
}

Request RequestOfPiece(const Running& running, size_t piece) {
  for (const Response& response : running.responses) {
    const Request& request = response.agreed->request;
    const size_t tensors = TensorsOf(request);
    if (piece < tensors) return request.is_list() ? InList(request, piece) : request;
    piece -= tensors;
  }
  return {};
}

}  // namespace hvdlite::engine
