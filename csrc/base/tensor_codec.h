// The codecs that make a float32 tensor smaller for the way to other ranks. The numbers travel on
// the wire and through the C ABI. (The byte format of control messages is base/codec.h.)
#pragma once

#include <cstdint>
#include <cstdio>
#include <string>
#include <string_view>

namespace hvdlite {

enum class Codec : uint8_t {
  kNone = 0,
#define HVDLITE_CODEC(enumerator, number, ...) k##enumerator = number,
#include "base/tensor_codecs.def"
#undef HVDLITE_CODEC
};

// A row of tensor_codecs.def.
struct CodecRow {
  std::string_view name;
  std::string_view parameter;  // its name; empty: the codec has none
  double least, most;          // of the parameter
};

namespace internal {
constexpr CodecRow kCodecs[] = {
    {"none", "", 0, 0},
#define HVDLITE_CODEC(enumerator, number, name, parameter, least, most) \
  {name, parameter, least, most},
#include "base/tensor_codecs.def"
#undef HVDLITE_CODEC
};
}  // namespace internal

constexpr int kCodecCount = static_cast<int>(sizeof(internal::kCodecs) / sizeof(CodecRow));

#define HVDLITE_CODEC(enumerator, number, its_name, ...)    \
  static_assert(internal::kCodecs[number].name == its_name, \
                "the rows of tensor_codecs.def stand in the order of their numbers");
#include "base/tensor_codecs.def"
#undef HVDLITE_CODEC

constexpr const CodecRow& Of(Codec codec) {
  return internal::kCodecs[static_cast<int>(codec)];
}

// A codec with its parameter.
struct CodecSpec {
  Codec codec = Codec::kNone;
  double parameter = 0;

  constexpr bool encodes() const { return codec != Codec::kNone; }
  friend constexpr bool operator==(const CodecSpec&, const CodecSpec&) = default;
};

// Whether the parameter lies in the codec's range.
constexpr bool IsValid(const CodecSpec& spec) {
  const CodecRow& row = Of(spec.codec);
  return spec.parameter >= row.least && spec.parameter <= row.most;
}

// "int8", "ternary(clip=2.5)"
inline std::string ToString(const CodecSpec& spec) {
  const CodecRow& row = Of(spec.codec);
  std::string text(row.name);
  if (row.parameter.empty()) return text;
  char number[32];
  std::snprintf(number, sizeof(number), "%.9g", spec.parameter);
  return text + "(" + std::string(row.parameter) + "=" + number + ")";
}

}  // namespace hvdlite
