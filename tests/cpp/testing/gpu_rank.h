// GpuRank: what a rank of a test has on the fake GPU: a stream of its own, memory, and operations
// on it.
//
// Values go in and come out by copies on that stream only, so an operation that does not wait for
// the producer, or a consumer that is not held back, is a wrong value.
#pragma once

#include <algorithm>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "testing/fake_cuda.h"
#include "testing/ranks.h"

namespace hvdlite::testing {

inline std::vector<float> Count(int64_t elements, float from) {
  std::vector<float> values(static_cast<size_t>(elements));
  std::iota(values.begin(), values.end(), from);
  return values;
}

class GpuRank {
 public:
  GpuRank(Rank* me, FakeCuda* cuda, int ordinal)
      : me_(me), gpu_(cuda->Open(ordinal)), stream_(gpu_) {}
  ~GpuRank() {
    const device::Gpu::Current current(*gpu_);
    (void)gpu_->driver().StreamSynchronize(stream_.get());  // what it copies from goes now
    for (void* memory : memory_) gpu_->Free(memory, stream_.get());
  }
  GpuRank(const GpuRank&) = delete;

  device::Stream stream() const { return stream_.get(); }
  const std::shared_ptr<device::Gpu>& gpu() const { return gpu_; }

  // A tensor whose values arrive there some time later.
  template <typename T>
  TensorView Put(const std::vector<T>& values, Shape shape = {}) {
    TensorView view = View(values, std::move(shape));
    view.device = {DeviceKind::kCuda, gpu_->ordinal()};
    view.data = nullptr;
    if (values.empty()) return view;
    device::EventPtr there;
    EXPECT_EQ(gpu_->Allocate(view.bytes(), &view.data).ToString(), Status::Ok().ToString());
    EXPECT_TRUE(gpu_->Record(gpu_->stream(), &there).ok());
    EXPECT_TRUE(there->MakeWait(stream_.get()).ok());
    memory_.push_back(view.data);
    // Kept until the stream is gone: the copy happens some time later.
    std::unique_ptr<device::Gpu::Buffer> pinned;
    EXPECT_TRUE(gpu_->Pinned(view.bytes(), &pinned).ok());
    std::copy(values.begin(), values.end(), static_cast<T*>(pinned->data()));
    const device::Gpu::Current current(*gpu_);
    EXPECT_EQ(gpu_->driver().MemcpyHtoDAsync(reinterpret_cast<device::Address>(view.data),
                                             pinned->data(), view.bytes(), stream_.get()),
              0);
    sources_.push_back(std::move(pinned));
    return view;
  }
  // What the stream sees there, behind everything that it has been given.
  template <typename T>
  std::vector<T> Get(const TensorView& view) {
    std::vector<T> values(static_cast<size_t>(view.elements()));
    if (values.empty()) return values;
    const std::vector<unsigned char> bytes = stream_.Read(view.data, view.bytes());
    std::copy(bytes.begin(), bytes.end(), reinterpret_cast<unsigned char*>(values.data()));
    return values;
  }

  Submission Ask(OpKind kind, const std::string& name, const TensorView& input,
                 const TensorView& output = {}) {
    Submission s = testing::Ask(kind, name, input, output);
    s.request.device = DeviceKind::kCuda;
    s.producer = stream_.get();
    return s;
  }
  // Submits, waits, and lets the stream follow.
  Status Do(Submission submission, HandlePtr* handle = nullptr, int set = 0) {
    HandlePtr made;
    const Status status = me_->Do(std::move(submission), set, &made);
    if (!status.ok()) return status;
    if (handle != nullptr) *handle = made;
    return Follow(made);
  }
  Status Follow(const HandlePtr& handle) {
    return handle->pending == nullptr ? Status::Ok() : handle->pending->MakeWait(stream_.get());
  }

 private:
  Rank* const me_;
  const std::shared_ptr<device::Gpu> gpu_;
  UserStream stream_;
  std::vector<void*> memory_;
  std::vector<std::unique_ptr<device::Gpu::Buffer>> sources_;
};

// A job on the fake GPUs.
inline Config GpuConfig(const std::string& operations) {
  Config config;
  config.cuda_library = FakeCuda::kLibrary;
  config.nccl_library = HVDLITE_FAKE_NCCL;
  config.gpu_operations = operations;
  return config;
}

}  // namespace hvdlite::testing
