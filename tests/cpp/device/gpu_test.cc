// A device as one rank uses it: opened and given back whole, other people's contexts and captures
// left as they were.
#include "device/gpu.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>
#include <map>

#include "testing/fake_cuda.h"

// What a framework calls, and hvdlite does not.
extern "C" {
int cuStreamBeginCapture_v2(void* stream, int mode);
int cuStreamEndCapture(void* stream, void** graph);
}

namespace hvdlite::device {
namespace {

using testing::Await;
using testing::FakeCuda;
using testing::UserStream;

constexpr int kIllegalAddress = 700;

class GpuTest : public ::testing::Test {
 protected:
  GpuTest() {
    for (const char* kind : {"context", "stream", "event", "module", "pool", "memory", "pinned"}) {
      before_[kind] = fake_cuda_live(kind);
    }
  }
  ~GpuTest() override {
    for (const auto& [kind, count] : before_) {
      // What is freed in the order of a stream is freed some time later.
      for (int i = 0; i < 5000 && Live(kind.c_str()) != 0; ++i) usleep(1000);
      EXPECT_EQ(fake_cuda_live(kind.c_str()), count) << kind;
    }
  }
  // How many there are of this test's. Others leak theirs on purpose where a device never comes to
  // an end.
  long Live(const char* kind) const { return fake_cuda_live(kind) - before_.at(kind); }
  FakeCuda cuda_;

 private:
  std::map<std::string, long> before_;
};

TEST_F(GpuTest, HasANameAndAnIdentity) {
  const auto one = cuda_.Open(0);
  const auto other = cuda_.Open(1);
  EXPECT_EQ(one->name(), "Fake GPU 0");
  EXPECT_EQ(other->ordinal(), 1);
  EXPECT_NE(memcmp(&one->uuid(), &other->uuid(), sizeof(Uuid)), 0);
}

TEST_F(GpuTest, TouchesNoOtherDevice) {
  const auto gpu = cuda_.Open(1);
  EXPECT_EQ(Live("context"), 1);
}

TEST_F(GpuTest, IsNotThere) {
  std::shared_ptr<Gpu> gpu;
  const Status status = Gpu::Open(cuda_.driver(), 7, &gpu);
  EXPECT_EQ(status.message(),
            "CUDA failed while opening GPU 7: invalid device ordinal (CUDA_ERROR_INVALID_DEVICE)");
  EXPECT_EQ(gpu, nullptr);
}

TEST_F(GpuTest, LeavesNothingBehindWhereverOpeningFails) {
  for (const char* symbol :
       {"cuDeviceGet", "cuDeviceGetName", "cuDeviceGetUuid_v2", "cuDeviceGetAttribute",
        "cuDevicePrimaryCtxRetain", "cuCtxPushCurrent_v2", "cuMemPoolCreate",
        "cuMemPoolSetAttribute", "cuStreamCreateWithPriority"}) {
    const auto driver = cuda_.driver();
    fake_cuda_fail(symbol, 1, 1, 999);
    std::shared_ptr<Gpu> gpu;
    EXPECT_EQ(Gpu::Open(driver, 0, &gpu).code(), StatusCode::kIo) << symbol;
    EXPECT_EQ(gpu, nullptr);
    EXPECT_EQ(Live("context"), 0) << symbol;
    EXPECT_EQ(Live("pool"), 0) << symbol;
  }
}

TEST_F(GpuTest, PutsBackTheContextThatWasCurrent) {
  const auto gpu = cuda_.Open(0);
  const auto other = cuda_.Open(1);
  const Driver& driver = gpu->driver();
  Context theirs = nullptr;
  ASSERT_EQ(driver.DevicePrimaryCtxRetain(&theirs, 1), 0);
  ASSERT_EQ(driver.CtxPushCurrent(theirs), 0);
  EventPtr event;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  ASSERT_TRUE(Await(event).ok());
  std::unique_ptr<Gpu::Buffer> buffer;
  ASSERT_TRUE(gpu->OnDevice(100, &buffer).ok());
  ASSERT_TRUE(gpu->Zero(buffer->data(), 100).ok());
  fake_cuda_fail("cuMemAllocFromPoolAsync", 1, 2, kOutOfMemory);
  std::unique_ptr<Gpu::Buffer> none;
  EXPECT_FALSE(gpu->OnDevice(100000, &none).ok());
  {
    const Gpu::Current outer(*gpu);
    const Gpu::Current inner(*other);
  }
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  ASSERT_TRUE(Await(event).ok());
  Context now = nullptr;
  ASSERT_EQ(driver.CtxPopCurrent(&now), 0);
  EXPECT_EQ(now, theirs);
  ASSERT_EQ(driver.DevicePrimaryCtxRelease(1), 0);
}

TEST_F(GpuTest, UsesItsEventsAgain) {
  const auto gpu = cuda_.Open();
  for (int i = 0; i < 50; ++i) {
    EventPtr first;
    EventPtr second;
    ASSERT_TRUE(gpu->Record(gpu->stream(), &first).ok());
    ASSERT_TRUE(gpu->Record(gpu->stream(), &second).ok());
  }
  EXPECT_EQ(fake_cuda_calls("cuEventCreate"), 2);
}

TEST_F(GpuTest, AnEventFiresWhenWhatCameBeforeIsDone) {
  const auto gpu = cuda_.Open();
  fake_cuda_hold(gpu->stream(), 1);
  EventPtr event;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  bool fired = true;
  ASSERT_TRUE(event->Query(&fired).ok());
  EXPECT_FALSE(fired);
  fake_cuda_hold(gpu->stream(), 0);
  EXPECT_TRUE(Await(event).ok());
}

TEST_F(GpuTest, OfEachStreamTheLatestEventIsKept) {
  const auto gpu = cuda_.Open();
  const auto other_gpu = cuda_.Open();
  const Stream per_thread = reinterpret_cast<Stream>(2);
  const auto at = [](const std::shared_ptr<Gpu>& whose, Stream stream) {
    EventPtr event;
    EXPECT_TRUE(whose->Record(stream, &event).ok());
    return event;
  };
  const EventPtr early = at(gpu, gpu->stream());
  const EventPtr legacy = at(gpu, nullptr);
  const EventPtr late = at(gpu, gpu->stream());
  EXPECT_TRUE(late->Implies(*early) && late->Implies(*late));
  EXPECT_FALSE(early->Implies(*late) || late->Implies(*legacy));
  std::vector<EventPtr> events = {late, early, legacy, late, early};
  KeepLatest(&events);
  EXPECT_EQ(events, (std::vector<EventPtr>{late, legacy}));
  events = {early, late};
  KeepLatest(&events);
  EXPECT_EQ(events, (std::vector<EventPtr>{late}));
  // Nothing is known of the order of these.
  events = {at(gpu, per_thread), at(gpu, per_thread), at(other_gpu, gpu->stream()), late};
  KeepLatest(&events);
  EXPECT_EQ(events.size(), 4u);
  for (const EventPtr& event : events) EXPECT_TRUE(Await(event).ok());
}

TEST_F(GpuTest, ABrokenDeviceIsToldByTheEvents) {
  const auto gpu = cuda_.Open();
  EventPtr event;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  fake_cuda_break(0, kIllegalAddress);
  bool fired = false;
  const Status status = event->Query(&fired);
  EXPECT_EQ(
      status.message(),
      "CUDA failed while waiting for what the GPU does: an illegal memory access was encountered "
      "(CUDA_ERROR_ILLEGAL_ADDRESS)");
  EXPECT_FALSE(gpu->Record(gpu->stream(), &event).ok());
  fake_cuda_break(0, 0);  // so that what is there can be given back
}

// --- memory

TEST_F(GpuTest, GivesTheSameMemoryToTheNextWhoAsksForAsMuch) {
  fake_cuda_set("pools", 0);
  const auto gpu = cuda_.Open();
  for (const bool pinned : {true, false}) {
    void* first = nullptr;
    for (size_t bytes : {5000, 5100, 4900}) {
      std::unique_ptr<Gpu::Buffer> buffer;
      ASSERT_TRUE((pinned ? gpu->Pinned(bytes, &buffer) : gpu->OnDevice(bytes, &buffer)).ok());
      EXPECT_EQ(buffer->bytes(), bytes);
      if (first == nullptr) first = buffer->data();
      EXPECT_EQ(buffer->data(), first);
    }
  }
  EXPECT_EQ(Live("memory"), 1);
  EXPECT_EQ(Live("pinned"), 1);
}

TEST_F(GpuTest, HasOnePoolOfDeviceMemoryForAllItsStreams) {
  const auto gpu = cuda_.Open(1);
  std::shared_ptr<Gpu> other;
  ASSERT_TRUE(gpu->OpenStream(&other).ok());
  EXPECT_EQ(Live("pool"), 1);
  const auto here = testing::MemoryForEveryStream(gpu, 100);
  const auto there = testing::MemoryForEveryStream(other, 100);
  EXPECT_NE(here->data(), there->data());
}

TEST_F(GpuTest, EmptiesItsPoolsBeforeItRunsOutOfMemory) {
  fake_cuda_set("memory_mb", 10);
  fake_cuda_set("devices", 8);
  fake_cuda_set("pools", 0);
  const auto gpu = cuda_.Open(7);  // on which nothing can have been left: see Live
  std::unique_ptr<Gpu::Buffer> buffer;
  ASSERT_TRUE(gpu->OnDevice(size_t{8} << 20, &buffer).ok());
  buffer.reset();
  ASSERT_TRUE(gpu->OnDevice(size_t{4} << 20, &buffer).ok());
  EXPECT_EQ(Live("memory"), 1);
  buffer.reset();
  void* result = nullptr;
  ASSERT_TRUE(gpu->Allocate(size_t{10} << 20, &result).ok());
  EXPECT_EQ(Live("memory"), 1);
  gpu->Free(result, gpu->stream());
  EventPtr freed;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &freed).ok());
  ASSERT_TRUE(Await(freed).ok());
}

TEST_F(GpuTest, OutOfMemoryConcernsTheOperationAlone) {
  fake_cuda_set("memory_mb", 10);
  const auto gpu = cuda_.Open();
  std::unique_ptr<Gpu::Buffer> buffer;
  EXPECT_EQ(gpu->OnDevice(size_t{20} << 20, &buffer).message(),
            "CUDA failed while allocating 20 MiB on Fake GPU 0: out of memory "
            "(CUDA_ERROR_OUT_OF_MEMORY)");
  void* result = nullptr;
  EXPECT_EQ(gpu->Allocate(size_t{20} << 20, &result).code(), StatusCode::kIo);
  EXPECT_EQ(result, nullptr);
  fake_cuda_fail("cuMemHostAlloc", 1, 2, kOutOfMemory);
  EXPECT_EQ(gpu->Pinned(100, &buffer).message(),
            "CUDA failed while allocating 4096 bytes of pinned host memory: out of memory "
            "(CUDA_ERROR_OUT_OF_MEMORY)");
  EXPECT_TRUE(gpu->Pinned(100, &buffer).ok());
  EXPECT_TRUE(gpu->OnDevice(100, &buffer).ok());
}

TEST_F(GpuTest, AResultIsGivenBackBehindItsLastUser) {
  const auto gpu = cuda_.Open();
  const UserStream user(gpu);
  void* result = nullptr;
  ASSERT_TRUE(gpu->Allocate(4096, &result).ok());
  ASSERT_TRUE(gpu->Zero(result, 4096).ok());
  EventPtr finished;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &finished).ok());
  ASSERT_TRUE(finished->MakeWait(user.get()).ok());
  user.Fill(result, 4096, 3);
  fake_cuda_hold(user.get(), 1);
  gpu->Free(result, user.get());
  EXPECT_EQ(Live("memory"), 1);
  fake_cuda_hold(user.get(), 0);
  EventPtr freed;
  ASSERT_TRUE(gpu->Record(user.get(), &freed).ok());
  ASSERT_TRUE(Await(freed).ok());
  EXPECT_EQ(Live("memory"), 0);
}

TEST_F(GpuTest, AResultOnADeviceWithoutMemoryPools) {
  fake_cuda_set("pools", 0);
  const auto gpu = cuda_.Open();
  void* result = nullptr;
  ASSERT_TRUE(gpu->Allocate(4096, &result).ok());
  gpu->Free(result, gpu->stream());
  EXPECT_EQ(Live("memory"), 0);
}

TEST_F(GpuTest, NothingIsAResultToo) {
  const auto gpu = cuda_.Open();
  void* result = &cuda_;
  ASSERT_TRUE(gpu->Allocate(0, &result).ok());
  EXPECT_EQ(result, nullptr);
  gpu->Free(result, gpu->stream());
}

TEST_F(GpuTest, CopiesThereAndBack) {
  const auto gpu = cuda_.Open();
  std::unique_ptr<Gpu::Buffer> host;
  std::unique_ptr<Gpu::Buffer> one;
  std::unique_ptr<Gpu::Buffer> other;
  std::unique_ptr<Gpu::Buffer> back;
  ASSERT_TRUE(gpu->Pinned(1000, &host).ok());
  ASSERT_TRUE(gpu->Pinned(1000, &back).ok());
  ASSERT_TRUE(gpu->OnDevice(1000, &one).ok());
  ASSERT_TRUE(gpu->OnDevice(1000, &other).ok());
  memset(host->data(), 42, 1000);
  ASSERT_TRUE(gpu->CopyIn(one->data(), host->data(), 1000).ok());
  ASSERT_TRUE(gpu->Copy(other->data(), one->data(), 1000, gpu->stream()).ok());
  ASSERT_TRUE(gpu->Zero(other->data(), 10).ok());
  ASSERT_TRUE(gpu->CopyOut(back->data(), other->data(), 1000).ok());
  EventPtr finished;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &finished).ok());
  ASSERT_TRUE(Await(finished).ok());
  std::string expected(1000, '\x2a');
  expected.replace(0, 10, 10, '\0');
  EXPECT_EQ(std::string(static_cast<char*>(back->data()), 1000), expected);
}

// --- graphs

TEST_F(GpuTest, RefusesAStreamUnderCaptureAndLeavesTheCaptureWhole) {
  const auto gpu = cuda_.Open();
  const UserStream user(gpu);
  EventPtr event;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  const Gpu::Current current(*gpu);
  ASSERT_EQ(cuStreamBeginCapture_v2(user.get(), 0), 0);
  EventPtr none;
  const Status status = gpu->Record(user.get(), &none);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "this stream is being captured into a CUDA graph, which cannot hold what other ranks "
            "do: call hvdlite before or "
            "after the capture");
  EXPECT_EQ(event->MakeWait(user.get()).code(), StatusCode::kUnsupported);
  EXPECT_EQ(gpu->Record(nullptr, &none).code(), StatusCode::kUnsupported)
      << "the default stream would join the capture";
  void* graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(user.get(), &graph), 0);
  EXPECT_TRUE(gpu->Record(user.get(), &none).ok());
}

TEST_F(GpuTest, WorksOnWhileAnotherThreadCaptures) {
  const auto gpu = cuda_.Open();
  const UserStream user(gpu);
  std::thread([&] {
    const Gpu::Current current(*gpu);
    ASSERT_EQ(cuStreamBeginCapture_v2(user.get(), 0), 0);
  }).join();
  EventPtr event;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  EXPECT_TRUE(Await(event).ok());
  std::unique_ptr<Gpu::Buffer> buffer;
  EXPECT_TRUE(gpu->OnDevice(100, &buffer).ok());
  EXPECT_TRUE(gpu->Pinned(100, &buffer).ok());
  const Gpu::Current current(*gpu);
  void* graph = nullptr;
  EXPECT_EQ(cuStreamEndCapture(user.get(), &graph), 0) << "the capture has been disturbed";
}

TEST_F(GpuTest, GivesAResultBackWhenTheCaptureIsOver) {
  const auto gpu = cuda_.Open();
  const UserStream user(gpu);
  void* results[2];
  for (void*& result : results) ASSERT_TRUE(gpu->Allocate(4096, &result).ok());
  EventPtr event;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  ASSERT_TRUE(event->MakeWait(user.get()).ok());
  {
    const Gpu::Current current(*gpu);
    ASSERT_EQ(cuStreamBeginCapture_v2(user.get(), 0), 0);
    gpu->Free(results[0], user.get());
    void* graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(user.get(), &graph), 0);
  }
  EXPECT_EQ(fake_cuda_calls("cuMemFreeAsync"), 0);
  gpu->Free(results[1], user.get());
  EXPECT_EQ(fake_cuda_calls("cuMemFreeAsync"), 2);
  ASSERT_TRUE(gpu->Record(user.get(), &event).ok());
  ASSERT_TRUE(Await(event).ok());
}

TEST_F(GpuTest, GivesBackWithItselfWhatACaptureKept) {
  auto gpu = cuda_.Open();
  void* result = nullptr;
  ASSERT_TRUE(gpu->Allocate(4096, &result).ok());
  EventPtr there;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &there).ok());
  ASSERT_TRUE(Await(there).ok());
  {
    const UserStream user(gpu);
    const Gpu::Current current(*gpu);
    ASSERT_EQ(cuStreamBeginCapture_v2(user.get(), 0), 0);
    gpu->Free(result, user.get());
    void* graph = nullptr;
    EXPECT_EQ(cuStreamEndCapture(user.get(), &graph), 0);
  }
  EXPECT_EQ(Live("memory"), 1);
  there.reset();
  gpu.reset();
  EXPECT_EQ(Live("memory"), 0);
  EXPECT_EQ(Live("context"), 0);
}

// --- kernels

constexpr char kNoImage[] = "an image";

TEST_F(GpuTest, LoadsAnImageOnce) {
  const auto gpu = cuda_.Open();
  Function function = nullptr;
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(gpu->Kernel(kNoImage, "of_nobody", &function).message(),
              "CUDA failed while looking for the kernel of_nobody: named symbol not found "
              "(CUDA_ERROR_NOT_FOUND)");
  }
  EXPECT_EQ(fake_cuda_calls("cuModuleLoadData"), 1);
}

TEST_F(GpuTest, SaysWhenTheKernelsAreForOtherDevices) {
  const auto gpu = cuda_.Open();
  fake_cuda_fail("cuModuleLoadData", 1, 1, 209);
  Function function = nullptr;
  const Status status = gpu->Kernel(kNoImage, "any", &function);
  EXPECT_EQ(status.code(), StatusCode::kUnsupported);
  EXPECT_EQ(status.message(),
            "this build's kernels do not run on Fake GPU 0: CUDA failed while loading them: no "
            "kernel image is available for "
            "execution on the device (CUDA_ERROR_NO_BINARY_FOR_GPU)");
}

// --- fork

TEST_F(GpuTest, AForkedChildLeavesCudaAlone) {
  auto gpu = cuda_.Open();
  EventPtr event;
  ASSERT_TRUE(gpu->Record(gpu->stream(), &event).ok());
  std::unique_ptr<Gpu::Buffer> buffer;
  ASSERT_TRUE(gpu->OnDevice(100, &buffer).ok());
  int output[2];
  ASSERT_EQ(pipe(output), 0);
  const pid_t child = fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    dup2(output[1], STDERR_FILENO);
    bool fired = false;
    EventPtr another;
    int wrong = 0;
    wrong += event->Query(&fired).code() != StatusCode::kUnsupported;
    wrong += gpu->Record(gpu->stream(), &another).code() != StatusCode::kUnsupported;
    wrong += gpu->Zero(buffer->data(), 1).code() != StatusCode::kUnsupported;
    gpu->Free(buffer->data(), gpu->stream());
    event.reset();
    buffer.reset();
    gpu.reset();
    _exit(wrong);
  }
  close(output[1]);
  int status = -1;
  ASSERT_EQ(waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  std::array<char, 1000> said{};
  EXPECT_EQ(read(output[0], said.data(), said.size() - 1), 0) << said.data();
  close(output[0]);
  EXPECT_TRUE(Await(event).ok());
}

}  // namespace
}  // namespace hvdlite::device
