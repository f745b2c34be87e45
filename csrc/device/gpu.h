// Gpu: one CUDA device, as one rank uses it: the primary context that its frameworks share, one
// stream of hvdlite's own, events, and memory that is kept for the next operation.
//
// Everything that hvdlite does on the device happens on stream(), in order. It begins when the
// events that say a tensor is ready have fired, and what comes of it is announced by an event that
// a consumer's stream waits for: the host waits for neither. See docs/decisions/0006-gpu.md.
//
// Thread-safety: any thread, whichever context is current there; each call makes the device's
// current and puts back what was. Lifetime: events and buffers keep their Gpu alive. In a forked
// child every call fails and nothing is given back: CUDA does not survive fork(). Failure: a Status
// with the driver's words; out of memory concerns the operation alone.
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

// A moment in the life of a stream. Given back to its Gpu by the destructor.
class Event {
 public:
  ~Event();
  Event(const Event&) = delete;
  Event& operator=(const Event&) = delete;

  // Whether everything before it has been done. The first failure of the device comes out here.
  Status Query(bool* fired) const;
  // What `stream` is given from now on waits for it; the caller does not. kUnsupported as for
  // Gpu::Record.
  Status MakeWait(Stream stream) const;
  // Whether the other one has fired when this one has: both are of one stream, and the other came
  // before.
  bool Implies(const Event& other) const;
  const std::shared_ptr<Gpu>& gpu() const { return gpu_; }

 private:
  friend class Gpu;
  Event(std::shared_ptr<Gpu> gpu, RawEvent raw, Stream stream)
      : gpu_(std::move(gpu)), raw_(raw), stream_(stream) {}
  const std::shared_ptr<Gpu> gpu_;
  const RawEvent raw_;
  const Stream stream_;
  uint64_t number_ = 0;  // of all that its Gpu has recorded
};
using EventPtr = std::shared_ptr<const Event>;
// Leaves out those that another one implies.
void KeepLatest(std::vector<EventPtr>* events);

class Gpu : public std::enable_shared_from_this<Gpu> {
 public:
  // `ordinal` counts the devices that this process sees (CUDA_VISIBLE_DEVICES).
  static Status Open(std::shared_ptr<const Driver> driver, int ordinal, std::shared_ptr<Gpu>* gpu);
  // Another stream of the same device. Idle memory and loaded kernels are shared.
  Status OpenStream(std::shared_ptr<Gpu>* gpu);
  ~Gpu();

  int ordinal() const { return ordinal_; }
  const Uuid& uuid() const { return uuid_; }
  const std::string& name() const { return name_; }  // "NVIDIA H200"
  const Driver& driver() const { return *driver_; }
  Stream stream() const { return stream_; }
  // Whether everything that stream() has been given is done. Needs no memory.
  Status Idle(bool* idle) const;

  // Makes the device's context this thread's for as long as it lives. A CUDA graph that the program
  // captures meanwhile, here or in another thread, is not disturbed by what is called under it: put
  // it around what calls the driver or NCCL.
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

  // The moment in which everything that `stream` has been given so far is done. kUnsupported: the
  // stream is being captured into a CUDA graph, which would not contain what other ranks do.
  Status Record(Stream stream, EventPtr* event);

  // Memory for what happens on stream(): pinned host memory, and the device's. Both give themselves
  // back when destroyed: not before what uses them is done. Pinned memory stays allocated for the
  // next who asks for as much.
  class Buffer {
   public:
    ~Buffer();
    void* data() const { return data_; }
    size_t bytes() const { return bytes_; }

   private:
    friend class Gpu;
    enum class Kind : uint8_t {
      kPinned,
      kKept,
      kInOrder
    };  // kInOrder: of the device, in the order of stream()
    Buffer(std::shared_ptr<Gpu> gpu, Kind kind, void* data, size_t bytes);
    const std::shared_ptr<Gpu> gpu_;
    const Kind kind_;
    void* const data_;
    const size_t bytes_;
  };
  Status Pinned(size_t bytes, std::unique_ptr<Buffer>* buffer);
  Status OnDevice(size_t bytes, std::unique_ptr<Buffer>* buffer);

  // A result of its own life: ready for use on stream(), given back in the order of the stream that
  // used it last. A stream under capture gives nothing back: then it happens at a later Free. Null
  // for no bytes.
  Status Allocate(size_t bytes, void** data);
  void Free(void* data, Stream last_user);

  // In the order of stream(). Host memory is pinned, or the call waits.
  Status CopyIn(void* device, const void* host, size_t bytes);
  Status CopyOut(void* host, const void* device, size_t bytes);
  Status Zero(void* device, size_t bytes);
  // On the device, in the order of any stream of it.
  Status Copy(void* to, const void* from, size_t bytes, Stream stream);

  // A kernel of `image`, machine code or PTX in memory that stays there. Loaded at the first call,
  // kept. kUnsupported: nothing in it runs on this device with this driver.
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
  // Of all streams of the device that belong together: who keeps what they share.
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
  const std::shared_ptr<Gpu> first_;  // null: this is it
  const pid_t process_;
  DeviceNumber device_ = 0;
  Uuid uuid_{};
  std::string name_;
  Context context_ = nullptr;
  // all streams'; null where the device has no memory in the order of one
  std::shared_ptr<const MemoryPool> pool_;
  Stream stream_ = nullptr;

  Mutex mutex_;
  std::vector<RawEvent> idle_events_ GUARDED_BY(mutex_);
  uint64_t recorded_ GUARDED_BY(mutex_) = 0;  // events
  IdleMemory idle_pinned_ GUARDED_BY(mutex_);
  // Where the device has no memory in the order of a stream.
  IdleMemory idle_device_ GUARDED_BY(mutex_);
  std::vector<Freed> freed_later_ GUARDED_BY(mutex_);
  std::map<const void*, Module> modules_ GUARDED_BY(mutex_);
  std::map<std::pair<const void*, std::string>, Function> kernels_ GUARDED_BY(mutex_);
};

}  // namespace hvdlite::device
