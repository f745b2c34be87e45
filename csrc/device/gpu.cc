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
constexpr int kImplicitCapture = 906;  // the default stream, while a stream that would wait for it is captured

// CU_STREAM_PER_THREAD: another stream in each thread.
const Stream kPerThread = reinterpret_cast<Stream>(2);  // NOLINT(performance-no-int-to-ptr): so CUDA names it

// cuStreamCreateWithPriority takes the highest there is for what is beyond it.
constexpr int kHighestPriority = -1000;

// A few fusion buffers of the default size: what is in flight at a time.
constexpr size_t kIdleBytes = size_t{512} << 20;

constexpr std::array kNotForThisDevice = {
    200,  // invalid image
    209,  // no binary for this GPU
    218,  // invalid PTX
    221,  // no JIT compiler
    222,  // the PTX is newer than the driver
    223,  // JIT compilation is switched off
};

Address AsAddress(const void* pointer) {
  return reinterpret_cast<Address>(pointer);
}

void* AsPointer(Address address) {
  return reinterpret_cast<void*>(address);  // NOLINT(performance-no-int-to-ptr): so CUDA tells addresses
}

std::string Mebibytes(size_t bytes) {
  return bytes < (size_t{1} << 20) ? std::to_string(bytes) + " bytes" : std::to_string(bytes >> 20) + " MiB";
}

}  // namespace

Status Event::Query(bool* fired) const {
  const Gpu::Current current(*gpu_);
  HVDLITE_RETURN_IF_ERROR(current.status());
  const int code = gpu_->driver().EventQuery(raw_);
  *fired = code == kSuccess;
  return code == kNotReady ? Status::Ok() : gpu_->driver().Check(code, "waiting for what the GPU does");
}

Status Event::MakeWait(Stream stream) const {
  const Gpu::Current current(*gpu_);
  HVDLITE_RETURN_IF_ERROR(current.status());
  HVDLITE_RETURN_IF_ERROR(gpu_->RefuseCapture(stream));
  return gpu_->driver().Check(gpu_->driver().StreamWaitEvent(stream, raw_, 0), "making a stream wait for an event");
}

// A handle of a stream is given to another one only when everything on the first is done.
bool Event::Implies(const Event& other) const {
  if (this == &other) return true;
  return gpu_ == other.gpu_ && stream_ == other.stream_ && stream_ != kPerThread && number_ > other.number_;
}

void KeepLatest(std::vector<EventPtr>* events) {
  std::vector<EventPtr> latest;  // of a few streams
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

// It may be recorded anew at once: who waits for it waits for the moment that it stood for when told to.
Event::~Event() {
  if (gpu_->forked()) return;
  const MutexLock lock(gpu_->mutex_);
  gpu_->idle_events_.push_back(raw_);
}

Gpu::Current::Current(const Gpu& gpu) : driver_(*gpu.driver_), capture_mode_(kRelaxedCapture) {
  if (gpu.forked()) {
    status_ = Status::Unsupported(
        "this is a forked child of a process that uses a GPU, and CUDA does not work in one. Use spawn instead of "
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
  HVDLITE_RETURN_IF_ERROR(
      driver_->Check(driver_->DeviceGetName(name.data(), static_cast<int>(name.size()) - 1, device_), opening));
  name_ = name.data();
  HVDLITE_RETURN_IF_ERROR(driver_->Check(driver_->DeviceGetUuid(&uuid_, device_), opening));
  HVDLITE_RETURN_IF_ERROR(driver_->Check(driver_->DevicePrimaryCtxRetain(&context_, device_), opening));
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  if (first_ != nullptr) {
    pool_ = first_->pool_;
  } else {
    HVDLITE_RETURN_IF_ERROR(MemoryPool::Make(driver_, device_, &pool_));
  }
  return driver_->Check(driver_->StreamCreate(&stream_, kNonBlockingStream, kHighestPriority), opening);
}

Status Gpu::Idle(bool* idle) const {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  const int code = driver_->StreamQuery(stream_);
  *idle = code == kSuccess;
  return code == kNotReady ? Status::Ok() : driver_->Check(code, "waiting for what the GPU does");
}

// When the process ends the driver may have gone before: then all of this fails, and nobody minds.
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

// A number of the process, not a flag set by a fork handler: handlers cannot be taken back, and a Gpu can.
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
      "this stream is being captured into a CUDA graph, which cannot hold what other ranks do: call hvdlite before or "
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
  if (raw == nullptr) HVDLITE_RETURN_IF_ERROR(driver_->Check(driver_->EventCreate(&raw, kNoTiming), "making an event"));
  const std::shared_ptr<Event> made(new Event(shared_from_this(), raw, stream));
  {
    const MutexLock lock(mutex_);  // so that numbers come in the order of the stream
    made->number_ = ++recorded_;
    HVDLITE_RETURN_IF_ERROR(driver_->Check(driver_->EventRecord(raw, stream), "recording an event"));
  }
  *event = made;
  return Status::Ok();
}

Gpu::Buffer::Buffer(std::shared_ptr<Gpu> gpu, Kind kind, void* data, size_t bytes)
    : gpu_(std::move(gpu)), kind_(kind), data_(data), bytes_(bytes) {}

Gpu::Buffer::~Buffer() {
  const Current current(*gpu_);
  if (!current.status().ok()) return;
  if (kind_ == Kind::kInOrder) {
    gpu_->Free(data_, gpu_->stream());
  } else {
    gpu_->Put(kind_ == Kind::kPinned, data_, bytes_);
  }
}

Status Gpu::Pinned(size_t bytes, std::unique_ptr<Buffer>* buffer) {
  return first().Take(true, bytes, buffer);
}

// In order: what is freed otherwise waits for everything on the device, other streams' NCCL included, which may wait for this rank.
Status Gpu::OnDevice(size_t bytes, std::unique_ptr<Buffer>* buffer) {
  if (pool_ == nullptr) return first().Take(false, bytes, buffer);
  void* data = nullptr;
  HVDLITE_RETURN_IF_ERROR(Allocate(bytes, &data));
  buffer->reset(new Buffer(shared_from_this(), Buffer::Kind::kInOrder, data, bytes));
  return Status::Ok();
}

Status Gpu::Take(bool pinned, size_t bytes, std::unique_ptr<Buffer>* buffer) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  void* data = nullptr;
  {
    const MutexLock lock(mutex_);
    data = (pinned ? idle_pinned_ : idle_device_).Take(bytes);
  }
  if (data == nullptr) {
    const size_t rounded = IdleMemory::ClassOf(bytes);
    int code = AllocateNow(pinned, rounded, &data);
    if (code == kOutOfMemory) {
      FreeIdle(pinned);
      code = AllocateNow(pinned, rounded, &data);
    }
    HVDLITE_RETURN_IF_ERROR(driver_->Check(
        code, "allocating " + Mebibytes(rounded) + (pinned ? " of pinned host memory" : " on " + name_)));
  }
  const Buffer::Kind kind = pinned ? Buffer::Kind::kPinned : Buffer::Kind::kKept;
  buffer->reset(new Buffer(shared_from_this(), kind, data, bytes));
  return Status::Ok();
}

void Gpu::Put(bool pinned, void* data, size_t bytes) {
  std::vector<void*> gone;
  {
    const MutexLock lock(mutex_);
    gone = (pinned ? idle_pinned_ : idle_device_).Put(data, bytes);
  }
  FreeNow(pinned, gone);
}

int Gpu::AllocateNow(bool pinned, size_t bytes, void** data) const {
  if (pinned) return driver_->MemHostAlloc(data, bytes, 0);
  Address address = 0;
  const int code = driver_->MemAlloc(&address, bytes);
  *data = AsPointer(address);
  return code;
}

void Gpu::FreeNow(bool pinned, const std::vector<void*>& blocks) const {
  for (void* data : blocks) pinned ? driver_->MemFreeHost(data) : driver_->MemFree(AsAddress(data));
}

void Gpu::FreeIdle(bool pinned) {
  std::vector<void*> blocks;
  {
    const MutexLock lock(mutex_);
    blocks = (pinned ? idle_pinned_ : idle_device_).Clear();
  }
  FreeNow(pinned, blocks);
}

Status Gpu::Allocate(size_t bytes, void** data) {
  *data = nullptr;
  if (bytes == 0) return Status::Ok();
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  Address address = 0;
  const auto allocate = [&] {
    return pool_ != nullptr ? pool_->Allocate(&address, bytes, stream_) : driver_->MemAlloc(&address, bytes);
  };
  int code = allocate();
  if (code == kOutOfMemory) {
    first().FreeIdle(/*pinned=*/false);
    code = allocate();
  }
  HVDLITE_RETURN_IF_ERROR(driver_->Check(code, "allocating " + Mebibytes(bytes) + " on " + name_));
  *data = AsPointer(address);
  return Status::Ok();
}

void Gpu::Free(void* data, Stream last_user) {
  if (data == nullptr) return;
  const Current current(*this);
  if (!current.status().ok()) return;
  std::vector<Freed> due = {{data, last_user}};
  {
    const MutexLock lock(mutex_);
    due.insert(due.end(), freed_later_.begin(), freed_later_.end());
    freed_later_.clear();
  }
  // Without the mutex: this may wait for the device.
  std::erase_if(due, [this](const Freed& freed) { return FreeInOrder(freed); });
  const MutexLock lock(mutex_);
  freed_later_.insert(freed_later_.end(), due.begin(), due.end());
}

// False: not possible now.
bool Gpu::FreeInOrder(const Freed& freed) const {
  if (pool_ == nullptr) {
    driver_->MemFree(AsAddress(freed.data));  // waits for the device, as cudaFree does
    return true;
  }
  if (!RefuseCapture(freed.last_user).ok()) return false;
  driver_->MemFreeAsync(AsAddress(freed.data), freed.last_user);
  return true;
}

Status Gpu::CopyIn(void* device, const void* host, size_t bytes) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemcpyHtoDAsync(AsAddress(device), host, bytes, stream_), "copying to the GPU");
}

Status Gpu::CopyOut(void* host, const void* device, size_t bytes) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemcpyDtoHAsync(host, AsAddress(device), bytes, stream_), "copying from the GPU");
}

Status Gpu::Copy(void* to, const void* from, size_t bytes, Stream stream) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemcpyDtoDAsync(AsAddress(to), AsAddress(from), bytes, stream), "copying on the GPU");
}

Status Gpu::Zero(void* device, size_t bytes) {
  const Current current(*this);
  HVDLITE_RETURN_IF_ERROR(current.status());
  return driver_->Check(driver_->MemsetD8Async(AsAddress(device), 0, bytes, stream_), "clearing memory of the GPU");
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
    HVDLITE_RETURN_IF_ERROR(driver_->Check(driver_->ModuleGetFunction(&kernel, module, std::string(name).c_str()),
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
  if (std::find(kNotForThisDevice.begin(), kNotForThisDevice.end(), code) != kNotForThisDevice.end()) {
    return Status::Unsupported("this build's kernels do not run on " + name_ + ": " +
                               driver_->Check(code, "loading them").message());
  }
  HVDLITE_RETURN_IF_ERROR(driver_->Check(code, "loading the kernels"));
  modules_[image] = *module;
  return Status::Ok();
}

}  // namespace hvdlite::device
