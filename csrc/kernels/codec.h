// Codecs: float32 tensors in fewer bytes. A codec cuts a tensor into blocks of equal length (the
// last may be shorter) and encodes each block by itself. So the bytes of a block depend neither on
// the other blocks nor on who encodes them.
//
//   encoded   | block 0 | block 1 | ... | last block |      block   | scale (float32)? | codes |
//
// A block with a NaN or an Inf is encoded as "not finite" and decodes to NaNs. All instruction sets
// give the same bytes for the same input, and the same values for the same bytes.
//
// Cost: encoding reads its sources once and writes what it loses once, decoding writes its values
// once; both run at 4 GB/s of float32 or faster on one core (benchmarks/kernels). Thread-safety:
// pure functions.
#pragma once

#include <cstdint>

#include "base/tensor_codec.h"

namespace hvdlite::kernels {

// Elements of a block; a multiple of 16.
int64_t BlockOf(const CodecSpec& spec);
// Bytes of an encoded tensor, or of a part that begins with a block.
int64_t EncodedBytes(const CodecSpec& spec, int64_t count);

// What is encoded: scale * input[i] + residual[i].
struct Encoded {
  const float* input = nullptr;
  const float* residual = nullptr;  // null: zeros
  float scale = 1;
};

// Where the random numbers of stochastic rounding come from: a function of the key, of the block's
// number in the tensor and of the place in the block. Codecs that round to nearest ignore it.
struct Draws {
  uint64_t key = 0;
  int64_t block = 0;  // of the first block here
};

// Encodes `count` elements, which begin with a block. In the same pass it writes what that loses to
// `lost`, unless it is null: lost[i] = (scale * input[i] + residual[i]) - decoded[i]. `lost` may be
// the memory of what.residual. A block that is not finite leaves it as it was.
void Encode(const CodecSpec& spec, const Encoded& what, int64_t count, const Draws& draws,
            void* encoded, float* lost = nullptr);
void Decode(const CodecSpec& spec, const void* encoded, int64_t count, float* values);
// values[i] += decoded[i]
void DecodeAdd(const CodecSpec& spec, const void* encoded, int64_t count, float* values);

// values[i] += what is encoded, without encoding it.
void AddExactly(const Encoded& what, int64_t count, float* values);

// Whether all blocks of a result, the first of which begins here, are finite. A block that is not
// is NaNs alone.
bool IsFinite(const CodecSpec& spec, const float* result, int64_t count);

// What encoding has lost: residual[i] = (scale * input[i] + what.residual[i]) - decoded[i];
// what.residual may be the same memory. Blocks whose `result` is not finite stay as they are: that
// step does not enter them. `count` elements begin with a block.
void KeepLost(const CodecSpec& spec, const Encoded& what, const float* decoded, const float* result,
              int64_t count, float* residual);

// Undoes Encode() with lost == what.residual, in blocks whose `result` is not finite:
// residual[i] = (residual[i] + decoded[i]) - scale * input[i], or 0 where that is no more than
// Encode() may have rounded away. It is the former residual up to 2^-21 (|p| + |decoded[i]|), p
// being what was encoded. Blocks whose `decoded` is not finite are as they were already. `count`
// elements begin with a block.
void TakeBack(const CodecSpec& spec, const Encoded& what, const float* decoded, const float* result,
              int64_t count, float* residual);

// Mixes `more` into a key.
uint64_t MixKey(uint64_t key, uint64_t more);

}  // namespace hvdlite::kernels
