// MoveScaled against kernels/reduce.h: the same bits on a GPU as on the processor.
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "kernels/gpu.h"
#include "kernels/gpu/on_gpu.h"
#include "kernels/reduce.h"
#include "kernels/reference.h"

namespace hvdlite::kernels {
namespace {

constexpr size_t kGuard = 64;          // bytes around every tensor, which nobody may touch
constexpr int64_t kPiece = 32 * 1024;  // bytes: see kernels/cuda/parameters.h

struct Tensor {
  int64_t elements;
  int from_past, to_past;  // elements past a boundary of 16 bytes
};

Bytes RandomBytes(DType dtype, size_t bytes, uint64_t seed) {
  Bytes data(bytes);
  const int64_t size = static_cast<int64_t>(SizeOf(dtype));
  reference::Filler(seed).Fill(dtype, data.data(), static_cast<int64_t>(bytes) / size);
  return data;
}

Bytes Expected(const Scaling& scaling, const Bytes& from) {
  Bytes to(from.size());
  ReduceSpec spec;
  spec.dtype = scaling.dtype;
  (scaling.divide ? spec.divisor : spec.prescale) = scaling.first;
  spec.postscale = scaling.second;
  const void* const sources[1] = {from.data()};
  Reduce(spec, to.data(), nullptr, sources, 1,
         static_cast<int64_t>(from.size() / SizeOf(scaling.dtype)));
  return to;
}

class MoveTest : public OnGpu {
 protected:
  // Moves all tensors in one call and compares each with what the processor makes of it.
  void MoveAndCompare(const Scaling& scaling, const std::vector<Tensor>& tensors, bool in_place) {
    const size_t size = SizeOf(scaling.dtype);
    struct Place {
      Bytes from, to;
      uint8_t *at_from, *at_to;
      size_t begin_from, begin_to, bytes;
    };
    std::vector<Place> places;
    std::vector<Move> moves;
    for (const Tensor& tensor : tensors) {
      Place place;
      place.bytes = static_cast<size_t>(tensor.elements) * size;
      place.begin_from = kGuard + static_cast<size_t>(tensor.from_past) * size;
      place.begin_to =
          in_place ? place.begin_from : kGuard + static_cast<size_t>(tensor.to_past) * size;
      place.from = RandomBytes(scaling.dtype, place.begin_from + place.bytes + kGuard, ++seed_);
      place.to = in_place
                     ? place.from
                     : RandomBytes(scaling.dtype, place.begin_to + place.bytes + kGuard, ++seed_);
      place.at_from = Upload(place.from);
      place.at_to = in_place ? place.at_from : Upload(place.to);
      moves.push_back(
          {place.at_from + place.begin_from, place.at_to + place.begin_to, tensor.elements});
      places.push_back(std::move(place));
    }
    Check(MoveScaled(gpu_.get(), scaling, moves));
    for (size_t i = 0; i < places.size(); ++i) {
      const Place& place = places[i];
      const auto begin = place.from.begin() + static_cast<std::ptrdiff_t>(place.begin_from);
      const Bytes expected =
          Expected(scaling, {begin, begin + static_cast<std::ptrdiff_t>(place.bytes)});
      const Bytes got = Download(place.at_to, place.to.size());
      ASSERT_EQ(reference::FirstDifference(scaling.dtype, got.data() + place.begin_to,
                                           expected.data(), tensors[i].elements),
                -1)
          << Name(scaling.dtype) << ", " << tensors[i].elements << " elements, past a boundary by "
          << tensors[i].from_past << " and " << tensors[i].to_past << ", * or / " << scaling.first
          << " * " << scaling.second;
      for (size_t k = 0; k < got.size(); ++k) {
        if (k >= place.begin_to && k < place.begin_to + place.bytes) continue;
        ASSERT_EQ(got[k], place.to[k]) << "touched what is not its own: byte " << k;
      }
    }
  }

 private:
  uint64_t seed_ = 0;
};

std::vector<DType> AllDTypes() {
  std::vector<DType> all;
  for (int i = 0; i < kDTypeCount; ++i) all.push_back(static_cast<DType>(i));
  return all;
}

// All small sizes and those about the borders of pieces, at every distance from a boundary that
// their bytes allow.
std::vector<Tensor> OddTensors(DType dtype) {
  const int size = static_cast<int>(SizeOf(dtype)), per_vector = 16 / size;
  const int64_t per_piece = kPiece / size;
  std::vector<Tensor> tensors;
  for (int past = 0; past < per_vector; ++past) {
    for (const int64_t elements : {0, 1, 2, 3, 15, 16, 17, 33, 100}) {
      tensors.push_back({elements, past, past});
      tensors.push_back({elements, past, (past + 1) % per_vector});
    }
  }
  for (const int64_t elements : {per_piece - 1, per_piece, per_piece + 1, 2 * per_piece + 5}) {
    tensors.push_back({elements, 0, 0});
    tensors.push_back({elements, 1 % per_vector, 1 % per_vector});
    tensors.push_back({elements, 0, 1 % per_vector});
  }
  return tensors;
}

TEST_F(MoveTest, CopiesEveryTypeBitByBit) {
  for (const DType dtype : AllDTypes()) {
    if (dtype == DType::kBool) continue;
    MoveAndCompare({.dtype = dtype}, OddTensors(dtype), false);
    if (HasFatalFailure()) return;
  }
}

TEST_F(MoveTest, ABoolBecomesZeroOrOneWhateverTheFactors) {
  MoveAndCompare({.dtype = DType::kBool}, OddTensors(DType::kBool), false);
  MoveAndCompare({.dtype = DType::kBool, .first = 3.0, .divide = true, .second = 0.0},
                 OddTensors(DType::kBool), true);
}

TEST_F(MoveTest, ScalesEveryTypeAsTheProcessorDoes) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  for (const DType dtype : AllDTypes()) {
    for (const Scaling& scaling :
         {Scaling{dtype, 0.3, false, 1.0}, Scaling{dtype, 3.0, true, 1.0},
          Scaling{dtype, 7.0, true, -1.7}, Scaling{dtype, 1.0, true, 1e4},
          Scaling{dtype, 0.0, true, 2.0}, Scaling{dtype, 0.0, false, 1.0},
          Scaling{dtype, 1e-3, false, 1e300}, Scaling{dtype, nan, false, 1.0}}) {
      MoveAndCompare(scaling, {{3000, 0, 0}, {3000, 1, 0}}, false);
      if (HasFatalFailure()) return;
    }
  }
}

// A GPU does not divide, but it rounds as a division does.
TEST_F(MoveTest, DividesEveryMantissaAsTheProcessorDoes) {
  constexpr uint32_t kMantissas = 1 << 23;
  std::vector<float> values(kMantissas);
  for (uint32_t mantissa = 0; mantissa < kMantissas; ++mantissa) {
    const uint32_t bits = 0x3f800000U | mantissa;
    std::memcpy(&values[mantissa], &bits, sizeof(bits));
  }
  Bytes bytes(values.size() * sizeof(float));
  std::memcpy(bytes.data(), values.data(), bytes.size());
  uint8_t* const from = Upload(bytes);
  uint8_t* const to = Upload(bytes);
  for (const double divisor : {3.0, 7.0, 33.0, 1023.0, 1.9999998807907104}) {
    const Scaling scaling{DType::kFloat32, divisor, true, 1.0};
    Check(MoveScaled(gpu_.get(), scaling, {{from, to, int64_t{kMantissas}}}));
    ASSERT_EQ(Download(to, bytes.size()), Expected(scaling, bytes)) << "divided by " << divisor;
  }
}

TEST_F(MoveTest, ScalesOddSizesInPlace) {
  for (const DType dtype : AllDTypes()) {
    MoveAndCompare({dtype, 3.0, true, 0.7}, OddTensors(dtype), true);
    if (HasFatalFailure()) return;
  }
}

TEST_F(MoveTest, AListLongerThanALaunchTakes) {
  std::vector<Tensor> tensors;
  for (int i = 0; i < 300; ++i) tensors.push_back({i % 7 == 0 ? 0 : 5 * i % 23, i % 4, i % 3});
  tensors.push_back({100'000, 0, 0});
  MoveAndCompare({.dtype = DType::kFloat32, .first = 0.5}, tensors, false);
}

TEST_F(MoveTest, NothingIsLaunchedForNothing) {
  Check(MoveScaled(gpu_.get(), {.dtype = DType::kFloat32}, {}));
  Check(MoveScaled(gpu_.get(), {.dtype = DType::kFloat32, .first = 2.0}, {{nullptr, nullptr, 0}}));
  Synchronize();
}

}  // namespace
}  // namespace hvdlite::kernels
