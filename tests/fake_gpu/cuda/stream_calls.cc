// The functions of libcuda.so.1 about streams, events and graphs, and what is put on a stream.
#include "fake_gpu/cuda/call.h"
#include "fake_gpu/cuda/exports.h"
#include "fake_gpu/fake_cuda.h"

namespace {

using namespace hvdlite::fake_gpu;

constexpr unsigned kNonBlocking = 1;
constexpr unsigned kNoTiming = 2;

}  // namespace

EXPORT int cuStreamCreateWithPriority(void** stream, unsigned flags, int) {
  FAKE_CUDA_CALL(kContext);
  if (flags > kNonBlocking) return call.Complain(kInvalidValue, "unknown flags");
  const auto made = call.machine().NewStream(call.device());
  call.machine().streams.insert(made);
  *stream = made.get();
  return kSuccess;
}

// As in CUDA it returns at once: what the stream has been given it still does.
EXPORT int cuStreamDestroy_v2(void* handle) {
  FAKE_CUDA_CALL(kContext);
  const auto stream = call.machine().FindStream(handle, call.device());
  if (stream == nullptr || call.machine().streams.erase(stream) == 0) {
    return call.Complain(kInvalidHandle, "there is no such stream");
  }
  stream->closed = true;
  stream->held = false;
  call.machine().changed.notify_all();
  return kSuccess;
}

EXPORT int cuStreamSynchronize(void* handle) {
  std::shared_ptr<Stream> stream;
  int broken = kSuccess;
  {
    FAKE_CUDA_CALL(kContext);
    FAKE_CUDA_TRY(call.RefuseDuringCapture());
    FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
    call.machine().Drain(stream, call.lock());
    broken = call.device()->broken;
  }
  Rely(stream.get());
  const Unseen unseen;
  stream.reset();
  return broken;
}

EXPORT int cuStreamQuery(void* handle) {
  std::shared_ptr<Stream> stream;
  {
    FAKE_CUDA_CALL(kContext);
    FAKE_CUDA_TRY(call.RefuseDuringCapture());
    FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
    if (stream->done < stream->given) return kNotReady;
  }
  Rely(stream.get());
  const Unseen unseen;
  stream.reset();
  return kSuccess;
}

EXPORT int cuStreamIsCapturing(void* handle, int* status) {
  FAKE_CUDA_CALL(kContext);
  const bool legacy = reinterpret_cast<uintptr_t>(handle) <= 1;
  for (const auto& stream : call.machine().streams) {
    if (legacy && stream->device == call.device() && stream->capture == Stream::Capture::kActive)
      return kCaptureImplicit;
  }
  const auto stream = call.machine().FindStream(handle, call.device());
  if (stream == nullptr) return call.Complain(kInvalidHandle, "there is no such stream");
  *status = static_cast<int>(stream->capture);
  return kSuccess;
}

EXPORT int cuThreadExchangeStreamCaptureMode(int* mode) {
  FAKE_CUDA_CALL(kInit);
  if (*mode < kCaptureGlobal || *mode > kCaptureRelaxed)
    return call.Complain(kInvalidValue, "there is no such mode");
  std::swap(*mode, Call::CaptureMode());
  return kSuccess;
}

EXPORT int cuStreamBeginCapture_v2(void* handle, int mode) {
  FAKE_CUDA_CALL(kContext);
  if (reinterpret_cast<uintptr_t>(handle) <= 2)
    return call.Complain(kCaptureUnsupported, "not of a default stream");
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
  stream->capture = Stream::Capture::kActive;
  stream->capture_mode = mode;
  stream->capturer = std::this_thread::get_id();
  return kSuccess;
}

// What has been captured is nothing: whatever is put on a stream under capture is a complaint.
EXPORT int cuStreamEndCapture(void* handle, void** graph) {
  FAKE_CUDA_CALL(kContext);
  *graph = nullptr;
  const auto stream = call.machine().FindStream(handle, call.device());
  if (stream == nullptr || stream->capture == Stream::Capture::kNone) return kCaptureUnmatched;
  const bool whole = stream->capture == Stream::Capture::kActive;
  stream->capture = Stream::Capture::kNone;
  return whole ? kSuccess : kCaptureInvalidated;
}

EXPORT int cuEventCreate(void** event, unsigned flags) {
  FAKE_CUDA_CALL(kContext);
  if ((flags & kNoTiming) == 0)
    return call.Complain(kInvalidValue, "events with timing are slow: hvdlite needs none");
  const auto made = std::make_shared<Event>(Event{call.device(), nullptr});
  call.machine().events.insert(made);
  *event = made.get();
  return kSuccess;
}

EXPORT int cuEventDestroy_v2(void* handle) {
  FAKE_CUDA_CALL(kContext);
  const auto event = call.machine().FindEvent(handle);
  if (event == nullptr) return call.Complain(kInvalidHandle, "there is no such event");
  call.machine().events.erase(event);
  return kSuccess;
}

EXPORT int cuEventRecord(void* handle, void* on) {
  FAKE_CUDA_CALL(kContext);
  const auto event = call.machine().FindEvent(handle);
  if (event == nullptr) return call.Complain(kInvalidHandle, "there is no such event");
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(on, &stream));
  if (stream->device != event->device)
    return call.Complain(kInvalidHandle, "event and stream are of different devices");
  event->last = std::make_shared<Moment>();
  Machine& machine = call.machine();
  machine.Give(stream, /*always=*/true, [&machine, moment = event->last] {
    Promise(moment.get());
    const Unseen unseen;
    const std::lock_guard lock(machine.mutex);
    moment->passed = true;
    machine.changed.notify_all();
  });
  return kSuccess;
}

EXPORT int cuEventQuery(void* handle) {
  const Moment* moment = nullptr;
  {
    FAKE_CUDA_CALL(kContext);
    FAKE_CUDA_TRY(call.RefuseDuringCapture());
    const auto event = call.machine().FindEvent(handle);
    if (event == nullptr) return call.Complain(kInvalidHandle, "there is no such event");
    if (event->last == nullptr) return kSuccess;
    if (!event->last->passed) return kNotReady;
    moment = event->last.get();
  }
  Rely(moment);
  return kSuccess;
}

// The stream may be of another device than the event, but of the current one.
EXPORT int cuStreamWaitEvent(void* handle, void* on, unsigned flags) {
  FAKE_CUDA_CALL(kContext);
  if (flags != 0) return call.Complain(kInvalidValue, "unknown flags");
  const auto event = call.machine().FindEvent(on);
  if (event == nullptr) return call.Complain(kInvalidHandle, "there is no such event");
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
  if (event->last == nullptr) return kSuccess;
  Machine& machine = call.machine();
  machine.Give(stream, /*always=*/true, [&machine, moment = event->last] {
    {
      const Unseen unseen;
      std::unique_lock lock(machine.mutex);
      machine.changed.wait(lock, [&] { return moment->passed; });
    }
    Rely(moment.get());
  });
  return kSuccess;
}

EXPORT int cuLaunchKernel(void* function, unsigned grid_x, unsigned grid_y, unsigned grid_z,
                          unsigned block_x, unsigned block_y, unsigned block_z, unsigned, void* on,
                          void** parameters, void** extra) {
  constexpr unsigned kMostThreads = 1024;
  FAKE_CUDA_CALL(kContext);
  const auto known = call.machine().functions.find(static_cast<Function*>(function));
  if (known == call.machine().functions.end())
    return call.Complain(kInvalidHandle, "there is no such kernel");
  if (known->second->device != call.device())
    return call.Complain(kInvalidHandle, "the kernel is of another device");
  const unsigned threads = block_x * block_y * block_z;
  if (grid_x == 0 || grid_y != 1 || grid_z != 1 || threads == 0 || threads > kMostThreads ||
      extra != nullptr) {
    return call.Complain(kInvalidValue, "a launch that the fake cannot do, or no device");
  }
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(on, &stream));
  call.machine().Give(stream, /*always=*/false, [blocks = known->second->bind(parameters), grid_x] {
    for (unsigned block = 0; block < grid_x; ++block) blocks(block, grid_x);
  });
  return kSuccess;
}

EXPORT int fake_cuda_enqueue(void* handle, void (*work)(void*), void (*drop)(void*),
                             void* argument) {
  FAKE_CUDA_CALL(kContext);
  std::shared_ptr<Stream> stream;
  FAKE_CUDA_TRY(call.StreamFor(handle, &stream));
  call.machine().Give(
      stream, /*always=*/false, [work, argument] { work(argument); },
      [drop, argument] { drop(argument); });
  return kSuccess;
}
