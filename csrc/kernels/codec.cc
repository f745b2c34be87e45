#include "kernels/codec.h"

#include <algorithm>
#include <cmath>

#include "kernels/cpu/codec.h"
#include "kernels/cpu/dispatch.h"

namespace hvdlite::kernels {

namespace {

// Calls visit(begin, end, finite) for each block of a result. A block that is not finite is NaNs
// alone.
template <class Visit>
void EachBlock(const CodecSpec& spec, const float* result, int64_t count, Visit visit) {
  const int64_t block = BlockOf(spec);
  for (int64_t at = 0; at < count; at += block)
    visit(at, std::min(count, at + block), result[at] == result[at]);
}

}  // namespace

int64_t BlockOf(const CodecSpec& spec) {
  return cpu::ActiveTable().codecs[static_cast<int>(spec.codec)].block;
}

int64_t EncodedBytes(const CodecSpec& spec, int64_t count) {
  return cpu::EncodedBytes(cpu::ActiveTable(), spec, count);
}

void Encode(const CodecSpec& spec, const Encoded& what, int64_t count, const Draws& draws,
            void* encoded, float* lost) {
  cpu::Encode(cpu::ActiveTable(), spec, what, count, draws, encoded, lost);
}

void Decode(const CodecSpec& spec, const void* encoded, int64_t count, float* values) {
  cpu::Decode(cpu::ActiveTable(), spec, encoded, count, values, /*add=*/false);
}

void DecodeAdd(const CodecSpec& spec, const void* encoded, int64_t count, float* values) {
  cpu::Decode(cpu::ActiveTable(), spec, encoded, count, values, /*add=*/true);
}

void AddExactly(const Encoded& what, int64_t count, float* values) {
  if (what.residual == nullptr) {
    for (int64_t i = 0; i < count; ++i) values[i] += what.input[i] * what.scale;
  } else {
    for (int64_t i = 0; i < count; ++i) values[i] += what.input[i] * what.scale + what.residual[i];
  }
}

bool IsFinite(const CodecSpec& spec, const float* result, int64_t count) {
  bool all = true;
  EachBlock(spec, result, count, [&](int64_t, int64_t, bool finite) { all &= finite; });
  return all;
}

void KeepLost(const CodecSpec& spec, const Encoded& what, const float* decoded, const float* result,
              int64_t count, float* residual) {
  EachBlock(spec, result, count, [&](int64_t begin, int64_t end, bool finite) {
    if (!finite) return;
    for (int64_t i = begin; i < end; ++i) {
      const float kept = what.residual == nullptr ? 0 : what.residual[i];
      residual[i] = (what.input[i] * what.scale + kept) - decoded[i];
    }
  });
}

void TakeBack(const CodecSpec& spec, const Encoded& what, const float* decoded, const float* result,
              int64_t count, float* residual) {
  EachBlock(spec, result, count, [&](int64_t begin, int64_t end, bool finite) {
    if (finite || decoded[begin] != decoded[begin]) return;
    for (int64_t i = begin; i < end; ++i) {
      const float encoded = residual[i] + decoded[i];
      const float before = encoded - what.input[i] * what.scale;
      const float rounding = 0x1p-22F * (std::fabs(encoded) + std::fabs(decoded[i]));
      residual[i] = std::isfinite(before) && std::fabs(before) > rounding ? before : 0;
    }
  });
}

// The steps of SplitMix64.
uint64_t MixKey(uint64_t key, uint64_t more) {
  uint64_t x = key ^ (more + 0x9E3779B97F4A7C15u);
  x = (x ^ (x >> 30)) * 0xBF58476D1CE4E5B9u;
  x = (x ^ (x >> 27)) * 0x94D049BB133111EBu;
  return x ^ (x >> 31);
}

int64_t cpu::EncodedBytes(const KernelTable& table, const CodecSpec& spec, int64_t count) {
  const KernelTable::CodecKernel& kernel = table.codecs[static_cast<int>(spec.codec)];
  const int64_t whole = count / kernel.block;
  const int rest = static_cast<int>(count % kernel.block);
  return whole * kernel.bytes(spec.parameter, kernel.block) +
         (rest > 0 ? kernel.bytes(spec.parameter, rest) : 0);
}

void cpu::Encode(const KernelTable& table, const CodecSpec& spec, const Encoded& what,
                 int64_t count, const Draws& draws, void* encoded, float* lost) {
  EncodeArgs args;
  args.input = what.input;
  args.residual = what.residual;
  args.scale = what.scale;
  args.count = count;
  args.parameter = spec.parameter;
  args.key = draws.key;
  args.block = static_cast<uint64_t>(draws.block);
  args.encoded = static_cast<uint8_t*>(encoded);
  args.lost = lost;
  table.codecs[static_cast<int>(spec.codec)].encode(args);
}

void cpu::Decode(const KernelTable& table, const CodecSpec& spec, const void* encoded,
                 int64_t count, float* values, bool add) {
  DecodeArgs args;
  args.encoded = static_cast<const uint8_t*>(encoded);
  args.count = count;
  args.parameter = spec.parameter;
  args.add = add;
  args.values = values;
  table.codecs[static_cast<int>(spec.codec)].decode(args);
}

}  // namespace hvdlite::kernels
