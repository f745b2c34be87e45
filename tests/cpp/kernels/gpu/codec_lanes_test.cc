// The codecs' kernels for GPUs with a thread of this processor for each thread of a block. The fake
// GPU's blocks have one thread, so it cannot show a barrier that is missing. Here a missing barrier
// is a wrong byte, and under the thread sanitizer a data race.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <barrier>
#include <random>
#include <vector>

#include "fake_gpu/cuda_bits.h"
#include "kernels/codec.h"
#include "testing/in_threads.h"

// What the kernels need of CUDA's language.
#define __shared__ static
struct Dimension {
  unsigned x;
};
constexpr Dimension blockDim{64};
thread_local Dimension threadIdx{0};
thread_local Dimension blockIdx{0};

constexpr unsigned kLanes = 32;
inline void __syncwarp() {
  static std::array<std::barrier<>, blockDim.x / kLanes> warps{std::barrier<>(kLanes),
                                                               std::barrier<>(kLanes)};
  warps[threadIdx.x / kLanes].arrive_and_wait();
}

#include "kernels/cuda/codecs.cuh"

namespace hvdlite::kernels {
namespace {

using Kernel = void (*)(const cuda::EncodeList&);
using Unkernel = void (*)(const cuda::DecodeList&);

struct Kernels {
  Kernel encode;
  Unkernel decode;
};
constexpr Kernels kKernels[] = {
    {nullptr, nullptr},
#define HVDLITE_CODEC(Codec, ...) \
  {&cuda::EncodePiece<cuda::Codec>, &cuda::DecodePiece<cuda::Codec>},
#include "base/tensor_codecs.def"
#undef HVDLITE_CODEC
};

template <class List>
void Launch(void (*kernel)(const List&), const List& list, unsigned blocks) {
  InThreads(blockDim.x, [&](unsigned thread) {
    threadIdx.x = thread;
    for (unsigned block = 0; block < blocks; ++block) {
      blockIdx.x = block;
      kernel(list);
    }
  });
}

TEST(GpuCodecLanes, GiveTheBytesAndValuesOfTheProcessor) {
  constexpr int64_t kElements = 8192 + 2 * 1024 + 333;
  constexpr unsigned kPieces = 2;
  std::mt19937 random(1);
  std::normal_distribution<float> normal;
  std::vector<float> input(kElements), residual(kElements);
  for (float& value : input) value = normal(random);
  for (float& value : residual) value = normal(random) / 3;
  // The magnitudes of a whole block and of the last, short one have no finite sum.
  for (const int64_t begin : {int64_t{1024}, kElements - 333})
    for (int64_t i = begin; i < std::min(begin + 1024, kElements); ++i)
      input[static_cast<size_t>(i)] = i % 3 == 0 ? -3e38F : 3e38F;
  for (int number = 1; number < kCodecCount; ++number) {
    const CodecSpec spec{static_cast<Codec>(number), Of(static_cast<Codec>(number)).most};
    std::vector<uint8_t> want(static_cast<size_t>(EncodedBytes(spec, kElements))), got(want.size());
    Encode(spec, {input.data(), residual.data(), 0.5F}, kElements, {7, 3}, want.data());
    cuda::EncodeList to = {};
    to.entries[0] = {{input.data(), residual.data(), 0.5F}, kElements, 7, 3, got.data()};
    to.count = 1;
    to.parameter = spec.parameter;
    Launch(kKernels[number].encode, to, kPieces);
    EXPECT_EQ(got, want) << ToString(spec);

    std::vector<float> values(kElements), decoded(kElements);
    Decode(spec, want.data(), kElements, values.data());
    cuda::DecodeList from = {};
    from.entries[0] = {want.data(), decoded.data(), kElements};
    from.count = 1;
    from.parameter = spec.parameter;
    Launch(kKernels[number].decode, from, kPieces);
    EXPECT_EQ(decoded, values) << ToString(spec);
  }
}

}  // namespace
}  // namespace hvdlite::kernels
