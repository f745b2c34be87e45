// The functions of libcuda.so.1 about memory: blocks, blocks in the order of a stream, pinned ones,
// copies.
//
// cuMemFree waits for the device, as a driver's does, only if told to: otherwise whoever still uses
// the block breaks it.
#include <array>
#include <cstring>

#include "fake_gpu/cuda/call.h"
#include "fake_gpu/cuda/exports.h"

namespace {

using namespace hvdlite::fake_gpu;

using Address = uint64_t;  // CUdeviceptr

// What fresh memory holds, and memory that somebody freed.
constexpr int kFresh = 0xA5;
constexpr int kStale = 0xDB;

// CUmemPool_attribute
constexpr int kReuseAllowInternalDependencies = 3;
constexpr int kReleaseThreshold = 4;

void* Pointer(Address address) {
  return reinterpret_cast<void*>(address);
}

int New(Call* call, void** data, size_t bytes, int device) {
  if (bytes == 0) return call->Complain(kInvalidValue, "no bytes");
  Machine& machine = call->machine();
  const size_t limit = static_cast<size_t>(machine.Setting("memory_mb")) << 20;
  *data = machine.memory.New(bytes, device, limit, machine.Setting("protect") != 0);
  return *data != nullptr ? kSuccess : kOutOfMemory;
}

// Without the mutex meanwhile.
void WaitBeforeFree(Call* call) {
  Machine& machine = call->machine();
  if (machine.Setting("free_waits") == 0) return;
  std::vector<std::shared_ptr<Stream>> busy(machine.streams.begin(), machine.streams.end());
  for (const auto& [key, stream] : machine.default_streams) busy.push_back(stream);
  for (const auto& stream : busy) {
    if (stream->device == call->device()) machine.Drain(stream, call->lock());
  }
}

// One end of a copy.
struct End {
  const void* data;
  bool on_device;
};

// A stream has come to a copy that reaches where nothing is: the device is lost, as after any
// illegal address.
bool Reaches(Machine* machine, Device* device, const std::vector<End>& ends, size_t bytes) {
  const Unseen unseen;
  const std::lock_guard lock(machine->mutex);
  for (const End& end : ends) {
    if (!end.on_device || machine->memory.Holds(end.data, bytes, device->ordinal)) continue;
    device->broken = machine->Complain(
        kIllegalAddress, "a copy reaches memory that is not, or no longer, allocated");
    return false;
  }
  return true;
}

// `waits`: the host's end may be memory that is not pinned, or the caller wants it so.
int Copy(const char* symbol, End to, End from, size_t bytes, void* handle, bool waits) {
  std::shared_ptr<Stream> stream;
  int broken = kSuccess;
  {
    Call call(symbol, Call::kContext);
    if (call.code() != kSuccess) return call.code();
    FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
    if (bytes == 0) return kSuccess;
    Machine& machine = call.machine();
    for (const End& end : {to, from}) {
      int owner = 0;
      const bool known = machine.memory.Owner(end.data, &owner);
      if (end.on_device && (!known || owner != call.device()->ordinal)) {
        return call.Complain(kInvalidValue, "this is no memory of the current device");
      }
      if (!end.on_device && known && owner != Memory::kPinned) {
        return call.Complain(kInvalidValue, "this is device memory, not the host's");
      }
      if (!end.on_device && !known) waits = true;
    }
    machine.Give(stream, /*always=*/false, [&machine, device = call.device(), to, from, bytes] {
      if (Reaches(&machine, device, {to, from}, bytes))
        memmove(const_cast<void*>(to.data), from.data, bytes);
    });
    if (!waits) return kSuccess;
    machine.Drain(stream, call.lock());
    broken = call.device()->broken;
  }
  Rely(stream.get());
  const Unseen unseen;
  stream.reset();
  return broken;
}

}  // namespace

EXPORT int cuMemAlloc_v2(Address* address, size_t bytes) {
  FAKE_CUDA_CALL(kContext);
  FAKE_CUDA_TRY(call.RefuseDuringCapture());
  void* data = nullptr;
  FAKE_CUDA_TRY(New(&call, &data, bytes, call.device()->ordinal));
  Memory::Touch(true);
  memset(data, kFresh, bytes);
  Memory::Touch(false);
  *address = reinterpret_cast<Address>(data);
  return kSuccess;
}

EXPORT int cuMemFree_v2(Address address) {
  FAKE_CUDA_CALL(kContext);
  FAKE_CUDA_TRY(call.RefuseDuringCapture());
  WaitBeforeFree(&call);
  if (!call.machine().memory.Retire(Pointer(address), call.device()->ordinal)) {
    return call.Complain(kInvalidValue, "there is no such block, or it has been freed");
  }
  call.machine().memory.Release(Pointer(address));
  return kSuccess;
}

EXPORT int cuMemPoolCreate(void** pool, const void* props) {
  FAKE_CUDA_CALL(kInit);
  Machine& machine = call.machine();
  if (machine.Setting("pools") == 0) return kNotSupported;
  std::array<int, 4> kinds;  // what memory, for whom, where, and the device's number
  memcpy(kinds.data(), props, sizeof(kinds));
  if (kinds[0] != 1 || kinds[1] != 0 || kinds[2] != 1 || kinds[3] < 0 ||
      kinds[3] >= machine.Setting("devices")) {
    return call.Complain(kInvalidValue, "the fake has pools of plain device memory only");
  }
  auto made = std::make_unique<Pool>(Pool{machine.devices[static_cast<size_t>(kinds[3])].get()});
  *pool = made.get();
  machine.pools[made.get()] = std::move(made);
  return kSuccess;
}

EXPORT int cuMemPoolSetAttribute(void* pool, int attribute, void* value) {
  FAKE_CUDA_CALL(kInit);
  const auto known = call.machine().pools.find(pool);
  if (known == call.machine().pools.end())
    return call.Complain(kInvalidValue, "there is no such pool");
  if (attribute == kReuseAllowInternalDependencies) {
    known->second->reuses_by_waiting = *static_cast<const int*>(value) != 0;
  } else if (attribute != kReleaseThreshold) {
    return call.Complain(kInvalidValue, "the fake does not know this attribute of a pool");
  }
  return kSuccess;
}

EXPORT int cuMemPoolDestroy(void* pool) {
  FAKE_CUDA_CALL(kInit);
  if (call.machine().pools.erase(pool) == 0)
    return call.Complain(kInvalidValue, "there is no such pool");
  return kSuccess;
}

// The block is right from the stream's turn on: until then it changes under the hands of who does
// not wait for that.
EXPORT int cuMemAllocFromPoolAsync(Address* address, size_t bytes, void* pool, void* handle) {
  FAKE_CUDA_CALL(kContext);
  const auto known = call.machine().pools.find(pool);
  if (known == call.machine().pools.end() || known->second->device != call.device()) {
    return call.Complain(kInvalidValue, "the current device has no such pool");
  }
  if (known->second->reuses_by_waiting) {
    return call.Complain(kInvalidValue,
                         "this pool may make the stream wait for another one, without a word");
  }
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
  void* data = nullptr;
  FAKE_CUDA_TRY(New(&call, &data, bytes, call.device()->ordinal));
  call.machine().Give(stream, /*always=*/false, [data, bytes] { memset(data, kFresh, bytes); });
  *address = reinterpret_cast<Address>(data);
  return kSuccess;
}

EXPORT int cuMemFreeAsync(Address address, void* handle) {
  FAKE_CUDA_CALL(kContext);
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
  Machine& machine = call.machine();
  void* const data = Pointer(address);
  if (!machine.memory.Retire(data, call.device()->ordinal)) {
    return call.Complain(kInvalidValue, "there is no such block, or it has been freed");
  }
  // Written before it goes, so that who uses it without order races with somebody.
  machine.Give(stream, /*always=*/true, [&machine, data, bytes = machine.memory.SizeOf(data)] {
    memset(data, kStale, bytes);
    const Unseen unseen;
    const std::lock_guard lock(machine.mutex);
    machine.memory.Release(data);
  });
  return kSuccess;
}

EXPORT int cuMemHostAlloc(void** data, size_t bytes, unsigned flags) {
  FAKE_CUDA_CALL(kContext);
  FAKE_CUDA_TRY(call.RefuseDuringCapture());
  if (flags != 0) return call.Complain(kInvalidValue, "the fake knows no flags");
  FAKE_CUDA_TRY(New(&call, data, bytes, Memory::kPinned));
  memset(*data, kFresh, bytes);
  return kSuccess;
}

EXPORT int cuMemFreeHost(void* data) {
  FAKE_CUDA_CALL(kContext);
  FAKE_CUDA_TRY(call.RefuseDuringCapture());
  WaitBeforeFree(&call);
  if (!call.machine().memory.Retire(data, Memory::kPinned)) {
    return call.Complain(kInvalidValue, "there is no such block, or it has been freed");
  }
  call.machine().memory.Release(data);
  return kSuccess;
}

EXPORT int cuPointerGetAttribute(void* value, int attribute, Address address) {
  constexpr int kDeviceOrdinal = 9;  // CU_POINTER_ATTRIBUTE_...
  FAKE_CUDA_CALL(kInit);
  if (attribute != kDeviceOrdinal)
    return call.Complain(kInvalidValue, "the fake knows no such attribute");
  const bool known = call.machine().memory.Owner(Pointer(address), static_cast<int*>(value));
  return known ? kSuccess : kInvalidValue;
}

EXPORT int cuMemcpyHtoDAsync_v2(Address to, const void* from, size_t bytes, void* stream) {
  return Copy("cuMemcpyHtoDAsync_v2", {Pointer(to), true}, {from, false}, bytes, stream,
              /*waits=*/false);
}

EXPORT int cuMemcpyDtoHAsync_v2(void* to, Address from, size_t bytes, void* stream) {
  return Copy("cuMemcpyDtoHAsync_v2", {to, false}, {Pointer(from), true}, bytes, stream,
              /*waits=*/false);
}

EXPORT int cuMemcpyDtoDAsync_v2(Address to, Address from, size_t bytes, void* stream) {
  return Copy("cuMemcpyDtoDAsync_v2", {Pointer(to), true}, {Pointer(from), true}, bytes, stream,
              /*waits=*/false);
}

// On the default stream, waited for.
EXPORT int cuMemcpyHtoD_v2(Address to, const void* from, size_t bytes) {
  return Copy("cuMemcpyHtoD_v2", {Pointer(to), true}, {from, false}, bytes, nullptr,
              /*waits=*/true);
}

EXPORT int cuMemcpyDtoH_v2(void* to, Address from, size_t bytes) {
  return Copy("cuMemcpyDtoH_v2", {to, false}, {Pointer(from), true}, bytes, nullptr,
              /*waits=*/true);
}

EXPORT int cuMemsetD8Async(Address to, unsigned char value, size_t count, void* handle) {
  FAKE_CUDA_CALL(kContext);
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
  if (count == 0) return kSuccess;
  Machine& machine = call.machine();
  void* const data = Pointer(to);
  const bool pinned = machine.memory.Holds(data, count, Memory::kPinned);
  if (!pinned && !machine.memory.Holds(data, count, call.device()->ordinal)) {
    return call.Complain(kInvalidValue, "this is no memory of the current device");
  }
  machine.Give(stream, /*always=*/false,
               [&machine, device = call.device(), data, value, count, pinned] {
                 if (Reaches(&machine, device, {{data, !pinned}}, count))
                   memset(data, value, count);
               });
  return kSuccess;
}
