// Each call to the driver that a Gpu makes may fail: what is said then, and that the next one goes
// as if nothing had been.
#include <gtest/gtest.h>

#include <functional>

#include "testing/fake_cuda.h"

namespace hvdlite::device {
namespace {

using testing::FakeCuda;
using testing::MemoryForEveryStream;

constexpr int kUnknown = 999;
constexpr size_t kFewBytes = 100;
constexpr char kImage[] = "an image";

std::string Failed(const std::string& doing) {
  return "CUDA failed while " + doing + ": unknown error (CUDA_ERROR_UNKNOWN)";
}

class GpuFailures : public ::testing::Test {
 protected:
  struct Row {
    const char* symbol;
    const char* doing;
    std::function<Status()> act;
  };

  // Everything that a Gpu is asked for after it has been opened.
  std::vector<Row> Rows() {
    const auto record = [this] {
      EventPtr event;
      const Status status = gpu_->Record(gpu_->stream(), &event);
      kept_.push_back(event);  // so that the next one is a new one
      return status;
    };
    const auto kernel = [this](const char* name) {
      Function function = nullptr;
      return gpu_->Kernel(kImage, name, &function);
    };
    return {
        {"cuEventCreate", "making an event", record},
        {"cuEventRecord", "recording an event", record},
        {"cuStreamIsCapturing", "asking whether a stream is being captured", record},
        {"cuEventQuery", "waiting for what the GPU does",
         [this] {
           bool fired = false;
           return event_->Query(&fired);
         }},
        {"cuStreamWaitEvent", "making a stream wait for an event",
         [this] { return event_->MakeWait(gpu_->stream()); }},
        {"cuStreamQuery", "waiting for what the GPU does",
         [this] {
           bool idle = false;
           return gpu_->Idle(&idle);
         }},
        {"cuMemcpyHtoDAsync_v2", "copying to the GPU",
         [this] { return gpu_->CopyIn(memory_->data(), host_->data(), kFewBytes); }},
        {"cuMemcpyDtoHAsync_v2", "copying from the GPU",
         [this] { return gpu_->CopyOut(host_->data(), memory_->data(), kFewBytes); }},
        {"cuMemcpyDtoDAsync_v2", "copying on the GPU",
         [this] {
           return gpu_->Copy(memory_->data(), memory_->data(), kFewBytes, gpu_->stream());
         }},
        {"cuMemsetD8Async", "clearing memory of the GPU",
         [this] { return gpu_->Zero(memory_->data(), kFewBytes); }},
        {"cuMemAllocFromPoolAsync", "allocating 100 bytes on Fake GPU 0",
         [this] {
           std::unique_ptr<Gpu::Buffer> buffer;
           return gpu_->OnDevice(kFewBytes, &buffer);
         }},
        {"cuMemHostAlloc", "allocating 4096 bytes of pinned host memory",
         [this] {
           std::unique_ptr<Gpu::Buffer> buffer;
           const Status status = gpu_->Pinned(kFewBytes, &buffer);
           pinned_.push_back(std::move(buffer));  // so that the next one is a new one
           return status;
         }},
        {"cuModuleLoadData", "loading the kernels", [=] { return kernel("hvdlite_copy_1"); }},
        {"cuModuleGetFunction", "looking for the kernel hvdlite_copy_2",
         [=] { return kernel("hvdlite_copy_2"); }},
        {"cuStreamCreateWithPriority", "opening GPU 0",
         [this] {
           std::shared_ptr<Gpu> stream;
           return gpu_->OpenStream(&stream);
         }},
    };
  }

  void SetUp() override {
    memory_ = MemoryForEveryStream(gpu_, kFewBytes);
    ASSERT_TRUE(gpu_->Pinned(kFewBytes, &host_).ok());
    memset(host_->data(), 0, kFewBytes);
    ASSERT_TRUE(gpu_->Record(gpu_->stream(), &event_).ok());
  }
  // What is freed in the order of the stream is freed before the next test counts.
  void TearDown() override {
    memory_.reset();
    EventPtr done;
    ASSERT_TRUE(gpu_->Record(gpu_->stream(), &done).ok());
    EXPECT_TRUE(testing::Await(done).ok());
  }

  FakeCuda cuda_;
  const std::shared_ptr<Gpu> gpu_ = cuda_.Open();
  std::unique_ptr<Gpu::Buffer> memory_;
  std::unique_ptr<Gpu::Buffer> host_;
  EventPtr event_;
  std::vector<EventPtr> kept_;
  std::vector<std::unique_ptr<Gpu::Buffer>> pinned_;
};

TEST_F(GpuFailures, AreToldWithWhatWasBeingDone) {
  for (const Row& row : Rows()) {
    fake_cuda_fail(row.symbol, 1, 1, kUnknown);
    const Status status = row.act();
    EXPECT_EQ(status.code(), StatusCode::kIo) << row.symbol;
    EXPECT_EQ(status.message(), Failed(row.doing)) << row.symbol;
    EXPECT_EQ(row.act().ToString(), Status::Ok().ToString()) << row.symbol << ", the next time";
  }
}

TEST_F(GpuFailures, NothingIsDoneWithoutTheGpusContext) {
  for (const Row& row : Rows()) {
    const long calls = fake_cuda_calls(row.symbol);
    fake_cuda_fail("cuCtxPushCurrent_v2", 1, 1, kUnknown);
    EXPECT_EQ(row.act().message(), Failed("making the GPU's context current")) << row.symbol;
    EXPECT_EQ(fake_cuda_calls(row.symbol), calls) << row.symbol;
    EXPECT_EQ(row.act().ToString(), Status::Ok().ToString()) << row.symbol << ", the next time";
  }
}

}  // namespace
}  // namespace hvdlite::device
