// The codecs by number. Names are string literals, so a view of them ends with a NUL.
#include "api/hvdlite.h"
#include "base/tensor_codec.h"
#include "kernels/codec.h"

namespace {

using hvdlite::Codec;

bool IsCodec(int32_t codec) {
  return codec > 0 && codec < hvdlite::kCodecCount;
}

}  // namespace

const char* hvdlite_codec_name(int32_t codec) {
  return IsCodec(codec) ? Of(static_cast<Codec>(codec)).name.data() : nullptr;
}

const char* hvdlite_codec_parameter(int32_t codec) {
  return IsCodec(codec) ? Of(static_cast<Codec>(codec)).parameter.data() : nullptr;
}

int64_t hvdlite_encoded_bytes(int32_t codec, double parameter, int64_t count) {
  if (!IsCodec(codec) || count < 0) return -1;
  const hvdlite::CodecSpec spec{static_cast<Codec>(codec), parameter};
  return IsValid(spec) ? hvdlite::kernels::EncodedBytes(spec, count) : -1;
}
