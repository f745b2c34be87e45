// fake_cuda.h but fake_cuda_enqueue, which is a call to the driver.
#include "fake_gpu/fake_cuda.h"

#include <algorithm>
#include <cstring>

#include "fake_gpu/cuda/exports.h"
#include "fake_gpu/cuda/machine.h"
#include "fake_gpu/cuda/unseen.h"

using hvdlite::fake_gpu::Machine;
using hvdlite::fake_gpu::Memory;
using hvdlite::fake_gpu::Unseen;

EXPORT void fake_cuda_set(const char* name, long value) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  machine.Set(name, value);
}

EXPORT void fake_cuda_reset(void) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  machine.Reset();
}

EXPORT void fake_cuda_settle(void) {
  Machine& machine = Machine::Get();
  {
    const Unseen unseen;
    std::unique_lock lock(machine.mutex);
    machine.LetGo();
    machine.changed.wait(lock, [&] { return machine.under_way == 0; });
  }
  Rely(&machine);
}

EXPORT void fake_cuda_fail(const char* symbol, int nth, int times, int result) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  machine.failures[symbol].push_back({nth, times, result});
}

EXPORT void fake_cuda_break(int device, int result) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  machine.devices.at(static_cast<size_t>(device))->broken = result;
}

EXPORT void fake_cuda_hold(void* stream, int held) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  for (const auto& known : machine.streams) {
    if (known.get() == stream) known->held = held != 0;
  }
  machine.changed.notify_all();
}

EXPORT void fake_cuda_touch(int allowed) {
  Memory::Touch(allowed != 0);
}

EXPORT long fake_cuda_live(const char* kind) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  const std::string what = kind;
  if (what == "stream") return static_cast<long>(machine.streams.size());
  if (what == "event") return static_cast<long>(machine.events.size());
  if (what == "module") return static_cast<long>(machine.modules.size());
  if (what == "pool") return static_cast<long>(machine.pools.size());
  if (what == "memory") return machine.memory.Count(/*pinned=*/false);
  if (what == "pinned") return machine.memory.Count(/*pinned=*/true);
  long contexts = 0;
  for (const auto& device : machine.devices) contexts += device->retained;
  return what == "context" ? contexts : -1;
}

EXPORT long fake_cuda_calls(const char* symbol) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  return machine.calls[symbol];
}

EXPORT int fake_cuda_complaints(char* text, size_t bytes) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  std::string all;
  for (const std::string& complaint : machine.complaints) all += complaint + "\n";
  if (bytes > 0) {
    const size_t length = std::min(bytes - 1, all.size());
    memcpy(text, all.data(), length);
    text[length] = '\0';
  }
  return static_cast<int>(machine.complaints.size());
}

EXPORT void fake_cuda_forgive(void) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  machine.complaints.clear();
}

EXPORT int fake_cuda_device_of(const void* pointer) {
  const Unseen unseen;
  Machine& machine = Machine::Get();
  const std::lock_guard lock(machine.mutex);
  int device = -1;
  return machine.memory.Owner(pointer, &device) ? device : -1;
}
