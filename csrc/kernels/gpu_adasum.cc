#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/parameters.h"
#include "kernels/gpu.h"

namespace hvdlite::kernels {
namespace {

static_assert(sizeof(AdasumDots) == 3 * sizeof(double), "the kernels write three doubles");

// Calls run(list, number of pieces) for groups of as many pairs as one launch takes.
template <class Run>
Status EachList(DType dtype, const std::vector<Pair>& pairs, AdasumDots* dots, const Run& run) {
  for (size_t begin = 0; begin < pairs.size(); begin += cuda::kEntries) {
    cuda::PairList list = {};
    unsigned pieces = 0;
    for (size_t i = begin; i < pairs.size() && list.count < cuda::kEntries; ++i) {
      list.entries[list.count] = {pairs[i].a, pairs[i].b, pairs[i].elements};
      pieces += cuda::PiecesOf(pairs[i].elements, SizeOf(dtype));
      list.first_piece[++list.count] = pieces;
    }
    list.pairs = &dots[begin].ab;
    HVDLITE_RETURN_IF_ERROR(run(&list, pieces));
  }
  return Status::Ok();
}

std::string Kernel(const char* what, DType dtype) {
  return std::string("hvdlite_adasum_") + what + '_' + std::string(Name(dtype));
}

}  // namespace

size_t AdasumRoom(size_t pairs, size_t bytes) {
  return (pairs + bytes / cuda::kPieceBytes) * sizeof(AdasumDots);
}

// All lists use the same room, one after another.
Status AdasumDotAll(device::Gpu* gpu, DType dtype, const std::vector<Pair>& pairs, AdasumDots* dots,
                    void* room) {
  return EachList(dtype, pairs, dots, [&](cuda::PairList* list, unsigned pieces) {
    list->pieces = static_cast<double*>(room);
    if (pieces > 0) HVDLITE_RETURN_IF_ERROR(cuda::Launch(gpu, Kernel("dot", dtype), pieces, list));
    return cuda::Launch(gpu, "hvdlite_adasum_sum", static_cast<unsigned>(list->count), list);
  });
}

Status AdasumCombineAll(device::Gpu* gpu, DType dtype, const std::vector<Pair>& pairs,
                        const AdasumDots* dots, bool swapped) {
  // The cast is safe: this kernel only reads the dots.
  return EachList(
      dtype, pairs, const_cast<AdasumDots*>(dots), [&](cuda::PairList* list, unsigned pieces) {
        list->swapped = swapped ? 1 : 0;
        return pieces > 0 ? cuda::Launch(gpu, Kernel("blend", dtype), pieces, list) : Status::Ok();
      });
}

}  // namespace hvdlite::kernels
