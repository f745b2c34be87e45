// How fast are the codecs on a GPU? Each line read names a list of float32 tensors:
//
//   NAME float32 ELEMENTS ELEMENTS ...
//
// and is answered with one line of JSON per codec, in GB/s of float32: encoding (gradient and
// residual in), decoding, and the end of an allreduce (result and new residual out). `copy_gbps` is
// the driver's copy of the same floats, counted alike: once. Exit code 3: there is no GPU here that
// kernels of this build run on.
//
//   gpu_codecs_bench [library]     libcuda.so.1, or what else dlopen takes
#include <cstdio>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "device/gpu.h"
#include "gpu_lists.h"
#include "kernels/gpu_codec.h"

namespace hvdlite {
namespace {

using bench::Check;
using bench::Die;
using bench::List;

constexpr CodecSpec kSpecs[] = {{Codec::kInt8, 0},        {Codec::kFp8, 0},
                                {Codec::kSign, 0},        {Codec::kTernary, 2.5},
                                {Codec::kThreshold, 0.5}, {Codec::kQsgd, 127}};

class Tensors {
 public:
  Tensors(device::Gpu* gpu, const List& list) : gpu_(gpu), list_(list) {
    for (size_t i = 0; i < list.elements.size(); ++i) room_ += bench::RoomOf(list, i);
    for (auto* each : {&gradients_, &residuals_, &outputs_, &encoded_})
      Check(gpu->OnDevice(room_, each));
    std::vector<float> values(room_ / sizeof(float));
    uint32_t state = 1;
    for (float& value : values) {
      state = state * 1664525 + 1013904223;
      value = static_cast<float>(state >> 8) / (1 << 24) - 0.5F;
    }
    Check(gpu->CopyIn(gradients_->data(), values.data(), room_));
    Check(gpu->CopyIn(residuals_->data(), values.data(), room_));
    bench::Synchronize(gpu);
  }

  void Measure(const CodecSpec& spec) {
    std::vector<kernels::ToEncode> encode;
    std::vector<kernels::ToDecode> decode;
    std::vector<kernels::ToSettle> settle;
    size_t at = 0, to = 0;
    for (size_t i = 0; i < list_.elements.size(); ++i) {
      const kernels::Encoded what{At<float>(gradients_, at), At<float>(residuals_, at), 1};
      char* const encoded = At<char>(encoded_, to);
      encode.push_back({what, list_.elements[i], {1, 0}, encoded});
      decode.push_back({encoded, At<float>(outputs_, at), list_.elements[i]});
      settle.push_back({what, encoded, encoded, nullptr, At<float>(residuals_, at),
                        At<float>(outputs_, at), list_.elements[i]});
      at += bench::RoomOf(list_, i);
      to += static_cast<size_t>(kernels::EncodedBytes(spec, list_.elements[i]));
    }
    const auto speed = [&](const std::function<void()>& put) {
      const double seconds =
          bench::SecondsOf([&](size_t) { put(); }, 1, [&] { bench::Synchronize(gpu_); });
      return 1e-9 * static_cast<double>(list_.bytes()) / seconds;
    };
    std::printf(
        R"({"name": "%s", "codec": "%s", "copy_gbps": %.1f, "encode": %.1f, "decode": %.1f, "settle": %.1f})"
        "\n",
        list_.name.c_str(), ToString(spec).c_str(), speed([&] {
          Check(gpu_->Copy(outputs_->data(), gradients_->data(), list_.bytes(), gpu_->stream()));
        }),
        speed([&] { Check(kernels::EncodeAll(gpu_, spec, encode)); }),
        speed([&] { Check(kernels::DecodeAll(gpu_, spec, decode, false)); }),
        speed([&] { Check(kernels::SettleAll(gpu_, spec, settle)); }));
    std::fflush(stdout);
  }

 private:
  using Buffer = std::unique_ptr<device::Gpu::Buffer>;

  template <typename T>
  static T* At(const Buffer& buffer, size_t bytes) {
    return reinterpret_cast<T*>(static_cast<char*>(buffer->data()) + bytes);
  }

  device::Gpu* const gpu_;
  const List& list_;
  size_t room_ = 0;
  Buffer gradients_, residuals_, outputs_, encoded_;
};

int Main(const std::string& library) {
  const std::shared_ptr<device::Gpu> gpu = bench::WithKernels(library);
  bench::EachList([&](const List& list) {
    if (list.dtype != DType::kFloat32)
      Die(Status::InvalidArgument("not a list of float32: " + list.name));
    Tensors tensors(gpu.get(), list);
    for (const CodecSpec& spec : kSpecs) tensors.Measure(spec);
  });
  return 0;
}

}  // namespace
}  // namespace hvdlite

int main(int argc, char** argv) {
  return hvdlite::Main(argc > 1 ? argv[1] : "libcuda.so.1");
}
