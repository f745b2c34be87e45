// Codecs on a GPU: the functions of kernels/codec.h for many parts of tensors at once. Each part
// begins with a block. The bytes are those of the processor, and so are values, NaNs apart.
//
// Everything is enqueued on gpu->stream() and not waited for. Device memory must stay valid until
// the stream is past it; the spans only during the call. Floats are aligned as floats; encoded
// memory may begin anywhere. Failure: as in kernels/gpu.h.
#pragma once

#include <cstdint>
#include <vector>

#include "base/status.h"
#include "device/gpu.h"
#include "kernels/codec.h"

namespace hvdlite::kernels {

struct ToEncode {
  Encoded what;
  int64_t elements = 0;
  Draws draws;
  void* encoded = nullptr;  // EncodedBytes(spec, elements)
};
Status EncodeAll(device::Gpu* gpu, const CodecSpec& spec, const std::vector<ToEncode>& parts);

// `add`: values[i] += decoded[i].
struct ToDecode {
  const void* encoded = nullptr;
  float* values = nullptr;
  int64_t elements = 0;
};
Status DecodeAll(device::Gpu* gpu, const CodecSpec& spec, const std::vector<ToDecode>& parts,
                 bool add);

// AddExactly().
struct ToAdd {
  Encoded what;
  float* values = nullptr;
  int64_t elements = 0;
};
Status AddExactlyAll(device::Gpu* gpu, const std::vector<ToAdd>& parts);

// The end of an encoded allreduce: output[i] = the result, and KeepLost(). The result is what
// `result` decodes to; null: `sum`. Lost is `what` minus what `sent` decodes to; null: minus the
// result. `output` may be what.input, and `residual` what.residual.
struct ToSettle {
  Encoded what;
  const void* sent = nullptr;
  const void* result = nullptr;
  const float* sum = nullptr;
  float* residual = nullptr;  // null: nothing is kept
  float* output = nullptr;
  int64_t elements = 0;
};
Status SettleAll(device::Gpu* gpu, const CodecSpec& spec, const std::vector<ToSettle>& parts);

}  // namespace hvdlite::kernels
