// EncodeAll and DecodeAll against kernels/codec.h: the same bytes on a GPU as on the processor.
#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <string>

#include "kernels/codec.h"
#include "kernels/gpu/on_gpu.h"
#include "kernels/gpu_codec.h"

namespace hvdlite::kernels {
namespace {

constexpr CodecSpec kSpecs[] = {
    {Codec::kInt8, 0},      {Codec::kFp8, 0},         {Codec::kSign, 0}, {Codec::kTernary, 2.5},
    {Codec::kTernary, 0.5}, {Codec::kThreshold, 0.5}, {Codec::kQsgd, 7}, {Codec::kQsgd, 127}};
constexpr size_t kAround = 48;  // bytes around what is written

// Random numbers whose size differs from stretch to stretch: ordinary, tiny, huge, zeros, and some
// with an element that is no number.
std::vector<float> Values(size_t count, unsigned seed) {
  static const float kSizes[] = {1, 1e-3F, 0, 1e-37F, 1, 1e-42F, 3e38F, 1};
  static const float kOdd[] = {
      std::numeric_limits<float>::infinity(), -std::numeric_limits<float>::infinity(),
      std::numeric_limits<float>::quiet_NaN(), -std::numeric_limits<float>::quiet_NaN()};
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> values(count);
  for (size_t i = 0; i < count; ++i) {
    const size_t stretch = i / 700;
    values[i] = std::fmin(normal(random), 1.1F) * kSizes[(stretch + seed) % 8];
    if (i % 97 == 0) values[i] = std::nearbyint(values[i] * 4) / 4;  // ties
    if (stretch % 9 == 8 && i % 700 == 300) values[i] = kOdd[seed++ % 4];
  }
  return values;
}

Bytes BytesOf(const std::vector<float>& values) {
  Bytes bytes(values.size() * sizeof(float));
  if (!values.empty()) std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

// One part of a tensor: `past` elements and bytes past a boundary of 16 bytes.
struct Part {
  int64_t elements;
  int past;
  bool has_residual;
  float scale;
};

// All lengths about the borders of codes, blocks and pieces; more than a launch takes.
std::vector<Part> Parts(int64_t block) {
  std::vector<Part> parts;
  for (const int64_t elements :
       {int64_t{1}, int64_t{2}, int64_t{3}, int64_t{7}, int64_t{9}, int64_t{31}, int64_t{33},
        block - 1, block, block + 1, 5 * block + 17, int64_t{8191}, int64_t{8193}, int64_t{0}}) {
    for (int past = 0; past < 5; past += 1 + static_cast<int>(elements) % 3)
      parts.push_back({elements, past, past % 2 == 1, past < 3 ? 1.0F : 0.3F});
  }
  for (int i = 0; i < 60; ++i) parts.push_back({i % 11, i % 3, i % 4 == 0, 1});
  parts.push_back({100'003, 1, true, 0.125F});
  return parts;
}

class GpuCodecTest : public OnGpu {
 protected:
  struct Case {
    std::vector<float> input, residual;
    Encoded what;  // on the processor
    Draws draws;
    Bytes encoded;
  };
  // What the processor encodes.
  static Case Make(const CodecSpec& spec, const Part& part, unsigned seed) {
    Case made{
        Values(static_cast<size_t>(part.elements), seed), {}, {}, {seed * 77ULL, seed % 5}, {}};
    if (part.has_residual) made.residual = Values(static_cast<size_t>(part.elements), seed + 3);
    made.what = {made.input.data(), part.has_residual ? made.residual.data() : nullptr, part.scale};
    made.encoded.resize(static_cast<size_t>(EncodedBytes(spec, part.elements)));
    Encode(spec, made.what, part.elements, made.draws, made.encoded.data());
    return made;
  }
  const float* UploadFloats(const std::vector<float>& values, int past) {
    std::vector<float> shifted(static_cast<size_t>(past), 99);
    shifted.insert(shifted.end(), values.begin(), values.end());
    return reinterpret_cast<const float*>(Upload(BytesOf(shifted))) + past;
  }
  std::vector<float> DownloadFloats(const float* from, size_t count) {
    const Bytes bytes = Download(from, count * sizeof(float));
    std::vector<float> values(count);
    if (count > 0) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
};

TEST_F(GpuCodecTest, EncodesToTheBytesOfTheProcessor) {
  for (const CodecSpec& spec : kSpecs) {
    const std::vector<Part> parts = Parts(BlockOf(spec));
    std::vector<Case> cases;
    std::vector<ToEncode> work;
    for (const Part& part : parts) {
      cases.push_back(Make(spec, part, static_cast<unsigned>(cases.size())));
      const Case& made = cases.back();
      Encoded what = made.what;
      what.input = UploadFloats(made.input, part.past);
      if (part.has_residual) what.residual = UploadFloats(made.residual, part.past + 1);
      const Bytes there(2 * kAround + made.encoded.size(), kRubbish);
      work.push_back({what, part.elements, made.draws, Upload(there) + kAround + part.past});
    }
    Check(EncodeAll(gpu_.get(), spec, work));
    for (size_t i = 0; i < parts.size(); ++i) {
      const auto past = static_cast<size_t>(parts[i].past);
      Bytes want(kAround + past, kRubbish);
      want.insert(want.end(), cases[i].encoded.begin(), cases[i].encoded.end());
      want.insert(want.end(), kAround - past, kRubbish);
      const uint8_t* const begin = static_cast<uint8_t*>(work[i].encoded) - kAround - past;
      ASSERT_EQ(Download(begin, want.size()), want)
          << ToString(spec) << ", " << parts[i].elements << " elements, case " << i;
    }
    Forget();
  }
}

// Any NaN is as good as another.
void ExpectSameFloats(const std::vector<float>& got, const std::vector<float>& want,
                      const std::string& what) {
  for (size_t i = 0; i < want.size(); ++i) {
    if (std::isnan(want[i]) && std::isnan(got[i])) continue;
    ASSERT_EQ(std::memcmp(&got[i], &want[i], sizeof(float)), 0)
        << what << ": element " << i << " is " << got[i] << " instead of " << want[i];
  }
}

TEST_F(GpuCodecTest, DecodesToTheValuesOfTheProcessor) {
  for (const CodecSpec& spec : kSpecs) {
    for (const bool add : {false, true}) {
      const std::vector<Part> parts = Parts(BlockOf(spec));
      std::vector<Case> cases;
      std::vector<std::vector<float>> before;
      std::vector<ToDecode> work;
      for (const Part& part : parts) {
        cases.push_back(Make(spec, part, static_cast<unsigned>(cases.size())));
        // One element more, which stays as it is.
        before.push_back(Values(static_cast<size_t>(part.elements) + 1, 1000));
        Bytes shifted(static_cast<size_t>(part.past), kRubbish);
        shifted.insert(shifted.end(), cases.back().encoded.begin(), cases.back().encoded.end());
        work.push_back({Upload(shifted) + part.past,
                        const_cast<float*>(UploadFloats(before.back(), part.past)), part.elements});
      }
      Check(DecodeAll(gpu_.get(), spec, work, add));
      for (size_t i = 0; i < parts.size(); ++i) {
        std::vector<float> want = before[i];
        const auto decode = add ? &DecodeAdd : &Decode;
        decode(spec, cases[i].encoded.data(), parts[i].elements, want.data());
        ExpectSameFloats(DownloadFloats(work[i].values, want.size()), want,
                         ToString(spec) + (add ? " added" : ""));
        if (HasFatalFailure()) return;
      }
      Forget();
    }
  }
}

// Each of the ways that an encoded allreduce ends, with memory of its own and in place.
TEST_F(GpuCodecTest, SettlesAsTheProcessorDoes) {
  for (const CodecSpec& spec : kSpecs) {
    for (const bool has_sent : {false, true}) {
      for (const bool has_result : {false, true}) {
        for (const bool in_place : {has_sent == has_result}) {
          const std::vector<Part> parts = Parts(BlockOf(spec));
          std::vector<std::vector<float>> results, residuals;
          std::vector<ToSettle> work;
          for (const Part& part : parts) {
            const auto seed = static_cast<unsigned>(results.size());
            const auto count = static_cast<size_t>(part.elements);
            const Case sent = Make(spec, part, seed), sum = Make(spec, part, seed + 1);
            std::vector<float> result = sum.input, residual = Values(count, seed + 2),
                               decoded(count);
            Encoded what = sent.what;
            if (what.residual != nullptr) what.residual = residual.data();
            if (has_result) Decode(spec, sum.encoded.data(), part.elements, result.data());
            Decode(spec, sent.encoded.data(), part.elements, decoded.data());

            ToSettle settle;
            settle.elements = part.elements;
            settle.what.scale = part.scale;
            settle.what.input = UploadFloats(sent.input, part.past);
            settle.residual = const_cast<float*>(UploadFloats(residual, part.past));
            if (part.has_residual) settle.what.residual = settle.residual;
            settle.output = in_place ? const_cast<float*>(settle.what.input)
                                     : const_cast<float*>(UploadFloats(sent.input, part.past));
            if (has_sent) settle.sent = Upload(sent.encoded);
            if (has_result) settle.result = Upload(sum.encoded);
            if (!has_result) settle.sum = UploadFloats(sum.input, part.past);
            work.push_back(settle);

            KeepLost(spec, what, has_sent ? decoded.data() : result.data(), result.data(),
                     part.elements, residual.data());
            results.push_back(result);
            residuals.push_back(residual);
          }
          Check(SettleAll(gpu_.get(), spec, work));
          for (size_t i = 0; i < parts.size(); ++i) {
            const std::string what = ToString(spec) + (has_sent ? " sent" : "") +
                                     (has_result ? " result" : "") + (in_place ? " in place" : "");
            ExpectSameFloats(DownloadFloats(work[i].output, results[i].size()), results[i], what);
            ExpectSameFloats(DownloadFloats(work[i].residual, residuals[i].size()), residuals[i],
                             what + ", residual");
            if (HasFatalFailure()) return;
          }
          Forget();
        }
      }
    }
  }
}

TEST_F(GpuCodecTest, AddsExactlyAsTheProcessorDoes) {
  std::vector<std::vector<float>> want;
  std::vector<ToAdd> work;
  for (const Part& part : Parts(256)) {
    const Case made = Make(kSpecs[0], part, static_cast<unsigned>(want.size()));
    want.push_back(Values(static_cast<size_t>(part.elements), 1000));
    Encoded what = made.what;
    what.input = UploadFloats(made.input, part.past);
    if (part.has_residual) what.residual = UploadFloats(made.residual, part.past + 1);
    work.push_back({what, const_cast<float*>(UploadFloats(want.back(), 1)), part.elements});
    AddExactly(made.what, part.elements, want.back().data());
  }
  Check(AddExactlyAll(gpu_.get(), work));
  for (size_t i = 0; i < want.size(); ++i)
    ExpectSameFloats(DownloadFloats(work[i].values, want[i].size()), want[i], "added");
}

TEST(GpuCodecs, AreAllTested) {
  for (int number = 1; number < kCodecCount; ++number) {
    const bool tested = std::any_of(std::begin(kSpecs), std::end(kSpecs), [&](const auto& spec) {
      return static_cast<int>(spec.codec) == number;
    });
    EXPECT_TRUE(tested) << Of(static_cast<Codec>(number)).name;
  }
}

}  // namespace
}  // namespace hvdlite::kernels
