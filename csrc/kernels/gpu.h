// Kernels on a GPU: packing many tensors into one buffer and unpacking it, in one launch each;
// scaling; Adasum. (Those of codecs: kernels/gpu_codec.h.)
//
// They follow the scaling rules of kernels/reduce.h, so that a tensor's result does not depend on
// its device: one step; 16-bit and 32-bit floats in float32; integers in double, truncated and
// saturated; bool is never scaled but made 0 or 1. Everything is enqueued on gpu->stream() and not
// waited for. Device memory must stay valid until the stream is past it; the spans only during the
// call. Failure: kUnsupported when no kernel of this build runs on the device (with the reason);
// otherwise the driver's description.
#pragma once

#include <cstdint>
#include <vector>

#include "base/dtype.h"
#include "base/status.h"
#include "device/gpu.h"
#include "kernels/adasum.h"

namespace hvdlite::kernels {

// Whether kernels of this build run on the device: OK, or kUnsupported with the reason. Loads all
// of them.
Status Usable(device::Gpu* gpu);

// One tensor of a list, and the destination of its elements. The alignment may be that of an
// element; the 16-byte paths need both ends equally aligned. Nothing overlaps, but `to` may be
// `from`.
struct Move {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t elements = 0;
};

// For all moves, to[i] = from[i] scaled by `first` and then by `second`, each in one step (1 is no
// step). `divide` makes the first a division. This packs a fusion buffer, unpacks it, and scales in
// place.
struct Scaling {
  DType dtype = DType::kFloat32;
  double first = 1.0;
  bool divide = false;
  double second = 1.0;
};
Status MoveScaled(device::Gpu* gpu, const Scaling& scaling, const std::vector<Move>& moves);

// Adasum of pairs of vectors, for floating types as in kernels/adasum.h. The dots are in device
// memory, one for each pair. They round differently from the processor's, but all GPUs give the
// same bits, however the vectors are aligned. `room`: AdasumRoom() bytes of device memory, in use
// until the stream is past them.
struct Pair {
  void* a = nullptr;
  const void* b = nullptr;
  int64_t elements = 0;
};
Status AdasumDotAll(device::Gpu* gpu, DType dtype, const std::vector<Pair>& pairs, AdasumDots* dots,
                    void* room);
// The most bytes that the dots need for this many pairs whose a's have `bytes` bytes in all.
size_t AdasumRoom(size_t pairs, size_t bytes);
// a = coefficient(dots.aa) * a + coefficient(dots.bb) * b. `swapped`: the dots are those of (b, a).
Status AdasumCombineAll(device::Gpu* gpu, DType dtype, const std::vector<Pair>& pairs,
                        const AdasumDots* dots, bool swapped);

}  // namespace hvdlite::kernels
