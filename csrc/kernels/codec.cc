#include "kernels/codec.h"

#include <algorithm>

#include "kernels/cpu/codec.h"
#include "kernels/cpu/dispatch.h"

namespace hvdlite::kernels {

namespace {

// Calls visit(begin, end) for the blocks whose result is finite. A block that is not decodes to
// NaNs alone.
template <class Visit>
void FiniteBlocks(const CodecSpec& spec, const float* result, int64_t count, Visit visit) {
  const int64_t block = BlockOf(spec);
  for (int64_t at = 0; at < count; at += block) {
    if (result[at] == result[at]) visit(at, std::min(count, at + block));
  }
}

}  // namespace

int64_t BlockOf(const CodecSpec& spec) {
  return cpu::ActiveTable().codecs[static_cast<int>(spec.codec)].block;
}

int64_t EncodedBytes(const CodecSpec& spec, int64_t count) {
  return cpu::EncodedBytes(cpu::ActiveTable(), spec, count);
}

void Encode(const CodecSpec& spec, const Encoded& what, int64_t count, const Draws& draws,
            void* encoded) {
  cpu::Encode(cpu::ActiveTable(), spec, what, count, draws, encoded);
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

void KeepLost(const CodecSpec& spec, const Encoded& what, const float* decoded, const float* result,
              int64_t count, float* residual) {
  FiniteBlocks(spec, result, count, [&](int64_t begin, int64_t end) {
    for (int64_t i = begin; i < end; ++i) {
      const float kept = what.residual == nullptr ? 0 : what.residual[i];
      residual[i] = (what.input[i] * what.scale + kept) - decoded[i];
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
                 int64_t count, const Draws& draws, void* encoded) {
  EncodeArgs args;
  args.input = what.input;
  args.residual = what.residual;
  args.scale = what.scale;
  args.count = count;
  args.parameter = spec.parameter;
  args.key = draws.key;
  args.block = static_cast<uint64_t>(draws.block);
  args.encoded = static_cast<uint8_t*>(encoded);
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
