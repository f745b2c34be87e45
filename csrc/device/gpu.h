// Gpu: one CUDA device as one rank uses it. It has the primary context that the rank's frameworks
// share, one stream of hvdlite's own, events, and memory that is kept for the next operation.
//
// Everything that hvdlite does on the device happens on stream(), in order. An operation begins
// when the events of its tensors have fired. An event announces its result, and a consumer's stream
// waits for that event. The host waits for neither. See docs/decisions/0006-gpu.md.
//
// Thread-safety: any thread, whichever context is current there. Each call makes the device's
// context current and restores the previous one. Lifetime: events and buffers keep their Gpu alive.
// In a forked child every call fails and nothing is freed, because CUDA does not survive fork().
// Failure: a Status with the driver's description; running out of memory fails only the operation.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "base/status.h"
#include "device/driver.h"
#include "device/idle_memory.h"
#include "device/memory_pool.h"

namespace hvdlite::device {

class Gpu;

// A point in the work of a stream. The destructor returns it to its Gpu.
class Event {
 public:
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Whether all work before the event is done. Reports the first failure of the device.
  Status Query(bool* fired) const;
  // Makes all later work of `stream` wait for the event. The caller does not wait. kUnsupported as
  // for Gpu::Record.
  Status MakeWait(Stream stream) const;
  // Whether `other` has certainly fired once this event has: both are of one stream, and `other`
  // came first.
  bool Implies(const Event& other) const;
  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }

 private:
  friend class Gpu;
  Event(std::shared_ptr<Gpu> gpu, RawEvent raw, Stream stream)
      : gpu_(std::move(gpu)), raw_(raw), stream_(stream) {}
  const std::shared_ptr<Gpu> gpu_;
  const RawEvent raw_;
  const Stream stream_;
  uint64_t number_ = 0;  // counts the events of its Gpu
};
using EventPtr = std::shared_ptr<const Event>;
// Whether the handle means the same stream in all threads.
bool IsOneStream(Stream stream);
// Removes events that another one implies.
void KeepLatest(std::vector<EventPtr>* events);

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  // `ordinal` counts the devices that this process sees (CUDA_VISIBLE_DEVICES).
  static Status Open(std::shared_ptr<const Driver> driver, int ordinal, std::shared_ptr<Gpu>* gpu);
  // Opens another stream of the same device. The streams share idle memory and loaded kernels.
  Status OpenStream(std::shared_ptr<Gpu>* gpu);
  ~Gpu();

  int ordinal() const { return ordinal_; }
  const Uuid& uuid() const { return uuid_; }
  const std::string& name() const { return name_; }  // "NVIDIA H200"
  const Driver& driver() const { return *driver_; }
  Stream stream() const { return stream_; }
  // Whether all work on stream() is done. Allocates no memory.
  Status Idle(bool* idle) const;

  // Makes the device's context current in this thread while the object lives. Use one around each
  // call of the driver or NCCL. It keeps those calls from disturbing a CUDA graph that the program
  // captures meanwhile, in this thread or another.
  class Current {
   public:
    explicit Current(const Gpu& gpu);
    ~Current();
    Current(const Current&) = delete;
    Current& operator=(const Current&) = delete;
    const Status& status() const { return status_; }

   private:
    const Driver& driver_;
    Status status_;
    int capture_mode_;
  };

  // An event for the moment when all work given to `stream` so far is done. kUnsupported: the
  // stream is being captured into a CUDA graph, which would not contain what other ranks do.
  Status Record(Stream stream, EventPtr* event);

  // Memory for work on stream(): pinned host memory or device memory. The destructor frees it, so
  // destroy it only when the work that uses it is done. Pinned memory stays allocated for the next
  // buffer of about the same size.
  class Buffer {
   public:
    ~Buffer();
    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }

   private:
    friend class Gpu;
    // kInOrder: device memory that is freed in the order of stream()
    enum class Kind : uint8_t { kPinned, kKept, kInOrder };
    Buffer(std::shared_ptr<Gpu> gpu, Kind kind, void* data, size_t bytes);
    const std::shared_ptr<Gpu> gpu_;
    const Kind kind_;
    void* const data_;
    const size_t bytes_;
  };
  Status Pinned(size_t bytes, std::unique_ptr<Buffer>* buffer);
  Status OnDevice(size_t bytes, std::unique_ptr<Buffer>* buffer);

  // Allocates a result's memory, ready for use on stream(). Free frees it in the order of the
  // stream that used it last. While that stream is being captured nothing is freed; a later Free
  // does it. `*data` is null for no bytes.
  Status Allocate(size_t bytes, void** data);
  void Free(void* data, Stream last_user);

  // These run in the order of stream(). The call waits if the host memory is not pinned.
  Status CopyIn(void* device, const void* host, size_t bytes);
  Status CopyOut(void* host, const void* device, size_t bytes);
  Status Zero(void* device, size_t bytes);
  // Copies on the device, in the order of any of its streams.
  Status Copy(void* to, const void* from, size_t bytes, Stream stream);

  // Finds a kernel of `image`: machine code or PTX, in memory that stays there. The first call
  // loads the image, and it stays loaded. kUnsupported: nothing in it runs on this device with this
  // driver.
  Status Kernel(const void* image, std::string_view name, Function* function);

 private:
  friend class Event;
  struct Freed {
    void* data;
    Stream last_user;
  };

  Gpu(std::shared_ptr<const Driver> driver, int ordinal, std::shared_ptr<Gpu> first);
  Status Start();
  bool forked() const;
  // The Gpu that owns what all streams of the device share.
  Gpu& first() { return first_ == nullptr ? *this : *first_; }
  Status RefuseCapture(Stream stream) const;
  Status Take(bool pinned, size_t bytes, std::unique_ptr<Buffer>* buffer);
  void Put(bool pinned, void* data, size_t bytes);
  int AllocateNow(bool pinned, size_t bytes, void** data) const;
  void FreeNow(bool pinned, const std::vector<void*>& blocks) const;
  void FreeIdle(bool pinned);
  bool FreeInOrder(const Freed& freed) const;
  Status Load(const void* image, Module* module) REQUIRES(mutex_);

  const std::shared_ptr<const Driver> driver_;
  const int ordinal_;
  const std::shared_ptr<Gpu> first_;  // null: this is the first
  const pid_t process_;
  DeviceNumber device_ = 0;
  Uuid uuid_{};
  std::string name_;
  Context context_ = nullptr;
  // shared by all streams; null if the device has no stream-ordered memory
  std::shared_ptr<const MemoryPool> pool_;
  Stream stream_ = nullptr;

  Mutex mutex_;
  std::vector<RawEvent> idle_events_ GUARDED_BY(mutex_);
  uint64_t recorded_ GUARDED_BY(mutex_) = 0;  // counts events
  IdleMemory idle_pinned_ GUARDED_BY(mutex_);
  // Used if the device has no stream-ordered memory.
  IdleMemory idle_device_ GUARDED_BY(mutex_);
  std::vector<Freed> freed_later_ GUARDED_BY(mutex_);
  std::map<const void*, Module> modules_ GUARDED_BY(mutex_);
  std::map<std::pair<const void*, std::string>, Function> kernels_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::device
