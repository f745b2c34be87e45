#include "kernels/gpu.h"

#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/parameters.h"

namespace hvdlite::kernels {
namespace {

bool ChangesNothing(const Scaling& scaling) {
  return scaling.dtype != DType::kBool && scaling.first == 1.0 && scaling.second == 1.0;
}

// A copy depends only on the size of an element.
std::string MoveKernel(const Scaling& scaling) {
  if (scaling.dtype == DType::kBool) return "hvdlite_normalise_bool";
  if (ChangesNothing(scaling)) return "hvdlite_copy_" + std::to_string(SizeOf(scaling.dtype));
  return "hvdlite_scale_" + std::string(Name(scaling.dtype));
}

}  // namespace

// Loads all kernels at once, before NCCL is used. The driver may wait for the whole device when it
// loads a kernel. It would then wait for NCCL, and so for a rank that may wait for this one in the
// same way.
Status Usable(device::Gpu* gpu) {
  device::Function function = nullptr;
#define HVDLITE_KERNEL(name, Parameters, ...) \
  HVDLITE_RETURN_IF_ERROR(cuda::Load(gpu, #name, &function));
#include "kernels/cuda/kernels.def"
#undef HVDLITE_KERNEL
  return Status::Ok();
}

Status MoveScaled(device::Gpu* gpu, const Scaling& scaling, const std::vector<Move>& moves) {
  const std::string kernel = MoveKernel(scaling);
  cuda::MoveList list;
  list.divide = scaling.divide ? 1 : 0;
  list.first = scaling.first;
  list.second = scaling.second;
  list.count = 0;
  unsigned pieces = 0;
  const auto launch = [&] {
    if (list.count == 0) return Status::Ok();
    const Status status = cuda::Launch(gpu, kernel, pieces, &list);
    list.count = 0;
    pieces = 0;
    return status;
  };
  for (const Move& move : moves) {
    if (move.elements == 0 || (move.from == move.to && ChangesNothing(scaling))) continue;
    list.entries[list.count] = {move.from, move.to, move.elements};
    list.first_piece[list.count] = pieces;
    ++list.count;
    pieces += cuda::PiecesOf(move.elements, SizeOf(scaling.dtype));
    if (list.count == cuda::kEntries) HVDLITE_RETURN_IF_ERROR(launch());
  }
  return launch();
}

}  // namespace hvdlite::kernels
