// Entry: an operation that this rank has submitted and that is not done.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "base/clock.h"
#include "base/tensor.h"
#include "engine/complete/completion.h"
#include "engine/complete/handle.h"
#include "engine/message.h"
#include "kernels/select.h"

namespace hvdlite::engine {

// What a rank keeps of an encoded tensor; the ranks need not agree about it.
struct Feedback {
  float* residual = nullptr;  // as many floats as the tensor has elements; null: none
  uint64_t seed = 0;          // of random numbers
  uint64_t step = 0;          // of the tensor: the next operation on it has another
};

// Where one tensor of a list and its result lie.
struct Addresses {
  const void* input = nullptr;
  void* output = nullptr;
};

// A caller's operation. Memory is borrowed until the handle is done.
struct Submission {
  Request request;  // root, splits and name as in Request; the name without the operation's prefix
  TensorView input;
  // data == nullptr: the engine allocates (see Handle::output). Otherwise the result is written
  // there without a copy. It may be the input (allreduce, broadcast), or have the input of an
  // allgather as this rank's rows.
  TensorView output;
  // Of a list: its tensors. `input` and `output` have dtype, device, and the elements of all.
  std::vector<Addresses> list;
  Completion completion;  // a callback instead of waiting
  // The caller will wait for it. Until then only a thread with a free processor works on it.
  bool patient = false;
  device::Stream producer = nullptr;            // on a GPU: the stream that produces the tensors
  std::vector<device::Stream> other_producers;  // of a list
  Feedback feedback;                            // if the request has a codec
  kernels::Selection memory;                    // if the request is sparse: see comm::Piece
  // This rank has offered it in a meeting that has not ended. Without a name of its own it gets its
  // number only if it is announced; until then it is called kOfferedWithoutName.
  bool offered = false;
};
inline const std::string kOfferedWithoutName = "noname.offered";

struct Entry {
  Request request;
  TensorView input;
  TensorView output;
  std::vector<Addresses> list;
  HandlePtr handle;
  std::vector<device::EventPtr> ready;  // on a GPU: the events that must fire first
  Feedback feedback;
  kernels::Selection memory;
  Nanos submitted = 0;
  bool offered = false;    // it is announced only if the meeting ends without it
  bool undecided = false;  // announced, and not yet decided
  size_t ended = 0;        // tensors of a list that is carried out tensor by tensor
  // The output does not fit the result: the other ranks get theirs, the operation fails here. Of a
  // list: its first failure.
  Status misfit;
};

}  // namespace hvdlite::engine
