// Kernels on a GPU: many tensors into one buffer and back, in one launch each; scaling; Adasum.
//
// They follow the scaling rules of kernels/reduce.h (one step: floats of 16 and 32 bits in float32,
// integers in double, truncated and saturated; bool is never scaled but made 0 or 1), so that a
// tensor's result does not depend on where it lies. Everything is put on gpu->stream() and not
// waited for; what is pointed to by device addresses stays valid until then, the spans themselves
// only during the call. Failure: kUnsupported when no kernel of this build runs on the device (the
// sentence says why); the driver's words otherwise.
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

// One tensor of a list, and where its elements go. Any alignment of a whole element; the 16-byte
// paths need both ends alike. Nothing overlaps, but `to` may be `from`.
struct Move {
  const void* from = nullptr;
  void* to = nullptr;
  int64_t elements = 0;
};

// to[i] = from[i] scaled by `first` and then by `second`, each one step (1 is no step), for all
// moves. `divide` makes the first a division. Packs a fusion buffer, unpacks it, and scales in
// place.
struct Scaling {
  DType dtype = DType::kFloat32;
  double first = 1.0;
  bool divide = false;
  double second = 1.0;
};
Status MoveScaled(device::Gpu* gpu, const Scaling& scaling, const std::vector<Move>& moves);

// Adasum of pairs of vectors, as kernels/adasum.h has it for floating types. The dots are in device
// memory, one for each pair; they round differently from the processor's, but all GPUs give the
// same bits, however the vectors are aligned. `room`: device memory for AdasumRoom() bytes, of use
// until the stream has come past it.
struct Pair {
  void* a = nullptr;
  const void* b = nullptr;
  int64_t elements = 0;
};
Status AdasumDotAll(device::Gpu* gpu, DType dtype, const std::vector<Pair>& pairs, AdasumDots* dots,
                    void* room);
// What the dots of so many pairs, whose a's have so many bytes in all, take at most.
size_t AdasumRoom(size_t pairs, size_t bytes);
// a = coefficient(dots.aa) * a + coefficient(dots.bb) * b. `swapped`: the dots are those of (b, a).
Status AdasumCombineAll(device::Gpu* gpu, DType dtype, const std::vector<Pair>& pairs,
                        const AdasumDots* dots, bool swapped);

}  // namespace hvdlite::kernels
