#include "device/gpu.h"

#include <unistd.h>

#include <algorithm>
#include <array>

namespace hvdlite::device {

namespace {

// Names of cuda.h.
constexpr unsigned kNonBlockingStream = 1;
constexpr unsigned kNoTiming = 2;
constexpr int kRelaxedCapture = 2;
// Returned for the default stream while a stream that would wait for it is being captured.
constexpr int kImplicitCapture = 906;

// CU_STREAM_PER_THREAD names another stream in each thread.
// NOLINTNEXTLINE(performance-no-int-to-ptr): so CUDA names it
const Stream kPerThread = reinterpret_cast<Stream>(2);

// cuStreamCreateWithPriority replaces a value beyond the device's highest priority by the highest.
constexpr int kHighestPriority = -1000;

// Holds the few fusion buffers of the default size that are in flight at a time.
constexpr size_t kIdleBytes = size_t{512} << 20;

constexpr std::array kNotForThisDevice = {
    200,  // invalid image
    209,  // no binary for this GPU
    218,  // invalid PTX
    221,  // no JIT compiler
    222,  // the PTX is newer than the driver
    223,  // JIT compilation is switched off
};

}  // namespace

Status Event::Query(bool* fired) const {
  const Gpu::Current current(*gpu_);
  HVDLITE_RETURN_IF_ERROR(current.status());
  const int code = gpu_->driver().EventQuery(raw_);
  *fired = code == kSuccess;
  return code == kNotReady ? Status::Ok()
                           : gpu_->driver().Check(code, "waiting for what the GPU does");
}

Status Event::MakeWait(Stream stream) const {
  const Gpu::Current current(*gpu_);
  HVDLITE_RETURN_IF_ERROR(current.status());
  HVDLITE_RETURN_IF_ERROR(gpu_->RefuseCapture(stream));
  return gpu_->driver().Check(gpu_->driver().StreamWaitEvent(stream, raw_, 0),
                              "making a stream wait for an event");
}

// CUDA reuses the handle of a stream only when everything on that stream is done.
bool Event::Implies(const Event& other) const {
  if (this == &other) return true;
  return gpu_ == other.gpu_ && stream_ == other.stream_ && IsOneStream(stream_) &&
         number_ > other.number_;
}

bool IsOneStream(Stream stream) {
  return stream != kPerThread;
}

void KeepLatest(std::vector<EventPtr>* events) {
  std::vector<EventPtr> latest;  // one for each stream
  for (const EventPtr& event : *events) {
    const auto known = std::find_if(latest.begin(), latest.end(), [&](const EventPtr& other) {
      return event->Implies(*other) || other->Implies(*event);
    });
    if (known == latest.end()) {
      latest.push_back(event);
    } else if (event->Implies(**known)) {
      *known = event;
    }
  }
  *events = std::move(latest);
}

// The raw event may be recorded anew at once. A stream that was told to wait for it still waits for
// the earlier record.
Event::~Event() {
  if (gpu_->forked()) return;
  const MutexLock lock(gpu_->mutex_);
  gpu_->idle_events_.push_back(raw_);
}

Gpu::Current::Current(const Gpu& gpu) : driver_(*gpu.driver_), capture_mode_(kRelaxedCapture) {
  if (gpu.forked()) {
    status_ = Status::Unsupported(
        "this is a forked child of a process that uses a GPU, and CUDA does not work in one. Use "
        "spawn instead of "
        "fork");
    return;
  }
  status_ = driver_.Check(driver_.CtxPushCurrent(gpu.context_), "making the GPU's context current");
  if (status_.ok()) driver_.ThreadExchangeStreamCaptureMode(&capture_mode_);
}

Gpu::Current::~Current() {
  if (!status_.ok()) return;
  driver_.ThreadExchangeStreamCaptureMode(&capture_mode_);
  Context ours = nullptr;
  driver_.CtxPopCurrent(&ours);
}

Gpu::Gpu(std::shared_ptr<const Driver> driver, int ordinal, std::shared_ptr<Gpu> first)
    : driver_(std::move(driver)),
      ordinal_(ordinal),
      first_(std::move(first)),
      process_(getpid()),
      idle_pinned_(kIdleBytes),
      idle_device_(kIdleBytes) {}

Status Gpu::Open(std::shared_ptr<const Driver> driver, int ordinal, std::shared_ptr<Gpu>* out) {
  const std::shared_ptr<Gpu> gpu(new Gpu(std::move(driver), ordinal, nullptr));
  HVDLITE_RETURN_IF_ERROR(gpu->Start());
  *out = gpu;
  return Status::Ok();
}

Status Gpu::OpenStream(std::shared_ptr<Gpu>* out) {
  const std::shared_ptr<Gpu> gpu(new Gpu(driver_, ordinal_, first().shared_from_this()));
  HVDLITE_RETURN_IF_ERROR(gpu->Start());
  *out = gpu;
  return Status::Ok();
}

Status Gpu::Start() {
  const std::string opening = "opening GPU " + std::to_string(ordinal_);
  HVDLITE_RETURN_IF_ERROR(driver_->Check(driver_->DeviceGet(&device_, ordinal_), opening));
  std::array<char, 256> name{};
  HVDLITE_RETURN_IF_ERROR(driver_->Check(
      driver_->DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device_), opening));
  name_ = name.data();
  HVDLITE_RETURN_IF_ERROR(driver_->Check(driver_->DeviceGetUuid(&uuid_, device_), opening));
  HVDLITE_RETURN_IF_ERROR(
      driver_->Check(driver_->DevicePrimaryCtxRetain(&context_, device_), opening));
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  if (first_ != nullptr) {
    pool_ = first_->pool_;
  } else {
    HVDLITE_RETURN_IF_ERROR(MemoryPool::Make(driver_, device_, &pool_));
  }
  return driver_->Check(driver_->StreamCreate(&stream_, kNonBlockingStream, kHighestPriority),
                        opening);
}

Status Gpu::Idle(bool* idle) const {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  const int code = driver_->StreamQuery(stream_);
  *idle = code == kSuccess;
  return code == kNotReady ? Status::Ok() : driver_->Check(code, "waiting for what the GPU does");
}

// At the end of the process the driver may be gone already. Then all of these calls fail, which is
// harmless.
Gpu::~Gpu() {
  if (forked() || context_ == nullptr) return;
  {
    const Current current(*this);
    const MutexLock lock(mutex_);
    for (const Freed& freed : freed_later_) driver_->MemFree(AsAddress(freed.data));
    FreeNow(true, idle_pinned_.Clear());
    FreeNow(false, idle_device_.Clear());
    for (RawEvent event : idle_events_) driver_->EventDestroy(event);
    for (const auto& [image, module] : modules_) driver_->ModuleUnload(module);
    if (stream_ != nullptr) driver_->StreamDestroy(stream_);
    pool_.reset();
  }
  driver_->DevicePrimaryCtxRelease(device_);
}

// A fork handler that sets a flag would not do: it cannot be unregistered, but a Gpu can be
// destroyed. So the Gpu compares process ids.
bool Gpu::forked() const {
  return getpid() != process_;
}

Status Gpu::RefuseCapture(Stream stream) const {
  int capturing = 0;
  const int code = driver_->StreamIsCapturing(stream, &capturing);
  if (code != kImplicitCapture) {
    HVDLITE_RETURN_IF_ERROR(driver_->Check(code, "asking whether a stream is being captured"));
    if (capturing == 0) return Status::Ok();
  }
  return Status::Unsupported(
      "this stream is being captured into a CUDA graph, which cannot hold what other ranks do: "
      "call hvdlite before or "
      "after the capture");
}

Status Gpu::Record(Stream stream, EventPtr* event) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  HVDLITE_RETURN_IF_ERROR(RefuseCapture(stream));
  RawEvent raw = nullptr;
  {
    const MutexLock lock(mutex_);
    if (!idle_events_.empty()) {
      raw = idle_events_.back();
      idle_events_.pop_back();
    }
  }
  if (raw == nullptr)
    HVDLITE_RETURN_IF_ERROR(
        driver_->Check(driver_->EventCreate(&raw, kNoTiming), "making an event"));
  const std::shared_ptr<Event> made(new Event(shared_from_this(), raw, stream));
  {
    const MutexLock lock(mutex_);  // keeps numbers in the order of the stream
    made->number_ = ++recorded_;
    HVDLITE_RETURN_IF_ERROR(
        driver_->Check(driver_->EventRecord(raw, stream), "recording an event"));
  }
  *event = made;
  return Status::Ok();
}

Gpu::Buffer::Buffer(std::shared_ptr<Gpu> gpu, Kind kind, void* data, size_t bytes)
    : gpu_(std::move(gpu)), kind_(kind), data_(data), bytes_(bytes) {}

Status Gpu::CopyIn(void* device, const void* host, size_t bytes) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemcpyHtoDAsync(AsAddress(device), host, bytes, stream_),
                        "copying to the GPU");
}

Status Gpu::CopyOut(void* host, const void* device, size_t bytes) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemcpyDtoHAsync(host, AsAddress(device), bytes, stream_),
                        "copying from the GPU");
}

Status Gpu::Copy(void* to, const void* from, size_t bytes, Stream stream) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemcpyDtoDAsync(AsAddress(to), AsAddress(from), bytes, stream),
                        "copying on the GPU");
}

Status Gpu::Zero(void* device, size_t bytes) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemsetD8Async(AsAddress(device), 0, bytes, stream_),
                        "clearing memory of the GPU");
}

Status Gpu::Kernel(const void* image, std::string_view name, Function* function) {
  if (first_ != nullptr) return first_->Kernel(image, name, function);
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  const MutexLock lock(mutex_);
  Function& kernel = kernels_[{image, std::string(name)}];
  if (kernel == nullptr) {
    Module module = nullptr;
    HVDLITE_RETURN_IF_ERROR(Load(image, &module));
    HVDLITE_RETURN_IF_ERROR(
        driver_->Check(driver_->ModuleGetFunction(&kernel, module, std::string(name).c_str()),
                       "looking for the kernel " + std::string(name)));
  }
  *function = kernel;
  return Status::Ok();
}

Status Gpu::Load(const void* image, Module* module) {
  const auto known = modules_.find(image);
  if (known != modules_.end()) {
    *module = known->second;
    return Status::Ok();
  }
  const int code = driver_->ModuleLoadData(module, image);
  if (std::find(kNotForThisDevice.begin(), kNotForThisDevice.end(), code) !=
      kNotForThisDevice.end()) {
    return Status::Unsupported("this build's kernels do not run on " + name_ + ": " +
                               driver_->Check(code, "loading them").message());
  }
  HVDLITE_RETURN_IF_ERROR(driver_->Check(code, "loading the kernels"));
  modules_[image] = *module;
  return Status::Ok();
}

}  // namespace hvdlite::device
