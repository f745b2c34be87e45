// How near to the device's own copy does moving a list of tensors come? Each line read names a
// list:
//
//   NAME DTYPE ELEMENTS ELEMENTS ...
//
// and is answered with a line of JSON: GB/s of memory touched (read and written) by the driver's
// copy of as many bytes, and as shares of that: pack (many tensors to one buffer), unpack, both
// with factors, and pack to where no tensor's boundaries lie as they did. `right`: whether what was
// packed is what was there. Exit code 3: there is no GPU here that kernels of this build run on.
//
//   gpu_bench [library]     libcuda.so.1, or what else dlopen takes
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <vector>

#include "base/half.h"
#include "device/gpu.h"
#include "gpu_lists.h"
#include "kernels/gpu.h"

namespace hvdlite {
namespace {

using bench::Check;
using bench::List;
using kernels::Move;
using kernels::Scaling;

// More than fits into the device's cache, or it would be that which is measured.
constexpr size_t kEnough = size_t{400} << 20;

class Bench {
 public:
  Bench(device::Gpu* gpu, const List& list) : gpu_(gpu), list_(list) {
    const size_t copies = std::max<size_t>(1, kEnough / std::max<size_t>(1, list.bytes()));
    for (size_t copy = 0; copy < copies; ++copy) sets_.push_back(MakeSet());
  }

  // In GB/s of bytes read and written.
  double Speed(const std::function<void(size_t)>& put) {
    const double seconds =
        bench::SecondsOf(put, sets_.size(), [this] { bench::Synchronize(gpu_); });
    return 2e-9 * static_cast<double>(list_.bytes()) / seconds;
  }

  void Copy(size_t i) {
    Check(gpu_->Copy(sets_[i].packed->data(), sets_[i].tensors->data(), list_.bytes(),
                     gpu_->stream()));
  }
  void Pack(size_t i, const Scaling& scaling) { Check(MoveScaled(gpu_, scaling, sets_[i].pack)); }
  void Unpack(size_t i, const Scaling& scaling) {
    Check(MoveScaled(gpu_, scaling, sets_[i].unpack));
  }
  void PackPastBoundaries(size_t i) {
    Check(MoveScaled(gpu_, {.dtype = list_.dtype}, sets_[i].past));
  }

  bool IsRight() {
    Pack(0, {.dtype = list_.dtype});
    std::vector<char> packed(list_.bytes());
    Check(gpu_->CopyOut(packed.data(), sets_[0].packed->data(), packed.size()));
    bench::Synchronize(gpu_);
    size_t at = 0;
    bool right = true;
    for (size_t i = 0; i < list_.elements.size(); ++i) {
      const size_t from = static_cast<size_t>(static_cast<const char*>(sets_[0].pack[i].from) -
                                              static_cast<const char*>(sets_[0].tensors->data()));
      right = right && std::memcmp(&packed[at], &content_[from], list_.bytes(i)) == 0;
      at += list_.bytes(i);
    }
    return right;
  }

 private:
  struct Set {
    std::unique_ptr<device::Gpu::Buffer> tensors, packed;
    std::vector<Move> pack, unpack, past;
  };

  Set MakeSet() {
    Set set;
    size_t room = 0;
    for (size_t i = 0; i < list_.elements.size(); ++i) room += bench::RoomOf(list_, i);
    Check(gpu_->OnDevice(room, &set.tensors));
    Check(gpu_->OnDevice(list_.bytes() + bench::kBoundary, &set.packed));
    if (content_.empty()) {
      content_.resize(room);
      Fill();
    }
    Check(gpu_->CopyIn(set.tensors->data(), content_.data(), room));
    bench::Synchronize(gpu_);
    char* from = static_cast<char*>(set.tensors->data());
    char* to = static_cast<char*>(set.packed->data());
    for (size_t i = 0; i < list_.elements.size(); ++i) {
      set.pack.push_back({from, to, list_.elements[i]});
      set.unpack.push_back({to, from, list_.elements[i]});
      set.past.push_back({from, to + SizeOf(list_.dtype), list_.elements[i]});
      from += bench::RoomOf(list_, i);
      to += list_.bytes(i);
    }
    return set;
  }
  // As gradients are: small numbers of either sign, and some zeros.
  void Fill() {
    std::mt19937 random(1);
    std::normal_distribution<float> normal(0, 1e-2F);
    const size_t size = SizeOf(list_.dtype);  // 2 or 4
    for (size_t i = 0; i + size <= content_.size(); i += size) {
      const float value = i % 31 == 0 ? 0.0F : normal(random);
      uint32_t bits = 0;
      std::memcpy(&bits, &value, sizeof(bits));
      const uint16_t half =
          list_.dtype == DType::kFloat16 ? FloatToHalf(value) : static_cast<uint16_t>(bits >> 16);
      std::memcpy(&content_[i], size == 2 ? static_cast<const void*>(&half) : &bits, size);
    }
  }

  device::Gpu* const gpu_;
  const List& list_;
  std::vector<char> content_;
  std::vector<Set> sets_;
};

void Measure(device::Gpu* gpu, const List& list) {
  Bench bench(gpu, list);
  const Scaling none{.dtype = list.dtype}, half{.dtype = list.dtype, .first = 0.5};
  const Scaling average{.dtype = list.dtype, .first = 3.0, .divide = true};
  const bool right = bench.IsRight();
  const double copy = bench.Speed([&](size_t i) { bench.Copy(i); });
  const auto share = [&](const std::function<void(size_t)>& put) {
    return bench.Speed(put) / copy;
  };
  std::printf(
      R"({"name": "%s", "dtype": "%s", "tensors": %zu, "bytes": %zu, "copy_gbps": %.1f, "pack": %.3f, "unpack": %.3f, )"
      R"("pack_scaled": %.3f, "unpack_averaged": %.3f, "pack_past_boundaries": %.3f, "right": %s})"
      "\n",
      list.name.c_str(), std::string(Name(list.dtype)).c_str(), list.elements.size(), list.bytes(),
      copy, share([&](size_t i) { bench.Pack(i, none); }),
      share([&](size_t i) { bench.Unpack(i, none); }),
      share([&](size_t i) { bench.Pack(i, half); }),
      share([&](size_t i) { bench.Unpack(i, average); }),
      share([&](size_t i) { bench.PackPastBoundaries(i); }), right ? "true" : "false");
  std::fflush(stdout);
}

int Main(const std::string& library) {
  const std::shared_ptr<device::Gpu> gpu = bench::WithKernels(library);
  bench::EachList([&](const List& list) { Measure(gpu.get(), list); });
  return 0;
}

}  // namespace
}  // namespace hvdlite

int main(int argc, char** argv) {
  return hvdlite::Main(argc > 1 ? argv[1] : "libcuda.so.1");
}
