#include "kernels/gpu_codec.h"

#include <string>

#include "kernels/cuda/launch.h"
#include "kernels/cuda/parameters.h"

namespace hvdlite::kernels {
namespace {

std::string Kernel(const char* what, Codec codec) {
  static constexpr const char* kNames[] = {
      "",
#define HVDLITE_CODEC(enumerator, ...) #enumerator,
#include "base/tensor_codecs.def"
#undef HVDLITE_CODEC
  };
  return std::string("hvdlite_") + what + '_' + kNames[static_cast<int>(codec)];
}

cuda::Summands SummandsOf(const Encoded& what) {
  return {what.input, what.residual, what.scale};
}
const unsigned char* Bytes(const void* encoded) {
  return static_cast<const unsigned char*>(encoded);
}

cuda::EncodeList::Entry EntryOf(const ToEncode& part) {
  return {SummandsOf(part.what), part.elements, part.draws.key, part.draws.block,
          static_cast<unsigned char*>(part.encoded)};
}
cuda::DecodeList::Entry EntryOf(const ToDecode& part) {
  return {Bytes(part.encoded), part.values, part.elements};
}
cuda::AddList::Entry EntryOf(const ToAdd& part) {
  return {SummandsOf(part.what), part.values, part.elements};
}
cuda::SettleList::Entry EntryOf(const ToSettle& part) {
  return {SummandsOf(part.what), Bytes(part.sent), Bytes(part.result), part.sum,
          part.residual,         part.output,      part.elements};
}

// Launches the kernel for all parts, as many at once as `list` has room for.
template <class List, class Part>
Status LaunchAll(device::Gpu* gpu, const std::string& kernel, const std::vector<Part>& parts,
                 List* list) {
  constexpr int kRoom = sizeof(list->entries) / sizeof(list->entries[0]);
  unsigned pieces = 0;
  const auto launch = [&] {
    const Status status = list->count == 0 ? Status::Ok() : cuda::Launch(gpu, kernel, pieces, list);
    list->count = 0;
    pieces = 0;
    return status;
  };
  for (const Part& part : parts) {
    if (part.elements == 0) continue;
    list->entries[list->count] = EntryOf(part);
    list->first_piece[list->count] = pieces;
    ++list->count;
    pieces += cuda::PiecesOf(part.elements, sizeof(float));
    if (list->count == kRoom) HVDLITE_RETURN_IF_ERROR(launch());
  }
  return launch();
}

}  // namespace

Status EncodeAll(device::Gpu* gpu, const CodecSpec& spec, const std::vector<ToEncode>& parts) {
  cuda::EncodeList list = {};
  list.parameter = spec.parameter;
  return LaunchAll(gpu, Kernel("encode", spec.codec), parts, &list);
}

Status DecodeAll(device::Gpu* gpu, const CodecSpec& spec, const std::vector<ToDecode>& parts,
                 bool add) {
  cuda::DecodeList list = {};
  list.parameter = spec.parameter;
  list.add = add ? 1 : 0;
  return LaunchAll(gpu, Kernel("decode", spec.codec), parts, &list);
}

Status AddExactlyAll(device::Gpu* gpu, const std::vector<ToAdd>& parts) {
  cuda::AddList list = {};
  return LaunchAll(gpu, "hvdlite_add_exactly", parts, &list);
}

Status SettleAll(device::Gpu* gpu, const CodecSpec& spec, const std::vector<ToSettle>& parts) {
  cuda::SettleList list = {};
  list.parameter = spec.parameter;
  return LaunchAll(gpu, Kernel("settle", spec.codec), parts, &list);
}

}  // namespace hvdlite::kernels
